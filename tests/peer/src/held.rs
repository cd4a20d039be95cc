//! Many connections that are made by hand and kept.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::frame::Host;
use crate::shared::Shared;

/// Connections to the guest that nothing is sent over. Dropping them resets
/// them.
pub struct Held {
    shared: Arc<Shared>,
    ports: Vec<u16>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("count", &self.ports.len())
            .finish_non_exhaustive()
    }
}

impl Held {
    /// Sends `count` SYNs and waits until each has an answer, or the time is
    /// up.
    pub(crate) fn new(
        shared: Arc<Shared>,
        to: Host<IpAddr>,
        port: u16,
        count: usize,
        timeout: Duration,
    ) -> Self {
        let ports: Vec<u16> = shared.with(|engine, now| {
            let ports = (0..count).map(|_| engine.handshake(to, port, now));
            ports.collect()
        });
        // Whether or not all answers come, those that came count.
        let _ = shared.wait(timeout, |engine, _| {
            let mut ports = ports.iter();
            let answered =
                |&port: &u16| engine.handshake_time(port).is_some() || engine.was_reset(port);
            ports.all(answered).then_some(())
        });
        Self { shared, ports }
    }

    /// How long the SYN of each waited for its answer.
    pub fn times(&self) -> Vec<Option<Duration>> {
        self.shared.with(|engine, _| {
            let ports = self.ports.iter();
            ports.map(|&port| engine.handshake_time(port)).collect()
        })
    }

    /// How many were established and are not reset.
    pub fn established(&self) -> usize {
        self.shared.with(|engine, _| {
            let ports = self.ports.iter();
            let established =
                |&&port: &&u16| engine.handshake_time(port).is_some() && !engine.was_reset(port);
            ports.filter(established).count()
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared
            .with(|engine, _| self.ports.iter().for_each(|&port| engine.forget(port)));
    }
}
