//! UDP, pings, names and leases of a guest, against a peer that sees and makes
//! every frame.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::dhcp::{self, Kind};
use firstpoll_peer::dns::{self, Data, Failure, Lie, Record};
use firstpoll_peer::frame::ndp::{self, Advertisement};
use firstpoll_peer::{Lease, Peer, frame};
use firstpoll_qemu_tests::agent::Agent;
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, GUEST, STATIC};
use xtask::guest::Guest;

const SECOND: Duration = Duration::from_secs(1);

/// The peer's address.
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

const FOUND: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 80);

/// What liars say.
const FALSE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 66);

fn agent(command_line: &str) -> Result<(Guest, Peer, Agent)> {
    let (mut guest, peer) = network::boot_with_peer("agent", command_line)?;
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    let agent = Agent::connect(&peer)?;
    Ok((guest, peer, agent))
}

/// Case N1: a ping and a datagram to hosts that were never heard of, of both
/// versions of IP.
#[test]
fn the_first_packets_to_strangers_are_not_lost() -> Result<()> {
    let ip6 = "ip6=fd00::15/64";
    let (_guest, peer, mut agent) = agent(&format!("{STATIC} {ip6}"))?;
    for host in [
        IpAddr::V4(Ipv4Addr::new(10, 0, 2, 20)),
        IpAddr::V4(Ipv4Addr::new(10, 0, 2, 21)),
        "fd00::20".parse()?,
        "fd00::21".parse()?,
    ] {
        peer.with(|engine, _| engine.add_address(host));
    }
    let socket = peer.bind(4000);
    agent.order("bind 5000 16")?;
    for (pinged, told) in [
        ("10.0.2.20", "10.0.2.21:4000"),
        ("fd00::20", "[fd00::21]:4000"),
    ] {
        agent.order(&format!("ping {pinged}"))?;
        agent.order(&format!("send {told} 1 100"))?;
        let datagram = socket.receive(SECOND)?;
        ensure!(datagram.to == told.parse::<SocketAddr>()?);
        ensure!(datagram.from.port() == 5000 && datagram.data.len() == 100);
    }
    Ok(())
}

/// Case N3: more datagrams at once than a slow reader has room for, and one
/// that is larger than a packet.
#[test]
fn what_has_no_room_is_dropped_and_counted() -> Result<()> {
    let (_guest, peer, mut agent) = agent(STATIC)?;
    agent.order("bind 5000 16")?;
    let to = peer.resolve(GUEST, SECOND).context("nobody there")?;
    let datagram = frame::udp(peer.host(), to, 4000, 5000, &[b'x'; 512]);
    peer.send_frames(std::iter::repeat_n(datagram, 64));
    // The ping comes after them, so they are there when it is answered.
    ensure!(peer.ping(GUEST, 1, SECOND).is_some());
    let told = agent.order("drain")?;
    ensure!(told == "16 datagrams 8192 bytes 48 dropped", "{told}");

    peer.send_frames(fragments(&peer, to, 3000));
    ensure!(peer.ping(GUEST, 2, SECOND).is_some());
    let told = agent.order("drain")?;
    let dropped = told == "0 datagrams 0 bytes 48 dropped";
    ensure!(
        dropped || told == "1 datagrams 3000 bytes 48 dropped",
        "{told}"
    );
    Ok(())
}

/// A datagram of `length` bytes, cut into packets (RFC 791 §3.2).
fn fragments(peer: &Peer, to: firstpoll_peer::Host, length: usize) -> Vec<Vec<u8>> {
    const ETHERNET_BYTES: usize = 14;
    const IP_BYTES: usize = 20;
    const PART_BYTES: usize = 1480;
    let whole = frame::udp(peer.host(), to, 4000, 5000, &vec![b'y'; length]);
    let (headers, payload) = whole.split_at(ETHERNET_BYTES + IP_BYTES);
    let parts = payload.chunks(PART_BYTES).enumerate();
    let fragment = |(number, part): (usize, &[u8])| {
        let mut bytes = [headers, part].concat();
        let ip = &mut bytes[ETHERNET_BYTES..ETHERNET_BYTES + IP_BYTES];
        let total = (IP_BYTES + part.len()) as u16;
        let more = (number + 1) * PART_BYTES < payload.len();
        let place = (number * PART_BYTES / 8) as u16 | if more { 0x2000 } else { 0 };
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&7_u16.to_be_bytes());
        ip[6..8].copy_from_slice(&place.to_be_bytes());
        ip[10..12].copy_from_slice(&[0, 0]);
        let words = ip.chunks(2);
        let sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    };
    parts.map(fragment).collect()
}

