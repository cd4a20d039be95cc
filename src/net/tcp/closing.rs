//! What is left of a connection that nobody owns and that has only to wait: a
//! record that answers for it, in place of a socket with its buffers.
//!
//! ```text
//!   FIN acknowledged ──→ FIN-WAIT-2 ── FIN ──→ TIME-WAIT ── 10 s ──→ gone
//!                          │ 60 s, reset, data: gone  │ SYN: a new connection
//! ```
//!
//! The states and answers are those of RFC 9293 §3.10.7.4, with the resets of
//! RFC 1337, the challenges of RFC 5961 and the second life of RFC 6191. There
//! are no timestamps, so that last goes by sequence numbers alone; that the new
//! connection's own number is higher than the old one's (RFC 9293 §3.4.1) is
//! left to chance, as smoltcp draws it.
//!
//! In two points a new connection gets more than those give it. As late counts
//! only a number of the old connection's own, not one of half of all. Stacks of
//! BSD's descent go on by 64,000 for each connection, so that with thousands a
//! second the numbers have gone all around before TIME-WAIT is over. That late
//! segments are not taken for the new connection's does not hang on this: they
//! would have to acknowledge what it has just sent, whose numbers are drawn at
//! random. And a peer whose opening segment was challenged may reset the record,
//! as it may reset a connection: it has forgotten the old one.

use alloc::vec::Vec;

use hashbrown::HashTable;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};

use super::segment::{Answer, Marks, reply};
use crate::net::frame::Key;
use crate::net::index_list::{Chain, Links, Rehash};
use crate::net::ip::loopback::{self, Link};
use crate::net::rate::Rate;
use crate::net::state::State;

/// How long a peer may take to close its side after ours, which nobody reads
/// any more.
const FIN_WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long late segments are waited for. Short of the two maximum segment
/// lifetimes of RFC 9293 (4 min): as long as smoltcp does.
const TIME_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How late the memory of a record may be given back, so that many are at once.
const EXPIRY_SLACK: Duration = Duration::from_secs(1);

/// How many records that have expired one step gives back.
const EXPIRY_STEP: usize = 64;

/// How many challenges may be sent per 100 ms (RFC 5961 §7).
const CHALLENGE_LIMIT: u32 = 100;

/// For how many records there is memory even if there are none.
const KEPT_PLACES: usize = 128;

/// What a connection waits for of which a record is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Wait {
    /// The peer's FIN, in FIN-WAIT-2.
    Fin,
    /// Late segments, in TIME-WAIT.
    Time,
}

/// What is left of a connection.
#[derive(Clone, Copy, Debug)]
struct Record {
    key: Key,
    wait: Wait,
    /// The sequence number behind our FIN.
    sent: TcpSeqNumber,
    /// The sequence number with which the peer's stream began, if it opened the
    /// connection; else somewhere in it.
    began: TcpSeqNumber,
    /// The sequence number that is awaited from the peer.
    awaited: TcpSeqNumber,
    /// An opening segment was challenged: the peer may know nothing of this.
    is_doubted: bool,
    expires_at: Instant,
}

/// The records, by key.
pub(in crate::net) struct Closing {
    records: Vec<Record>,
    index: HashTable<u32>,
    secret: [u64; 2],
    links: Links,
    /// Those that wait for the same, in the order in which they expire.
    chains: [Chain; 2],
    /// Places without a record.
    free: Chain,
    limit: usize,
    challenges: Rate,
}

/// What a segment does to the record that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Keeps,
    /// The peer may have forgotten the connection: its reset counts.
    Doubts,
    /// It is the end of the peer's stream: TIME-WAIT begins, or begins again.
    Waits(TcpSeqNumber),
    /// It ends the record.
    Ends,
    /// It may open another connection in its place.
    Reopens,
}

/// What is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    Silence,
    /// What the peer needs to go on.
    Ack,
    /// An acknowledgement that two confused ends could send back and forth for
    /// ever, or a flood could ask for.
    Challenge,
    Reset,
}

/// What has become of a segment that may concern a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Claim {
    /// It did, and is done with.
    Done,
    /// It may open a connection in place of the record.
    Reopens,
    /// It did not.
    None,
}

impl Record {
    /// Whether the number of an opening segment is one of the connection's own: of
    /// a late duplicate of its first, most of all.
    fn is_late(&self, begin: TcpSeqNumber) -> bool {
        let behind = |number: TcpSeqNumber| self.awaited.0.wrapping_sub(number.0) as u32;
        behind(begin) <= behind(self.began)
    }

