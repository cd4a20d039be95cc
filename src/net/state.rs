//! The stack's data, and how it moves: one lock, bounded steps.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smoltcp::iface::{self, Interface, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::EthernetAddress;

use super::Error;
use super::datagram::endpoints::Endpoints;
use super::deadlines::sooner;
use super::device::{Nic, Port, Room};
use super::dns::Dns;
use super::ingress;
use super::ip::addresses::Addresses;
use super::ip::carrier::Carrier;
use super::ip::dhcp::Dhcp;
use super::ip::discovery::Asked;
use super::ip::loopback::{self, Link, Loopback};
use super::ip::multicast::Groups;
use super::ip::{Config, Ipv4Source};
use super::limits::Limits;
use super::random::Random;
use super::rate::Rate;
use super::stats::Stats;
use super::tcp::closing::{Closing, Wait};
use super::tcp::connection::{Cause, Connection, Phase};
use super::tcp::listeners::{ListenerId, Listeners};
use super::tcp::port_order::PortOrder;
use super::tcp::recovery;
use super::tcp::ring::Budget;
use super::tcp::sweep::Sweep;
use super::tcp::table::Table;
use super::waiters::Waiters;
use super::wakes::Wakes;
use crate::arch;

/// How many frames, deadlines and connections one step works on. The stack is
/// locked for that long.
const STEP: usize = 16;

/// How many segments of one connection are sent before the next one's turn.
const EGRESS_BURST: usize = 16;

/// How long an orphan may take to close, even while its peer answers.
const ORPHAN_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// When a connection is looked at again that wants to send and did not.
const RETRY: Duration = Duration::from_millis(10);

/// Everything that the stack's lock guards.
pub(super) struct State {
    pub(super) nic: Box<dyn Nic>,
    pub(super) iface: Interface,
    /// The card's link.
    pub(super) link: Carrier,
    pub(super) loopback: Loopback,
    pub(super) table: Table,
    pub(super) closing: Closing,
    pub(super) listeners: Listeners,
    pub(super) endpoints: Endpoints,
    pub(super) dns: Dns,
    /// The memory of buffers.
    pub(super) budget: &'static Budget,
    pub(super) sweep: Sweep,
    pub(super) limits: Limits,
    pub(super) dhcp: Option<Dhcp>,
    /// The set for frames that concern no socket.
    pub(super) nobody: SocketSet<'static>,
    pub(super) ingress: ingress::Scratch,
    pub(super) addresses: Addresses,
    pub(super) groups: Groups,
    pub(super) asked: Asked,
    /// Who waits for an address.
    pub(super) unconfigured: Waiters,
    pub(super) random: Random,
    pub(super) port_order: PortOrder,
    /// The send queue was full.
    pub(super) blocked: bool,
    /// The network task knows that, and sleeps until there is room.
    blocked_is_known: bool,
    /// Answers that a datagram's port is unreachable.
    pub(super) unreachables: Rate,
    /// A call of the program left nothing to the network task.
    pub(super) unchanged: bool,
    /// Until when the network task sleeps.
    pub(super) asleep_until: Instant,
    pub(super) stats: Stats,
}

/// The time on smoltcp's scale.
pub(super) fn now() -> Instant {
    Instant::from_micros((arch::now().as_nanos() / 1_000) as i64)
}

