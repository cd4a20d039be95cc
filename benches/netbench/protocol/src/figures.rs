//! What the server answers.

use alloc::vec::Vec;
use core::time::Duration;

use super::Malformed;

/// The pause before a message whose latency is measured, as dora's benchmark
/// has it.
pub const PACE: Duration = Duration::from_millis(5);

/// How long two tasks then send messages at full speed.
pub const FULL_SPEED: Duration = Duration::from_millis(200);

/// How many messages may be under way between two tasks. So many are sent
/// before those that count: they find memory that nothing has used yet.
pub const CHANNEL_CAPACITY: usize = 16;

/// The length of an encoded [`Report`].
pub const REPORT_BYTES: usize = 16;

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whole messages, or blocks.
    pub messages: u64,
    /// The bytes that were received, or of a [`Source`](super::Test::Source)
    /// those that were sent, without the lengths of messages.
    pub bytes: u64,
}

impl Report {
    /// As it is sent.
    pub fn encode(self) -> [u8; REPORT_BYTES] {
        let mut encoded = [0; REPORT_BYTES];
        encoded[..8].copy_from_slice(&self.messages.to_be_bytes());
        encoded[8..].copy_from_slice(&self.bytes.to_be_bytes());
        encoded
    }

    /// Reads what was sent.
    pub fn decode(encoded: &[u8; REPORT_BYTES]) -> Self {
        let number = u128::from_be_bytes(*encoded);
        Self {
            messages: (number >> 64) as u64,
            bytes: number as u64,
        }
    }
}

/// Messages between two tasks of the server, by the server's clock.
///
/// A message is made for each send, by an allocation and a copy, and moves to
/// the receiver, which checks its size and frees it. Its latency counts from
/// before the allocation until the receiver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// The latencies of messages that were sent with a [`PACE`].
    pub latencies_ns: Vec<u64>,
    /// How many messages were received at [`FULL_SPEED`].
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long that took.
    pub elapsed_ns: u64,
}

impl TaskFigures {
    /// The length of figures with so many latencies.
    pub fn encoded_bytes(samples: usize) -> usize {
        (samples + 3) * 8
    }

    /// As they are sent: the latencies, then the rest in the order of the
    /// fields.
    pub fn encode(&self) -> Vec<u8> {
        let rest = [self.messages, self.bytes, self.elapsed_ns];
        let numbers = self.latencies_ns.iter().chain(&rest);
        numbers.flat_map(|number| number.to_be_bytes()).collect()
    }

    /// Reads what was sent.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the length is that of no figures.
    pub fn decode(encoded: &[u8]) -> Result<Self, Malformed> {
        let (numbers, []) = encoded.as_chunks() else {
            return Err(Malformed);
        };
        let mut latencies_ns: Vec<_> = numbers.iter().copied().map(u64::from_be_bytes).collect();
        let mut last = || latencies_ns.pop().ok_or(Malformed);
        let (elapsed_ns, bytes, messages) = (last()?, last()?, last()?);
        Ok(Self {
            latencies_ns,
            messages,
            bytes,
            elapsed_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn answers_survive_the_wire() {
        let report = Report {
            messages: 1,
            bytes: u64::MAX - 1,
        };
        assert_eq!(Report::decode(&report.encode()), report);
        let figures = TaskFigures {
            latencies_ns: vec![5, u64::MAX],
            messages: 2,
            bytes: 3,
            elapsed_ns: 4,
        };
        let encoded = figures.encode();
        assert_eq!(encoded.len(), TaskFigures::encoded_bytes(2));
        assert_eq!(TaskFigures::decode(&encoded), Ok(figures));
        assert_eq!(TaskFigures::decode(&encoded[..39]), Err(Malformed));
        assert_eq!(TaskFigures::decode(&encoded[..16]), Err(Malformed));
    }
}
