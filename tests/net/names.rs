//! Case N5: names looked up at servers that fail, keep silent, and lie. All
//! times are of the clock that the tests move.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use firstpoll::net::dns::Family;
use firstpoll::net::{Error, Stack};
use firstpoll::time::{Duration, Instant};
use firstpoll::{block_on, spawn};
use firstpoll_peer::dns::{Data, Failure, Lie, Query, Record, Reply, Server, kind};
use smoltcp::wire::{EthernetAddress, IpAddress};

use crate::peer::{PEER_IP, Peer, start};

const SEC: Duration = Duration::from_secs(1);

const NAME: &str = "www.example.org";

const FOUND: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 80);

/// What a liar says.
const FALSE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 66);

fn a(ip: Ipv4Addr) -> Vec<Record> {
    vec![Record::new(NAME, Data::A(ip))]
}

type Shared = Rc<RefCell<Server>>;

/// A stack that knows the peer as a server, which does what `script` says.
fn served(script: impl FnMut(&Query) -> Reply + Send + 'static) -> (Stack, Peer, Shared) {
    let (stack, peer) = start();
    stack.set_dns_servers(&[PEER_IP.into()]);
    let server = Rc::new(RefCell::new(Server::new(script)));
    let serving = Rc::clone(&server);
    peer.serve(move |parsed, now| serving.borrow_mut().receive(parsed, now));
    (stack, peer, server)
}

/// Looks `NAME` up; the addresses, and how long it took.
fn lookup(stack: Stack, family: Family) -> (Result<Vec<IpAddr>, Error>, Duration) {
    let began = Instant::now();
    let result = block_on(stack.resolve(NAME, family));
    let took = Instant::now() - began;
    assert!(took <= 5 * SEC, "{result:?} after {took:?}");
    (result.map(|addresses| addresses.to_vec()), took)
}

#[test]
fn chains_of_names_are_followed() {
    let mut records: Vec<Record> = Vec::new();
    let mut name = NAME.to_owned();
    for number in 0..4 {
        let next = format!("alias-{number}.example.net");
        records.push(Record::new(&name, Data::Cname(next.clone())));
        name = next;
    }
    records.push(Record::new(&name, Data::A(FOUND)));
    let (stack, peer) = start();
    stack.set_dns_servers(&[PEER_IP.into()]);
    let mut server = Server::knowing(records);
    peer.serve(move |parsed, now| server.receive(parsed, now));
    assert_eq!(lookup(stack, Family::V4).0, Ok(vec![FOUND.into()]));
}

/// A server that tells one step of the chain at a time.
#[test]
fn chains_that_come_in_pieces_are_followed() {
    let (stack, _peer, server) = served(|query| {
        Reply::Answer(match &*query.name {
            NAME => vec![Record::new(NAME, Data::Cname("b.example".to_owned()))],
            "b.example" => vec![Record::new("b.example", Data::A(FOUND))],
            _ => Vec::new(),
        })
    });
    assert_eq!(lookup(stack, Family::V4).0, Ok(vec![FOUND.into()]));
    assert_eq!(server.borrow().queries().len(), 2);
}

#[test]
fn chains_without_an_end_are_an_error() {
    let (stack, _peer, _) = served(|query| {
        let other = if query.name == NAME {
            "b.example"
        } else {
            NAME
        };
        let record = Record::new(&query.name, Data::Cname(other.to_owned()));
        Reply::Answer(vec![record])
    });
    assert!(lookup(stack, Family::V4).0.is_err());
}

#[test]
fn failures_are_told_apart() {
    let (stack, _peer, _) = served(|query| match query.kind {
        kind::A => Reply::Failure(Failure::Name),
        _ => Reply::Answer(Vec::new()),
    });
    assert_eq!(lookup(stack, Family::V4).0, Err(Error::NameNotFound));
    assert_eq!(lookup(stack, Family::V6).0, Err(Error::NameWithoutAddress));
    for failure in [Failure::Server, Failure::Refused, Failure::Format] {
        let (stack, _peer, _) = served(move |_| Reply::Failure(failure));
        assert_eq!(lookup(stack, Family::V4).0, Err(Error::NameServerFailed));
    }
}

#[test]
fn silence_ends_in_time() {
    let (stack, _peer, server) = served(|_| Reply::Silence);
    let (result, took) = lookup(stack, Family::V4);
    assert_eq!(result, Err(Error::TimedOut));
    assert!(took > 4 * SEC, "given up after {took:?}");
    assert!(server.borrow().queries().len() >= 2, "asked only once");
}

/// An answer that was lost is asked for again.
#[test]
fn a_lost_answer_costs_no_more_than_time() {
    let mut count = 0;
    let (stack, _peer, _) = served(move |_| {
        count += 1;
        match count {
            1 => Reply::Silence,
            _ => Reply::Answer(a(FOUND)),
        }
    });
    assert_eq!(lookup(stack, Family::V4).0, Ok(vec![FOUND.into()]));
}

/// Each lie comes first and again, the truth never.
#[test]
fn lies_are_not_believed() {
    let other = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 99));
    for lie in [
        Lie::Id,
        Lie::Question,
        Lie::QuestionKind,
        Lie::NoResponse,
        Lie::SourcePort,
        Lie::SourceAddress(other),
        Lie::ClientPort,
        Lie::Cut(11),
        Lie::Cut(20),
        Lie::Garbage(Vec::new()),
        Lie::Garbage(vec![0xff; 512]),
        Lie::Garbage(vec![0xc0; 512]),
    ] {
        let told = lie.clone();
        let (stack, _peer, _) = served(move |_| Reply::Lie(a(FALSE), told.clone()));
        assert!(lookup(stack, Family::V4).0.is_err(), "{lie:?}");

        // The truth that follows a lie is found.
        let told = lie.clone();
        let (stack, _peer, _) = served(move |_| {
            let lie = Reply::Lie(a(FALSE), told.clone());
            Reply::Several(vec![lie, Reply::Answer(a(FOUND))])
        });
        let found = lookup(stack, Family::V4).0;
        assert_eq!(found, Ok(vec![FOUND.into()]), "{lie:?}");
    }
}

