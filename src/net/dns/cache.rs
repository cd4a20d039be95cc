//! Answers that are still good.

use alloc::vec::Vec;

use smoltcp::time::{Duration, Instant};

use super::addresses::Addresses;
use super::message::Question;

/// How many answers are kept.
const MAX_ANSWERS: usize = 64;

/// The longest that one is kept, whatever its server says, in seconds.
const MAX_TTL_SECONDS: u32 = 24 * 60 * 60;

#[derive(Debug)]
struct Entry {
    question: Question,
    addresses: Addresses,
    until: Instant,
}

/// The addresses that servers have told, for as long as they say. That a name
/// has none is not remembered.
#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<Entry>,
}

impl Cache {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The answer to `question`, if it is known.
    pub(super) fn get(&self, now: Instant, question: &Question) -> Option<Addresses> {
        self.entries
            .iter()
            .find(|entry| entry.question == *question && now < entry.until)
            .map(|entry| entry.addresses)
    }

    /// Keeps an answer. Where there is no room, the one goes that would be the
    /// first to go anyway.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        question: Question,
        addresses: Addresses,
        ttl_seconds: u32,
    ) {
        // The sign bit is for nothing (RFC 2181 §8).
        if ttl_seconds == 0 || ttl_seconds > i32::MAX as u32 {
            return;
        }
        self.entries
            .retain(|entry| now < entry.until && entry.question != question);
        if self.entries.len() == MAX_ANSWERS
            && let Some(first) = (0..MAX_ANSWERS).min_by_key(|&place| self.entries[place].until)
        {
            self.entries.swap_remove(first);
        }
        if self.entries.try_reserve(1).is_err() {
            return;
        }
        let ttl = Duration::from_secs(ttl_seconds.min(MAX_TTL_SECONDS).into());
        self.entries.push(Entry {
            question,
            addresses,
            until: now + ttl,
        });
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Kind;
    use super::super::name::Name;
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};

    fn question(number: u32, kind: Kind) -> Question {
        Question {
            name: Name::parse(&std::format!("host-{number}")).unwrap(),
            kind,
        }
    }

    fn address(number: u32) -> Addresses {
        IpAddr::from(Ipv4Addr::from_bits(number)).into()
    }

    #[test]
    fn an_answer_lasts_as_long_as_it_says_and_a_day_at_most() {
        let mut cache = Cache::new();
        let at = |seconds| Instant::from_secs(seconds);
        let asked = question(1, Kind::A);
        cache.insert(at(100), asked, address(1), 10);
        assert_eq!(cache.get(at(109), &asked), Some(address(1)));
        assert_eq!(cache.get(at(109), &question(1, Kind::Aaaa)), None);
        assert_eq!(cache.get(at(110), &asked), None);
        cache.insert(at(110), asked, address(2), 0);
        cache.insert(at(110), asked, address(2), 1 << 31);
        assert_eq!(cache.get(at(110), &asked), None);
        cache.insert(at(110), asked, address(3), 1 << 30);
        assert_eq!(cache.get(at(110 + 86_399), &asked), Some(address(3)));
        assert_eq!(cache.get(at(110 + 86_400), &asked), None);
    }

    #[test]
    fn it_is_bounded_and_what_ends_first_goes_first() {
        let mut cache = Cache::new();
        let now = Instant::from_secs(1);
        for number in 0..1_000 {
            // The even ones end first.
            let ttl = if number % 2 == 0 { 10 } else { 1_000 + number };
            cache.insert(now, question(number, Kind::A), address(number), ttl);
        }
        assert_eq!(cache.entries.len(), MAX_ANSWERS);
        let asked = question(999, Kind::A);
        assert_eq!(cache.get(now, &asked), Some(address(999)));
        cache.clear();
        assert_eq!(cache.get(now, &asked), None);
    }
}
