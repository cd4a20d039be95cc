//! Datagrams, pings and names over IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use firstpoll::arch::host;
use firstpoll::net::dns::Family;
use firstpoll::net::{Config, Error, Ipv4Source, PingOptions, Stack, UdpSocket, ping};
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6DstUnreachable, Icmpv6Packet,
    Icmpv6Repr, IpAddress, IpEndpoint, IpListenEndpoint, IpProtocol, Ipv6Address, Ipv6Packet,
    Ipv6Repr, UdpPacket, UdpRepr,
};

use crate::frames6::{
    Advertised, PEER_IP6, PEER_LINK_LOCAL, PREFIX, STACK_IP6, STACK_LINK_LOCAL, Sent6, advert,
    icmpv6, ipv6, look6, router_advert, solicit,
};
use crate::peer::{PEER_IP, Peer, STACK_IP, both_families, start_with};

const MS: Duration = Duration::from_millis(1);
const STRANGER: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x99);
const STRANGER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
const GROUP: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234);

fn any_address(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// A stack with both families, and a far host that has them too.
fn start() -> (Stack, Peer) {
    let (stack, peer) = start_with(both_families());
    peer.add_address(PEER_IP6.into(), 64);
    peer.add_address(PEER_LINK_LOCAL.into(), 64);
    (stack, peer)
}

/// A stack that knows its neighbour, whose frames the test makes by hand.
fn start_by_hand() -> (Stack, Peer) {
    let (stack, peer) = start_with(both_families());
    host::on_halt(|_| false);
    block_on(yield_now());
    host::advance(100 * MS);
    peer.wire.send(solicit(PEER_IP6, STACK_IP6));
    host::advance(2 * MS);
    while peer.wire.receive().is_some() {}
    (stack, peer)
}

fn now<F: Future>(future: F) -> Option<F::Output> {
    block_on(timeout(Duration::ZERO, future)).ok()
}

fn udp(from: Ipv6Address, to: Ipv6Address, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let repr = UdpRepr {
        src_port: ports.0,
        dst_port: ports.1,
    };
    let mut datagram = vec![0; 8 + data.len()];
    repr.emit(
        &mut UdpPacket::new_unchecked(&mut datagram[..]),
        &from.into(),
        &to.into(),
        data.len(),
        |payload| payload.copy_from_slice(data),
        &ChecksumCapabilities::default(),
    );
    ipv6(from, to, IpProtocol::Udp, 64, &datagram)
}

/// The two ends, the hop limit and the data of the datagram in a frame.
fn look_udp(frame: &[u8]) -> Option<(SocketAddr, SocketAddr, u8, Vec<u8>)> {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    if ethernet.ethertype() != EthernetProtocol::Ipv6 {
        return None;
    }
    let packet = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    if packet.next_header() != IpProtocol::Udp {
        return None;
    }
    let datagram = UdpPacket::new_checked(packet.payload()).unwrap();
    assert!(datagram.verify_checksum(&from.into(), &to.into()));
    Some((
        (from, datagram.src_port()).into(),
        (to, datagram.dst_port()).into(),
        packet.hop_limit(),
        datagram.payload().to_vec(),
    ))
}

fn sent(peer: &Peer) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| peer.wire.receive()).collect()
}

#[test]
fn a_socket_of_both_families_answers_each_in_its_own() {
    let (stack, peer) = start();
    let far = peer.udp(None, 2000);
    block_on(async {
        let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
        for (near, remote) in [
            (IpAddr::from(STACK_IP6), IpAddr::from(PEER_IP6)),
            (STACK_LINK_LOCAL.into(), PEER_LINK_LOCAL.into()),
            (STACK_IP.into(), PEER_IP.into()),
        ] {
            socket
                .send_to(b"ping", (remote, 2000).into())
                .await
                .unwrap();
            let (data, meta) = far.receive().await;
            assert_eq!(data, b"ping");
            assert_eq!(SocketAddr::from(meta.endpoint), (near, 7).into());
            far.send(b"pong", meta.endpoint, meta.local_address);
            let received = socket.recv_from(&mut [0; 9]).await.unwrap();
            assert_eq!(received.from, (remote, 2000).into());
            assert_eq!(received.to, near);
        }
        let four = UdpSocket::bind(stack, (Ipv4Addr::UNSPECIFIED, 8).into()).unwrap();
        let six = SocketAddr::from((PEER_IP6, 2000));
        assert_eq!(four.send_to(b"x", six).await, Ok(()));
        let bound = UdpSocket::bind(stack, (STACK_IP, 9).into()).unwrap();
        assert_eq!(bound.send_to(b"x", six).await, Err(Error::InvalidInput));
        let longest = 1500 - 48;
        assert_eq!(socket.send_to(&vec![0; longest], six).await, Ok(()));
        let too_long = socket.send_to(&vec![0; longest + 1], six).await;
        assert_eq!(too_long, Err(Error::MessageTooLong));
    });
}

