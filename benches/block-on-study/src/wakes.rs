//! Bare wakes across threads: what waiting costs without a future.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::options::{Mechanism, WakesOptions};
use crate::produce;
use crate::receive::WARM_UP;
use crate::report::{figure, micros, percentiles};
use crate::system::{self, Usage, WarmCores};

/// Measures what `options` describe and prints it.
///
/// # Errors
///
/// If the system refuses what is needed.
pub fn run(options: &WakesOptions) -> Result<()> {
    if let Some(slack_ns) = options.pace.timer_slack {
        system::set_timer_slack(slack_ns).context("cannot set the timer slack")?;
    }
    let warm = options.pace.warm_cores.then(WarmCores::start).transpose();
    let _warm = warm.context("cannot keep the cores warm")?;
    let bell = Arc::new(Bell::new(options.mechanism)?);
    let start = Instant::now();
    let rings = WARM_UP + options.samples;
    let ringer = {
        let (bell, pace) = (bell.clone(), options.pace);
        thread::spawn(move || -> Result<()> {
            for ring in 0..rings {
                produce::wait(pace);
                // A waiter that was kept from its core has the next one late.
                while !bell.is_taken(ring) {
                    thread::yield_now();
                }
                bell.rung_ns.store(nanos(start), Relaxed);
                bell.ring()?;
            }
            Ok(())
        })
    };
    let mut latencies = Vec::with_capacity(rings);
    let mut before = Usage::now()?;
    for ring in 0..rings {
        if ring == WARM_UP {
            before = Usage::now()?;
        }
        bell.wait()?;
        let latency = nanos(start).saturating_sub(bell.rung_ns.load(Relaxed));
        latencies.push(Duration::from_nanos(latency));
        bell.taken.store(ring + 1, Release);
    }
    let used = Usage::now()?.since(before);
    ringer.join().expect("the ringer does not panic")?;
    percentiles("paced", &mut latencies[WARM_UP..]);
    if !options.pace.warm_cores {
        let samples = options.samples as f64;
        figure("paced", "cpu", "µs/message", micros(used.cpu) / samples);
        let switches = used.switches as f64 / samples;
        figure("paced", "switches", "1/message", switches);
    }
    Ok(())
}

fn nanos(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

/// Something that one thread waits for and another rings.
struct Bell {
    mechanism: Mechanism,
    rung_ns: AtomicU64,
    /// The number of rings that the waiter has taken.
    taken: AtomicUsize,
    /// Rings that nobody has taken yet: 0 or 1.
    rung: AtomicU32,
    waiter: Thread,
    locked: Mutex<bool>,
    changed: Condvar,
    event: File,
}

impl Bell {
    /// A bell that the calling thread waits for.
    fn new(mechanism: Mechanism) -> Result<Self> {
        Ok(Self {
            mechanism,
            rung_ns: AtomicU64::new(0),
            taken: AtomicUsize::new(0),
            rung: AtomicU32::new(0),
            waiter: thread::current(),
            locked: Mutex::new(false),
            changed: Condvar::new(),
            event: system::eventfd().context("cannot make an eventfd")?,
        })
    }

    /// Whether `rings` were rung, and all of them taken.
    fn is_taken(&self, rings: usize) -> bool {
        self.taken.load(Acquire) == rings
    }

    fn ring(&self) -> Result<()> {
        match self.mechanism {
            Mechanism::Park => {
                self.rung.store(1, Release);
                self.waiter.unpark();
            }
            Mechanism::Condvar => {
                *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = true;
                self.changed.notify_one();
            }
            Mechanism::Futex => {
                self.rung.store(1, Release);
                system::futex_wake(&self.rung);
            }
            Mechanism::Eventfd => (&self.event).write_all(&1_u64.to_ne_bytes())?,
            Mechanism::Spin => self.rung.store(1, Release),
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        match self.mechanism {
            Mechanism::Park => {
                while self.rung.swap(0, Acquire) == 0 {
                    thread::park();
                }
            }
            Mechanism::Condvar => {
                let rung = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
                let rung = self.changed.wait_while(rung, |rung| !*rung);
                *rung.unwrap_or_else(PoisonError::into_inner) = false;
            }
            Mechanism::Futex => {
                while self.rung.swap(0, Acquire) == 0 {
                    system::futex_wait(&self.rung, 0);
                }
            }
            Mechanism::Eventfd => (&self.event).read_exact(&mut [0; 8])?,
            Mechanism::Spin => {
                while self.rung.swap(0, Acquire) == 0 {
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }
}
