//! The stages of the boot, and how long each took.
//!
//! Only stamps are taken while the machine boots: the clock's rate is not known
//! at first, and writing a line takes longer than most stages. `log=debug` has
//! the lines, once the stages are over.

use log::{LevelFilter, debug};

use crate::arch;
use crate::sync::InterruptMutex;

/// The boot has fewer; others go unreported.
const MAX_STAGES: usize = 16;

static STAGES: InterruptMutex<Stages> = InterruptMutex::new(Stages {
    stages: [Stage::NONE; MAX_STAGES],
    count: 0,
});

/// The stages that have not been reported.
struct Stages {
    stages: [Stage; MAX_STAGES],
    count: usize,
}

/// A stage, with its beginning and end in ticks of the clock.
#[derive(Clone, Copy)]
struct Stage {
    name: &'static str,
    begin: u64,
    end: u64,
}

impl Stage {
    const NONE: Self = Self {
        name: "",
        begin: 0,
        end: 0,
    };
}

/// Runs a stage.
pub fn run<R>(name: &'static str, stage: impl FnOnce() -> R) -> R {
    let begin = arch::ticks();
    let result = stage();
    add(name, begin);
    result
}

/// Adds a stage that began at `begin` and ends now.
#[inline(never)] // New code takes an emulator longer than the call.
pub fn add(name: &'static str, begin: u64) {
    let end = arch::ticks();
    let mut stages = STAGES.lock();
    let count = stages.count;
    if let Some(place) = stages.stages.get_mut(count) {
        *place = Stage { name, begin, end };
        stages.count += 1;
    }
}

/// Writes a line for each stage since the last report, at the level `debug`.
/// The clock's rate is known.
#[inline(never)]
pub fn report() {
    if log::max_level() < LevelFilter::Debug {
        return;
    }
    let (stages, count) = {
        let mut stages = STAGES.lock();
        (stages.stages, core::mem::take(&mut stages.count))
    };
    for Stage { name, begin, end } in &stages[..count] {
        let begin = arch::time_of(*begin);
        let (took, from) = (arch::time_of(*end) - begin, begin - arch::Instant::ZERO);
        let (took, from) = (took.as_nanos(), from.as_nanos());
        debug!("boot: {name}: {took} ns, from {from} ns on");
    }
}