/// A socket of IPv4 hears nothing of IPv6.
#[test]
fn families_are_kept_apart_where_that_is_wanted() {
    let (stack, peer) = start_by_hand();
    let four = UdpSocket::bind(stack, (Ipv4Addr::UNSPECIFIED, 7).into()).unwrap();
    peer.wire.send(udp(PEER_IP6, STACK_IP6, (9, 7), b"six"));
    host::advance(2 * MS);
    assert_eq!(now(four.recv(&mut [0; 9])), None);
    assert_eq!(stack.stats().datagrams_unclaimed, 1);
    assert_eq!(sent(&peer).len(), 1); // Port unreachable.
    drop(four);
    let six = UdpSocket::bind(stack, (STACK_IP6, 7).into()).unwrap();
    peer.wire.send(udp(PEER_IP6, STACK_IP6, (9, 7), b"six"));
    peer.wire
        .send(udp(PEER_IP6, STACK_LINK_LOCAL, (9, 7), b"other"));
    host::advance(2 * MS);
    assert_eq!(now(six.recv(&mut [0; 9])), Some(Ok(3)));
    assert_eq!(now(six.recv(&mut [0; 9])), None);
}

/// Case N1 over IPv6.
#[test]
fn the_first_datagrams_for_strangers_wait_for_their_addresses() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let other = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x98);
    for stranger in [STRANGER, other] {
        let to = (stranger, 8).into();
        now(socket.send_to(b"first", to)).unwrap().unwrap();
        let asked: Vec<_> = sent(&peer).iter().map(|frame| look6(frame)).collect();
        assert_eq!(asked, [Sent6::Solicit(stranger)]);
    }
    for stranger in [other, STRANGER] {
        peer.wire.send(advert(stranger, STACK_IP6, STRANGER_MAC));
        host::advance(2 * MS);
        let out = sent(&peer);
        assert_eq!(out.len(), 1);
        assert_eq!(look_udp(&out[0]).unwrap().1, (stranger, 8).into());
    }
}

#[test]
fn groups_are_joined_heard_and_left() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let for_group = || udp(PEER_IP6, GROUP, (9, 7), b"group");
    peer.wire.send(for_group());
    host::advance(2 * MS);
    assert_eq!(now(socket.recv(&mut [0; 9])), None);
    assert_eq!(sent(&peer).len(), 0);
    socket.join_multicast(GROUP.into()).unwrap();
    host::advance(2 * MS);
    let reports: Vec<_> = sent(&peer).iter().map(|frame| look6(frame)).collect();
    assert_eq!(reports, [Sent6::Report]);
    peer.wire.send(for_group());
    host::advance(2 * MS);
    let received = now(socket.recv_from(&mut [0; 9])).unwrap().unwrap();
    assert_eq!(received.to, IpAddr::from(GROUP));
    now(socket.send_to(b"hello", (GROUP, 8).into()))
        .unwrap()
        .unwrap();
    let out = look_udp(&sent(&peer)[0]).unwrap();
    assert_eq!(out.0, (STACK_LINK_LOCAL, 7).into());
    assert_eq!(out.2, 1);
    drop(socket);
    host::advance(2 * MS);
    let reports: Vec<_> = sent(&peer).iter().map(|frame| look6(frame)).collect();
    assert_eq!(reports, [Sent6::Report]);
}

/// Routers hear of the groups again when there is an address that they know
/// nothing of: smoltcp leaves them and joins them anew.
#[test]
fn groups_are_told_of_again_with_another_address() {
    let (stack, peer) = start_with(Config {
        ipv4: Ipv4Source::Off,
        ..Config::default()
    });
    host::on_halt(|_| false);
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    socket.join_multicast(GROUP.into()).unwrap();
    block_on(yield_now());
    host::advance(100 * MS);
    sent(&peer);
    peer.wire.send(router_advert(&Advertised {
        router_seconds: 1800,
        prefix: PREFIX,
        prefix_seconds: 1800,
        dns_server: None,
    }));
    host::advance(100 * MS);
    assert!(stack.addresses().contains(&STACK_IP6.into()));
    let told = sent(&peer)
        .iter()
        .filter(|frame| look6(frame) == Sent6::Report && names(frame, GROUP))
        .count();
    assert_eq!(told, 2);
    peer.wire.send(udp(PEER_IP6, GROUP, (9, 7), b"group"));
    host::advance(2 * MS);
    assert_eq!(now(socket.recv(&mut [0; 9])), Some(Ok(5)));
}