/// Case N8: more sends at once than the card's queue has places.
#[test]
fn a_thousand_datagrams_leave_at_once() -> Result<()> {
    let (_guest, peer, mut agent) = agent(STATIC)?;
    let socket = peer.bind(4000);
    agent.order("bind 5000 16")?;
    agent.order(&format!("send {PEER}:4000 1000 100"))?;
    for number in 0..1000_u32 {
        let datagram = socket.receive(5 * SECOND)?;
        let data = &datagram.data;
        ensure!(data[..4] == number.to_be_bytes(), "{number}: {data:?}");
    }
    Ok(())
}

fn a(ip: Ipv4Addr) -> Vec<Record> {
    vec![Record::new("www.example.org", Data::A(ip))]
}

/// Case N5: an answer or a clear error within 5 s each.
#[test]
fn names_are_found_or_given_up_in_time() -> Result<()> {
    let line = format!("{STATIC} dns=10.0.2.2");
    let (_guest, peer, mut agent) = agent(&line)?;
    let many = (1..=12).map(|n| Ipv4Addr::new(10, 0, 3, n));
    let many: Vec<Record> = many.flat_map(a).collect();
    let chain = vec![
        Record::new("www.example.org", Data::Cname("b.example".to_owned())),
        Record::new("b.example", Data::Cname("c.example".to_owned())),
        Record::new("c.example", Data::A(FOUND)),
    ];
    type Script = Box<dyn FnMut(&dns::Query) -> dns::Reply + Send>;
    let always = |reply: dns::Reply| -> Script { Box::new(move |_| reply.clone()) };
    let found: Result<&str, &str> = Ok("10.0.2.80");
    let cases: Vec<(&str, Script, Result<&str, &str>)> = vec![
        ("chain", always(dns::Reply::Answer(chain)), found),
        (
            "nobody has the name",
            always(dns::Reply::Failure(Failure::Name)),
            Err("NameNotFound"),
        ),
        (
            "the server fails",
            always(dns::Reply::Failure(Failure::Server)),
            Err("NameServerFailed"),
        ),
        ("silence", always(dns::Reply::Silence), Err("TimedOut")),
        (
            "wrong number",
            always(dns::Reply::Lie(a(FALSE), Lie::Id)),
            Err("TimedOut"),
        ),
        (
            "wrong number first",
            always(dns::Reply::Several(vec![
                dns::Reply::Lie(a(FALSE), Lie::Id),
                dns::Reply::Answer(a(FOUND)),
            ])),
            found,
        ),
        (
            "truncated",
            Box::new(move |query| match query.over_tcp {
                false => dns::Reply::Truncated(a(FALSE)),
                true => dns::Reply::Answer(a(FOUND)),
            }),
            found,
        ),
        (
            "many",
            Box::new(move |query| match query.over_tcp {
                false => dns::Reply::Truncated(Vec::new()),
                true => dns::Reply::Answer(many.clone()),
            }),
            Ok("10.0.3.1,10.0.3.2,10.0.3.3,10.0.3.4,10.0.3.5,10.0.3.6,\
                10.0.3.7,10.0.3.8,10.0.3.9,10.0.3.10,10.0.3.11,10.0.3.12"),
        ),
    ];
    for (number, (what, mut script, expected)) in cases.into_iter().enumerate() {
        // Names of their own, so that nothing is remembered.
        let name = format!("n{number}.example.org");
        let asked = name.clone();
        peer.serve_dns(dns::Server::new(move |query| {
            let reply = script(query);
            if query.name.eq_ignore_ascii_case(&asked) {
                renamed(reply, &asked)
            } else {
                reply
            }
        }));
        let outcome = agent.tell(&format!("resolve {name} v4"))?;
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        ensure!(outcome.result == expected, "{what}: {outcome:?}");
        ensure!(
            outcome.took <= 5 * SECOND + SECOND / 2,
            "{what}: {outcome:?}"
        );
    }
    Ok(())
}

/// The same about another name than `www.example.org`.
fn renamed(reply: dns::Reply, name: &str) -> dns::Reply {
    let rename = |records: Vec<Record>| -> Vec<Record> {
        let rename = |record: Record| match &*record.name {
            "www.example.org" => Record::new(name, record.data),
            _ => record,
        };
        records.into_iter().map(rename).collect()
    };
    match reply {
        dns::Reply::Answer(records) => dns::Reply::Answer(rename(records)),
        dns::Reply::Truncated(records) => dns::Reply::Truncated(rename(records)),
        dns::Reply::Lie(records, lie) => dns::Reply::Lie(rename(records), lie),
        dns::Reply::Several(replies) => {
            let replies = replies.into_iter().map(|reply| renamed(reply, name));
            dns::Reply::Several(replies.collect())
        }
        other => other,
    }
}

