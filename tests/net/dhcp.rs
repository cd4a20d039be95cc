//! An address from a DHCP server.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use firstpoll::arch::{self, host};
use firstpoll::net::{Config, Error, IpConfig, Ipv4Config, Ipv6Source, TcpListener, TcpStream};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, spawn};
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetFrame, EthernetProtocol, Ipv4Address,
    Ipv4Packet, UdpPacket,
};

use crate::frames::udp_broadcast;
use crate::peer::{PEER_IP, Peer, start_with};

const SEC: Duration = Duration::from_secs(1);
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// DHCP, and nothing of IPv6.
fn dhcp() -> Config {
    Config {
        ipv6: Ipv6Source::Off,
        ..Config::default()
    }
}

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Answers,
    Silent,
    /// It hears what is sent to all, as another server than the one that gave
    /// the lease would.
    DeafToUnicast,
    Refuses,
}

struct Server {
    offered: Cell<Ipv4Addr>,
    router: Cell<Ipv4Addr>,
    dns_servers: RefCell<Vec<Ipv4Addr>>,
    lease_seconds: u32,
    mood: Cell<Mood>,
    /// How many of the next requests get lost.
    losses: Cell<u32>,
    /// Requests that it has seen.
    requests: Cell<u32>,
}

impl Server {
    /// Serves DHCP at every halt, beside what the peer does.
    fn start(peer: &Peer, lease_seconds: u32) -> Rc<Self> {
        let server = Rc::new(Self {
            offered: Cell::new(FIRST),
            router: Cell::new(PEER_IP),
            dns_servers: RefCell::default(),
            lease_seconds,
            mood: Cell::new(Mood::Answers),
            losses: Cell::default(),
            requests: Cell::default(),
        });
        let (server_here, peer) = (server.clone(), peer.clone());
        host::on_halt(move |programmed: Option<arch::Instant>| {
            let mut answered = false;
            for frame in peer.take_seen() {
                if let Some(reply) = server_here.answer(&frame) {
                    peer.wire.send(reply);
                    answered = true;
                }
            }
            answered || peer.turn(programmed)
        });
        server
    }

    /// Answers a request in `frame`, if it is one.
    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        if ethernet.ethertype() != EthernetProtocol::Ipv4 {
            return None;
        }
        let ipv4 = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let udp = UdpPacket::new_checked(ipv4.payload()).ok()?;
        if udp.dst_port() != 67 {
            return None;
        }
        self.requests.set(self.requests.get() + 1);
        let packet = DhcpPacket::new_checked(udp.payload()).ok()?;
        let request = DhcpRepr::parse(&packet).ok()?;
        let unheard = match self.mood.get() {
            Mood::Silent => true,
            Mood::DeafToUnicast => !ipv4.dst_addr().is_broadcast(),
            Mood::Answers | Mood::Refuses => self.losses.get() > 0,
        };
        if unheard {
            self.losses.set(self.losses.get().saturating_sub(1));
            return None;
        }
        let offered = self.offered.get();
        let suits = |wanted: Ipv4Addr| wanted.is_unspecified() || wanted == offered;
        let message_type = match request.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request
                if self.mood.get() != Mood::Refuses
                    && suits(request.client_ip)
                    && request.requested_ip.is_none_or(suits) =>
            {
                DhcpMessageType::Ack
            }
            _ => DhcpMessageType::Nak,
        };
        let servers = self.dns_servers.borrow();
        let reply = DhcpRepr {
            message_type,
            your_ip: offered,
            server_ip: PEER_IP,
            server_identifier: Some(PEER_IP),
            subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
            router: Some(self.router.get()),
            dns_servers: (!servers.is_empty()).then(|| servers.iter().copied().collect()),
            lease_duration: Some(self.lease_seconds),
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
}

fn config(address: Ipv4Addr, router: Ipv4Addr) -> IpConfig {
    IpConfig::from(Ipv4Config {
        address,
        prefix_len: 24,
        gateway: Some(router),
    })
}

#[test]
fn the_stack_gets_an_address_keeps_it_and_takes_another() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    assert_eq!(stack.config(), None);
    let expected = |address| config(address, PEER_IP);
    let first = FIRST;
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
        server.offered.set(second);
        sleep(60 * SEC).await;
        assert_eq!(stack.config(), Some(expected(second)));
        let read = stream.read(&mut [0; 8]).await;
        assert_eq!(read, Err(Error::ConnectionAborted));
    });
}

