//! The guest's connections with itself.

use firstpoll::arch::host;
use firstpoll::net::{
    self, Config, Device, Error, Ipv6Source, PingOptions, Stack, TcpListener, TcpStream, UdpSocket,
    ping,
};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, runtime, spawn};
use smoltcp::wire::{TcpControl, TcpSeqNumber};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::frames::segment_to;
use crate::frames6::{Advertised, PREFIX, STACK_IP6, STACK_LINK_LOCAL, router_advert};
use crate::peer::{STACK_IP, START, start, start_with};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

/// A stack without a card.
fn start_alone() -> Stack {
    host::set_clock(START);
    runtime::init();
    net::start(Device::none(), Config::loopback(), 7)
}

/// Sends back what each connection brings.
fn echo(stack: Stack, port: u16) {
    let listener = TcpListener::bind(stack, port).unwrap();
    spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            })
            .detach();
        }
    })
    .detach();
}

async fn ask(stack: Stack, to: IpAddr) {
    let remote = SocketAddr::new(to, 7);
    let mut stream = TcpStream::connect(stack, remote).await.unwrap();
    assert_eq!(stream.peer_addr(), remote);
    assert_eq!(stream.local_addr().ip(), to);
    stream.write_all(b"anybody there?").await.unwrap();
    let mut answer = [0; 14];
    let mut have = 0;
    while have < answer.len() {
        have += stream.read(&mut answer[have..]).await.unwrap();
    }
    assert_eq!(&answer, b"anybody there?");
}

#[test]
fn without_a_card_the_guest_still_reaches_itself() {
    let stack = start_alone();
    echo(stack, 7);
    block_on(async {
        let config = stack.wait_configured().await.unwrap();
        assert_eq!(config.address(), IpAddr::from(Ipv4Addr::LOCALHOST));
        for to in ["127.0.0.1", "127.9.8.7", "::1"] {
            ask(stack, to.parse().unwrap()).await;
        }
        let elsewhere = SocketAddr::from(([10, 0, 2, 2], 80));
        let connected = TcpStream::connect(stack, elsewhere).await;
        assert_eq!(connected.err(), Some(Error::NetworkUnreachable));
    });
    assert_eq!(stack.stats().frames_sent, 0);
}

#[test]
fn all_of_the_guests_own_addresses_lead_to_itself() {
    let (stack, peer) = start_with(
        Config::from_options([
            ("ip", "10.0.2.15/24"),
            ("ip6", "2001:db8::5054:ff:fe00:1/64"),
        ])
        .unwrap(),
    );
    echo(stack, 7);
    block_on(async {
        for to in [
            STACK_IP.into(),
            STACK_IP6.into(),
            STACK_LINK_LOCAL.into(),
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            ask(stack, to).await;
        }
    });
    let own = [STACK_IP6, STACK_LINK_LOCAL].map(IpAddr::from);
    for frame in peer.take_seen() {
        let to = &frame[38..54];
        assert!(
            own.iter().all(|own| match own {
                IpAddr::V6(own) => own.octets() != *to,
                IpAddr::V4(_) => true,
            }),
            "it has reached the wire"
        );
    }
}

/// Each side in a step of its own: nothing leads into itself.
#[test]
fn it_goes_on_while_the_program_computes() {
    let stack = start_alone();
    let listener = TcpListener::bind(stack, 7).unwrap();
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
    let connecting = spawn(TcpStream::connect(stack, remote));
    block_on(firstpoll::yield_now());
    host::advance(20 * MS);
    let accepted = firstpoll::time::timeout(Duration::ZERO, listener.accept());
    assert!(block_on(accepted).is_ok(), "the handshake is over");
    assert!(block_on(connecting).is_ok());
}

#[test]
fn it_goes_on_while_the_cards_send_queue_is_full() {
    let (stack, peer) = start();
    echo(stack, 7);
    block_on(async {
        ask(stack, Ipv4Addr::LOCALHOST.into()).await;
        let server = peer.listen(81);
        let remote = SocketAddr::new(crate::peer::PEER_IP.into(), 81);
        let mut stream = TcpStream::connect(stack, remote).await.unwrap();
        peer.wire.set_send_room(0);
        let writer = spawn(async move {
            stream.write_all(&[7; 100_000]).await.unwrap();
            stream
        });
        sleep(10 * MS).await;
        for _ in 0..20 {
            ask(stack, Ipv4Addr::LOCALHOST.into()).await;
            ask(stack, STACK_IP.into()).await;
        }
        peer.wire.set_send_room(1024);
        assert_eq!(server.read_exactly(100_000).await.len(), 100_000);
        drop(writer.await);
    });
}

