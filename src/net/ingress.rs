//! One received frame: whom it concerns, and what follows.

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::iface::SocketSet;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::IpListenEndpoint;

use super::checksum;
use super::datagram::icmp::{self, Message};
use super::device::{Port, Sent};
use super::frame::{Frame, Heard, Key, Kind, Reason, Span, classify, classify_own, is_intact};
use super::ip::loopback::{self, Link};
use super::rate::Rate;
use super::state::State;
use super::tcp::closing::Claim;
use super::tcp::connection::{Cause, Connection, Phase};
use super::tcp::listeners::ListenerId;
use super::tcp::recovery::{self, Verdict};
use super::tcp::segment;
use super::wakes::Wakes;

/// How many resets may be sent per 100 ms.
const RESET_LIMIT: u32 = 100;

/// How many pings are answered in 100 ms.
const ECHO_LIMIT: u32 = 1000;

/// How many frames are kept while their sender's address is asked for.
const MAX_HELD: usize = 4;

/// How long they are of use.
const HELD_FOR: Duration = Duration::from_secs(2);

/// What the receiving side remembers.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    resets: Rate,
    /// Answers to pings.
    echoes: Rate,
    /// Frames whose answer waits for the address of a neighbour.
    held: Vec<(Instant, Vec<u8>)>,
}

/// What becomes of a segment that opens a connection.
enum Admission {
    /// It may: the connection stands here.
    Made(u32),
    /// There is no room for it now.
    Refused,
    /// Nobody listens there.
    Nobody,
}