impl State {
    pub(super) fn new(mut nic: Box<dyn Nic>, config: Config, seed: u64) -> Self {
        // Independent numbers of one seed, by splitmix64.
        let mut draws = seed;
        let mut draw = || {
            draws = draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (draws ^ draws >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let limits = config.limits.clamped();
        let mut interface = iface::Config::new(EthernetAddress(nic.mac()).into());
        interface.random_seed = draw();
        let mut port = Port::new(&mut *nic);
        let now = now();
        let iface = Interface::new(interface, &mut port, now);
        let addresses = Addresses::new(now, &config, nic.mac(), draw());
        let mut state = Self {
            nic,
            iface,
            link: Carrier::default(),
            loopback: Loopback::new(now, draw()),
            table: Table::new([draw(), draw()]),
            closing: Closing::new([draw(), draw()], limits.closing_records),
            listeners: Listeners::default(),
            endpoints: Endpoints::new(),
            dns: Dns::new(),
            // Stacks are never taken down.
            budget: Box::leak(Box::new(Budget::new(limits.buffer_bytes))),
            sweep: Sweep::default(),
            limits,
            dhcp: (config.ipv4 == Ipv4Source::Dhcp).then(Dhcp::new),
            nobody: SocketSet::new(Vec::new()),
            ingress: ingress::Scratch::default(),
            addresses,
            groups: Groups::default(),
            asked: Asked::new(),
            unconfigured: Waiters::new(),
            random: Random::new([draw(), draw()]),
            port_order: PortOrder::new([draw(), draw()]),
            blocked: false,
            blocked_is_known: false,
            unreachables: Rate::default(),
            unchanged: false,
            asleep_until: Instant::ZERO,
            stats: Stats::default(),
        };
        state.apply_addresses();
        state
    }

    /// One bounded step over everything that wants attention. Returns whether
    /// more of it wants attention now.
    pub(super) fn step(&mut self, now: Instant, wakes: &mut Wakes) -> bool {
        let mut frames = 0;
        while frames < STEP && wakes.has_room() {
            // An answer that finds no room would be lost: rather wait.
            self.blocked = self.nic.split().1.room() == Room::Full;
            if self.blocked || !self.receive(now, wakes) {
                break;
            }
            frames += 1;
        }
        for _ in 0..STEP {
            if !wakes.has_room() || !self.receive_own(now, wakes) {
                break;
            }
        }
        if !self.blocked {
            self.table.mark_stalled_dirty(STEP);
        }
        self.poll_link(now);
        self.poll_dhcp(now);
        self.poll_addresses(now);
        self.poll_groups(now);
        if !self.closing.is_empty() {
            self.closing.expire(now);
        }
        let trimming = self.trim_due(now, STEP);
        self.table.mark_due_dirty(now, STEP);
        for _ in 0..STEP {
            if !wakes.has_room() {
                break;
            }
            let Some(index) = self.table.unsettled.pop_due(now) else {
                break;
            };
            self.settle(now, index, Cause::Egress, wakes);
        }
        for _ in 0..self.table.dirty.len().min(STEP) {
            if !wakes.has_room() {
                break;
            }
            if let Some(index) = self.table.dirty.pop() {
                let link = self.table.get(index).map(|connection| connection.link);
                if self.blocked && link == Some(Link::Card) {
                    self.table.stalled.push(index);
                } else {
                    self.egress(now, index, wakes);
                }
            }
        }
        if !self.endpoints.is_empty() {
            self.step_endpoints(now, STEP, wakes);
        }
        self.nic.flush();
        self.blocked_is_known = self.blocked;
        let next = sooner(self.table.earliest(), self.endpoints.deadlines.earliest());
        let due = next.is_some_and(|at| at <= now);
        let card = frames == STEP || self.is_stalled();
        due || trimming || self.has_unsent() || (card && !self.blocked)
    }

    /// When the network task wants to run again although nothing happens.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let mut at = self.table.earliest();
        at = sooner(at, self.dhcp.as_ref().and_then(Dhcp::deadline));
        at = sooner(at, self.addresses.deadline());
        at = sooner(at, self.groups.deadline());
        at = sooner(at, self.endpoints.deadlines.earliest());
        if !self.closing.is_empty() {
            at = sooner(at, self.closing.deadline());
        }
        at
    }

    /// Whether something can be sent, or is on its way to the guest itself.
    fn has_unsent(&self) -> bool {
        !self.table.dirty.is_empty()
            || !self.endpoints.dirty.is_empty()
            || self.loopback.is_waiting()
    }

    /// Whether something waits for room in the card's send queue.
    fn is_stalled(&self) -> bool {
        !self.table.stalled.is_empty() || !self.endpoints.stalled.is_empty()
    }

    /// Whether the program's doings left something for the network task.
    pub(super) fn wants_task(&self) -> bool {
        self.has_unsent()
            || (self.is_stalled() && !self.blocked_is_known)
            || self
                .next_deadline()
                .is_some_and(|deadline| deadline < self.asleep_until)
    }

    /// Sends what a connection has to send. Returns whether that leaves it among
    /// the [`Unsettled`](super::tcp::unsettled::Unsettled), with nothing else
    /// changed.
    pub(super) fn egress(&mut self, now: Instant, index: u32, wakes: &mut Wakes) -> bool {
        let Some(connection) = self.table.get_mut(index) else {
            return false;
        };
        if connection.is_paused() {
            return false;
        }
        let link = connection.link;
        let given_up = connection.orphan_until.is_some_and(|end| end <= now);
        if given_up {
            connection.tcp_mut().abort();
        }
        let mut all = recovery::probe(&mut self.iface, &mut *self.nic, now, connection);
        let mut exhausted = false;
        // smoltcp ends a connection whose address is gone, but does not ask to.
        let lost = !connection.has_address;
        if lost && link == Link::Loopback {
            connection.tcp_mut().abort();
        }
        let iface = loopback::interface(link, &mut self.iface, &mut self.loopback);
        let wanted = lost || is_due(iface, now, connection);
        let mut all_sent = false;
        if wanted {
            for _ in 0..EGRESS_BURST {
                let (iface, mut port) =
                    loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
                port.sent.watched = connection.is_ending;
                let set = connection.socket.set_mut();
                let result = iface.poll_egress(now, &mut port, set);
                if let Some(marks) = port.sent.marks {
                    connection.note_sent(marks);
                }
                exhausted |= port.exhausted;
                if let Some(end) = port.sent.end {
                    all_sent = end.pushes;
                    if link != Link::Loopback {
                        connection.recovery.note_sent(now, end.sequence);
                    }
                }
                all.add(port.sent);
                if all_sent || result == iface::PollResult::None {
                    break;
                }
            }
        }
        let has_sent = all.frames > all.aside;
        let is_steady = has_sent && connection.note_transmitted(all_sent && !exhausted);
        match link {
            Link::Card => {
                self.stats.frames_sent += all.frames;
                self.blocked |= exhausted;
            }
            Link::Loopback => self.stats.loopback_packets += all.frames,
        }
        if has_sent {
            self.table.waiting.remove(index);
        }
        if is_steady {
            self.table.unsettled.note_sent(now, index);
            return true;
        }
        let stuck = wanted && all.frames == all.aside && !exhausted;
        self.settle(now, index, Cause::Egress, wakes);
        let Some(connection) = self.table.get(index) else {
            return false;
        };
        let remote = connection.key.remote;
        let closed = connection.tcp().state() == tcp::State::Closed;
        if given_up || (stuck && closed && !connection.phase.is_owned()) {
            // Its reset has left, or will never find the way.
            self.discard(index);
            return false;
        }
        if exhausted && link == Link::Card && self.table.dirty.remove(index) {
            self.table.stalled.push(index);
        }
        if stuck && link == Link::Card {
            // It waits for a neighbour's address. Should it still say that it
            // wants to send now, then not in a loop.
            self.table.waiting.push(index);
            if all.discovery > 0 {
                self.note_asked(now, remote);
            } else {
                self.ask_neighbour(now, remote);
            }
            if self.table.dirty.remove(index) {
                self.table.deadlines.set(index, Some(now + RETRY));
            }
        }
        false
    }

    /// Draws the conclusions from whatever happened to a connection.
    pub(super) fn settle(&mut self, now: Instant, index: u32, cause: Cause, wakes: &mut Wakes) {
        use tcp::State::*;
        let Some(connection) = self.table.get_mut(index) else {
            return;
        };
        let state = connection.tcp().state();
        let established = !matches!(state, Closed | Listen | SynSent | SynReceived);
        match connection.phase {
            Phase::HalfOpen(listener) if established => {
                let queued = self.promote(index, listener);
                if !queued {
                    return self.abort(now, index, wakes);
                }
            }
            Phase::HalfOpen(_) if state != SynReceived => {
                *match cause {
                    Cause::Egress => &mut self.stats.half_open_expired,
                    Cause::Ingress if connection.last_state == SynReceived => {
                        &mut self.stats.half_open_reset
                    }
                    // smoltcp did not take the opening segment.
                    Cause::Ingress => &mut self.stats.malformed,
                } += 1;
                return self.discard(index);
            }
            Phase::Queued(_) if state == Closed => return self.discard(index),
            Phase::Connecting if established => {
                connection.phase = Phase::Open;
                self.stats.connected += 1;
            }
            Phase::Orphan if state != Closed && connection.tcp().can_recv() => {
                // Nobody will ever read it, which the peer must know.
                connection.tcp_mut().abort();
            }
            _ => {}
        }
        let Some(connection) = self.table.get_mut(index) else {
            return;
        };
        connection.note_end(cause);
        if cause == Cause::Ingress {
            connection.restart_silence(now);
        }
        connection.update_timeout(now);
        if !connection.wake(wakes) {
            self.table.dirty.push(index);
        }
        self.retire(now, index);
    }

    /// Lets go of a connection that has ended, and notes when one that has not
    /// wants to be looked at again.
    fn retire(&mut self, now: Instant, index: u32) {
        let Some(connection) = self.table.get(index) else {
            return;
        };
        if connection.is_finished() {
            if !connection.phase.is_owned() {
                return self.discard(index);
            }
            self.table.unindex(index);
        }
        self.schedule(now, index);
    }

    /// Notes when a connection wants to be looked at, unless a record can do
    /// what is left to do.
    fn schedule(&mut self, now: Instant, index: u32) {
        self.table.unsettled.remove(index);
        let Some(connection) = self.table.get_mut(index) else {
            return;
        };
        let at = if connection.is_paused() {
            None
        } else {
            let iface = loopback::interface(connection.link, &mut self.iface, &mut self.loopback);
            let socket = iface.poll_at(now, connection.socket.set());
            if connection.phase == Phase::Orphan
                && let Some((wait, marks)) = connection.remains(now, socket)
            {
                return self.shrink(now, index, wait, marks);
            }
            let others = [connection.orphan_until, connection.recovery.deadline()];
            socket.into_iter().chain(others.into_iter().flatten()).min()
        };
        if at.is_some_and(|at| at <= now) {
            self.table.dirty.push(index);
            self.table.deadlines.set(index, None);
        } else {
            self.table.deadlines.set(index, at);
        }
    }

    /// Moves an established connection from the half-open ones to the queue of
    /// its listener.
    fn promote(&mut self, index: u32, listener: ListenerId) -> bool {
        self.table.half_open.remove(index);
        if let Some(connection) = self.table.get_mut(index) {
            connection.phase = Phase::Queued(listener);
        }
        self.listeners
            .enqueue(listener, &mut self.table.queued, index)
    }

    /// Takes a connection in.
    pub(super) fn install(&mut self, connection: Connection) -> Result<u32, Error> {
        self.table.insert(connection)
    }

    /// Drops a connection without a word to the peer. Nobody owns it, so it
    /// holds no waker.
    pub(super) fn discard(&mut self, index: u32) {
        let Some(connection) = self.table.get(index) else {
            return;
        };
        if let Phase::Queued(listener) = connection.phase {
            self.listeners
                .dequeue(listener, &mut self.table.queued, index);
        }
        self.table.remove(index);
    }

    /// Makes a connection that no stream owns any more close in the background.
    pub(super) fn orphan(&mut self, now: Instant, index: u32) {
        if let Some(connection) = self.table.get_mut(index) {
            let linger = connection.options.linger.map(Into::into);
            let lifetime = linger.map_or(ORPHAN_LIFETIME, |linger: Duration| {
                linger.min(ORPHAN_LIFETIME)
            });
            connection.phase = Phase::Orphan;
            connection.orphan_until = Some(now + lifetime);
            self.note_orphan(index);
        }
    }

    /// Resets a connection that no stream owns.
    pub(super) fn abort(&mut self, now: Instant, index: u32, wakes: &mut Wakes) {
        self.table.half_open.remove(index);
        self.orphan(now, index);
        if let Some(connection) = self.table.get_mut(index) {
            connection.tcp_mut().abort();
            self.egress(now, index, wakes);
        }
    }

    /// The counters.
    pub(super) fn stats(&self) -> Stats {
        let (socket_bytes, table_bytes) = self.table.memory_bytes();
        Stats {
            sockets: self.table.len(),
            datagram_sockets: self.endpoints.len(),
            half_open: self.table.half_open.len(),
            orphans: self.table.orphans.len(),
            closing: self.closing.len(),
            time_wait: self.closing.len_of(Wait::Time),
            loopback_lost: self.loopback.lost(),
            card_faults: self.nic.faults(),
            socket_bytes,
            buffer_bytes: self.budget.used_bytes(),
            buffer_bytes_most: self.budget.most_bytes(),
            table_bytes,
            ..self.stats
        }
    }
}

/// Whether smoltcp wants to do something for a connection now.
fn is_due(iface: &mut Interface, now: Instant, connection: &Connection) -> bool {
    iface
        .poll_at(now, connection.socket.set())
        .is_some_and(|at| at <= now)
}