#[test]
fn closed_ports_refuse_and_nothing_is_left() {
    let stack = start_alone();
    block_on(async {
        for to in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let connected = TcpStream::connect(stack, SocketAddr::new(to, 81)).await;
            assert_eq!(connected.err(), Some(Error::ConnectionRefused));
        }
        echo(stack, 7);
        let asking: Vec<_> = (0..100)
            .map(|number: u8| {
                let to = Ipv4Addr::new(127, 0, 0, 1 + number % 3);
                spawn(ask(stack, to.into()))
            })
            .collect();
        for asked in asking {
            asked.await;
        }
        sleep(60 * SEC).await;
    });
    let stats = stack.stats();
    assert_eq!((stats.sockets, stats.accepted), (0, 100));
    assert_eq!(stats.loopback_lost, 0);
    let before = host::timer_interrupts();
    block_on(sleep(60 * SEC));
    assert!(host::timer_interrupts() - before < 5);
}

#[test]
fn megabytes_arrive_whole() {
    let stack = start_alone();
    let listener = TcpListener::bind(stack, 7).unwrap();
    let pattern = |place: usize| ((place * 31) >> 3) as u8;
    let sender = spawn(async move {
        let mut stream = listener.accept().await.unwrap();
        let data: Vec<_> = (0..2_000_000).map(pattern).collect();
        stream.write_all(&data).await.unwrap();
    });
    block_on(async {
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        let mut stream = TcpStream::connect(stack, remote).await.unwrap();
        let mut buffer = [0; 5000];
        let mut have = 0;
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            if count == 0 {
                break;
            }
            for byte in &buffer[..count] {
                assert_eq!(*byte, pattern(have));
                have += 1;
            }
        }
        assert_eq!(have, 2_000_000);
        sender.await;
    });
}

#[test]
fn datagrams_and_pings_come_back_too() {
    let stack = start_alone();
    let unspecified: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    block_on(async {
        for (any, to) in [
            (unspecified[0], IpAddr::from(Ipv4Addr::LOCALHOST)),
            (unspecified[0], Ipv4Addr::new(127, 9, 8, 7).into()),
            (unspecified[1], Ipv6Addr::LOCALHOST.into()),
        ] {
            ping(stack, to, PingOptions::default()).await.unwrap();
            let server = UdpSocket::bind(stack, SocketAddr::new(any, 7)).unwrap();
            let client = UdpSocket::bind(stack, SocketAddr::new(any, 0)).unwrap();
            // Longer than any packet on a wire.
            let question = vec![7; 9000];
            let server_address = SocketAddr::new(to, 7);
            client.send_to(&question, server_address).await.unwrap();
            let mut buffer = vec![0; 10_000];
            let received = server.recv_from(&mut buffer).await.unwrap();
            assert_eq!(received.bytes, 9000);
            server.send_to(b"answer", received.from).await.unwrap();
            let received = client.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..received.bytes], b"answer");
            assert_eq!(received.from, server_address);
        }
    });
    assert_eq!(stack.stats().frames_sent, 0);
}

/// Whoever is on the wire must not get into such a connection.
#[test]
fn forged_packets_from_the_wire_are_dropped() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        let remote = SocketAddr::new(STACK_IP.into(), 80);
        let mut client = TcpStream::connect(stack, remote).await.unwrap();
        let mut server = listener.accept().await.unwrap();
        let port = client.local_addr().port();
        let before = stack.stats().martians;
        let ack = Some(TcpSeqNumber(1));
        for (ports, control) in [
            ((port, 80), TcpControl::Rst),
            ((80, port), TcpControl::Rst),
            ((9, 80), TcpControl::Syn),
            ((9, 81), TcpControl::None),
        ] {
            let forged = segment_to(STACK_IP, STACK_IP, ports, control, 1, ack);
            peer.wire.send(forged);
        }
        sleep(10 * MS).await;
        assert_eq!(stack.stats().martians - before, 4);
        client.write_all(b"still there").await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(server.read(&mut buffer).await, Ok(11));
    });
}

