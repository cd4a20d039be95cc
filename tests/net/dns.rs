//! Names: looked up at servers that answer, that fail, and that lie.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use firstpoll::net::dns::{Family, Resolver};
use firstpoll::net::{Error, Stack, TcpStream};
use firstpoll::time::{Duration, Instant, sleep, timeout};
use firstpoll::{block_on, spawn};
use proptest::collection::vec;
use proptest::prelude::*;
use smoltcp::wire::{DnsPacket, DnsQuestion, IpAddress, Ipv4Address};

use crate::peer::{PEER_IP, Peer, PeerSocket, START, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const NO_NAME: u8 = 3;
const FAILURE: u8 = 2;
const REFUSED: u8 = 5;

const FOUR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// A question as a server gets it.
#[derive(Clone, Debug)]
struct Query {
    message: Vec<u8>,
    name: String,
    kind: u16,
    from_port: u16,
}

/// An answer's record: owner, kind, seconds to live, data.
type Record = (&'static str, u16, u32, Vec<u8>);

fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes
}

fn a(owner: &'static str, address: Ipv4Addr) -> Record {
    (owner, A, 60, address.octets().to_vec())
}

fn aaaa(owner: &'static str, address: Ipv6Addr) -> Record {
    (owner, AAAA, 60, address.octets().to_vec())
}

fn cname(owner: &'static str, target: &str) -> Record {
    (owner, CNAME, 60, wire(target))
}

impl Query {
    fn new(message: &[u8], from_port: u16) -> Self {
        let packet = DnsPacket::new_checked(message).unwrap();
        assert_eq!(packet.question_count(), 1);
        let (rest, question) = DnsQuestion::parse(packet.payload()).unwrap();
        assert!(rest.is_empty());
        let labels: Vec<_> = packet
            .parse_name(question.name)
            .map(|label| String::from_utf8(label.unwrap().to_vec()).unwrap())
            .collect();
        Self {
            message: message.to_vec(),
            name: labels.join("."),
            kind: question.type_.into(),
            from_port,
        }
    }

    fn id(&self) -> [u8; 2] {
        [self.message[0], self.message[1]]
    }

    /// The answer with a code and these records.
    fn answer(&self, code: u8, records: &[Record]) -> Vec<u8> {
        let mut message = self.message.clone();
        message[2] = 0x81;
        message[3] = 0x80 | code;
        message[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (owner, kind, ttl, data) in records {
            message.extend(wire(owner));
            message.extend(kind.to_be_bytes());
            message.extend(1_u16.to_be_bytes());
            message.extend(ttl.to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message
    }

    /// The records of the kind that is asked for.
    fn of_kind(&self, records: &[Record]) -> Vec<u8> {
        let wanted = |record: &&Record| record.1 == self.kind || record.1 == CNAME;
        let records: Vec<_> = records.iter().filter(wanted).cloned().collect();
        self.answer(0, &records)
    }
}

/// What a server sends back.
#[derive(Clone, Debug, Default)]
struct Reply {
    messages: Vec<Vec<u8>>,
    after: Duration,
}

impl From<Vec<u8>> for Reply {
    fn from(message: Vec<u8>) -> Self {
        Self {
            messages: vec![message],
            after: Duration::ZERO,
        }
    }
}

const SILENCE: Reply = Reply {
    messages: Vec::new(),
    after: Duration::ZERO,
};

/// Serves names at an address of the far host; returns what was asked.
fn serve(
    peer: &Peer,
    address: Ipv4Address,
    mut script: impl FnMut(&Query) -> Reply + 'static,
) -> Rc<RefCell<Vec<Query>>> {
    if address != PEER_IP {
        peer.add_address(address.into(), 24);
    }
    let socket = Rc::new(peer.udp(Some(address), 53));
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = asked.clone();
    spawn(async move {
        loop {
            let (message, meta) = socket.receive().await;
            let query = Query::new(&message, meta.endpoint.port);
            let reply = script(&query);
            log.borrow_mut().push(query);
            let socket = socket.clone();
            spawn(async move {
                if !reply.after.is_zero() {
                    sleep(reply.after).await;
                }
                for message in reply.messages {
                    socket.send(&message, meta.endpoint, Some(IpAddress::Ipv4(address)));
                }
            })
            .detach();
        }
    })
    .detach();
    asked
}

fn server(last: u8) -> Ipv4Address {
    Ipv4Address::new(10, 0, 2, last)
}

/// A stack whose only server of names is the far host, by a script.
fn start_with(
    script: impl FnMut(&Query) -> Reply + 'static,
) -> (Stack, Peer, Rc<RefCell<Vec<Query>>>) {
    let (stack, peer) = start();
    stack.set_dns_servers(&[PEER_IP.into()]);
    let asked = serve(&peer, PEER_IP, script);
    (stack, peer, asked)
}

fn resolve(stack: Stack, name: &str, family: Family) -> Result<Vec<IpAddr>, Error> {
    let addresses = block_on(stack.resolve(name, family))?;
    Ok(addresses.to_vec())
}

fn four(stack: Stack, name: &str) -> Result<Vec<IpAddr>, Error> {
    resolve(stack, name, Family::V4)
}

#[test]
fn a_name_is_found_by_either_family_and_by_both() {
    let (stack, _peer, asked) = start_with(|query| {
        query
            .of_kind(&[a("example.org", FOUR), aaaa("example.org", SIX)])
            .into()
    });
    assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]));
    assert_eq!(
        resolve(stack, "Example.ORG.", Family::V6),
        Ok(vec![SIX.into()])
    );
    stack.set_dns_servers(&[PEER_IP.into(), server(9).into()]); // Forgets the answers.
    assert_eq!(
        resolve(stack, "example.org", Family::Any),
        Ok(vec![SIX.into(), FOUR.into()])
    );
    let kinds: Vec<_> = asked.borrow().iter().map(|query| query.kind).collect();
    assert_eq!(kinds[..2], [A, AAAA]);
    assert_eq!(kinds.len(), 4);
    assert_eq!(asked.borrow()[0].name, "example.org");
    assert_eq!(asked.borrow()[1].name, "example.org");
    assert_eq!(stack.stats().datagram_sockets, 0);
}

#[test]
fn addresses_and_localhost_need_no_server() {
    let (stack, _peer) = start();
    let any = |name| resolve(stack, name, Family::Any);
    assert_eq!(any("192.0.2.1"), Ok(vec![FOUR.into()]));
    assert_eq!(any("2001:db8::1"), Ok(vec![SIX.into()]));
    assert_eq!(
        any("localhost"),
        Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()])
    );
    assert_eq!(
        four(stack, "a.localhost."),
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    );
    assert_eq!(four(stack, "2001:db8::1"), Err(Error::NameWithoutAddress));
    assert_eq!(stack.stats().datagrams_sent, 0);
}

