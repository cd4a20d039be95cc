//! Whatever a frame holds, the stack goes on.

use firstpoll::arch::host;
use firstpoll::net::{Config, Ipv4Source, TcpListener};
use firstpoll::time::Duration;
use firstpoll::{block_on, yield_now};
use proptest::collection::vec;
use proptest::prelude::*;
use smoltcp::wire::{ArpOperation, EthernetProtocol, IpProtocol, TcpControl};

use crate::frames::{arp, ethernet, ipv4, ping, segment, udp_broadcast};
use crate::frames6::{
    ALL_NODES, Advertised, PEER_IP6, PEER_LINK_LOCAL, PREFIX, STACK_IP6, STACK_LINK_LOCAL, Sent6,
    advert, icmpv6_bytes, ipv6, look6, ping6, router_advert, segment6, solicit,
};
use crate::peer::{PEER_IP, PEER_MAC, Peer, start, start_with};
use crate::wire::STACK_MAC;

/// Sends the frames; then pings, which must be answered.
fn survive(peer: &Peer, frames: Vec<Vec<u8>>) {
    block_on(yield_now());
    for frame in frames {
        peer.wire.send(frame);
        host::advance(Duration::from_millis(2));
    }
    host::advance(Duration::from_secs(30));
    while peer.wire.receive().is_some() {}
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    peer.wire.send(ping(PEER_IP, 1));
    host::advance(Duration::from_millis(5));
    assert_eq!(std::iter::from_fn(|| peer.wire.receive()).count(), 2);
}

/// Frames that are right but for some bytes.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let template = prop_oneof![
        Just(ping(PEER_IP, 3)),
        Just(arp(ArpOperation::Request, PEER_IP, PEER_MAC)),
        Just(arp(ArpOperation::Reply, PEER_IP, PEER_MAC)),
        Just(segment(PEER_IP, (9, 80), TcpControl::Syn, 5, None)),
        Just(udp_broadcast(67, 68, &[2; 300])),
    ];
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (
        template,
        changes,
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(mut frame, changes, end, cut)| {
            for (place, byte) in changes {
                let place = place.index(frame.len());
                frame[place] = byte;
            }
            if cut {
                frame.truncate(end.index(frame.len()));
            }
            frame
        })
}

/// Packets whose outer headers are right.
fn inside() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), vec(any::<u8>(), 0..200)).prop_map(|(kind, bytes)| match kind % 6 {
        0 => ethernet(
            smoltcp::wire::EthernetAddress(STACK_MAC),
            EthernetProtocol::Ipv4,
            &bytes,
        ),
        1 => ethernet(
            smoltcp::wire::EthernetAddress(STACK_MAC),
            EthernetProtocol::Arp,
            &bytes,
        ),
        2 => ipv4(PEER_IP, IpProtocol::Tcp, &bytes),
        3 => ipv4(PEER_IP, IpProtocol::Icmp, &bytes),
        4 => udp_broadcast(67, 68, &bytes),
        _ => ipv4(PEER_IP, IpProtocol::from(kind), &bytes),
    })
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(
        prop_oneof![vec(any::<u8>(), 0..200), almost(), inside()],
        1..20,
    )
}

/// The same of IPv6.
fn frames_v6() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let advertised = Advertised {
        router_seconds: 1800,
        prefix: PREFIX,
        prefix_seconds: 3600,
        dns_server: Some(PEER_IP6),
    };
    let template = prop_oneof![
        Just(ping6(PEER_IP6, STACK_IP6, 3)),
        Just(ping6(PEER_LINK_LOCAL, ALL_NODES, 3)),
        Just(solicit(PEER_IP6, STACK_IP6)),
        Just(advert(PEER_IP6, STACK_IP6, PEER_MAC)),
        Just(router_advert(&advertised)),
        Just(segment6(
            (PEER_IP6, STACK_IP6),
            (9, 80),
            TcpControl::Syn,
            5,
            None
        )),
    ];
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let almost = (template, changes, 0..40_usize).prop_map(|(mut frame, changes, cut)| {
        for (place, byte) in changes {
            let place = place.index(frame.len());
            frame[place] = byte;
        }
        frame.truncate(frame.len() - cut / 4);
        frame
    });
    // Messages and extension headers of any bytes, the checksum right.
    let bytes = vec(any::<u8>(), 4..200);
    let inside = (any::<u8>(), 128..144_u8, bytes).prop_map(|(kind, message_type, mut bytes)| {
        let to = if kind & 1 == 0 { STACK_IP6 } else { ALL_NODES };
        match kind % 8 {
            0 => ipv6(PEER_IP6, to, IpProtocol::Tcp, 64, &bytes),
            1 => ipv6(PEER_IP6, to, IpProtocol::from(kind), 64, &bytes),
            2 => {
                // Options, then a query for groups.
                bytes[0] = 58;
                bytes[1] = 0;
                ipv6(PEER_LINK_LOCAL, to, IpProtocol::HopByHop, 1, &bytes)
            }
            _ => {
                bytes[..2].copy_from_slice(&[message_type, 0]);
                icmpv6_bytes(PEER_LINK_LOCAL, to, 255, &bytes)
            }
        }
    });
    vec(prop_oneof![almost, inside], 1..20)
}

