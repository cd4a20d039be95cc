//! Whole connections from scripted input.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::{END, HEADER_BYTES, MAX_SAMPLES, REPORT_BYTES, STOP};

/// What a client sends, in pieces of `piece` bytes, and what it gets.
fn talk(input: &[u8], piece: usize) -> Vec<u8> {
    let mut session = Session::new().expect("there is memory");
    let mut input = input.chunks(piece);
    let mut output = Vec::new();
    for _ in 0..1_000_000 {
        match session.step() {
            Step::Read(buffer) => {
                let bytes = input.next().unwrap_or_default();
                buffer[..bytes.len()].copy_from_slice(bytes);
                session.received(bytes.len());
            }
            Step::Write(bytes) => {
                output.extend_from_slice(bytes);
                session.written();
            }
            Step::WriteUnlessStopped(bytes) => {
                output.extend_from_slice(bytes);
                match input.next() {
                    Some([STOP]) | None => session.stopped(),
                    Some(_) => session.written(), // Nothing has come yet.
                }
            }
            Step::Measure {
                message_bytes,
                samples,
            } => {
                let figures = TaskFigures {
                    latencies_ns: vec![7; samples as usize],
                    bytes: message_bytes.into(),
                    ..TaskFigures::default()
                };
                session.measured(Some(&figures));
            }
            Step::Close => return output,
        }
    }
    panic!("the session does not end");
}

fn message(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_be_bytes();
    [&length, bytes].concat()
}

const PIECES: [usize; 6] = [1, 3, 24, 25, 1000, 60_000];

#[test]
fn every_test_is_carried_out_in_turn() {
    let deliver = Test::Deliver {
        message_bytes: 5,
        count: 2,
    };
    let input = [
        &Test::Echo { bytes: 5 }.encode()[..],
        b"abcde",
        &deliver.encode(),
        &message(b"one  ").repeat(2),
        &Test::Stream { message_bytes: 0 }.encode(),
        &message(b"").repeat(3),
        &END.to_be_bytes(),
        &Test::Echo { bytes: 0 }.encode(),
        &Test::Tasks {
            message_bytes: 64,
            samples: 2,
        }
        .encode(),
        &Test::Deliver {
            message_bytes: 5,
            count: 0,
        }
        .encode(),
        &Test::Sink.encode(),
        &[0; 100_001],
    ]
    .concat();
    let report = |messages, bytes| Report { messages, bytes }.encode();
    let figures = TaskFigures {
        latencies_ns: vec![7; 2],
        bytes: 64,
        ..TaskFigures::default()
    };
    let wanted = [
        &b"abcde"[..],
        &[ACK; 2],
        &report(2, 10),
        &report(3, 0),
        &figures.encode(),
        &report(0, 0),
        &report(0, 100_001),
    ]
    .concat();
    for piece in PIECES {
        assert_eq!(talk(&input, piece), wanted, "{piece}");
    }
}

#[test]
fn a_source_goes_on_until_it_is_stopped() {
    let header = Test::Source { block_bytes: 10 }.encode();
    // The test's client has not sent anything readable while pieces are full.
    let mut input = header.to_vec();
    input.extend([0; 2 * HEADER_BYTES]);
    input.push(STOP);
    let output = talk(&input, HEADER_BYTES);
    assert_eq!(output.len(), 30 + REPORT_BYTES);
    let report = output.last_chunk().expect("there is a report");
    let wanted = Report {
        messages: 3,
        bytes: 30,
    };
    assert_eq!(Report::decode(report), wanted);
}

#[test]
fn a_hostile_client_is_closed() {
    let deliver = Test::Deliver {
        message_bytes: 5,
        count: 1,
    };
    let http = b"GET / HTTP/1.1\r\nHost: guest\r\n\r\n";
    for input in [
        &http[..],
        &[0; 1000],
        &[deliver.encode().as_slice(), &message(b"six   ")].concat(),
        &[deliver.encode().as_slice(), &END.to_be_bytes()].concat(),
        &deliver.encode(),
        &Test::Sink.encode()[..10],
        &Test::Tasks {
            message_bytes: 0,
            samples: MAX_SAMPLES + 1,
        }
        .encode(),
        b"",
    ] {
        for piece in PIECES {
            assert_eq!(talk(input, piece), b"", "{input:?}");
        }
    }
}

#[test]
fn short_memory_closes() {
    let mut session = Session::new().expect("there is memory");
    session.state = State::Measure {
        message_bytes: 0,
        samples: 0,
    };
    session.measured(None);
    assert_eq!(session.step(), Step::Close);
}