/// Case N4: leases of `lease`, renewed for `duration`, then another address and
/// another name server.
fn leases_are_renewed(lease_time: Duration, duration: Duration) -> Result<()> {
    const NEXT: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 16);
    let (mut guest, peer) = network::boot_with_peer("agent", "ip6=off")?;
    let start = Instant::now();
    let lease = move |ip, dns| Lease {
        ip,
        dns: vec![dns],
        duration: lease_time,
        ..Lease::default()
    };
    peer.serve_dhcp(dhcp::Server::new(move |_| {
        dhcp::Reply::Grant(if start.elapsed() < duration {
            lease(GUEST, Ipv4Addr::new(10, 0, 2, 3))
        } else {
            lease(NEXT, Ipv4Addr::new(10, 0, 2, 4))
        })
    }));
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    let mut agent = Agent::connect(&peer)?;
    ensure!(agent.order("config")? == "10.0.2.15 dns 10.0.2.3");
    let before = agent.order("stats")?;
    std::thread::sleep(duration.saturating_sub(start.elapsed() + lease_time / 8));
    let after = agent.order("stats")?;
    ensure!(
        allocated(&before)? >= allocated(&after)?,
        "{before}\n{after}"
    );
    ensure!(agent.order("config")? == "10.0.2.15 dns 10.0.2.3");
    drop(agent);

    let deadline = Instant::now() + 3 * lease_time;
    while peer.resolve(NEXT, SECOND).is_none() || peer.ping(NEXT, 1, SECOND).is_none() {
        ensure!(Instant::now() < deadline, "the new address is not in use");
    }
    let to = SocketAddr::from((NEXT, 2));
    let mut agent = Agent::on(peer.connect(to, 5 * SECOND)?);
    ensure!(agent.order("config")? == "10.0.2.16 dns 10.0.2.4");

    let requests = peer.dhcp_requests();
    let renewals = requests
        .iter()
        .filter(|request| request.kind == Kind::Renew);
    let renewals = renewals.count() as u32;
    let due = duration.as_secs() as u32 / (lease_time.as_secs() as u32 / 2);
    println!("{renewals} renewals in {duration:?}, {due} due");
    ensure!(renewals + 1 >= due, "{requests:?}");
    Ok(())
}

fn allocated(stats: &str) -> Result<u64> {
    let (_, rest) = stats.split_once("allocated_bytes: ").context("no memory")?;
    let digits = rest.split(',').next().unwrap_or_default();
    Ok(digits.parse()?)
}

#[test]
fn leases_are_renewed_and_changed() -> Result<()> {
    leases_are_renewed(4 * SECOND, 10 * SECOND)
}

/// Case N4 in full.
#[test]
#[ignore = "long"]
fn leases_are_renewed_and_changed_in_full() -> Result<()> {
    leases_are_renewed(20 * SECOND, 240 * SECOND)
}

/// A guest without addresses of its own takes the router's prefix.
#[test]
fn the_routers_prefix_makes_an_address() -> Result<()> {
    let (mut guest, peer) = network::boot_with_peer("agent", STATIC)?;
    peer.with(|engine, _| {
        engine.advertise(Advertisement {
            router_lifetime: 600 * SECOND,
            prefix: "2001:db8::".parse().expect("it is an address"),
            prefix_len: 64,
            valid: 600 * SECOND,
            preferred: 600 * SECOND,
        });
        engine.add_address("2001:db8::2".parse().expect("it is an address"));
    });
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    let mac = peer.resolve(GUEST, SECOND).context("nobody there")?.mac;
    let prefix = "2001:db8::".parse()?;
    let made = ndp::autoconfigured(prefix, mac);
    ensure!(peer.ping(made, 1, 5 * SECOND).is_some(), "{made} is silent");
    let mut agent = Agent::connect(&peer)?;
    agent.order("ping 2001:db8::2")?;
    Ok(())
}

/// Case C10: a host that nobody is, of both versions of IP, has its own error.
#[test]
fn nobody_answers_within_a_bound() -> Result<()> {
    let (_guest, _peer, mut agent) = agent(&format!("{STATIC} ip6=fd00::15/64"))?;
    for nobody in ["10.0.2.77:80", "[fd00::77]:80"] {
        let outcome = agent.tell(&format!("connect {nobody}"))?;
        ensure!(outcome.result == Err("TimedOut".to_owned()), "{outcome:?}");
        ensure!(outcome.took < 35 * SECOND, "{outcome:?}");
    }
    Ok(())
}
