//! Two engines on one wire, with a clock that is moved by hand.

use std::time::Duration;

use crate::engine::Engine;

/// A wire between two engines: frames arrive at once, and time passes only in
/// [`run`](Self::run).
#[derive(Debug)]
pub struct Wire {
    /// One end.
    pub left: Engine,
    /// The other.
    pub right: Engine,
    now: Duration,
}

impl Wire {
    /// Connects two engines.
    pub fn new(left: Engine, right: Engine) -> Self {
        Self {
            left,
            right,
            now: Duration::ZERO,
        }
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets `duration` pass, with everything that is due in it.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.settle();
            let deadlines = [&mut self.left, &mut self.right].map(|e| e.next_deadline(self.now));
            // What is due now was done, or waits for something else.
            let next = deadlines.into_iter().flatten().filter(|&at| at > self.now);
            match next.min() {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
        }
        self.now = end;
    }

    /// Carries frames both ways until there are none.
    fn settle(&mut self) {
        loop {
            self.left.poll(self.now);
            self.right.poll(self.now);
            let to_right = carry(&mut self.left, &mut self.right, self.now);
            let to_left = carry(&mut self.right, &mut self.left, self.now);
            if to_right + to_left == 0 {
                break;
            }
        }
    }
}

fn carry(from: &mut Engine, to: &mut Engine, now: Duration) -> usize {
    let mut count = 0;
    while let Some(frame) = from.transmit() {
        to.receive(frame, now);
        count += 1;
    }
    count
}
