//! An address from a DHCP server.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use firstpoll::arch::{self, host};
use firstpoll::net::{Config, Ipv4Config, TcpListener};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, spawn};
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetFrame, EthernetProtocol, Ipv4Address,
    Ipv4Packet, UdpPacket,
};

use crate::frames::udp_broadcast;
use crate::peer::{PEER_IP, Peer, start_with};

const SEC: Duration = Duration::from_secs(1);

/// Answers a request in `frame`, if it is one.
fn answer(frame: &[u8], offered: Ipv4Addr, lease_seconds: u32) -> Option<Vec<u8>> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ipv4 = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let udp = UdpPacket::new_checked(ipv4.payload()).ok()?;
    if udp.dst_port() != 67 {
        return None;
    }
    let packet = DhcpPacket::new_checked(udp.payload()).ok()?;
    let request = DhcpRepr::parse(&packet).ok()?;
    let message_type = match request.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if request.requested_ip.is_none_or(|ip| ip == offered) => {
            DhcpMessageType::Ack
        }
        _ => DhcpMessageType::Nak,
    };
    let reply = DhcpRepr {
        message_type,
        your_ip: offered,
        server_ip: PEER_IP,
        server_identifier: Some(PEER_IP),
        subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
        router: Some(PEER_IP),
        lease_duration: Some(lease_seconds),
        requested_ip: None,
        client_identifier: None,
        parameter_request_list: None,
        max_size: None,
        ..request
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply
        .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
        .ok()?;
    Some(udp_broadcast(67, 68, &bytes))
}

/// Serves DHCP at every halt, beside what the peer does.
fn serve(peer: &Peer, offered: Rc<Cell<Ipv4Addr>>, lease_seconds: u32) {
    let peer = peer.clone();
    host::on_halt(move |programmed: Option<arch::Instant>| {
        let mut answered = false;
        for frame in peer.take_seen() {
            if let Some(reply) = answer(&frame, offered.get(), lease_seconds) {
                peer.wire.send(reply);
                answered = true;
            }
        }
        answered || peer.turn(programmed)
    });
}

#[test]
fn the_stack_gets_an_address_keeps_it_and_takes_another() {
    let (stack, peer) = start_with(Config::Dhcp);
    let first = Ipv4Addr::new(10, 0, 2, 15);
    let offered = Rc::new(Cell::new(first));
    serve(&peer, offered.clone(), 20);
    assert_eq!(stack.config(), None);
    let expected = |address| Ipv4Config {
        address,
        prefix_len: 24,
        gateway: Some(PEER_IP),
    };
    block_on(async {
        let waiters: Vec<_> = (0..3).map(|_| spawn(stack.wait_configured())).collect();
        assert_eq!(stack.wait_configured().await, Ok(expected(first)));
        for waiter in waiters {
            assert_eq!(waiter.await, Ok(expected(first)));
        }
        let listener = TcpListener::bind(stack, 80).unwrap();
        assert!(peer.connect(80).await.is_some());
        let mut stream = listener.accept().await.unwrap();

        // Leases of 20 s are renewed, and the connection lasts.
        sleep(600 * SEC).await;
        assert_eq!(stack.config(), Some(expected(first)));
        assert_eq!(stack.stats().sockets, 1);

        // Then the server has another address.
        let second = Ipv4Addr::new(10, 0, 2, 16);
        offered.set(second);
        sleep(60 * SEC).await;
        assert_eq!(stack.config(), Some(expected(second)));
        let read = stream.read(&mut [0; 8]).await;
        assert_eq!(read, Err(firstpoll::net::Error::ConnectionAborted));
    });
}

#[test]
fn without_a_server_the_wait_goes_on_and_the_clock_is_not_spun() {
    let (stack, _peer) = start_with(Config::Dhcp);
    block_on(async {
        let wait = firstpoll::time::timeout(600 * SEC, stack.wait_configured()).await;
        assert!(wait.is_err());
    });
    let sent = stack.stats().frames_sent;
    assert!((60..=301).contains(&sent), "{sent}");
}
