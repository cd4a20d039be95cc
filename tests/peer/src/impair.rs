//! Paths that lose, double, delay and reorder frames, by a seed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// What a path does to frames; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// The part of the frames that is lost, from 0 to 1.
    pub loss: f64,
    /// The part of the others that arrives twice.
    pub duplication: f64,
    /// The part of the frames that is held back, so that later ones overtake
    /// them.
    pub reordering: f64,
    /// How long a frame is held back at most.
    pub hold: Duration,
    /// How long every frame takes at least.
    pub delay: Duration,
    /// How much longer a frame takes at most. It takes its followers along:
    /// this alone reorders nothing.
    pub jitter: Duration,
}

/// What has become of a path's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were sent.
    pub sent: u64,
    /// Of these, those that were lost.
    pub lost: u64,
    /// Those that arrive twice.
    pub doubled: u64,
    /// Those that were held back.
    pub held_back: u64,
}

type Filter = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// One direction of a link: frames go in, and come out later or not at all.
///
/// The n-th frame of two paths with the same impairment and seed has the same
/// fate, whatever the frames are and whenever they come.
pub struct Path {
    impairment: Impairment,
    random: Rng,
    lose: Option<Filter>,
    counts: Counts,
    /// By the time of arrival; of those that arrive together, the first sent
    /// comes first.
    under_way: BTreeMap<(Duration, u64), Vec<u8>>,
    next_number: u64,
    /// When the last frame arrives that was not held back.
    last_arrival: Duration,
}

