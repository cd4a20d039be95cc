//! The time that counts, after a warm-up that does not.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// This long first, which is not counted.
    pub warm_up: Duration,
    /// Then this long.
    pub measured: Duration,
}

/// What was counted in the time that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Bytes or frames.
    pub count: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The processor time of the calling thread.
    pub client_cpu: Duration,
    /// The processor time of the other end, as the caller has it.
    pub server_cpu: Duration,
}

impl Measured {
    /// So many a second.
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }

    /// The count as bytes: so many megabits a second.
    pub fn mbit_per_second(&self) -> f64 {
        self.per_second() * 8.0 / 1e6
    }
}

/// The processor time that the calling thread has had.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or_default());
    seconds + Duration::from_nanos(time.tv_nsec.try_into().unwrap_or_default())
}

/// Looks at the clock for whoever counts.
pub(crate) struct Window<'a> {
    opens: Instant,
    measured: Duration,
    server_cpu: &'a mut dyn FnMut() -> Result<Duration>,
    open: Option<Opening>,
}

/// How things stood when the window opened.
#[derive(Clone, Copy)]
struct Opening {
    at: Instant,
    count: u64,
    client_cpu: Duration,
    server_cpu: Duration,
}

impl<'a> Window<'a> {
    /// A window whose warm-up begins now.
    pub(crate) fn new(plan: Plan, server_cpu: &'a mut dyn FnMut() -> Result<Duration>) -> Self {
        Self {
            opens: Instant::now() + plan.warm_up,
            measured: plan.measured,
            server_cpu,
            open: None,
        }
    }

    /// Notes that it is `now`, and the count is `count`; what was measured, if
    /// the time is over.
    pub(crate) fn look(&mut self, now: Instant, count: u64) -> Result<Option<Measured>> {
        match self.open {
            None if now >= self.opens => {
                self.open = Some(Opening {
                    at: now,
                    count,
                    client_cpu: cpu_time(),
                    server_cpu: (self.server_cpu)()?,
                });
            }
            Some(open) if now >= open.at + self.measured => {
                return Ok(Some(Measured {
                    count: count - open.count,
                    elapsed: now - open.at,
                    client_cpu: cpu_time().saturating_sub(open.client_cpu),
                    server_cpu: (self.server_cpu)()?.saturating_sub(open.server_cpu),
                }));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Whether the warm-up is over.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_does_not_count() -> Result<()> {
        let second = Duration::from_secs(1);
        let plan = Plan {
            warm_up: second,
            measured: 2 * second,
        };
        let mut cpu = Duration::ZERO;
        let mut server_cpu = || {
            cpu += second;
            Ok(cpu)
        };
        let mut window = Window::new(plan, &mut server_cpu);
        let start = Instant::now();
        assert_eq!(window.look(start, 100)?, None);
        assert!(!window.is_open());
        assert_eq!(window.look(start + 2 * second, 1000)?, None);
        assert!(window.is_open());
        assert_eq!(window.look(start + 3 * second, 2000)?, None);
        let measured = window.look(start + 6 * second, 9000)?;
        let measured = measured.expect("the time is over");
        assert_eq!(measured.count, 8000);
        assert_eq!(measured.elapsed, 4 * second);
        assert_eq!(measured.server_cpu, second);
        assert_eq!(measured.per_second(), 2000.0);
        assert_eq!(measured.mbit_per_second(), 0.016);
        Ok(())
    }
}
