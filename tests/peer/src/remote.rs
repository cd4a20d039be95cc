//! An engine at the end of two paths.

use std::time::Duration;

use crate::engine::Engine;
use crate::impair::Path;

/// The way of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Incoming,
    /// From the peer.
    Outgoing,
}

/// An engine with the way to it and the way back, which can be impaired.
#[derive(Debug)]
pub struct Remote {
    /// The host.
    pub engine: Engine,
    /// The way to it.
    pub incoming: Path,
    /// The way back.
    pub outgoing: Path,
}

impl Remote {
    /// An engine on paths that nothing happens on yet.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            incoming: Path::default(),
            outgoing: Path::default(),
        }
    }

    /// One of the two ways.
    pub fn path(&mut self, direction: Direction) -> &mut Path {
        match direction {
            Direction::Incoming => &mut self.incoming,
            Direction::Outgoing => &mut self.outgoing,
        }
    }

    /// A frame begins its way to the engine.
    pub fn receive(&mut self, frame: Vec<u8>, now: Duration) {
        self.incoming.send(frame, now);
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Duration) {
        while let Some(frame) = self.incoming.receive(now) {
            self.engine.receive(frame, now);
        }
        self.engine.poll(now);
        while let Some(frame) = self.engine.transmit() {
            self.outgoing.send(frame, now);
        }
    }

    /// The next frame that has come back.
    pub fn transmit(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.outgoing.receive(now)
    }

    /// When there is something to do, if no frame comes.
    pub fn next_deadline(&mut self, now: Duration) -> Option<Duration> {
        let deadlines = [
            self.incoming.next_arrival(),
            self.engine.next_deadline(now),
            self.outgoing.next_arrival(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
