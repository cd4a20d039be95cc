//! Spawning a task, running it and taking its result.

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