    /// Whether a segment belongs to the old connection, and what follows.
    fn judge(&self, segment: &TcpRepr<'_>) -> (Effect, Response) {
        use Effect::*;
        use Response::*;
        let begin = segment.seq_number;
        match segment.control {
            // RFC 1337: a late reset must not end TIME-WAIT.
            TcpControl::Rst if self.wait == Wait::Time && !self.is_doubted => {
                return (Keeps, Silence);
            }
            TcpControl::Rst if begin == self.awaited => return (Ends, Silence),
            TcpControl::Rst if begin < self.awaited => return (Keeps, Silence),
            TcpControl::Rst => return (Keeps, Challenge),
            // RFC 6191 §2: only a late duplicate has an older number.
            TcpControl::Syn
                if self.wait == Wait::Time
                    && segment.ack_number.is_none()
                    && !self.is_late(begin) =>
            {
                return (Reopens, Silence);
            }
            TcpControl::Syn => return (Doubts, Challenge),
            TcpControl::None | TcpControl::Psh | TcpControl::Fin => {}
        }
        let Some(ack) = segment.ack_number else {
            return (Keeps, Silence);
        };
        if ack > self.sent {
            return (Keeps, Challenge);
        }
        let end = begin + segment.payload.len();
        let ends_stream = segment.control == TcpControl::Fin;
        if begin <= self.awaited && end > self.awaited && self.wait == Wait::Fin {
            // Data that nobody will ever read, which the peer must know.
            (Ends, Reset)
        } else if ends_stream && end == self.awaited {
            (Waits(end + 1), Ack)
        } else if ends_stream && end + 1 == self.awaited && self.wait == Wait::Time {
            (Waits(self.awaited), Challenge)
        } else if begin == self.awaited && end == begin {
            (Keeps, Silence)
        } else {
            // Late, or something before it got lost.
            (Keeps, Challenge)
        }
    }
}

impl Closing {
    /// No records, and place for `limit`.
    pub(in crate::net) fn new(secret: [u64; 2], limit: usize) -> Self {
        Self {
            records: Vec::new(),
            index: HashTable::new(),
            secret,
            links: Links::new(),
            chains: [Chain::new(), Chain::new()],
            free: Chain::new(),
            limit,
            challenges: Rate::default(),
        }
    }

    pub(in crate::net) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many records there are.
    pub(in crate::net) fn len(&self) -> usize {
        self.chains.iter().map(Chain::len).sum()
    }

    /// How many of them wait for this.
    pub(in crate::net) fn len_of(&self, wait: Wait) -> usize {
        self.chains[wait as usize].len()
    }

    /// What the connection between the ends of `key` waits for, if a record of
    /// it is left.
    pub(super) fn find(&self, now: Instant, key: Key) -> Option<Wait> {
        self.live(now, key)
            .map(|position| self.records[position as usize].wait)
    }