#[test]
fn what_can_be_no_name_is_not_asked_for() {
    let (stack, _peer, asked) = start_with(|_| SILENCE);
    let long = "a.".repeat(128);
    for name in ["", ".", "a..b", "with space", "10.0.2", "[::1]", &long] {
        assert_eq!(four(stack, name), Err(Error::InvalidName), "{name}");
    }
    assert!(asked.borrow().is_empty());
}

#[test]
fn without_a_server_there_is_no_answer() {
    let (stack, _peer) = start();
    assert_eq!(four(stack, "example.org"), Err(Error::NoNameServer));
    assert!(Instant::now() - START < MS);
}

#[test]
fn errors_are_told_apart() {
    let (stack, _peer, _) = start_with(|query| match &query.name[..] {
        "none" => query.answer(NO_NAME, &[]).into(),
        "empty" => query.answer(0, &[]).into(),
        "other" => query.answer(0, &[a("another", FOUR)]).into(),
        "broken" => query.answer(FAILURE, &[]).into(),
        "refused" => query.answer(REFUSED, &[]).into(),
        _ => SILENCE,
    });
    for (name, error) in [
        ("none", Error::NameNotFound),
        ("empty", Error::NameWithoutAddress),
        ("other", Error::NameWithoutAddress),
        ("broken", Error::NameServerFailed),
        ("refused", Error::NameServerFailed),
    ] {
        let began = Instant::now();
        assert_eq!(four(stack, name), Err(error), "{name}");
        assert_eq!(resolve(stack, name, Family::Any), Err(error), "{name}");
        assert!(Instant::now() - began < 100 * MS, "{name}");
    }
}