impl State {
    /// Processes one received frame, if there is one.
    pub(super) fn receive(&mut self, now: Instant, wakes: &mut Wakes) -> bool {
        let Some((frame, said)) = self.nic.split().0.front_with_checksum() else {
            return false;
        };
        let mut class = classify(frame);
        if let Frame::Tcp(..) | Frame::Udp(..) | Frame::Dhcp = class
            && !checksum::is_right(frame, said)
        {
            class = Frame::Dropped(Reason::Malformed);
        }
        self.stats.frames_received += 1;
        match class {
            Frame::Tcp(key, kind, span, heard) => {
                self.segment(now, Link::Card, (key, kind, span), heard, wakes);
            }
            Frame::Neighbour => {
                self.offer(now, Link::Card);
                self.table.mark_waiting_dirty();
                self.endpoints.mark_waiting_dirty();
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.retry();
                }
                self.replay(now);
            }
            Frame::Membership => {
                self.offer(now, Link::Card);
                self.expect_reports(now);
            }
            Frame::Echo { from, to } => self.echo(now, from, to),
            Frame::Icmp => {
                let message = icmp::look(frame);
                self.icmp_arrived(now, Link::Card, message, wakes);
            }
            Frame::Udp(key, len) => self.udp_arrived(now, Link::Card, key, len, wakes),
            Frame::Router => self.router_advertisement(now),
            Frame::Dhcp => self.dhcp_answer(now),
            Frame::Dropped(reason) => self.drop_frame(reason),
        }
        self.nic.split().0.release();
        true
    }

    /// Processes one packet that the guest has sent to itself, if there is one.
    pub(super) fn receive_own(&mut self, now: Instant, wakes: &mut Wakes) -> bool {
        let Some(packet) = self.loopback.front() else {
            return false;
        };
        match classify_own(packet) {
            // Nothing gets lost on the way to oneself.
            Frame::Tcp(key, kind, span, _) => {
                self.segment(now, Link::Loopback, (key, kind, span), None, wakes);
            }
            Frame::Udp(key, len) => self.udp_arrived(now, Link::Loopback, key, len, wakes),
            Frame::Echo { .. } => {
                self.offer(now, Link::Loopback);
            }
            Frame::Icmp => {
                let message = icmp::look_own(packet);
                self.icmp_arrived(now, Link::Loopback, message, wakes);
            }
            Frame::Dropped(reason) => self.drop_frame(reason),
            // There are no neighbours and no routers.
            Frame::Neighbour | Frame::Router | Frame::Membership | Frame::Dhcp => {
                self.drop_frame(Reason::Unsupported);
            }
        }
        self.loopback.release();
        true
    }

    fn drop_frame(&mut self, reason: Reason) {
        match reason {
            Reason::Malformed => self.stats.malformed += 1,
            Reason::Fragment => self.stats.fragments += 1,
            Reason::Martian => self.stats.martians += 1,
            Reason::Unsupported => self.stats.unsupported += 1,
        }
    }

    /// Shows what has arrived to smoltcp for no socket in particular.
    pub(super) fn offer(&mut self, now: Instant, link: Link) -> Sent {
        let (iface, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        iface.poll_ingress_single(now, &mut port, &mut self.nobody);
        let sent = port.sent;
        self.account_at(link, sent)
    }

    pub(super) fn account_at(&mut self, link: Link, sent: Sent) -> Sent {
        match link {
            Link::Card => return self.account(sent),
            Link::Loopback => self.stats.loopback_packets += sent.frames,
        }
        sent
    }

    pub(super) fn account(&mut self, sent: Sent) -> Sent {
        self.stats.frames_sent += sent.frames;
        self.stats.send_queue_full += sent.dropped;
        sent
    }

    /// Processes a TCP segment.
    fn segment(
        &mut self,
        now: Instant,
        link: Link,
        (key, kind, span): (Key, Kind, Span),
        heard: Option<Heard>,
        wakes: &mut Wakes,
    ) {
        let mut found = self.table.find(key);
        if let Some(index) = found
            && kind == Kind::Open
            && self.begins_anew(now, link, index, span)
        {
            self.stats.half_open_restarted += 1;
            self.discard(index);
            found = None;
        }
        let index = match found {
            Some(index) => index,
            None => match self.newcomer(now, link, (key, kind, span)) {
                Some(index) => index,
                None => return,
            },
        };
        // What an opening segment carries is not taken.
        if kind != Kind::Open && !self.make_room(now, index, span) {
            self.stats.unreceived += 1;
            return;
        }
        let Some(connection) = self.table.get_mut(index) else {
            return;
        };
        if connection.link != link {
            // Somebody on the wire feigns to be the guest itself.
            self.stats.martians += 1;
            return;
        }
        let (iface, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        port.sent.watched = connection.is_ending;
        let set = connection.socket.set_mut();
        iface.poll_ingress_single(now, &mut port, set);
        connection.socket.note_segment(span);
        let mut sent = port.sent;
        let ends = connection.is_ending
            && heard.is_some_and(|heard| heard.is_end)
            && connection.awaits_last_acknowledgement()
            && segment::is_sound(&mut port, now);
        if let Some(marks) = sent.marks {
            connection.note_sent(marks);
        }
        if ends && let Some(heard) = heard {
            let (iface, nic) = (&mut self.iface, &mut *self.nic);
            sent.add(recovery::acknowledge_end(
                iface, nic, now, connection, heard,
            ));
        }
        if let Some(heard) = heard
            && connection.recovery.note_heard(now, heard) == Verdict::Missing
        {
            sent.add(recovery::resend(
                &mut self.iface,
                &mut *self.nic,
                now,
                connection,
            ));
        }
        if sent.frames > sent.aside {
            connection.note_transmitted(false);
        }
        if connection.note_received(span.bytes) && connection.wake(wakes) {
            connection.restart_silence(now);
            self.table.unsettled.note_heard(now, index);
            self.account_at(link, sent);
            return;
        }
        self.account_at(link, sent);
        self.settle(now, index, Cause::Ingress, wakes);
    }

    /// Whether the opening segment that has arrived is not a repetition of the
    /// one that began this half-open connection: the peer has forgotten that.
    #[cold]
    fn begins_anew(&mut self, now: Instant, link: Link, index: u32, span: Span) -> bool {
        let Some(connection) = self.table.get(index) else {
            return false;
        };
        let is_other = connection.link == link
            && matches!(connection.phase, Phase::HalfOpen(_))
            && connection.opened_by != Some(span.sequence);
        let (_, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        is_other && segment::is_sound(&mut port, now)
    }

    /// A segment for no connection; where one has been made for it.
    #[inline(never)]
    fn newcomer(
        &mut self,
        now: Instant,
        link: Link,
        (key, kind, span): (Key, Kind, Span),
    ) -> Option<u32> {
        if link == Link::Card {
            if !self.iface.has_ip_addr(key.local) {
                // Another host's, or a broadcast, which nobody may answer.
                self.stats.unsupported += 1;
                return None;
            }
            if self.iface.has_ip_addr(key.remote) {
                // Nobody else may send from there.
                self.stats.martians += 1;
                return None;
            }
        }
        let claim = self.claim(now, link, key);
        if claim == Claim::Done {
            return None;
        }
        if kind == Kind::Other {
            self.unclaimed(now, link);
            return None;
        }
        match self.admit(now, link, key) {
            Admission::Made(index) => {
                if let Some(connection) = self.table.get_mut(index) {
                    connection.opened_by = Some(span.sequence);
                }
                if claim == Claim::Reopens {
                    self.closing.remove(key);
                }
                Some(index)
            }
            Admission::Refused => None,
            Admission::Nobody => {
                self.unclaimed(now, link);
                None
            }
        }
    }

    /// A segment for no connection: smoltcp answers with a reset, but a flood
    /// shall not make a flood.
    fn unclaimed(&mut self, now: Instant, link: Link) {
        if self.ingress.resets.admits(now, RESET_LIMIT) {
            let sent = self.offer(now, link).frames;
            self.ingress.resets.spend(sent);
        } else {
            self.stats.resets_limited += 1;
        }
    }

    /// Makes a connection for a segment that opens one.
    fn admit(&mut self, now: Instant, link: Link, key: Key) -> Admission {
        let Some(listener) = self.listeners.on_port(key.local_port) else {
            return Admission::Nobody;
        };
        let Some(listening) = self.listeners.get_mut(listener) else {
            return Admission::Nobody;
        };
        if !listening.has_room() {
            self.stats.backlog_full += 1;
            return Admission::Refused;
        }
        if let Err(shortage) = self.admit_half_open() {
            shortage.count(&mut self.stats);
            return Admission::Refused;
        }
        let mut made = self.make_half_open(now, link, key, listener);
        if made.is_none() && (self.reclaim() || self.evict_half_open()) {
            made = self.make_half_open(now, link, key, listener);
        }
        match made {
            Some(index) => Admission::Made(index),
            None => {
                self.stats.out_of_memory += 1;
                Admission::Refused
            }
        }
    }

    fn make_half_open(
        &mut self,
        now: Instant,
        link: Link,
        key: Key,
        listener: ListenerId,
    ) -> Option<u32> {
        let listening = self.listeners.get_mut(listener)?;
        let (buffers, options) = (listening.options.buffers, listening.options.stream);
        let mut connection = Connection::new(
            now,
            key,
            Phase::HalfOpen(listener),
            buffers,
            options,
            self.budget,
        )
        .ok()?;
        connection.link = link;
        let endpoint = IpListenEndpoint {
            addr: Some(key.local.into()),
            port: key.local_port,
        };
        connection.tcp_mut().listen(endpoint).ok()?;
        let index = self.install(connection).ok()?;
        self.table.half_open.push(index);
        Some(index)
    }

    /// Has an echo request answered, now or when its sender's address is known.
    fn echo(&mut self, now: Instant, from: IpAddr, to: IpAddr) {
        if !self.ingress.echoes.admits(now, ECHO_LIMIT) {
            self.stats.echoes_limited += 1;
            return;
        }
        let sent = self.offer(now, Link::Card);
        self.ingress.echoes.spend(sent.frames);
        if sent.discovery > 0 {
            self.note_asked(now, from);
            self.hold(now);
        } else if sent.frames + sent.dropped == 0
            && self.addresses.is_own(to)
            && self.nic.split().0.front().is_some_and(is_intact)
        {
            // smoltcp would have asked, but had just asked for another.
            self.ask_neighbour(now, from);
            self.hold(now);
        }
    }

    /// Processes an ICMP message that is no echo request.
    fn icmp_arrived(&mut self, now: Instant, link: Link, message: Message, wakes: &mut Wakes) {
        match message {
            Message::EchoReply {
                remote,
                local,
                ident,
                len,
            } => self.echo_reply_arrived(now, link, (remote, local), (ident, len), wakes),
            Message::PortUnreachable { local, remote } => {
                if self.is_here(local.ip()) {
                    self.port_unreachable(local.port(), remote, wakes);
                }
            }
            Message::Other => self.drop_frame(Reason::Unsupported),
        }
    }

    /// Keeps a copy of a frame whose sender's address has just been asked for.
    fn hold(&mut self, now: Instant) {
        let held = &mut self.ingress.held;
        held.retain(|&(since, _)| now < since + HELD_FOR);
        let Some(frame) = self.nic.split().0.front() else {
            return;
        };
        let mut copy = Vec::new();
        if held.len() == MAX_HELD
            || held.try_reserve(1).is_err()
            || copy.try_reserve_exact(frame.len()).is_err()
        {
            return;
        }
        copy.extend_from_slice(frame);
        held.push((now, copy));
    }

    /// Processes the kept frames once more, now that an address has come; those
    /// that wait for another stay.
    fn replay(&mut self, now: Instant) {
        let mut held = core::mem::take(&mut self.ingress.held);
        held.retain(|(since, frame)| {
            if now >= *since + HELD_FOR {
                return false;
            }
            let mut port = Port::replaying(&mut *self.nic, frame);
            self.iface
                .poll_ingress_single(now, &mut port, &mut self.nobody);
            let sent = port.sent;
            self.account(sent);
            sent.frames == sent.aside
        });
        self.ingress.held = held;
    }
}

/// Polls smoltcp with one frame and one set; for the DHCP client.
pub(super) fn poll_set(state: &mut State, now: Instant, set: &mut SocketSet<'static>) {
    let mut port = Port::new(&mut *state.nic);
    state.iface.poll_ingress_single(now, &mut port, set);
    let sent = port.sent;
    state.account(sent);
}