#[test]
fn connections_over_an_address_end_with_it() {
    let (stack, peer) = start_with(Config {
        ipv6: Ipv6Source::Slaac,
        ..Config::loopback()
    });
    block_on(async {
        sleep(100 * MS).await;
        peer.wire.send(router_advert(&Advertised {
            router_seconds: 1800,
            prefix: PREFIX,
            prefix_seconds: 10_000,
            dns_server: None,
        }));
        stack.wait_configured().await.unwrap();
        let listener = TcpListener::bind(stack, 80).unwrap();
        let connect = |to: IpAddr| TcpStream::connect(stack, SocketAddr::new(to, 80));
        let mut client = connect(STACK_IP6.into()).await.unwrap();
        let mut server = listener.accept().await.unwrap();
        let mut other = connect(Ipv6Addr::LOCALHOST.into()).await.unwrap();
        let mut lasting = listener.accept().await.unwrap();
        sleep(11_000 * SEC).await;
        for stream in [&mut client, &mut server] {
            let read = stream.read(&mut [0; 8]).await;
            assert_eq!(read, Err(Error::ConnectionAborted));
        }
        other.write_all(b"x").await.unwrap();
        assert_eq!(lasting.read(&mut [0; 8]).await, Ok(1));
    });
}

/// Datagrams go the same way, without a card and with any of the own addresses.
#[test]
fn datagrams_pings_and_names_reach_the_guest_itself() {
    let stack = start_alone();
    let server = UdpSocket::bind(stack, (Ipv6Addr::UNSPECIFIED, 7).into()).unwrap();
    let echo = spawn(async move {
        let mut buffer = vec![0; 65_535];
        loop {
            let received = server.recv_from(&mut buffer).await.unwrap();
            let answer = &buffer[..received.bytes];
            server
                .send_from(answer, received.to, received.from)
                .await
                .unwrap();
        }
    });
    block_on(async {
        let client = UdpSocket::bind(stack, (Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        for host in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            client.connect((host, 7).into()).unwrap();
            for len in [0, 1, 1500, 65_487] {
                client.send(&vec![7; len]).await.unwrap();
                let mut buffer = vec![0; 65_535];
                assert_eq!(client.recv(&mut buffer).await, Ok(len));
            }
            let refused = ping(stack, host, PingOptions::default()).await;
            assert!(refused.is_ok(), "{refused:?}");
        }
        let nobody = UdpSocket::bind(stack, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        nobody.connect((Ipv4Addr::LOCALHOST, 9).into()).unwrap();
        nobody.send(b"x").await.unwrap();
        let refused = nobody.recv(&mut [0; 9]).await;
        assert_eq!(refused, Err(Error::ConnectionRefused));
        let outside = nobody.send_to(b"x", "192.0.2.1:9".parse().unwrap()).await;
        assert_eq!(outside, Err(Error::NetworkUnreachable));
        let stream = TcpStream::connect_host(stack, "localhost", 80).await;
        assert_eq!(stream.map(drop), Err(Error::ConnectionRefused));
    });
    drop(echo);
    block_on(firstpoll::yield_now());
    assert_eq!(stack.stats().datagram_sockets, 0);
}

/// What goes to the guest itself does not wait for the card.
#[test]
fn datagrams_for_here_overtake_those_for_a_full_card() {
    let (stack, peer) = start();
    peer.wire.set_send_room(0);
    host::on_halt(|_| false);
    let socket = UdpSocket::bind(stack, (Ipv4Addr::UNSPECIFIED, 7).into()).unwrap();
    let now = |to: (Ipv4Addr, u16), data: &[u8]| {
        let sent = block_on(timeout(Duration::ZERO, socket.send_to(data, to.into())));
        assert_eq!(sent, Ok(Ok(())));
    };
    now((crate::peer::PEER_IP, 9), b"waits");
    now((STACK_IP, 7), b"here");
    host::advance(5 * MS);
    let received = block_on(timeout(Duration::ZERO, socket.recv(&mut [0; 9])));
    assert_eq!(received, Ok(Ok(4)));
    // Nor does it spin meanwhile: four looks a second whether a card that has never
    // raised an interrupt is dead.
    let interrupts = host::timer_interrupts();
    host::advance(10 * SEC);
    let interrupts = host::timer_interrupts() - interrupts;
    assert!(interrupts < 100, "{interrupts}");
}