    /// Records what is left of a connection; returns whether an older record
    /// had to give way.
    ///
    /// `began` is the number with which the peer opened the connection, if it did.
    /// Without memory there is no record, and late segments are answered with a
    /// reset.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        key: Key,
        wait: Wait,
        began: Option<u32>,
        marks: Marks,
    ) -> bool {
        self.remove(key);
        let evicted = self.len() >= self.limit && self.evict();
        let record = Record {
            key,
            wait,
            sent: marks.end,
            began: began.map_or(marks.ack, |began| TcpSeqNumber(began as i32)),
            awaited: marks.ack,
            is_doubted: false,
            expires_at: Instant::ZERO,
        };
        let Some(position) = self.place(record) else {
            return evicted;
        };
        let (records, secret) = (&self.records, self.secret);
        let rehash: Rehash<'_> = &|&position| records[position as usize].key.hash(secret);
        let hash = key.hash(secret);
        self.index.insert_unique(hash, position, rehash);
        self.begin_wait(now, position, wait);
        evicted
    }

    /// Lets go of the record of `key`.
    pub(in crate::net) fn remove(&mut self, key: Key) {
        if let Some(position) = self.position(key) {
            self.remove_at(position);
        }
    }

    /// Lets go of records that have expired, boundedly many.
    #[inline(never)]
    pub(in crate::net) fn expire(&mut self, now: Instant) {
        for _ in 0..EXPIRY_STEP {
            let mut firsts = self.chains.iter().filter_map(Chain::first);
            let due = firsts.find(|&position| self.records[position as usize].expires_at <= now);
            let Some(position) = due else {
                break;
            };
            self.remove_at(position);
        }
        if self.is_empty() && self.records.len() > KEPT_PLACES {
            self.give_back();
        }
    }

    /// When records want to be let go of.
    #[inline(never)]
    pub(in crate::net) fn deadline(&self) -> Option<Instant> {
        let firsts = self.chains.iter().filter_map(Chain::first);
        firsts
            .map(|position| self.records[position as usize].expires_at + EXPIRY_SLACK)
            .min()
    }

    /// Lets go of the oldest record of those of which there are many, so that
    /// neither kind can crowd the other out.
    fn evict(&mut self) -> bool {
        let [fin, time] = &self.chains;
        let chain = if fin.len() > self.limit / 2 {
            fin
        } else {
            time
        };
        let oldest = chain.first().or(fin.first());
        if let Some(oldest) = oldest {
            self.remove_at(oldest);
        }
        oldest.is_some()
    }

    /// Gives back the memory that many records have taken; there are none.
    #[cold]
    fn give_back(&mut self) {
        self.records = Vec::new();
        self.index = HashTable::new();
        self.links = Links::new();
        self.free = Chain::new();
    }

    fn position(&self, key: Key) -> Option<u32> {
        let is_its = |&position: &u32| self.records[position as usize].key == key;
        self.index.find(key.hash(self.secret), is_its).copied()
    }

    /// Where a record is that has not expired.
    fn live(&self, now: Instant, key: Key) -> Option<u32> {
        self.position(key)
            .filter(|&position| now < self.records[position as usize].expires_at)
    }

    /// Puts a record into a free place, and makes sure that there is place for
    /// it everywhere.
    fn place(&mut self, record: Record) -> Option<u32> {
        let (records, secret) = (&self.records, self.secret);
        let rehash: Rehash<'_> = &|&position| records[position as usize].key.hash(secret);
        self.index.try_reserve(1, rehash).ok()?;
        if let Some(position) = self.free.pop(&mut self.links) {
            self.records[position as usize] = record;
            return Some(position);
        }
        let position = self.records.len();
        self.links.grow(position + 1).ok()?;
        self.records.try_reserve(1).ok()?;
        self.records.push(record);
        Some(position as u32)
    }

    /// Begins the wait of a record, or begins it again.
    fn begin_wait(&mut self, now: Instant, position: u32, wait: Wait) {
        let record = &mut self.records[position as usize];
        self.chains[record.wait as usize].remove(&mut self.links, position);
        record.wait = wait;
        record.expires_at = now
            + match wait {
                Wait::Fin => FIN_WAIT_TIMEOUT,
                Wait::Time => TIME_WAIT_TIMEOUT,
            };
        self.chains[wait as usize].push(&mut self.links, position);
    }

    fn remove_at(&mut self, position: u32) {
        let Record { key, wait, .. } = self.records[position as usize];
        let hash = key.hash(self.secret);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == position) {
            entry.remove();
        }
        self.chains[wait as usize].remove(&mut self.links, position);
        self.free.push(&mut self.links, position);
    }
}

impl State {
    /// Leaves a record in place of a connection that has only to wait.
    #[inline(never)]
    pub(in crate::net) fn shrink(&mut self, now: Instant, index: u32, wait: Wait, marks: Marks) {
        let Some(connection) = self.table.get(index) else {
            return;
        };
        let (key, began) = (connection.key, connection.opened_by);
        self.discard(index);
        let evicted = self.closing.insert(now, key, wait, began, marks);
        self.stats.closing_evicted += u64::from(evicted);
    }

    /// Shows the segment that has arrived to the record that it may concern.
    #[inline(never)]
    pub(in crate::net) fn claim(&mut self, now: Instant, link: Link, key: Key) -> Claim {
        let closing = &mut self.closing;
        let Some(position) = closing.live(now, key) else {
            return Claim::None;
        };
        let record = closing.records[position as usize];
        let (_, mut port) =
            loopback::open(link, &mut self.iface, &mut *self.nic, &mut self.loopback);
        let mut effect = Effect::Keeps;
        reply(&mut port, now, |segment| {
            let (what, response) = record.judge(segment);
            effect = what;
            if response == Response::Challenge {
                if !closing.challenges.admits(now, CHALLENGE_LIMIT) {
                    self.stats.challenges_limited += 1;
                    return None;
                }
                closing.challenges.spend(1);
            }
            let answer = |control| Answer {
                control,
                seq: record.sent,
                ack: match what {
                    Effect::Waits(awaited) => awaited,
                    _ => record.awaited,
                },
            };
            match response {
                Response::Silence => None,
                Response::Ack | Response::Challenge => Some(answer(TcpControl::None)),
                Response::Reset => Some(answer(TcpControl::Rst)),
            }
        });
        let sent = port.sent;
        match effect {
            Effect::Keeps | Effect::Reopens => {}
            Effect::Doubts => closing.records[position as usize].is_doubted = true,
            Effect::Waits(awaited) => {
                closing.records[position as usize].awaited = awaited;
                closing.begin_wait(now, position, Wait::Time);
            }
            Effect::Ends => closing.remove_at(position),
        }
        self.account_at(link, sent);
        if effect == Effect::Reopens {
            Claim::Reopens
        } else {
            Claim::Done
        }
    }
}

#[cfg(test)]
mod tests;
