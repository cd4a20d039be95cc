//! Random numbers that nobody can guess from those that he has seen.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// A keyed hash of a counter: ports, identifiers and the like are shown to
/// peers, who must not learn the next ones from them.
#[derive(Debug)]
pub(super) struct Random {
    keyed: SipHasher24,
    drawn: u64,
}

impl Random {
    pub(super) fn new(key: [u64; 2]) -> Self {
        Self {
            keyed: SipHasher24::new_with_keys(key[0], key[1]),
            drawn: 0,
        }
    }

    /// The next number.
    pub(super) fn draw(&mut self) -> u64 {
        let mut hasher = self.keyed;
        hasher.write_u64(self.drawn);
        self.drawn = self.drawn.wrapping_add(1);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_drawn_about_as_often_as_not() {
        let mut random = Random::new([1, 2]);
        let mut ones = [0_u32; 64];
        for _ in 0..10_000 {
            let number = random.draw();
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += (number >> bit) as u32 & 1;
            }
        }
        assert!(
            ones.iter().all(|ones| (4_700..5_300).contains(ones)),
            "{ones:?}"
        );
    }

    #[test]
    fn another_key_draws_other_numbers() {
        assert_ne!(Random::new([1, 2]).draw(), Random::new([1, 3]).draw());
    }
}
