//! Answers that anybody can ask for are sent at a bounded rate.

use smoltcp::time::{Duration, Instant};

/// The rate is counted over so long.
const PERIOD: Duration = Duration::from_millis(100);

/// How many of one kind of answer may still be sent.
#[derive(Debug, Default)]
pub(super) struct Rate {
    began: Option<Instant>,
    spent: u32,
}

impl Rate {
    /// Whether one more of at most `limit` per 100 ms may be sent.
    pub(super) fn admits(&mut self, now: Instant, limit: u32) -> bool {
        if self.began.is_none_or(|began| now >= began + PERIOD) {
            self.began = Some(now);
            self.spent = 0;
        }
        self.spent < limit
    }

    /// Notes that so many were sent.
    pub(super) fn spend(&mut self, sent: u64) {
        self.spent = self.spent.saturating_add(sent as u32);
    }
}
