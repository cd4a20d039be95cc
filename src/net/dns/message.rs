//! What is asked and what is answered (RFC 1035 §4).

use smoltcp::wire::{
    DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode, DnsRecord, DnsRecordData,
    DnsRepr, Error as WireError,
};

use super::addresses::Addresses;
use super::name::Name;

/// The longest message over UDP, in bytes.
pub(super) const MAX_UDP_BYTES: usize = 512;

/// How many aliases may lead from a name to another.
pub(super) const MAX_ALIASES: usize = 8;

/// A question: what kind of record of which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) kind: Kind,
}

/// The kind of record that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

impl Kind {
    fn code(self) -> DnsQueryType {
        match self {
            Self::A => DnsQueryType::A,
            Self::Aaaa => DnsQueryType::Aaaa,
        }
    }
}

/// What a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name has these addresses, for so many seconds.
    Addresses(Addresses, u32),
    /// The name is another name's, for so many seconds; the server does not say
    /// what that one's addresses are.
    Alias(Name, u32),
    /// There is no such name.
    NoName,
    /// The name has no address of this kind.
    NoAddress,
    /// There is more than fits.
    Truncated,
    /// The server cannot or does not want to answer.
    Failed,
}

/// A message that asks `question`; its length stands beside it.
pub(super) fn query(id: u16, question: &Question) -> ([u8; MAX_UDP_BYTES], usize) {
    let mut message = [0; MAX_UDP_BYTES];
    let query = DnsRepr {
        transaction_id: id,
        opcode: DnsOpcode::Query,
        flags: DnsFlags::RECURSION_DESIRED,
        question: DnsQuestion {
            name: question.name.wire(),
            type_: question.kind.code(),
        },
    };
    // 12 bytes of header, at most 255 of name, and 4.
    let len = query.buffer_len();
    query.emit(&mut DnsPacket::new_unchecked(&mut message[..len]));
    (message, len)
}

/// What `message` says in answer to `question`; nothing if it is no answer to it.
pub(super) fn answer(message: &[u8], id: u16, question: &Question) -> Option<Answer> {
    let packet = DnsPacket::new_checked(message).ok()?;
    let is_response = packet.flags().contains(DnsFlags::RESPONSE);
    if packet.transaction_id() != id || !is_response || packet.opcode() != DnsOpcode::Query {
        return None;
    }
    let records = asked(&packet, question)?;
    Some(match packet.rcode() {
        _ if packet.flags().contains(DnsFlags::TRUNCATED) => Answer::Truncated,
        DnsRcode::NXDomain => Answer::NoName,
        DnsRcode::NoError => told(&packet, records, question).unwrap_or(Answer::Failed),
        _ => Answer::Failed,
    })
}

/// The part behind the question, if `question` is that one and the only one.
fn asked<'a>(packet: &'a DnsPacket<&'a [u8]>, question: &Question) -> Option<&'a [u8]> {
    if packet.question_count() != 1 {
        return None;
    }
    let (records, repeated) = DnsQuestion::parse(packet.payload()).ok()?;
    let is_it =
        name(packet, repeated.name)? == question.name && repeated.type_ == question.kind.code();
    is_it.then_some(records)
}

/// What the records say, in whatever order they stand; nothing if they cannot be
/// read.
fn told(packet: &DnsPacket<&[u8]>, records: &[u8], question: &Question) -> Option<Answer> {
    let mut current = question.name;
    let mut ttl = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let mut addresses = Addresses::new();
        let mut alias = None;
        let mut rest = records;
        for _ in 0..packet.answer_record_count() {
            let (behind, record) = DnsRecord::parse(rest).ok()?;
            rest = behind;
            if name(packet, record.name)? != current {
                continue;
            }
            match (record.data, question.kind) {
                (DnsRecordData::A(address), Kind::A) => addresses.push(address.into()),
                (DnsRecordData::Aaaa(address), Kind::Aaaa) => addresses.push(address.into()),
                (DnsRecordData::Cname(target), _) => alias = Some(name(packet, target)?),
                _ => continue,
            }
            ttl = ttl.min(record.ttl);
        }
        if !addresses.is_empty() {
            return Some(Answer::Addresses(addresses, ttl));
        }
        match alias {
            Some(target) => current = target,
            None if current == question.name => return Some(Answer::NoAddress),
            None => return Some(Answer::Alias(current, ttl)),
        }
    }
    // They lead in a circle, or nearly.
    None
}

/// The name that begins with `bytes` of the packet.
fn name(packet: &DnsPacket<&[u8]>, bytes: &[u8]) -> Option<Name> {
    // smoltcp follows pointers backwards only, so this ends.
    Name::from_labels::<WireError>(packet.parse_name(bytes))
}
