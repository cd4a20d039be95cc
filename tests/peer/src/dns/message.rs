//! The server's messages, true and false (RFC 1035 §4.1).

use std::net::IpAddr;
use std::time::Duration;

use super::{Data, Lie, Query, Record, Reply};

const HEADER_BYTES: usize = 12;

/// Flags of a message.
const RESPONSE: u16 = 0x8000;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;

/// The class of the Internet's names.
const IN: u16 = 1;

/// Marks an offset where a name goes on.
const POINTER: u16 = 0xc000;

/// Reads a query with one question.
pub(super) fn parse(
    message: &[u8],
    at: Duration,
    server: IpAddr,
    port: u16,
    over_tcp: bool,
) -> Option<Query> {
    let word = |at: usize| {
        let bytes = message.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let (id, flags, questions) = (word(0)?, word(2)?, word(4)?);
    if flags & RESPONSE != 0 || questions != 1 {
        return None;
    }
    let mut labels = Vec::new();
    let mut rest = message.get(HEADER_BYTES..)?;
    let end = loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            break after;
        }
        let (label, after) = after.split_at_checked(length.into())?;
        labels.push(String::from_utf8(label.to_vec()).ok()?);
        rest = after;
    };
    let kind = word(message.len() - end.len())?;
    Some(Query {
        at,
        id,
        name: labels.join("."),
        kind,
        server,
        port,
        over_tcp,
    })
}

/// What answers `query`; `None` for silence.
///
/// # Panics
///
/// If `reply` is several.
pub(super) fn answer(query: &Query, reply: &Reply) -> Option<Vec<u8>> {
    let true_flags = RESPONSE | RECURSION_DESIRED | RECURSION_AVAILABLE;
    let (flags, records, lie) = match reply {
        Reply::Answer(records) => (true_flags, &records[..], None),
        Reply::Truncated(records) => (true_flags | TRUNCATED, &records[..], None),
        Reply::Failure(failure) => (true_flags | *failure as u16, &[][..], None),
        Reply::Lie(records, lie) => (true_flags, &records[..], Some(lie)),
        Reply::Silence => return None,
        Reply::Several(_) => panic!("they are answered one by one"),
    };
    let mut said = query.clone();
    let mut message = Message {
        flags,
        records: records.len() as u16,
        bytes: vec![0; HEADER_BYTES],
    };
    match lie {
        Some(Lie::Id) => said.id ^= 0x0101,
        Some(Lie::Question) => said.name = format!("not-{}", query.name),
        Some(Lie::QuestionKind) => said.kind ^= 1,
        Some(Lie::NoResponse) => message.flags &= !RESPONSE,
        Some(Lie::Missing(more)) => message.records += more,
        Some(Lie::Garbage(garbage)) => return Some(garbage.clone()),
        _ => {}
    }
    message.question(&said);
    if lie == Some(&Lie::Loop) {
        message.looping();
    }
    for record in records {
        message.record(&said, record);
    }
    let mut bytes = message.finish(said.id);
    if let Some(Lie::Cut(length)) = lie {
        bytes.truncate(*length);
    }
    Some(bytes)
}

/// A message that is being written.
struct Message {
    flags: u16,
    records: u16,
    bytes: Vec<u8>,
}

impl Message {
    fn word(&mut self, word: u16) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn name(&mut self, name: &str) {
        for label in name.split('.').filter(|label| !label.is_empty()) {
            let length = u8::try_from(label.len()).expect("labels have at most 63 bytes");
            self.bytes.push(length);
            self.bytes.extend(label.as_bytes());
        }
        self.bytes.push(0);
    }

    fn question(&mut self, query: &Query) {
        self.name(&query.name);
        self.word(query.kind);
        self.word(IN);
    }

    fn record(&mut self, query: &Query, record: &Record) {
        if record.name == query.name {
            self.word(POINTER | HEADER_BYTES as u16);
        } else {
            self.name(&record.name);
        }
        self.word(record.data.kind());
        self.word(IN);
        self.bytes.extend(record.ttl_seconds.to_be_bytes());
        let length_at = self.bytes.len();
        self.word(0);
        match &record.data {
            Data::A(ip) => self.bytes.extend(ip.octets()),
            Data::Aaaa(ip) => self.bytes.extend(ip.octets()),
            Data::Cname(name) => self.name(name),
            Data::Other(_, content) => self.bytes.extend(content),
        }
        let length = (self.bytes.len() - length_at - 2) as u16;
        self.bytes[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    }

    /// A record whose name begins with a label and goes on at that label.
    fn looping(&mut self) {
        let at = self.bytes.len() as u16;
        self.bytes.extend(b"\x01x");
        self.word(POINTER | at);
        self.word(super::kind::A);
        self.word(IN);
        self.bytes.extend([0, 0, 0, 60, 0, 4, 10, 0, 2, 66]);
        self.records += 1;
    }

    fn finish(mut self, id: u16) -> Vec<u8> {
        for (place, word) in [id, self.flags, 1, self.records].into_iter().enumerate() {
            self.bytes[2 * place..2 * place + 2].copy_from_slice(&word.to_be_bytes());
        }
        self.bytes
    }
}
