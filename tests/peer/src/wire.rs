//! Two engines on one wire, with a clock that is moved by hand.

use std::time::Duration;

use crate::engine::Engine;
use crate::impair::Path;

/// A wire between two engines: frames arrive when the paths let them, at once
/// at first, and time passes only in [`run`](Self::run).
#[derive(Debug)]
pub struct Wire {
    /// One end.
    pub left: Engine,
    /// The other.
    pub right: Engine,
    /// The way from the right to the left.
    pub to_left: Path,
    /// The way from the left to the right.
    pub to_right: Path,
    now: Duration,
}

impl Wire {
    /// Connects two engines.
    pub fn new(left: Engine, right: Engine) -> Self {
        Self {
            left,
            right,
            to_left: Path::default(),
            to_right: Path::default(),
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
            let deadlines = [
                self.left.next_deadline(self.now),
                self.right.next_deadline(self.now),
                self.to_left.next_arrival(),
                self.to_right.next_arrival(),
            ];
            // What is due now was done, or waits for something else.
            let next = deadlines.into_iter().flatten().filter(|&at| at > self.now);
            match next.min() {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
        }
        self.now = end;
    }

    /// Carries frames both ways until there are none that arrive now.
    fn settle(&mut self) {
        let now = self.now;
        loop {
            self.left.poll(now);
            self.right.poll(now);
            let to_right = carry(&mut self.left, &mut self.to_right, &mut self.right, now);
            let to_left = carry(&mut self.right, &mut self.to_left, &mut self.left, now);
            if to_right + to_left == 0 {
                break;
            }
        }
    }
}

fn carry(from: &mut Engine, path: &mut Path, to: &mut Engine, now: Duration) -> usize {
    let mut count = 0;
    while let Some(frame) = from.transmit() {
        path.send(frame, now);
    }
    while let Some(frame) = path.receive(now) {
        to.receive(frame, now);
        count += 1;
    }
    count
}