/// Case N5: no answer.
#[test]
fn silence_times_out_after_five_seconds_and_some_more_questions() {
    let (stack, _peer, asked) = start_with(|_| SILENCE);
    assert_eq!(four(stack, "example.org"), Err(Error::TimedOut));
    let took = Instant::now() - START;
    assert!((5 * SEC..5 * SEC + 100 * MS).contains(&took), "{took:?}");
    assert_eq!(asked.borrow().len(), 3);
    let began = Instant::now();
    let resolver = Resolver::new(stack).timeout(SEC);
    let result = block_on(resolver.resolve("example.org", Family::Any));
    assert_eq!(result, Err(Error::TimedOut));
    let took = Instant::now() - began;
    assert!((SEC..SEC + 100 * MS).contains(&took), "{took:?}");
    assert_eq!(stack.stats().datagram_sockets, 0);
}

#[test]
fn a_lost_question_is_asked_again() {
    let mut count = 0;
    let (stack, _peer, _) = start_with(move |query| {
        count += 1;
        if count == 1 {
            return SILENCE;
        }
        query.of_kind(&[a("example.org", FOUR)]).into()
    });
    assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]));
    assert!(Instant::now() - START < 2 * SEC);
}

#[test]
fn a_slow_answer_counts_after_the_next_question_was_asked() {
    let mut count = 0;
    let (stack, _peer, _) = start_with(move |query| {
        count += 1;
        Reply {
            after: 2500 * MS,
            messages: (count == 1)
                .then(|| query.of_kind(&[a("example.org", FOUR)]))
                .into_iter()
                .collect(),
        }
    });
    assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]));
    let took = Instant::now() - START;
    assert!(took < 2600 * MS, "{took:?}");
}

/// Case N5: more servers than smoltcp has room for.
#[test]
fn the_last_of_eight_servers_is_reached_in_time() {
    let (stack, peer) = start();
    let mut silent = Vec::new();
    let mut servers: Vec<IpAddr> = vec![PEER_IP.into()];
    servers.extend((100..107).map(|last| IpAddr::from(server(last))));
    for last in [2, 100, 101, 102, 103, 104, 105] {
        silent.push(serve(&peer, server(last), |_| SILENCE));
    }
    serve(&peer, server(106), |query| {
        query.of_kind(&[a("example.org", FOUR)]).into()
    });
    stack.set_dns_servers(&servers);
    assert_eq!(stack.dns_servers(), servers);
    assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]));
    let took = Instant::now() - START;
    assert!(took < 5 * SEC, "{took:?}");
    assert!(silent.iter().all(|asked| asked.borrow().len() == 1));
}

#[test]
fn a_server_that_fails_gives_way_to_the_next_at_once() {
    for how in 0..4 {
        let (stack, peer) = start();
        stack.set_dns_servers(&[server(100).into(), server(101).into()]);
        match how {
            0 => drop(serve(&peer, server(100), |query| {
                query.answer(FAILURE, &[]).into()
            })),
            1 => drop(serve(&peer, server(100), |query| {
                query.answer(REFUSED, &[]).into()
            })),
            // Records that cannot be read.
            2 => drop(serve(&peer, server(100), |query| {
                let mut message = query.of_kind(&[a("example.org", FOUR)]);
                message.truncate(message.len() - 1);
                message.into()
            })),
            // Nobody listens.
            _ => peer.add_address(server(100).into(), 24),
        }
        serve(&peer, server(101), |query| {
            query.of_kind(&[a("example.org", FOUR)]).into()
        });
        assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]), "{how}");
        assert!(Instant::now() - START < 500 * MS, "{how}");
    }
}