impl Default for Path {
    /// A path on which nothing happens to frames.
    fn default() -> Self {
        Self::new(Impairment::default(), 0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path")
            .field("impairment", &self.impairment)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Path {
    /// An empty path.
    ///
    /// # Panics
    ///
    /// If a part of the frames is not between 0 and 1.
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        let mut path = Self {
            impairment: Impairment::default(),
            random: Rng::with_seed(seed),
            lose: None,
            counts: Counts::default(),
            under_way: BTreeMap::new(),
            next_number: 0,
            last_arrival: Duration::ZERO,
        };
        path.impair(impairment, seed);
        path
    }

    /// Changes what happens to frames from now on.
    ///
    /// # Panics
    ///
    /// If a part of the frames is not between 0 and 1.
    pub fn impair(&mut self, impairment: Impairment, seed: u64) {
        for part in [
            impairment.loss,
            impairment.duplication,
            impairment.reordering,
        ] {
            assert!((0.0..=1.0).contains(&part), "{part} is no part");
        }
        self.impairment = impairment;
        self.random = Rng::with_seed(seed);
    }

    /// Loses the frames that `filter` picks from now on, beside those that the
    /// impairment loses.
    pub fn lose(&mut self, filter: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.lose = Some(Box::new(filter));
    }

    /// What has become of the frames so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: Vec<u8>, now: Duration) {
        self.counts.sent += 1;
        let fate = self.draw();
        let picked = self.lose.as_mut().is_some_and(|lose| lose(&frame));
        if fate.lost || picked {
            self.counts.lost += 1;
            return;
        }
        let in_turn = self.last_arrival.max(now + fate.takes);
        self.last_arrival = in_turn;
        self.counts.held_back += u64::from(!fate.held_back.is_zero());
        if fate.doubled {
            self.counts.doubled += 1;
            self.put(frame.clone(), in_turn);
        }
        self.put(frame, in_turn + fate.held_back);
    }

    /// The next frame that has arrived.
    pub fn receive(&mut self, now: Duration) -> Option<Vec<u8>> {
        let first = self.under_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Option<Duration> {
        let (&(at, _), _) = self.under_way.first_key_value()?;
        Some(at)
    }

    fn put(&mut self, frame: Vec<u8>, at: Duration) {
        self.under_way.insert((at, self.next_number), frame);
        self.next_number += 1;
    }

    /// Draws as many numbers for each frame, whatever becomes of it.
    fn draw(&mut self) -> Fate {
        let [lost, doubled, reordered, held_back, late] =
            std::array::from_fn(|_| self.random.f64());
        let Impairment {
            loss,
            duplication,
            reordering,
            hold,
            delay,
            jitter,
        } = self.impairment;
        Fate {
            lost: lost < loss,
            doubled: doubled < duplication,
            held_back: if reordered < reordering {
                hold.mul_f64(held_back)
            } else {
                Duration::ZERO
            },
            takes: delay + jitter.mul_f64(late),
        }
    }
}

/// What happens to one frame.
struct Fate {
    lost: bool,
    doubled: bool,
    held_back: Duration,
    takes: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sends `count` numbered frames, one each millisecond, and returns when
    /// each arrived.
    fn arrivals(path: &mut Path, count: u32) -> Vec<(Duration, u32)> {
        for number in 0..count {
            path.send(number.to_be_bytes().to_vec(), number * MS);
        }
        let mut arrived = Vec::new();
        while let Some(at) = path.next_arrival() {
            let frame = path.receive(at).expect("it arrives now");
            let number = frame.try_into().expect("it is as long as it was");
            arrived.push((at, u32::from_be_bytes(number)));
        }
        arrived
    }

    #[test]
    fn a_path_without_impairment_is_a_wire() {
        let expected: Vec<_> = (0..100).map(|number| (number * MS, number)).collect();
        assert_eq!(arrivals(&mut Path::default(), 100), expected);
    }

    #[test]
    fn a_seed_gives_the_same_fates_again() {
        let everything = Impairment {
            loss: 0.1,
            duplication: 0.1,
            reordering: 0.1,
            hold: 5 * MS,
            delay: 3 * MS,
            jitter: 2 * MS,
        };
        let run = |seed| arrivals(&mut Path::new(everything, seed), 1000);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn frames_are_lost_and_doubled_as_often_as_told() {
        let impairment = Impairment {
            loss: 0.02,
            duplication: 0.1,
            ..Impairment::default()
        };
        let mut path = Path::new(impairment, 7);
        let arrived = arrivals(&mut path, 10_000);
        let Counts { lost, doubled, .. } = path.counts();
        assert!((150..250).contains(&lost), "{lost}");
        assert!((850..1100).contains(&doubled), "{doubled}");
        assert_eq!(arrived.len() as u64, 10_000 - lost + doubled);
        assert!(arrived.is_sorted_by_key(|&(_, number)| number));
    }

    #[test]
    fn delays_keep_the_order_and_their_bounds() {
        let impairment = Impairment {
            delay: 10 * MS,
            jitter: 5 * MS,
            ..Impairment::default()
        };
        let arrived = arrivals(&mut Path::new(impairment, 3), 1000);
        assert!(arrived.is_sorted_by_key(|&(_, number)| number));
        let took = |&(at, number): &(Duration, u32)| at - number * MS;
        let times = arrived.iter().map(took);
        assert!(
            times
                .clone()
                .all(|took| (10 * MS..=15 * MS).contains(&took))
        );
        assert!(times.clone().min() < Some(11 * MS));
        assert!(times.max() > Some(14 * MS));
    }

    #[test]
    fn frames_that_are_held_back_are_overtaken() {
        let impairment = Impairment {
            reordering: 0.1,
            hold: 4 * MS,
            ..Impairment::default()
        };
        let mut path = Path::new(impairment, 3);
        let arrived = arrivals(&mut path, 1000);
        assert_eq!(arrived.len(), 1000);
        let held_back = path.counts().held_back;
        assert!((70..130).contains(&held_back), "{held_back}");
        let overtaken = arrived.windows(2).filter(|pair| pair[0].1 > pair[1].1);
        assert!((40..=130).contains(&overtaken.count()));
        assert!(arrived.iter().all(|&(at, number)| at <= (number + 4) * MS));
    }

    #[test]
    fn chosen_frames_are_lost() {
        let mut path = Path::default();
        path.lose(|frame| frame[3].is_multiple_of(2));
        let arrived: Vec<u32> = arrivals(&mut path, 10).iter().map(|pair| pair.1).collect();
        assert_eq!(arrived, [1, 3, 5, 7, 9]);
        assert_eq!(path.counts().lost, 5);
    }
}