/// Whether a frame has the address of `group` in it.
fn names(frame: &[u8], group: Ipv6Address) -> bool {
    frame.windows(16).any(|bytes| bytes == group.octets())
}

#[test]
fn a_connected_socket_is_told_that_nobody_listens() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    socket.connect((PEER_IP6, 8).into()).unwrap();
    now(socket.send(b"hello")).unwrap().unwrap();
    let frame = peer.wire.receive().unwrap();
    let packet = Ipv6Packet::new_checked(&frame[14..]).unwrap();
    let unreachable = Icmpv6Repr::DstUnreachable {
        reason: Icmpv6DstUnreachable::PortUnreachable,
        header: Ipv6Repr::parse(&packet).unwrap(),
        data: packet.payload(),
    };
    peer.wire.send(icmpv6(PEER_IP6, STACK_IP6, 64, unreachable));
    host::advance(2 * MS);
    let received = now(socket.recv(&mut [0; 9]));
    assert_eq!(received, Some(Err(Error::ConnectionRefused)));
}

#[test]
fn the_far_host_answers_pings_over_ipv6() {
    let (stack, _peer) = start();
    for host in [IpAddr::from(PEER_IP6), PEER_LINK_LOCAL.into()] {
        for data_bytes in [0, 56, 1452] {
            let options = PingOptions {
                data_bytes,
                ..PingOptions::default()
            };
            let answer = block_on(ping(stack, host, options));
            assert!(answer.is_ok(), "{host} {data_bytes}: {answer:?}");
        }
    }
    let too_long = PingOptions {
        data_bytes: 1453,
        ..PingOptions::default()
    };
    let answer = block_on(ping(stack, PEER_IP6.into(), too_long));
    assert_eq!(answer, Err(Error::MessageTooLong));
}

#[test]
fn only_the_right_answer_to_a_ping_counts() {
    let (stack, peer) = start_by_hand();
    let asked = spawn(ping(stack, PEER_IP6.into(), PingOptions::default()));
    block_on(yield_now());
    let frame = peer.wire.receive().unwrap();
    let packet = Ipv6Packet::new_checked(&frame[14..]).unwrap();
    let message = Icmpv6Packet::new_checked(packet.payload()).unwrap();
    assert!(message.verify_checksum(&STACK_IP6, &PEER_IP6));
    let (ident, seq_no, data) = (
        message.echo_ident(),
        message.echo_seq_no(),
        message.payload(),
    );
    let reply = |ident, seq_no, data| Icmpv6Repr::EchoReply {
        ident,
        seq_no,
        data,
    };
    for (from, wrong) in [
        (PEER_IP6, reply(ident ^ 1, seq_no, data)),
        (PEER_IP6, reply(ident, seq_no ^ 1, data)),
        (PEER_IP6, reply(ident, seq_no, &data[1..])),
        (STRANGER, reply(ident, seq_no, data)),
    ] {
        peer.wire.send(icmpv6(from, STACK_IP6, 64, wrong));
        host::advance(2 * MS);
        block_on(yield_now());
        assert!(!asked.is_finished());
    }
    let right = reply(ident, seq_no, data);
    peer.wire.send(icmpv6(PEER_IP6, STACK_IP6, 64, right));
    host::advance(2 * MS);
    assert!(block_on(asked).is_ok());
}

#[test]
fn a_server_of_names_is_asked_over_ipv6() {
    let (stack, peer) = start();
    stack.set_dns_servers(&[PEER_IP6.into()]);
    let server = peer.udp_at(IpListenEndpoint {
        addr: Some(IpAddress::Ipv6(PEER_IP6)),
        port: 53,
    });
    spawn(async move {
        let (mut message, meta) = server.receive().await;
        message[2] = 0x81;
        message[7] = 1;
        message.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
        message.extend(STRANGER.octets());
        let to: IpEndpoint = meta.endpoint;
        server.send(&message, to, meta.local_address);
    })
    .detach();
    let found = block_on(stack.resolve("example.org", Family::V6)).unwrap();
    assert_eq!(found[..], [IpAddr::from(STRANGER)]);
}
