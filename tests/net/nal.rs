//! The stack as `embedded-nal-async` has it, and its futures when they are
//! dropped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use embedded_nal_async::{AddrType, ConnectedUdp, Dns, UdpStack, UnconnectedUdp};
use firstpoll::net::{Error, UdpSocket};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, spawn};

use crate::cancel::{Outcome, at_every_step, take_steps};
use crate::peer::{PEER_IP, STACK_IP, start};

const MS: Duration = Duration::from_millis(1);

fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn any(port: u16) -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, port).into()
}

#[test]
fn a_datagram_is_not_lost_with_who_waited_for_it() {
    at_every_step(async |stack, peer, steps| {
        let mut server = stack.bind_multiple(any(7)).await.unwrap();
        let (local, mut client) = UdpStack::connect(&stack, here(7)).await.unwrap();
        assert_eq!(local.ip(), here(0).ip());
        assert_ne!(local.port(), 0);
        let client = spawn(async move {
            sleep(3 * MS).await;
            ConnectedUdp::send(&mut client, b"hello").await.unwrap();
            let mut buffer = [0; 2];
            let count = ConnectedUdp::receive_into(&mut client, &mut buffer).await;
            // All of it is counted, though there was no room for it.
            assert_eq!((count, &buffer), (Ok(5), b"ag"));
        });
        let mut buffer = [0; 8];
        let receive = UnconnectedUdp::receive_into(&mut server, &mut buffer);
        let outcome = take_steps(&peer, steps, receive).await;
        let finished = matches!(outcome, Outcome::Finished(_));
        let received = match outcome {
            Outcome::Finished(received) => received,
            Outcome::Dropped => UnconnectedUdp::receive_into(&mut server, &mut buffer).await,
        };
        let (count, to, from) = received.unwrap();
        assert_eq!(&buffer[..count], b"hello");
        assert_eq!((to, from), (here(7), local));
        let answer = UnconnectedUdp::send(&mut server, to, from, b"again").await;
        assert_eq!(answer, Ok(()));
        let of_another = UnconnectedUdp::send(&mut server, here(8), from, b"again").await;
        assert_eq!(of_another, Err(Error::InvalidInput));
        client.await;
        finished
    });
}

#[test]
fn a_single_local_address_is_chosen_where_none_is_given() {
    let (stack, _peer) = start();
    block_on(async {
        let remote = (PEER_IP, 7).into();
        let (local, socket) = UdpStack::connect(&stack, remote).await.unwrap();
        assert_eq!(local.ip(), STACK_IP);
        assert_eq!(socket.peer_addr(), Some(remote));
        let (local, _socket) = stack.bind_single(any(9)).await.unwrap();
        assert_eq!(local, (STACK_IP, 9).into());
        let taken = stack.bind_single(any(9)).await.map(drop);
        assert_eq!(taken, Err(Error::AddrInUse));
    });
}

#[test]
fn a_lookup_leaves_no_socket() {
    let (stack, peer) = start();
    block_on(async {
        // A server that keeps silent.
        let server = UdpSocket::bind(stack, here(53)).unwrap();
        stack.set_dns_servers(&[here(53).ip()]);
        let lookup = || stack.get_host_by_name("host.example", AddrType::IPv4);
        let before = stack.stats().buffer_bytes;
        let mut asked = 0;
        for steps in 0..10 {
            let outcome = take_steps(&peer, steps, lookup()).await;
            assert_eq!(outcome, Outcome::Dropped);
            let mut question = [0; 512];
            while let Ok(received) = timeout(MS, server.recv_from(&mut question)).await {
                received.unwrap();
                asked += 1;
            }
            assert_eq!(stack.stats().buffer_bytes, before);
        }
        assert!(asked > 1);
        assert_eq!(lookup().await, Err(Error::TimedOut));
    });
}

#[test]
fn addresses_are_found_and_names_of_them_are_not() {
    let (stack, _peer) = start();
    block_on(async {
        for (kind, address) in [
            (AddrType::IPv4, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            (AddrType::IPv6, "::1".parse().unwrap()),
        ] {
            let found = stack.get_host_by_name("localhost", kind).await;
            assert_eq!(found, Ok(address));
        }
        let either = stack.get_host_by_name("10.0.2.9", AddrType::Either).await;
        assert_eq!(either, Ok([10, 0, 2, 9].into()));
        let name = stack
            .get_host_by_address(PEER_IP.into(), &mut [0; 255])
            .await;
        assert_eq!(name, Err(Error::NameNotFound));
    });
}
