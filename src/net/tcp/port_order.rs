//! The order in which ports are given to outgoing connections.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The ports for outgoing connections: all but the well-known ones (RFC 6056
/// §3.2).
pub(super) const FIRST_PORT: u16 = 1024;
pub(super) const PORTS: u32 = u16::MAX as u32 - FIRST_PORT as u32 + 1;

/// Rounds of the shuffle; with four nobody tells it from a random one (Luby and
/// Rackoff).
const ROUNDS: u8 = 4;

/// The ports in an order that looks random to whoever does not know the key,
/// and in which each comes once before any comes again.
///
/// Ports drawn independently come again too soon: by the birthday paradox, some
/// of a thousand connections to one place would begin while their peer still has
/// the last one from that port in TIME-WAIT, and half of those go unanswered.
#[derive(Debug)]
pub(in crate::net) struct PortOrder {
    keyed: SipHasher24,
    next: u32,
}

impl PortOrder {
    pub(in crate::net) fn new(key: [u64; 2]) -> Self {
        let keyed = SipHasher24::new_with_keys(key[0], key[1]);
        // Where it begins is a secret too.
        let next = (keyed.finish() % u64::from(PORTS)) as u32;
        Self { keyed, next }
    }

    /// The next port.
    pub(super) fn next(&mut self) -> u16 {
        let place = self.next;
        self.next = (place + 1) % PORTS;
        let mut shuffled = place as u16;
        // What is no place leads to another, and in the end to one.
        loop {
            shuffled = self.shuffle(shuffled);
            if u32::from(shuffled) < PORTS {
                return FIRST_PORT + shuffled;
            }
        }
    }

    /// A permutation of all numbers of 16 bits: a Feistel network.
    fn shuffle(&self, number: u16) -> u16 {
        let [mut left, mut right] = number.to_be_bytes();
        for round in 0..ROUNDS {
            let mut hasher = self.keyed;
            hasher.write(&[round, right]);
            (left, right) = (right, left ^ hasher.finish() as u8);
        }
        u16::from_be_bytes([left, right])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_comes_once_before_any_comes_again() {
        for key in 0..4 {
            let mut order = PortOrder::new([key, 7]);
            let first = order.next();
            let mut seen = std::vec![false; 1 << 16];
            seen[usize::from(first)] = true;
            for _ in 1..PORTS {
                let port = order.next();
                assert!(port >= FIRST_PORT);
                assert!(!core::mem::replace(&mut seen[usize::from(port)], true));
            }
            assert_eq!(order.next(), first);
        }
    }

    #[test]
    fn another_key_is_another_order() {
        let [mut one, mut other] = [1, 2].map(|key| PortOrder::new([key, 7]));
        let equal = (0..10_000).filter(|_| one.next() == other.next());
        assert!(equal.count() < 10);
    }
}
