//! How datagrams come in and go out.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::time::{Duration, Instant};

use super::carrier::{self, Outcome};
use super::endpoints::Protocol;
use super::queue::{Datagram, zeroes};
use crate::net::Error;
use crate::net::frame::Key;
use crate::net::ip::loopback::{self, Link};
use crate::net::limits::memory_is_short;
use crate::net::state::State;
use crate::net::wakes::Wakes;

/// How many datagrams of one endpoint are sent before the next one's turn.
const EGRESS_BURST: usize = 16;

/// How long a datagram waits for the address of its neighbour (RFC 4861 §10:
/// three requests, a second apart).
const PATIENCE: Duration = Duration::from_secs(3);

/// When the neighbour of a datagram that waits is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// How many datagrams for no endpoint are answered with "port unreachable" in
/// 100 ms.
const UNREACHABLE_LIMIT: u32 = 100;

impl State {
    /// Processes the UDP datagram of `len` bytes that has arrived.
    pub(in crate::net) fn udp_arrived(
        &mut self,
        now: Instant,
        link: Link,
        key: Key,
        len: u16,
        wakes: &mut Wakes,
    ) {
        if link == Link::Card && self.iface.has_ip_addr(key.remote) {
            // Nobody else may send from there.
            self.stats.martians += 1;
            return;
        }
        let remote = SocketAddr::new(key.remote, key.remote_port);
        let Some(index) = self.endpoints.find(Protocol::Udp, key.local_port) else {
            return self.unclaimed_datagram(now, link, key.local);
        };
        let endpoint = self.endpoints.get(index);
        if !endpoint.is_some_and(|endpoint| endpoint.accepts(remote, key.local)) {
            return self.unclaimed_datagram(now, link, key.local);
        }
        let Some(mut payload) = self.room_for(index, len.into()) else {
            return;
        };
        let (iface, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        let taken = carrier::receive_udp(now, iface, &mut port, key.local_port, &mut payload);
        let sent = port.sent;
        self.account_at(link, sent);
        let Some((remote, local)) = taken else {
            return self.count_untaken(key.local);
        };
        self.deliver(
            index,
            Datagram {
                remote,
                local,
                payload,
                at: now,
                link,
                retry_at: None,
            },
            wakes,
        );
    }

    /// Processes the echo reply that has arrived, a message of `len` bytes.
    pub(in crate::net) fn echo_reply_arrived(
        &mut self,
        now: Instant,
        link: Link,
        (remote, local): (IpAddr, IpAddr),
        (ident, len): (u16, usize),
        wakes: &mut Wakes,
    ) {
        let remote = SocketAddr::new(remote, 0);
        let asked = self.endpoints.find(Protocol::Echo, ident).filter(|&index| {
            let endpoint = self.endpoints.get(index);
            endpoint.is_some_and(|endpoint| endpoint.accepts(remote, local))
        });
        let Some(index) = asked else {
            self.stats.unsupported += 1;
            return;
        };
        let Some(mut payload) = self.room_for(index, len) else {
            return;
        };
        let (iface, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        let taken = carrier::receive_echo(now, iface, &mut port, ident, &mut payload);
        let sent = port.sent;
        self.account_at(link, sent);
        if taken.is_none() {
            return self.count_untaken(local);
        }
        let datagram = Datagram {
            remote,
            local: Some(local),
            payload,
            at: now,
            link,
            retry_at: None,
        };
        self.deliver(index, datagram, wakes);
    }

    fn deliver(&mut self, index: u32, datagram: Datagram, wakes: &mut Wakes) {
        let Some(endpoint) = self.endpoints.get_mut(index) else {
            return;
        };
        let bytes = datagram.payload.len();
        endpoint.receive.push(datagram);
        self.budget.hold(bytes);
        self.stats.datagrams_received += 1;
        self.wake_endpoint(index, wakes);
    }

    /// Memory for a datagram of `len` bytes to be received, if it may have any.
    fn room_for(&mut self, index: u32, len: usize) -> Option<Vec<u8>> {
        let may_grow = self.has_buffers(len) && !memory_is_short();
        let endpoint = self.endpoints.get_mut(index)?;
        let has_room = endpoint.receive.has_room(len) && may_grow && endpoint.receive.reserve();
        let payload = has_room.then(|| zeroes(len)).flatten();
        if payload.is_none() {
            endpoint.dropped += 1;
            self.stats.datagrams_dropped += 1;
        }
        payload
    }

    /// Wakes who can go on, now or at the endpoint's next turn.
    fn wake_endpoint(&mut self, index: u32, wakes: &mut Wakes) {
        let Some(endpoint) = self.endpoints.get_mut(index) else {
            return;
        };
        let failed = endpoint.failure.is_some();
        let readable = endpoint.receive.len() > 0 || failed;
        let writable = endpoint.send.has_room(1) || failed;
        let all_woken = (!readable || wakes.take(&mut endpoint.reader))
            && (!writable || wakes.take(&mut endpoint.writer));
        if !all_woken {
            self.endpoints.dirty.push(index);
        }
    }

    /// Counts a datagram that smoltcp did not hand out.
    fn count_untaken(&mut self, local: IpAddr) {
        if self.is_here(local) {
            self.stats.malformed += 1;
        } else {
            self.stats.unsupported += 1;
        }
    }

    /// A datagram for no endpoint: smoltcp answers that the port is unreachable,
    /// unless all hosts heard it (RFC 1122 §3.2.2), but a flood shall not make a
    /// flood.
    fn unclaimed_datagram(&mut self, now: Instant, link: Link, local: IpAddr) {
        self.stats.datagrams_unclaimed += 1;
        if !self.is_here(local) {
            return;
        }
        if !self.unreachables.admits(now, UNREACHABLE_LIMIT) {
            self.stats.unreachables_limited += 1;
            return;
        }
        let sent = self.offer(now, link).frames;
        self.unreachables.spend(sent);
    }

    /// The peer's host says that nobody listens on its port.
    pub(in crate::net) fn port_unreachable(
        &mut self,
        local_port: u16,
        remote: SocketAddr,
        wakes: &mut Wakes,
    ) {
        let Some(index) = self.endpoints.find(Protocol::Udp, local_port) else {
            return;
        };
        // Of datagrams to many places nobody could tell which it was.
        if let Some(endpoint) = self.endpoints.get_mut(index)
            && endpoint.peer == Some(remote)
        {
            endpoint.failure = Some(Error::ConnectionRefused);
            self.wake_endpoint(index, wakes);
        }
    }

    /// Sends what endpoints have to send, of at most `limit`.
    pub(in crate::net) fn step_endpoints(&mut self, now: Instant, limit: usize, wakes: &mut Wakes) {
        if !self.blocked {
            self.endpoints.mark_stalled_dirty(limit);
        }
        self.endpoints.mark_due_dirty(now, limit);
        for _ in 0..self.endpoints.dirty.len().min(limit) {
            if !wakes.has_room() {
                break;
            }
            if let Some(index) = self.endpoints.dirty.pop() {
                self.egress_endpoint(now, index, wakes);
            }
        }
    }

    /// Sends what an endpoint has to send.
    pub(super) fn egress_endpoint(&mut self, now: Instant, index: u32, wakes: &mut Wakes) {
        let Some(endpoint) = self.endpoints.get_mut(index) else {
            return;
        };
        let (mut place, mut tries, mut unfinished, mut stalled) = (0, 0, false, false);
        let mut next_try: Option<Instant> = None;
        // Whose address is not known, and whether smoltcp has asked for it.
        let mut unresolved = [None; EGRESS_BURST];
        while let Some(datagram) = endpoint.send.get_mut(place) {
            let link = datagram.link;
            if stalled && link == Link::Card {
                place += 1;
                continue;
            }
            if let Some(at) = datagram.retry_at.filter(|&at| at > now) {
                next_try = Some(next_try.map_or(at, |earlier| earlier.min(at)));
                place += 1;
                continue;
            }
            if tries == EGRESS_BURST {
                unfinished = true;
                break;
            }
            tries += 1;
            let remote = datagram.remote;
            let hop_limit = match remote.ip().is_multicast() {
                true => endpoint.group_hop_limit,
                false => endpoint.hop_limit,
            };
            let payload = &mut datagram.payload[..];
            let (iface, mut port) =
                loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
            let outcome = match endpoint.protocol {
                Protocol::Udp => {
                    let from = (datagram.local, endpoint.number);
                    carrier::send_udp(now, iface, &mut port, from, remote, hop_limit, payload)
                }
                Protocol::Echo => {
                    let (ident, to) = (endpoint.number, remote.ip());
                    carrier::send_echo(now, iface, &mut port, ident, to, hop_limit, payload)
                }
            };
            match link {
                Link::Card => self.stats.frames_sent += port.sent.frames,
                Link::Loopback => self.stats.loopback_packets += port.sent.frames,
            }
            match outcome {
                Outcome::Sent => {
                    self.stats.datagrams_sent += 1;
                    self.budget.release(datagram.payload.len());
                    endpoint.send.remove(place);
                }
                Outcome::Full if link == Link::Card => {
                    stalled = true;
                    self.blocked = true;
                }
                Outcome::Full => {
                    unfinished = true;
                    break;
                }
                Outcome::Unresolved { asked } if now < datagram.at + PATIENCE => {
                    datagram.retry_at = Some(now + RETRY);
                    unresolved[tries - 1] = Some((remote.ip(), asked));
                }
                Outcome::Unresolved { .. } | Outcome::Impossible => {
                    endpoint.dropped += 1;
                    self.stats.datagrams_unreachable += 1;
                    self.budget.release(datagram.payload.len());
                    endpoint.send.remove(place);
                }
            }
        }
        for (neighbour, asked) in unresolved.into_iter().flatten() {
            match asked {
                true => self.note_asked(now, neighbour),
                // smoltcp may not ask for two at a time.
                false => self.ask_neighbour(now, neighbour),
            }
        }
        self.endpoints.deadlines.set(index, next_try);
        match next_try {
            Some(_) => drop(self.endpoints.waiting.push(index)),
            None => drop(self.endpoints.waiting.remove(index)),
        }
        if unfinished {
            self.endpoints.dirty.push(index);
        } else if stalled {
            self.endpoints.stalled.push(index);
        }
        self.wake_endpoint(index, wakes);
    }
}
