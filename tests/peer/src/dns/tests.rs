use smoltcp::wire::{DnsPacket, DnsQueryType, DnsRecord, DnsRecordData, DnsRepr, EthernetAddress};

use super::*;
use crate::frame::Ipv4Address;

const SERVER: Host = Host {
    mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
    ip: Ipv4Address::new(10, 0, 2, 3),
};
const CLIENT: Host = Host {
    mac: EthernetAddress([2, 0, 0, 0, 0, 15]),
    ip: Ipv4Address::new(10, 0, 2, 15),
};
const FOUND: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 80);

/// `www.example.org`, as it stands in messages.
const NAME: &[u8] = b"\x03www\x07example\x03org\x00";

fn query() -> Vec<u8> {
    let repr = DnsRepr {
        transaction_id: 0x1234,
        opcode: smoltcp::wire::DnsOpcode::Query,
        flags: smoltcp::wire::DnsFlags::RECURSION_DESIRED,
        question: smoltcp::wire::DnsQuestion {
            name: NAME,
            type_: DnsQueryType::A,
        },
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut DnsPacket::new_unchecked(&mut bytes[..]));
    bytes
}

/// The datagrams that answer a query, with the ports that they come from.
fn answers(server: &mut Server) -> Vec<(Host<IpAddr>, u16, Vec<u8>)> {
    let frame = frame::udp(CLIENT, SERVER, 50_000, PORT, &query());
    let parsed = Parsed::parse(&frame).expect("the query is well-formed");
    let frames = server.receive(&parsed, Duration::ZERO);
    let frames = frames.expect("it is for a DNS server").into_iter();
    let datagram = |frame: Vec<u8>| match Parsed::parse(&frame) {
        Some(Parsed::Udp {
            from,
            src_port,
            data,
            ..
        }) => (from, src_port, data.to_vec()),
        other => panic!("the answer is {other:?}"),
    };
    frames.map(datagram).collect()
}

fn www() -> Record {
    Record::new("www.example.org", Data::A(FOUND))
}

#[test]
fn a_chain_of_names_is_followed() {
    let mut server = Server::knowing(vec![
        Record::new("www.example.org", Data::Cname("a.example.net".to_owned())),
        Record::new("a.example.net", Data::A(FOUND)),
        Record::new("a.example.net", Data::Aaaa(Ipv6Addr::LOCALHOST)),
    ]);
    let (from, port, message) = answers(&mut server).remove(0);
    assert_eq!((from, port), (SERVER.any(), PORT));
    let packet = DnsPacket::new_checked(&message[..]).expect("it is a message");
    assert_eq!(packet.transaction_id(), 0x1234);
    assert_eq!(packet.answer_record_count(), 2);
    let (rest, question) =
        smoltcp::wire::DnsQuestion::parse(packet.payload()).expect("it repeats the question");
    assert_eq!(question.name, NAME);
    let (rest, first) = DnsRecord::parse(rest).expect("there is a record");
    assert_eq!(
        first.data,
        DnsRecordData::Cname(b"\x01a\x07example\x03net\x00")
    );
    let (rest, second) = DnsRecord::parse(rest).expect("there is another");
    assert_eq!(second.data, DnsRecordData::A(FOUND));
    assert!(rest.is_empty());

    let asked = &server.queries()[0];
    assert_eq!((&*asked.name, asked.kind), ("www.example.org", kind::A));
    assert_eq!((asked.port, asked.over_tcp), (50_000, false));
}

#[test]
fn names_that_nobody_knows_are_said_to_be_so() {
    let (_, _, message) = answers(&mut Server::knowing(Vec::new())).remove(0);
    assert_eq!(message[3] & 0x0f, Failure::Name as u8);
    assert_eq!(message[6..8], [0, 0]);
}

#[test]
fn lies_are_what_they_are_called() {
    let lying = |lie: Lie| {
        let mut server = Server::new(move |_| Reply::Lie(vec![www()], lie.clone()));
        answers(&mut server).remove(0)
    };
    let truth = answers(&mut Server::knowing(vec![www()])).remove(0);
    let differs = |lie: Lie| {
        let (from, port, message) = lying(lie);
        let part = |range: std::ops::Range<usize>| message[range.clone()] != truth.2[range];
        let question = HEADER..HEADER + NAME.len() + 4;
        (
            from != truth.0 || port != truth.1,
            part(0..2),
            part(2..4),
            part(6..8),
            message.len() != truth.2.len() || part(question),
        )
    };
    const HEADER: usize = 12;
    let other = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 99));
    let no = false;
    assert_eq!(differs(Lie::Id), (no, true, no, no, no));
    assert_eq!(differs(Lie::Question), (no, no, no, no, true));
    assert_eq!(differs(Lie::QuestionKind), (no, no, no, no, true));
    assert_eq!(differs(Lie::NoResponse), (no, no, true, no, no));
    assert_eq!(differs(Lie::SourcePort), (true, no, no, no, no));
    assert_eq!(differs(Lie::SourceAddress(other)), (true, no, no, no, no));
    assert_eq!(differs(Lie::ClientPort), (no, no, no, no, no));
    assert_eq!(differs(Lie::Missing(3)), (no, no, no, true, no));
    assert_eq!(differs(Lie::Loop), (no, no, no, true, true));
    assert_eq!(lying(Lie::Cut(20)).2.len(), 20);
    assert_eq!(lying(Lie::Garbage(vec![7])).2, [7]);
}

#[test]
fn over_tcp_the_script_is_asked_again() {
    let mut server = Server::new(|query| match query.over_tcp {
        false => Reply::Truncated(Vec::new()),
        true => Reply::Several(vec![Reply::Answer(vec![www()])]),
    });
    let (_, _, message) = answers(&mut server).remove(0);
    assert_eq!(message[2] & 2, 2);
    let messages = server.answer_stream(&query(), Duration::ZERO, SERVER.any().ip, 50_001);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0][6..8], [0, 1]);
    assert!(server.queries()[1].over_tcp);
}

#[test]
fn what_is_no_query_is_not_answered() {
    let query = query();
    for length in 0..query.len() - 2 {
        let mut server = Server::knowing(vec![www()]);
        let answers = server.answer_stream(&query[..length], Duration::ZERO, SERVER.any().ip, 1);
        assert!(answers.is_empty(), "cut at {length}");
    }
}
