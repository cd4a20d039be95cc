//! Where the instructions of a request go.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use firstpoll::net::{Error, TcpStream};
use httpd::ByteStream;

use crate::count::instructions;

/// The points that a request passes after the card's interrupt, in their order;
/// each ends a stage.
#[derive(Clone, Copy)]
pub enum Point {
    /// The network task takes the frame from the card.
    Front,
    /// The server has read the request.
    Read,
    /// The server writes the answer.
    Write,
    /// The card gets the answer's frame.
    Commit,
    /// No task is ready.
    Quiet,
}

/// The names of the stages.
pub const STAGES: [&str; 5] = [
    "interrupt_to_front",
    "front_to_read",
    "read_to_write",
    "write_to_commit",
    "commit_to_quiet",
];

static ON: AtomicBool = AtomicBool::new(false);
static LAST: AtomicU64 = AtomicU64::new(0);
static TOTALS: [AtomicU64; STAGES.len()] = [const { AtomicU64::new(0) }; _];

/// Calls `body` with the stages counted; the instructions of each.
pub fn counted(body: impl FnOnce()) -> [u64; STAGES.len()] {
    for total in &TOTALS {
        total.store(0, Relaxed);
    }
    ON.store(true, Relaxed);
    body();
    ON.store(false, Relaxed);
    core::array::from_fn(|stage| TOTALS[stage].load(Relaxed))
}

/// Starts the first stage.
pub fn start() {
    LAST.store(instructions(), Relaxed);
}

/// Notes that a request has got there.
#[inline]
pub fn reach(point: Point) {
    if ON.load(Relaxed) {
        let total = &TOTALS[point as usize];
        let stage = instructions() - LAST.load(Relaxed);
        total.store(total.load(Relaxed) + stage, Relaxed);
        start();
    }
}

/// A connection that notes its reads and writes.
pub struct Staged(pub TcpStream);

impl ByteStream for Staged {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let count = self.0.read(buffer).await;
        reach(Point::Read);
        count
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        reach(Point::Write);
        self.0.write_all(bytes).await
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        self.0.shutdown().await
    }
}