/// A segment of a connection with chosen numbers: SYN, ACK, RST, FIN in any
/// order, with sequence numbers near the right ones and far from them.
fn hostile() -> impl Strategy<Value = (u8, i32, i32, bool)> {
    let near = prop_oneof![-3..70_000_i32, any::<i32>()];
    (0..5_u8, near.clone(), near, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frames_of_any_bytes_are_survived(frames in frames()) {
        let (stack, peer) = start();
        let _listener = TcpListener::bind(stack, 80).unwrap();
        survive(&peer, frames);
    }

    #[test]
    fn frames_of_any_bytes_are_survived_before_there_is_an_address(frames in frames()) {
        let (_stack, peer) = start_with(Config::default());
        block_on(yield_now());
        for frame in frames {
            peer.wire.send(frame);
            host::advance(Duration::from_millis(2));
        }
        host::advance(Duration::from_secs(30));
    }

    #[test]
    fn frames_of_ipv6_of_any_bytes_are_survived(frames in frames_v6()) {
        let config = Config { ipv4: Ipv4Source::Off, ..Config::default() };
        let (stack, peer) = start_with(config);
        let _listener = TcpListener::bind(stack, 80).unwrap();
        block_on(yield_now());
        for frame in frames {
            peer.wire.send(frame);
            host::advance(Duration::from_millis(2));
        }
        host::advance(Duration::from_secs(30));
        while peer.wire.receive().is_some() {}
        peer.wire.send(solicit(PEER_LINK_LOCAL, STACK_LINK_LOCAL));
        peer.wire.send(ping6(PEER_LINK_LOCAL, STACK_LINK_LOCAL, 1));
        host::advance(Duration::from_millis(5));
        let answers: Vec<_> = std::iter::from_fn(|| peer.wire.receive())
            .map(|frame| look6(&frame))
            .collect();
        prop_assert!(answers.contains(&Sent6::Advert(STACK_LINK_LOCAL)), "{:?}", answers);
        prop_assert!(answers.contains(&Sent6::Pong(1)), "{:?}", answers);
    }

    #[test]
    fn segments_with_any_numbers_are_survived(segments in vec(hostile(), 1..40)) {
        let (stack, peer) = start();
        let listener = TcpListener::bind(stack, 80).unwrap();
        block_on(yield_now());
        peer.wire.send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        host::advance(Duration::from_millis(2));
        while peer.wire.receive().is_some() {}
        let mut theirs = smoltcp::wire::TcpSeqNumber(0);
        let mut streams = Vec::new();
        peer.wire.send(segment(PEER_IP, (9, 80), TcpControl::Syn, 0, None));
        for (control, seq, ack, with_ack) in segments {
            host::advance(Duration::from_millis(3));
            while let Some(frame) = peer.wire.receive() {
                if let crate::frames::Sent::Tcp { seq, syn: true, .. } = crate::frames::look(&frame) {
                    theirs = seq;
                    // Complete the handshake once in a while.
                    if with_ack {
                        peer.wire.send(segment(PEER_IP, (9, 80), TcpControl::None, 1, Some(theirs + 1)));
                    }
                }
            }
            let control = [TcpControl::None, TcpControl::Psh, TcpControl::Syn, TcpControl::Fin, TcpControl::Rst][control as usize];
            let ack = with_ack.then_some(smoltcp::wire::TcpSeqNumber(theirs.0.wrapping_add(ack)));
            peer.wire.send(segment(PEER_IP, (9, 80), control, seq, ack));
            if let Ok(stream) = block_on(firstpoll::time::timeout(Duration::ZERO, listener.accept())) {
                let mut stream = stream.unwrap();
                let _ = block_on(stream.write(&[7; 3000]));
                streams.push(stream);
            }
            for stream in &mut streams {
                let _ = block_on(firstpoll::time::timeout(Duration::ZERO, stream.read(&mut [0; 100])));
            }
        }
        drop(streams);
        drop(listener);
        host::advance(Duration::from_secs(600));
        prop_assert_eq!(stack.stats().sockets, 0);
    }
}
