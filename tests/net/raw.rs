//! One end of a connection by hand: it sends the segments that a test wants,
//! and no others.

use firstpoll::arch::host;
use firstpoll::block_on;
use firstpoll::net::{TcpListener, TcpStream};
use firstpoll::time::Duration;
use smoltcp::wire::{ArpOperation, TcpControl, TcpRepr, TcpSeqNumber};

use crate::frames::{Sent, arp, look, tcp};
use crate::peer::{PEER_IP, PEER_MAC, Peer, STACK_IP};
use crate::wire::Wire;

/// Time in which the stack answers what it does not repeat.
const AT_ONCE: Duration = Duration::from_millis(5);

pub struct Raw {
    wire: Wire,
    ports: (u16, u16),
    /// The sequence number of what comes next.
    pub seq: TcpSeqNumber,
    /// The sequence number of what the stack sends next.
    pub theirs: TcpSeqNumber,
}

impl Raw {
    /// An end at the port `from` of the far host, whose own stack is silent
    /// unless it is polled.
    pub fn new(peer: &Peer, from: u16, to: u16, seq: i32) -> Self {
        let wire = peer.wire.clone();
        wire.send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        host::advance(AT_ONCE);
        while wire.receive().is_some() {}
        Self {
            wire,
            ports: (from, to),
            seq: TcpSeqNumber(seq),
            theirs: TcpSeqNumber(0),
        }
    }

    /// The ends of a connection that this one has opened.
    pub fn open(peer: &Peer, listener: &TcpListener, from: u16, seq: i32) -> (Self, TcpStream) {
        let mut raw = Self::new(peer, from, listener.port(), seq);
        raw.handshake();
        let stream = block_on(listener.accept()).unwrap();
        (raw, stream)
    }

    /// Opens a connection.
    pub fn handshake(&mut self) {
        self.begin();
        assert_eq!(self.send(TcpControl::None, b""), []);
    }

    /// Sends an opening segment and awaits the answer.
    pub fn begin(&mut self) {
        self.opening(self.seq);
        let [answer] = &self.answers()[..] else {
            panic!("no answer, or more than one");
        };
        let &Sent::Tcp { seq, ack, syn, .. } = answer else {
            panic!("{answer:?}");
        };
        self.seq += 1;
        assert!(syn && ack == self.seq, "{answer:?}");
        self.theirs = seq + 1;
    }

    /// Sends an opening segment.
    pub fn opening(&self, seq: TcpSeqNumber) {
        self.put(TcpControl::Syn, seq, None, b"");
    }

    /// Sends the next segment; returns what comes back at once.
    pub fn send(&mut self, control: TcpControl, payload: &[u8]) -> Vec<Sent> {
        let answers = self.send_at(self.seq, control, payload);
        self.seq += payload.len() + control.len();
        answers
    }

    /// Sends a segment from elsewhere in the stream; returns what comes back at
    /// once.
    pub fn send_at(&self, seq: TcpSeqNumber, control: TcpControl, payload: &[u8]) -> Vec<Sent> {
        self.put(control, seq, Some(self.theirs), payload);
        self.answers()
    }

    /// Sends data, and does not wait.
    pub fn put_next(&mut self, payload: &[u8]) {
        self.put_at(self.seq, payload);
        self.seq += payload.len();
    }

    /// Sends data from elsewhere in the stream, and does not wait.
    pub fn put_at(&self, seq: TcpSeqNumber, payload: &[u8]) {
        self.put(TcpControl::Psh, seq, Some(self.theirs), payload);
    }

    fn put(
        &self,
        control: TcpControl,
        seq: TcpSeqNumber,
        ack: Option<TcpSeqNumber>,
        payload: &[u8],
    ) {
        let repr = TcpRepr {
            src_port: self.ports.0,
            dst_port: self.ports.1,
            control,
            seq_number: seq,
            ack_number: ack,
            window_len: 60_000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        self.wire.send(tcp(STACK_IP, PEER_IP, &repr));
    }

    /// Has the stack's card say that it has frames to send yet.
    pub fn set_slow(&self) {
        self.wire.set_slow();
    }

    /// A frame that the stack has sent.
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.wire.receive()
    }

    /// What the stack has sent, a moment later.
    pub fn answers(&self) -> Vec<Sent> {
        host::advance(AT_ONCE);
        std::iter::from_fn(|| self.wire.receive())
            .map(|frame| look(&frame))
            .collect()
    }

    /// What the stack sends to acknowledge all that was sent.
    pub fn acknowledgement(&self) -> Sent {
        self.segment(false, false)
    }

    /// What it sends to end its stream.
    pub fn end(&self) -> Sent {
        self.segment(false, true)
    }

    /// What it sends to reset the connection.
    pub fn reset(&self) -> Sent {
        self.segment(true, false)
    }

    fn segment(&self, rst: bool, fin: bool) -> Sent {
        Sent::Tcp {
            to: PEER_IP,
            to_port: self.ports.0,
            syn: false,
            rst,
            fin,
            seq: self.theirs,
            ack: self.seq,
            len: 0,
        }
    }
}
