//! Spawning a task, running it and taking its result.
//!
//! Bare async-task is the floor for firstpoll, whose tasks it makes. What
//! firstpoll adds is mostly two looks at the clock, which on the host take as
//! long as all the rest of it: one stamps the wake, so that the deferral
//! knows when the task is overdue; one begins the pass, which notes how late it
//! is.

use std::hint::black_box;

use crate::opaque::Opaque;
use crate::run::{Run, timed};
use crate::system::Spawn;

pub(crate) fn run_and_join<S: Spawn + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        timed(times, || {
            let handle = system.spawn(Opaque::ready());
            black_box(system.block_on(handle));
        })
    })
}