/// Case N5: a chain of aliases, in an order of the server's choice.
#[test]
fn aliases_are_followed() {
    let chain = [
        a("d.example", FOUR),
        cname("c.example", "d.example"),
        cname("a.example", "b.example"),
        cname("B.Example", "C.EXAMPLE"),
    ];
    let (stack, _peer, asked) = start_with(move |query| query.of_kind(&chain).into());
    assert_eq!(four(stack, "a.example"), Ok(vec![FOUR.into()]));
    assert_eq!(asked.borrow().len(), 1);
}

/// Case N5: the alias comes without the address.
#[test]
fn an_alias_alone_leads_to_another_question() {
    let (stack, _peer, asked) = start_with(|query| match &query.name[..] {
        "a.example" => query.of_kind(&[cname("a.example", "b.example")]).into(),
        "b.example" => query.of_kind(&[cname("b.example", "c.example")]).into(),
        "c.example" => query.of_kind(&[a("c.example", FOUR)]).into(),
        _ => SILENCE,
    });
    assert_eq!(four(stack, "a.example"), Ok(vec![FOUR.into()]));
    assert_eq!(asked.borrow().len(), 3);
}

#[test]
fn aliases_in_a_circle_or_without_end_are_an_error() {
    let circle = [cname("a", "b"), cname("b", "a")];
    let (stack, _peer, asked) = start_with(move |query| match &query.name[..] {
        "a" => query.of_kind(&circle).into(),
        "self" => query.of_kind(&[cname("self", "self")]).into(),
        // Each leads to a longer one.
        name => {
            let target: &'static str = format!("x-{name}").leak();
            let owner: &'static str = name.to_owned().leak();
            query.of_kind(&[cname(owner, target)]).into()
        }
    });
    for name in ["a", "self", "endless"] {
        asked.borrow_mut().clear();
        assert_eq!(four(stack, name), Err(Error::NameServerFailed), "{name}");
        assert!(asked.borrow().len() <= 9, "{name}");
    }
}

/// Case N5: answers that are not the answer.
#[test]
fn forged_answers_are_overlooked() {
    let wrong = Ipv4Addr::new(203, 0, 113, 66);
    let (stack, peer) = start();
    stack.set_dns_servers(&[PEER_IP.into()]);
    peer.add_address(server(66).into(), 24);
    // From another port of the server, and from another host.
    let forgers: Vec<Rc<PeerSocket>> = [Some(PEER_IP), Some(server(66))]
        .into_iter()
        .map(|address| Rc::new(peer.udp(address, if address == Some(PEER_IP) { 54 } else { 53 })))
        .collect();
    serve(&peer, PEER_IP, move |query| {
        let right = query.of_kind(&[a("example.org", FOUR)]);
        let forged = query.of_kind(&[a("example.org", wrong)]);
        for forger in &forgers {
            let to = (IpAddress::Ipv4(crate::peer::STACK_IP), query.from_port);
            forger.send(&forged, to.into(), None);
        }
        let change = |change: fn(&mut Vec<u8>)| {
            let mut message = forged.clone();
            change(&mut message);
            message
        };
        Reply {
            messages: vec![
                change(|message| message[1] ^= 1),    // Another identifier.
                change(|message| message[2] &= 0x7f), // A question.
                change(|message| message[2] |= 0x08), // Another operation.
                change(|message| message[13] ^= 1),   // Another name.
                change(|message| message[25] ^= 1),   // Another kind.
                change(|message| message[27] ^= 2),   // Another class.
                change(|message| message[5] = 2),     // Two questions.
                change(|message| message[5] = 0),     // None.
                change(|message| message.truncate(11)),
                change(|message| message.truncate(20)),
                change(|message| message.clear()),
                right,
            ],
            after: 50 * MS,
        }
    });
    assert_eq!(four(stack, "example.org"), Ok(vec![FOUR.into()]));
    assert!(Instant::now() - START < SEC);
}

