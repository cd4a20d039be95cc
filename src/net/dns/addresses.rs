//! The addresses of a host.

use core::net::IpAddr;
use core::ops::Deref;

/// How many addresses of a host are kept.
const MAX_ADDRESSES: usize = 16;

/// Which addresses of a host are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Those of both families.
    #[default]
    Any,
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
}

/// Addresses of a host, at most 16, in the order in which to try them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    list: [IpAddr; MAX_ADDRESSES],
    len: usize,
}

impl Addresses {
    pub(super) const fn new() -> Self {
        Self {
            list: [IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED); MAX_ADDRESSES],
            len: 0,
        }
    }

    /// Adds an address, unless it is there already or there is no place.
    pub(super) fn push(&mut self, address: IpAddr) {
        if self.contains(&address) {
            return;
        }
        if let Some(place) = self.list.get_mut(self.len) {
            *place = address;
            self.len += 1;
        }
    }

    /// Those of both in turn, so that a family that does not work holds up no
    /// more than it must (RFC 8305 §4).
    pub(super) fn interleaved(first: &Self, second: &Self) -> Self {
        let mut all = Self::new();
        for place in 0..MAX_ADDRESSES {
            for addresses in [first, second] {
                if let Some(&address) = addresses.get(place) {
                    all.push(address);
                }
            }
        }
        all
    }
}

impl Deref for Addresses {
    type Target = [IpAddr];

    fn deref(&self) -> &[IpAddr] {
        &self.list[..self.len]
    }
}

impl From<IpAddr> for Addresses {
    fn from(address: IpAddr) -> Self {
        let mut addresses = Self::new();
        addresses.push(address);
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn families_take_turns_and_no_address_comes_twice() {
        let mut six = Addresses::from(IpAddr::from(Ipv6Addr::LOCALHOST));
        six.push(Ipv6Addr::LOCALHOST.into());
        let mut four = Addresses::new();
        for last in 1..=20 {
            four.push(Ipv4Addr::new(10, 0, 0, last).into());
        }
        assert_eq!((six.len(), four.len()), (1, 16));
        let all = Addresses::interleaved(&six, &four);
        assert_eq!(all.len(), 16);
        assert_eq!(all[0], IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(all[1], IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(all[15], IpAddr::from(Ipv4Addr::new(10, 0, 0, 15)));
    }
}
