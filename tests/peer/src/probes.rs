//! Exchanges made by hand, whose answers are timed: pings and handshakes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};

use crate::frame::{self, Host, Parsed};

/// The identifier of our echo requests.
const IDENT: u16 = 0x6670;

/// Handshakes come from these ports, which no other connection of ours uses.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 39_999;

/// All probes that were sent, with their answers.
#[derive(Debug)]
pub(crate) struct Probes {
    pings: HashMap<(IpAddr, u16), Timed>,
    handshakes: HashMap<u16, Handshake>,
    next_port: u16,
    next_initial: TcpSeqNumber,
}

/// When something was sent, and when it was answered.
#[derive(Clone, Copy, Debug)]
struct Timed {
    sent: Duration,
    answered: Option<Duration>,
}

impl Timed {
    fn at(now: Duration) -> Self {
        Self {
            sent: now,
            answered: None,
        }
    }

    /// The first answer counts.
    fn answer(&mut self, now: Duration) {
        self.answered.get_or_insert(now);
    }

    fn round_trip(self) -> Option<Duration> {
        self.answered.map(|answered| answered - self.sent)
    }
}

#[derive(Debug)]
struct Handshake {
    from: Host<IpAddr>,
    to: Host<IpAddr>,
    port: u16,
    initial: TcpSeqNumber,
    timed: Timed,
    /// What the other side expects to be acknowledged.
    acknowledge: Option<TcpSeqNumber>,
    /// The other side wants nothing of it, or no more.
    reset: bool,
}

impl Handshake {
    fn frame(&self, local_port: u16, control: TcpControl) -> Vec<u8> {
        let segment = TcpRepr {
            seq_number: self.initial + 1,
            ack_number: self.acknowledge,
            ..frame::segment(local_port, self.port, control)
        };
        frame::tcp(self.from, self.to, &segment)
    }
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            pings: HashMap::new(),
            handshakes: HashMap::new(),
            next_port: FIRST_PORT,
            next_initial: TcpSeqNumber(1),
        }
    }
}

impl Probes {
    /// Makes an echo request.
    pub(crate) fn ping(
        &mut self,
        from: Host<IpAddr>,
        to: Host<IpAddr>,
        seq: u16,
        now: Duration,
    ) -> Vec<u8> {
        self.pings.insert((to.ip, seq), Timed::at(now));
        frame::echo_request(from, to, IDENT, seq, &[b'p'; 56])
    }

    /// How long the answer took, once it is there.
    pub(crate) fn take_pong(&mut self, ip: IpAddr, seq: u16) -> Option<Duration> {
        let round_trip = self.pings.get(&(ip, seq))?.round_trip()?;
        self.pings.remove(&(ip, seq));
        Some(round_trip)
    }

    /// Makes a SYN for a port of `to` from a port of ours, which is returned.
    pub(crate) fn syn(
        &mut self,
        from: Host<IpAddr>,
        to: Host<IpAddr>,
        port: u16,
        now: Duration,
    ) -> (u16, Vec<u8>) {
        let local_port = self.free_port();
        let handshake = Handshake {
            from,
            to,
            port,
            initial: self.next_initial,
            timed: Timed::at(now),
            acknowledge: None,
            reset: false,
        };
        // A port that is used again must have a later number (RFC 6191).
        self.next_initial += 1 << 16;
        let syn = TcpRepr {
            seq_number: handshake.initial,
            ack_number: None,
            max_seg_size: Some(1460),
            ..frame::segment(local_port, port, TcpControl::Syn)
        };
        self.handshakes.insert(local_port, handshake);
        (local_port, frame::tcp(from, to, &syn))
    }

    /// How long the SYN from `local_port` waited for its answer, once that is
    /// there.
    pub(crate) fn answered(&self, local_port: u16) -> Option<Duration> {
        self.handshakes.get(&local_port)?.timed.round_trip()
    }

    /// Whether the other side has reset a handshake.
    pub(crate) fn was_reset(&self, local_port: u16) -> bool {
        let handshake = self.handshakes.get(&local_port);
        handshake.is_some_and(|handshake| handshake.reset)
    }

    /// Forgets a handshake; returns the reset that makes the other side forget
    /// it too.
    pub(crate) fn forget(&mut self, local_port: u16) -> Option<Vec<u8>> {
        let handshake = self.handshakes.remove(&local_port)?;
        handshake.acknowledge?;
        Some(handshake.frame(local_port, TcpControl::Rst))
    }

    /// Looks at what came in: whether it belongs to a probe, and what to send
    /// then.
    pub(crate) fn receive(
        &mut self,
        parsed: &Parsed<'_>,
        now: Duration,
    ) -> Option<Option<Vec<u8>>> {
        match parsed {
            Parsed::EchoReply {
                from,
                ident: IDENT,
                seq_no,
                ..
            } => {
                self.pings.get_mut(&(from.ip, *seq_no))?.answer(now);
                Some(None)
            }
            Parsed::Tcp { from, segment, .. } => {
                let handshake = self.handshakes.get_mut(&segment.dst_port)?;
                if (from.ip, segment.src_port) != (handshake.to.ip, handshake.port) {
                    return None;
                }
                handshake.reset |= segment.control == TcpControl::Rst;
                if segment.control != TcpControl::Syn
                    || segment.ack_number != Some(handshake.initial + 1)
                {
                    return Some(None);
                }
                handshake.timed.answer(now);
                handshake.acknowledge = Some(segment.seq_number + 1);
                Some(Some(handshake.frame(segment.dst_port, TcpControl::None)))
            }
            _ => None,
        }
    }

    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = if port == LAST_PORT {
                FIRST_PORT
            } else {
                port + 1
            };
            if !self.handshakes.contains_key(&port) {
                return port;
            }
        }
    }
}
