//! Pings and handshakes by hand.

use std::net::IpAddr;
use std::time::Duration;

use super::Engine;
use crate::frame::Host;

impl Engine {
    /// Sends an echo request.
    pub fn ping(&mut self, to: Host<impl Into<IpAddr>>, seq: u16, now: Duration) {
        let to = to.any();
        let from = self.host_for(to.ip);
        let frame = self.probes.ping(from, to, seq, now);
        self.send_frame(frame);
    }

    /// How long the answer to an echo request took, once it is there.
    pub fn take_pong(&mut self, ip: IpAddr, seq: u16) -> Option<Duration> {
        self.probes.take_pong(ip, seq)
    }

    /// Begins a TCP handshake by hand; the port of ours that it comes from.
    ///
    /// Its answer is acknowledged, so that the other side has an established
    /// connection. It stays so until [`forget`](Self::forget).
    pub fn handshake(&mut self, to: Host<impl Into<IpAddr>>, port: u16, now: Duration) -> u16 {
        let to = to.any();
        let from = self.host_for(to.ip);
        let (local_port, syn) = self.probes.syn(from, to, port, now);
        self.send_frame(syn);
        local_port
    }

    /// How long the SYN from `local_port` waited for its answer.
    pub fn handshake_time(&self, local_port: u16) -> Option<Duration> {
        self.probes.answered(local_port)
    }

    /// Whether the other side has reset the connection from `local_port`.
    pub fn was_reset(&self, local_port: u16) -> bool {
        self.probes.was_reset(local_port)
    }

    /// Resets a connection that [`handshake`](Self::handshake) made.
    pub fn forget(&mut self, local_port: u16) {
        let reset = self.probes.forget(local_port);
        self.queues.outgoing.extend(reset);
    }
}