/// Answers that contradict themselves are an error or give what they have, but
/// neither hang nor panic.
#[test]
fn malformed_answers_end_in_time() {
    for lie in [
        Lie::Loop,
        Lie::Missing(1),
        Lie::Missing(60_000),
        Lie::Cut(40),
    ] {
        let told = lie.clone();
        let (stack, _peer, _) = served(move |_| Reply::Lie(a(FOUND), told.clone()));
        let (result, _) = lookup(stack, Family::V4);
        let looped = IpAddr::V4(FALSE);
        assert!(
            !result.is_ok_and(|found| found.contains(&looped)),
            "{lie:?}"
        );
    }
}

/// Records of other names than the one that was asked for are not taken.
#[test]
fn records_of_other_names_are_not_taken() {
    let (stack, _peer, _) = served(|_| {
        let mut records = vec![Record::new("evil.example", Data::A(FALSE))];
        records.extend(a(FOUND));
        Reply::Answer(records)
    });
    assert_eq!(lookup(stack, Family::V4).0, Ok(vec![FOUND.into()]));
}

#[test]
fn records_of_odd_lengths_are_not_taken() {
    for length in [0, 3, 5, 16] {
        let (stack, _peer, _) = served(move |_| {
            let odd = Data::Other(kind::A, vec![10; length]);
            Reply::Answer(vec![Record::new(NAME, odd)])
        });
        assert!(lookup(stack, Family::V4).0.is_err(), "{length}");
    }
}

/// More servers than are kept; the one that answers is among the first.
#[test]
fn silent_servers_are_passed_over() {
    let (stack, peer) = start();
    let servers: Vec<IpAddr> = (3..23).map(|n| Ipv4Addr::new(10, 0, 2, n).into()).collect();
    // Nobody has the addresses of the others.
    for server in &servers[..6] {
        peer.add_address(IpAddress::from(*server), 24);
    }
    stack.set_dns_servers(&servers);
    let mut server = Server::new(|query| match query.server {
        IpAddr::V4(ip) if ip.octets()[3] == 5 => Reply::Answer(a(FOUND)),
        _ => Reply::Silence,
    });
    peer.serve(move |parsed, now| server.receive(parsed, now));
    assert_eq!(lookup(stack, Family::V4).0, Ok(vec![FOUND.into()]));
}

/// What does not fit into a datagram is asked for over TCP.
#[test]
fn truncated_answers_are_asked_for_again() {
    let (stack, peer, server) = served(|query| {
        if query.over_tcp {
            let many = (1..=12).map(|n| Ipv4Addr::new(10, 0, 3, n));
            Reply::Answer(many.flat_map(a).collect())
        } else {
            Reply::Truncated(a(FALSE))
        }
    });
    let listening = peer.listen(53);
    let serving = spawn(async move {
        assert!(listening.established().await);
        let mut received = Vec::new();
        while received.len() < 2 || received.len() < 2 + usize::from(received[1]) {
            received.extend(listening.read().await.unwrap());
        }
        let answers =
            server
                .borrow_mut()
                .answer_stream(&received[2..], Duration::ZERO, PEER_IP.into(), 0);
        for answer in answers {
            listening
                .write_all(&(answer.len() as u16).to_be_bytes())
                .await;
            listening.write_all(&answer).await;
        }
        listening.close();
    });
    let found = lookup(stack, Family::V4)
        .0
        .expect("it is answered over TCP");
    assert_eq!(found.len(), 12);
    assert!(!found.contains(&FALSE.into()));
    block_on(serving);
}

/// A server whose TCP nobody answers.
#[test]
fn truncated_answers_without_tcp_end_in_time() {
    let (stack, _peer, _) = served(|_| Reply::Truncated(Vec::new()));
    assert!(lookup(stack, Family::V4).0.is_err());
}

/// A stranger who knows everything but the question's number and port.
#[test]
fn a_forger_who_guesses_is_not_believed() {
    let (stack, peer, _) = served(|_| Reply::Silence);
    peer.serve(|_, _| None);
    let mut guesses = Vec::new();
    let mut forger = Server::new(|_| Reply::Answer(a(FALSE)));
    let mac = EthernetAddress([2, 0, 0, 0, 0, 0xee]);
    for id in 0..500_u16 {
        let mut query = id.to_be_bytes().to_vec();
        query.extend(b"\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01");
        let port = 49_152 + id;
        let answer = forger.answer_stream(&query, Duration::ZERO, PEER_IP.into(), port);
        let from = firstpoll_peer::Host { mac, ip: PEER_IP };
        let to = firstpoll_peer::Host {
            mac: EthernetAddress(crate::wire::STACK_MAC),
            ip: crate::peer::STACK_IP,
        };
        guesses.push(firstpoll_peer::frame::udp(from, to, 53, port, &answer[0]));
    }
    let asking = spawn(async move { stack.resolve(NAME, Family::V4).await });
    block_on(firstpoll::yield_now());
    for guess in guesses {
        peer.wire.send(guess);
    }
    assert!(block_on(asking).is_err());
}