#[test]
fn without_a_server_the_wait_goes_on_and_the_clock_is_not_spun() {
    let (stack, _peer) = start_with(dhcp());
    block_on(async {
        let wait = firstpoll::time::timeout(600 * SEC, stack.wait_configured()).await;
        assert!(wait.is_err());
    });
    let sent = stack.stats().frames_sent;
    assert!((60..=301).contains(&sent), "{sent}");
}

#[test]
fn another_router_and_other_servers_of_names_are_taken_over() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    let [a, b, c] = [3, 4, 5].map(|number| Ipv4Addr::new(10, 0, 2, number));
    server
        .dns_servers
        .replace(vec![a, b, Ipv4Addr::UNSPECIFIED]);
    block_on(async {
        stack.wait_configured().await.unwrap();
        assert_eq!(stack.dns_servers(), [a, b].map(IpAddr::from));
        let listener = TcpListener::bind(stack, 80).unwrap();
        let client = peer.connect(80).await.unwrap();
        let mut stream = listener.accept().await.unwrap();

        let router = Ipv4Addr::new(10, 0, 2, 9);
        server.router.set(router);
        server.dns_servers.replace(vec![c]);
        sleep(20 * SEC).await;
        assert_eq!(stack.config(), Some(config(FIRST, router)));
        assert_eq!(stack.dns_servers(), [IpAddr::from(c)]);
        // The address is the same, and so are the connections.
        client.write_all(b"still there").await;
        assert_eq!(stream.read(&mut [0; 16]).await, Ok(11));
    });
}

/// RFC 2131 §4.4.5: at first the server that gave the lease is asked, then all.
#[test]
fn another_server_may_prolong_the_lease() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    block_on(async {
        stack.wait_configured().await.unwrap();
        server.mood.set(Mood::DeafToUnicast);
        sleep(300 * SEC).await;
        assert_eq!(stack.config(), Some(config(FIRST, PEER_IP)));
    });
}

#[test]
fn a_lost_answer_does_not_cost_a_short_lease() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    block_on(async {
        stack.wait_configured().await.unwrap();
        for _ in 0..20 {
            server.losses.set(1);
            for _ in 0..20 {
                sleep(SEC).await;
                assert_eq!(stack.config(), Some(config(FIRST, PEER_IP)));
            }
        }
    });
}

#[test]
fn a_lease_that_has_run_out_takes_address_and_connections_with_it() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    server.dns_servers.replace(vec![Ipv4Addr::new(10, 0, 2, 3)]);
    block_on(async {
        stack.wait_configured().await.unwrap();
        let listener = TcpListener::bind(stack, 80).unwrap();
        let _client = peer.connect(80).await.unwrap();
        let mut stream = listener.accept().await.unwrap();
        server.mood.set(Mood::Silent);
        sleep(30 * SEC).await;
        assert_eq!(stack.config(), None);
        assert!(stack.dns_servers().is_empty());
        let read = stream.read(&mut [0; 8]).await;
        assert_eq!(read, Err(Error::ConnectionAborted));
        let remote = SocketAddr::from((PEER_IP, 80));
        let connected = TcpStream::connect(stack, remote).await;
        assert_eq!(connected.err(), Some(Error::NetworkUnreachable));

        // It goes on asking, but not in a loop.
        let before = server.requests.get();
        sleep(600 * SEC).await;
        let requests = server.requests.get() - before;
        assert!((60..=301).contains(&requests), "{requests}");

        let waiter = spawn(stack.wait_configured());
        server.mood.set(Mood::Answers);
        assert_eq!(waiter.await, Ok(config(FIRST, PEER_IP)));
        assert!(peer.connect(80).await.is_some());
    });
}

#[test]
fn a_server_that_refuses_to_renew_gives_another_address() {
    let (stack, peer) = start_with(dhcp());
    let server = Server::start(&peer, 20);
    block_on(async {
        stack.wait_configured().await.unwrap();
        server.mood.set(Mood::Refuses);
        sleep(12 * SEC).await;
        assert_eq!(stack.config(), None);
        let second = Ipv4Addr::new(10, 0, 2, 16);
        server.offered.set(second);
        server.mood.set(Mood::Answers);
        sleep(5 * SEC).await;
        assert_eq!(stack.config(), Some(config(second, PEER_IP)));
        assert_eq!(stack.stats().sockets, 0);
    });
}