#[test]
fn each_question_has_a_port_and_an_identifier_of_its_own() {
    let (stack, _peer, asked) = start_with(|query| query.answer(0, &[]).into());
    for _ in 0..50 {
        let _ = four(stack, "example.org");
    }
    let asked = asked.borrow();
    let mut ports: Vec<_> = asked.iter().map(|query| query.from_port).collect();
    let mut ids: Vec<_> = asked.iter().map(Query::id).collect();
    for row in ports.windows(2) {
        assert_ne!(row[0] + 1, row[1], "{ports:?}");
    }
    ports.sort_unstable();
    ports.dedup();
    ids.sort_unstable();
    ids.dedup();
    assert!(ports.len() > 45 && ids.len() > 45);
}

/// Case N5: an answer that does not fit.
#[test]
fn a_truncated_answer_is_asked_for_again_over_tcp() {
    let (stack, peer, asked) = start_with(|query| {
        let mut message = query.of_kind(&[a("example.org", FOUR)]);
        message[2] |= 0x02;
        message.into()
    });
    let listener = peer.listen(53);
    let far = spawn(async move {
        assert!(listener.established().await);
        // The question comes in one segment.
        let question = listener.read_exactly(2).await;
        let (length, message) = question.split_at(2);
        assert_eq!(length, (message.len() as u16).to_be_bytes());
        let records: Vec<_> = (1..=200)
            .map(|last| a("example.org", Ipv4Addr::new(192, 0, 2, last)))
            .collect();
        let answer = Query::new(message, 0).answer(0, &records);
        assert!(answer.len() > 4096);
        listener
            .write_all(&(answer.len() as u16).to_be_bytes())
            .await;
        listener.write_all(&answer).await;
        listener.read_to_end().await.unwrap();
        listener.close();
    });
    let found = four(stack, "example.org").unwrap();
    assert_eq!(found.len(), 16);
    assert_eq!(found[0], IpAddr::from(FOUR));
    block_on(far);
    assert_eq!(asked.borrow().len(), 1);
}

#[test]
fn a_truncated_answer_without_tcp_is_an_error() {
    let (stack, _peer, _) = start_with(|query| {
        let mut message = query.answer(0, &[]);
        message[2] |= 0x02;
        message.into()
    });
    assert_eq!(four(stack, "example.org"), Err(Error::NameServerFailed));
    assert!(Instant::now() - START < SEC);
}

#[test]
fn answers_are_remembered_as_long_as_they_say() {
    let (stack, _peer, asked) = start_with(|query| {
        let ttl = if query.name == "short" { 0 } else { 60 };
        let owner = if ttl == 0 { "short" } else { "long" };
        query
            .answer(0, &[(owner, A, ttl, FOUR.octets().to_vec())])
            .into()
    });
    let count = || asked.borrow().len();
    for _ in 0..5 {
        assert_eq!(four(stack, "long"), Ok(vec![FOUR.into()]));
    }
    assert_eq!(count(), 1);
    block_on(sleep(61 * SEC));
    assert_eq!(four(stack, "LONG."), Ok(vec![FOUR.into()]));
    assert_eq!(count(), 2);
    for _ in 0..3 {
        assert_eq!(four(stack, "short"), Ok(vec![FOUR.into()]));
    }
    assert_eq!(count(), 5);
    // Other servers may say something else.
    stack.set_dns_servers(&[PEER_IP.into(), server(9).into()]);
    assert_eq!(four(stack, "long"), Ok(vec![FOUR.into()]));
    assert_eq!(count(), 6);
}

