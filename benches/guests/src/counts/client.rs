//! A client made of frames that are prepared before they are counted.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress,
    IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

pub const STACK_MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
pub const STACK_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub const STACK_PORT: u16 = 80;

/// A neighbour, by whom those that are further away come, too.
const CLIENT_MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];
pub const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// The first of the addresses beyond the gateway.
const FIRST_BEYOND: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);

/// As wrk sends it.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 10.0.2.15\r\n\r\n";

/// A frame that lives for ever, so that the card can hand it on as it is.
pub type Frame = &'static [u8];

/// The bytes of all frames so far, which live for ever in the stack's memory.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// How much of the allocated memory is the clients' frames.
pub fn kept_bytes() -> usize {
    KEPT_BYTES.load(Relaxed)
}

/// A place to connect from that no other `number` has, beyond the gateway.
pub fn beyond(number: usize) -> SocketAddrV4 {
    let ip = Ipv4Addr::from_bits(FIRST_BEYOND.to_bits() + number as u32);
    SocketAddrV4::new(ip, 40_000)
}

/// One connection.
pub struct Client {
    from: SocketAddrV4,
    seq: TcpSeqNumber,
    ack: TcpSeqNumber,
}

impl Client {
    /// A connection from `from`, and its first frame.
    pub fn connect(from: SocketAddrV4) -> (Self, Frame) {
        let mut client = Self {
            from,
            seq: TcpSeqNumber(1_000),
            ack: TcpSeqNumber(0),
        };
        let syn = client.segment(TcpControl::Syn, &[]);
        client.seq += 1;
        (client, syn)
    }

    /// Takes the answer to the first frame; the next one.
    pub fn accept(&mut self, answer: &[u8]) -> Frame {
        let answer = Answer::parse(answer);
        assert_eq!(answer.control, TcpControl::Syn, "no SYN came back");
        self.ack = answer.seq + 1;
        self.acknowledge()
    }

    /// An acknowledgement of all that was expected. A request is one, too.
    pub fn acknowledge(&self) -> Frame {
        self.segment(TcpControl::None, &[])
    }

    /// A request, to be sent when all before were answered.
    pub fn request(&mut self) -> Frame {
        let request = self.segment(TcpControl::Psh, REQUEST);
        self.seq += REQUEST.len();
        request
    }

    /// Counts on an answer of `bytes` to the last request.
    pub fn expect(&mut self, bytes: usize) {
        self.ack += bytes;
    }

    /// Checks that `frame` is the whole, undamaged answer to the last request,
    /// and all that was expected; the answer's length.
    ///
    /// # Panics
    ///
    /// Panics if not.
    pub fn check(&self, frame: &[u8], expected: bool) -> usize {
        let answer = Answer::parse(frame);
        let bytes = answer.payload.len();
        assert_eq!(answer.to, self.from, "another connection is answered");
        assert_eq!(answer.ack, self.seq, "the request was not acknowledged");
        let end = self.ack + if expected { 0 } else { bytes };
        assert_eq!(answer.seq + bytes, end, "the wrong answer");
        assert!(answer.payload.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(answer.payload.ends_with(b"\r\n\r\nHello from firstpoll!\n"));
        bytes
    }

    fn segment(&self, control: TcpControl, payload: &[u8]) -> Frame {
        let is_syn = control == TcpControl::Syn;
        let repr = TcpRepr {
            src_port: self.from.port(),
            dst_port: STACK_PORT,
            control,
            seq_number: self.seq,
            ack_number: (!is_syn).then_some(self.ack),
            window_len: u16::MAX,
            window_scale: None,
            max_seg_size: is_syn.then_some(1460),
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(
            &mut TcpPacket::new_unchecked(&mut bytes[..]),
            &IpAddress::Ipv4(*self.from.ip()),
            &IpAddress::Ipv4(STACK_IP),
            &ChecksumCapabilities::default(),
        );
        ipv4(*self.from.ip(), &bytes)
    }
}

/// The frame by which the stack learns the client's address.
pub fn arp_request() -> Frame {
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(CLIENT_MAC),
        source_protocol_addr: CLIENT_IP,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: STACK_IP,
    };
    let mut packet = vec![0; repr.buffer_len()];
    repr.emit(&mut ArpPacket::new_unchecked(&mut packet[..]));
    ethernet(EthernetProtocol::Arp, &packet)
}

fn ipv4(from: Ipv4Addr, payload: &[u8]) -> Frame {
    let repr = Ipv4Repr {
        src_addr: from,
        dst_addr: STACK_IP,
        next_header: IpProtocol::Tcp,
        payload_len: payload.len(),
        hop_limit: 64,
    };
    let mut packet = vec![0; repr.buffer_len() + payload.len()];
    let mut ipv4 = Ipv4Packet::new_unchecked(&mut packet[..]);
    repr.emit(&mut ipv4, &ChecksumCapabilities::default());
    ipv4.payload_mut().copy_from_slice(payload);
    ethernet(EthernetProtocol::Ipv4, &packet)
}

fn ethernet(protocol: EthernetProtocol, payload: &[u8]) -> Frame {
    let mut frame = vec![0; 14 + payload.len()];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.set_src_addr(EthernetAddress(CLIENT_MAC));
    ethernet.set_dst_addr(EthernetAddress(STACK_MAC));
    ethernet.set_ethertype(protocol);
    ethernet.payload_mut().copy_from_slice(payload);
    KEPT_BYTES.fetch_add(frame.len(), Relaxed);
    Box::leak(frame.into_boxed_slice())
}

/// What the stack has sent.
struct Answer {
    to: SocketAddrV4,
    control: TcpControl,
    seq: TcpSeqNumber,
    ack: TcpSeqNumber,
    payload: Vec<u8>,
}

impl Answer {
    fn parse(frame: &[u8]) -> Self {
        let frame = EthernetFrame::new_checked(frame).expect("a whole frame");
        let packet = Ipv4Packet::new_checked(frame.payload()).expect("a whole packet");
        assert!(packet.verify_checksum(), "a damaged packet");
        let segment = TcpPacket::new_checked(packet.payload()).expect("a whole segment");
        let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
        let repr = TcpRepr::parse(&segment, &from, &to, &ChecksumCapabilities::default());
        let repr = repr.expect("an undamaged segment");
        Self {
            to: SocketAddrV4::new(packet.dst_addr(), repr.dst_port),
            control: repr.control,
            seq: repr.seq_number,
            ack: repr.ack_number.expect("all but the first acknowledge"),
            payload: repr.payload.to_vec(),
        }
    }
}