#[test]
fn a_family_that_is_never_answered_holds_up_the_other_for_a_second() {
    let (stack, _peer, _) = start_with(|query| match query.kind {
        A => query.of_kind(&[a("example.org", FOUR)]).into(),
        _ => SILENCE,
    });
    let found = resolve(stack, "example.org", Family::Any);
    assert_eq!(found, Ok(vec![FOUR.into()]));
    let took = Instant::now() - START;
    assert!((SEC..SEC + 100 * MS).contains(&took), "{took:?}");
}

#[test]
fn a_lookup_that_was_given_up_leaves_nothing() {
    let (stack, _peer, asked) = start_with(|_| SILENCE);
    block_on(async {
        for millis in [0, 1, 10, 1700, 3400] {
            let lookup = stack.resolve("example.org", Family::Any);
            let result = timeout(millis * MS, lookup).await;
            assert!(result.is_err());
            assert_eq!(stack.stats().datagram_sockets, 0);
        }
    });
    assert!(asked.borrow().len() > 4);
}

#[test]
fn a_host_is_connected_to_by_its_name_at_the_first_address_that_works() {
    let closed = server(50);
    let open = PEER_IP;
    let (stack, peer, _) = start_with(move |query| {
        query
            .of_kind(&[
                aaaa("example.org", SIX),
                a("example.org", closed),
                a("example.org", open),
            ])
            .into()
    });
    peer.add_address(closed.into(), 24);
    let listener = peer.listen(80);
    block_on(async {
        // Listeners of the far host are at all of its addresses.
        let stream = TcpStream::connect_host(stack, "example.org", 80).await;
        let stream = stream.unwrap();
        assert_eq!(stream.peer_addr().ip(), IpAddr::from(closed));
        assert!(listener.established().await);
        let refused = TcpStream::connect_host(stack, "example.org", 81).await;
        assert_eq!(refused.map(drop), Err(Error::ConnectionRefused));
        let nobody = TcpStream::connect_host(stack, "a..b", 80).await;
        assert_eq!(nobody.map(drop), Err(Error::InvalidName));
    });
}

#[test]
fn a_host_whose_first_address_is_dead_is_reached_at_the_second() {
    let dead = server(50);
    let (stack, peer, _) = start_with(move |query| {
        query
            .of_kind(&[a("example.org", dead), a("example.org", PEER_IP)])
            .into()
    });
    let listener = peer.listen(80);
    block_on(async {
        let stream = TcpStream::connect_host(stack, "example.org", 80).await;
        assert_eq!(stream.unwrap().peer_addr().ip(), IpAddr::from(PEER_IP));
        assert!(listener.established().await);
    });
    let took = Instant::now() - START;
    assert!((15 * SEC..16 * SEC).contains(&took), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Case N5: garbage. Half of it behind a right beginning.
    #[test]
    fn whatever_a_server_answers_the_lookup_ends(
        replies in vec((vec(any::<u8>(), 0..120), any::<bool>(), 0..4_u8), 1..4),
    ) {
        let replies = Rc::new(Cell::new(replies));
        let (stack, _peer, _) = start_with(move |query| {
            let mut all = replies.take();
            let Some((bytes, is_answer, count)) = all.pop() else {
                return SILENCE;
            };
            replies.set(all);
            let mut message = if is_answer {
                query.answer(0, &[])
            } else {
                query.id().to_vec()
            };
            if is_answer {
                message[7] = count;
            }
            message.extend(bytes);
            message.into()
        });
        let began = Instant::now();
        let _ = resolve(stack, "example.org", Family::Any);
        prop_assert!(Instant::now() - began < 6 * SEC);
        prop_assert_eq!(stack.stats().datagram_sockets, 0);
    }
}
