//! What a session answers to which bytes, however they are split.

use core::fmt::Display;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::routes;
use crate::{Pages, Session, Step};

#[derive(Clone, Copy)]
pub(super) struct Counters;

impl Pages for Counters {
    fn stats(&self) -> impl Display {
        "polls 12\n"
    }
}

/// What came of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transcript {
    output: String,
    writes: usize,
    /// Whether the end of the stream was sent before the input ended.
    shut_down: bool,
}

/// Feeds a session with `input` in pieces of at most `piece` bytes.
fn run(input: &[u8], piece: usize) -> Transcript {
    let mut session = Session::new();
    let mut input = input.chunks(piece).flat_map(<[u8]>::iter).peekable();
    let mut transcript = Transcript::default();
    let mut left_of_piece = piece;
    let mut output = Vec::new();
    for _ in 0..1_000_000 {
        match session.step(&Counters) {
            Step::Read(buffer) => {
                assert!(!buffer.is_empty());
                let mut count = 0;
                while count < buffer.len().min(left_of_piece)
                    && let Some(&byte) = input.next()
                {
                    buffer[count] = byte;
                    count += 1;
                }
                left_of_piece -= count;
                if left_of_piece == 0 {
                    left_of_piece = piece;
                }
                session.received(count);
            }
            Step::Write(bytes) => {
                assert!(!bytes.is_empty());
                output.extend_from_slice(bytes);
                transcript.writes += 1;
                session.written();
            }
            Step::ShutDown => {
                transcript.shut_down = input.peek().is_some();
                session.shut_down();
            }
            Step::Close => {
                transcript.output = String::from_utf8(output).expect("answers are text");
                return transcript;
            }
        }
    }
    panic!("the session does not end");
}

/// The status codes of the answers to `input`, which must not depend on the
/// form of the server and on how the input is split, and whether the last of
/// them closes.
#[track_caller]
fn statuses(input: &str) -> (Vec<u16>, bool) {
    let statuses = session_statuses(input);
    for piece in [1, 100, usize::MAX] {
        let by_routes = read_statuses(&routes::run(input.as_bytes(), piece));
        assert_eq!(by_routes, statuses, "by routes, in pieces of {piece}");
    }
    statuses
}

/// As [`statuses`], of a session alone.
#[track_caller]
fn session_statuses(input: &str) -> (Vec<u16>, bool) {
    let whole = run(input.as_bytes(), usize::MAX);
    for piece in (1..40).chain([100, 1000, 1023, 1024, 1025, 5000]) {
        assert_eq!(
            run(input.as_bytes(), piece).output,
            whole.output,
            "in pieces of {piece}"
        );
    }
    read_statuses(&whole.output)
}

/// The status codes of answers, and whether the last of them closes.
pub(super) fn read_statuses(output: &str) -> (Vec<u16>, bool) {
    let lines = output.lines();
    let statuses = lines.filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let last = output.rfind("HTTP/1.1 ").unwrap_or(0);
    let closes = output[last..].contains("\r\nConnection: close\r\n");
    (statuses.collect(), closes)
}

#[track_caller]
fn stays_open(input: &str, wanted: &[u16]) {
    assert_eq!(statuses(input), (wanted.to_vec(), false), "{input:?}");
}

#[track_caller]
fn closes(input: &str, wanted: &[u16]) {
    assert_eq!(statuses(input), (wanted.to_vec(), true), "{input:?}");
}

#[test]
fn pages_are_served() {
    let greeting = run(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 100).output;
    assert!(
        greeting.ends_with("\r\n\r\nHello from firstpoll!\n"),
        "{greeting}"
    );
    let stats = run(b"GET /stats?x=1 HTTP/1.1\r\nHost: h\r\n\r\n", 100).output;
    assert!(
        stats.ends_with("Content-Length: 9\r\n\r\npolls 12\n"),
        "{stats}"
    );
    let head = run(b"HEAD /stats HTTP/1.1\r\nHost: h\r\n\r\n", 100).output;
    assert!(head.ends_with("Content-Length: 9\r\n\r\n"), "{head}");
}

#[test]
fn other_paths_and_methods_are_told_apart() {
    stays_open("GET /none HTTP/1.1\r\nHost: h\r\n\r\n", &[404]);
    stays_open("POST /none HTTP/1.1\r\nHost: h\r\n\r\n", &[404]);
    stays_open("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", &[405]);
    stays_open("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &[404]);
    let answer = run(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n", 100).output;
    assert!(answer.contains("\r\nAllow: GET, HEAD\r\n"), "{answer}");
}

#[test]
fn targets_may_be_absolute() {
    stays_open("GET http://h/stats HTTP/1.1\r\nHost: h\r\n\r\n", &[200]);
    stays_open("GET HTTP://h HTTP/1.1\r\nHost: h\r\n\r\n", &[200]);
    stays_open("GET http://h?q=/x HTTP/1.1\r\nHost: h\r\n\r\n", &[200]);
    stays_open("GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n", &[404]);
    closes("GET stats HTTP/1.1\r\nHost: h\r\n\r\n", &[400]);
    closes("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", &[400]);
}

#[test]
fn connections_stay_open_as_their_version_says() {
    let request = |version: &str, connection: &str| {
        format!("GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n")
    };
    stays_open(&request("1.1", "").repeat(2), &[200, 200]);
    stays_open(
        &request("1.1", "Connection: keep-alive\r\n").repeat(2),
        &[200, 200],
    );
    closes(&request("1.1", "Connection: close\r\n").repeat(2), &[200]);
    closes(
        &request("1.1", "connection: Upgrade ,CLOSE\r\n").repeat(2),
        &[200],
    );
    closes(
        &request("1.1", "Connection: close\r\nConnection: keep-alive\r\n"),
        &[200],
    );
    closes(&request("1.0", "").repeat(2), &[200]);
    let kept = request("1.0", "Connection: Keep-Alive\r\n");
    // picoserve keeps no connection of HTTP/1.0 open, which a client has to
    // expect.
    let kept_twice = session_statuses(&kept.repeat(2));
    assert_eq!(kept_twice, (Vec::from([200, 200]), false));
    let answer = run(kept.as_bytes(), 100).output;
    assert!(
        answer.contains("\r\nConnection: keep-alive\r\n"),
        "{answer}"
    );
}

#[test]
fn an_old_client_needs_no_host_and_a_new_one_exactly_one() {
    closes("GET / HTTP/1.0\r\n\r\n", &[200]);
    closes("GET / HTTP/1.1\r\n\r\n", &[400]);
    closes("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &[400]);
    stays_open("GET / HTTP/1.1\r\nhOsT:\r\n\r\n", &[200]);
}

#[test]
fn requests_that_arrive_together_are_answered_together_in_order() {
    let input = "GET / HTTP/1.1\r\nHost: h\r\n\r\n\
                 GET /none HTTP/1.1\r\nHost: h\r\n\r\n\
                 HEAD / HTTP/1.1\r\nHost: h\r\n\r\n\
                 POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
                 GET /stats HTTP/1.1\r\nHost: h\r\n\r\n";
    stays_open(input, &[200, 404, 200, 405, 200]);
    assert_eq!(run(input.as_bytes(), usize::MAX).writes, 1);
}

#[test]
fn a_long_pipeline_is_answered_in_several_writes() {
    let input = "GET /stats HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1000);
    let transcript = run(input.as_bytes(), usize::MAX);
    assert_eq!(transcript.output.matches("polls 12\n").count(), 1000);
    assert!(transcript.writes < 100, "{} writes", transcript.writes);
}

#[test]
fn a_request_that_is_cut_short_gets_no_answer() {
    let input = "GET / HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc";
    for end in 0..input.len() {
        let answers = usize::from(end >= 27);
        assert_eq!(statuses(&input[..end]).0.len(), answers, "cut at {end}");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_rest_is_not_read_as_one() {
    for request in [
        "\0",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA: \x01\r\n\r\n",
        "GET / HTTX/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/11\r\nHost: h\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03",
    ] {
        let input = request.to_string() + "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        closes(&input, &[400]);
    }
}

#[test]
fn other_versions_are_named_as_such() {
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9"] {
        closes(&format!("GET / {version}\r\nHost: h\r\n\r\n"), &[505]);
    }
    closes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505]);
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    stays_open("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &[200]);
}

/// RFC 9110 §9.3.2: whatever the answer to HEAD is, it has no content.
#[test]
fn a_refused_head_gets_no_content() {
    let refused = run(
        b"HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n",
        100,
    );
    let answer = refused.output;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn large_heads_are_refused() {
    let with_field = |length: usize| {
        let value = "x".repeat(length);
        format!("GET / HTTP/1.1\r\nHost: h\r\nA: {value}\r\n\r\n")
    };
    stays_open(&with_field(8100), &[200]);
    closes(&with_field(9000), &[431]);
    closes(&with_field(200_000), &[431]);
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(64));
    closes(&many, &[431]);
    let path = "x".repeat(9000);
    closes(&format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"), &[414]);
}

#[test]
fn bodies_are_dropped() {
    let post = |fields: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    };
    stays_open(&post("Content-Length: 5\r\n", "hello"), &[405, 200]);
    let large = "x".repeat(65536);
    stays_open(&post("Content-Length: 65536\r\n", &large), &[405, 200]);
    stays_open(
        &post("Transfer-Encoding: Chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        &[405, 200],
    );
    closes(&post("Content-Length: 65537\r\n", "x"), &[413]);
    closes(
        &post("Content-Length: 99999999999999999999\r\n", ""),
        &[413],
    );
    closes(&post("Transfer-Encoding: chunked\r\n", "10001\r\n"), &[413]);
    closes(&post("Transfer-Encoding: chunked\r\n", "x"), &[400]);
}

#[test]
fn ambiguous_framing_is_refused() {
    for fields in [
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        let input = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n0\r\n\r\n");
        closes(&input, &[400]);
    }
    closes(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        &[501],
    );
    closes(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
    );
}

#[test]
fn a_client_that_waits_for_leave_gets_it() {
    let request = |expectation: &str, length: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: h\r\nExpect: {expectation}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    stays_open(&(request("100-Continue", "5") + "hello"), &[100, 405]);
    stays_open(&request("100-continue", "5"), &[100]);
    stays_open(&request("100-continue", "0"), &[405]);
    closes(&request("100-continue", "65537"), &[413]);
    closes(&request("200-ok", "5"), &[417]);
    let old = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na";
    closes(old, &[405]);
}

#[test]
fn a_refused_client_may_finish_sending() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    let input = head.to_string() + &"x".repeat(100_000);
    let transcript = run(input.as_bytes(), 1000);
    assert!(
        transcript.shut_down,
        "the answer leaves before the input ends"
    );

    let mut session = Session::new();
    let mut read = 0;
    loop {
        match session.step(&Counters) {
            Step::Read(buffer) => {
                buffer.fill(0);
                let count = buffer.len();
                read += count;
                session.received(count);
            }
            Step::Write(_) => session.written(),
            Step::ShutDown => session.shut_down(),
            Step::Close => break,
        }
    }
    assert!(
        read < 300_000,
        "an endless sender was read for {read} bytes"
    );
}

#[test]
fn one_connection_too_many_is_told_so() {
    let mut session = Session::refusing();
    let Step::Write(answer) = session.step(&Counters) else {
        panic!("it has an answer");
    };
    assert!(answer.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
    session.written();
    assert_eq!(session.step(&Counters), Step::ShutDown);
    session.shut_down();
    assert!(matches!(session.step(&Counters), Step::Read(_)));
    session.timed_out();
    assert_eq!(session.step(&Counters), Step::Close);
}

#[test]
fn silence_ends_a_connection() {
    let after = |input: &[u8]| {
        let mut session = Session::new();
        let Step::Read(buffer) = session.step(&Counters) else {
            panic!("it wants a request");
        };
        buffer[..input.len()].copy_from_slice(input);
        if !input.is_empty() {
            session.received(input.len());
        }
        assert!(matches!(session.step(&Counters), Step::Read(_)));
        session.timed_out();
        match session.step(&Counters) {
            Step::Write(answer) => String::from_utf8_lossy(&answer[9..12]).into_owned(),
            Step::ShutDown => String::new(),
            step => panic!("{step:?}"),
        }
    };
    assert_eq!(after(b""), "");
    assert_eq!(after(b"GET /"), "408");
    assert_eq!(
        after(b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell"),
        "408"
    );
}

#[test]
fn asking_twice_changes_nothing() {
    let mut session = Session::new();
    for _ in 0..2 {
        assert!(matches!(session.step(&Counters), Step::Read(_)));
    }
    let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let Step::Read(buffer) = session.step(&Counters) else {
        panic!("it wants a request");
    };
    buffer[..request.len()].copy_from_slice(request);
    session.received(request.len());
    let answer = |session: &mut Session| match session.step(&Counters) {
        Step::Write(bytes) => bytes.to_vec(),
        step => panic!("{step:?}"),
    };
    assert_eq!(answer(&mut session), answer(&mut session));
}

/// Pieces of requests, so that arbitrary input gets past the first line.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        Just(b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec()),
        Just(b"POST /stats HTTP/1.1\r\nHost: h\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Content-Length: 7\r\n".to_vec()),
        Just(b"Expect: 100-continue\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"5\r\nhello\r\n".to_vec()),
        Just(b"0\r\n\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(fragment, 0..30).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        run(&input, 100);
    }

    #[test]
    fn answers_do_not_depend_on_how_input_is_split(input in fragments(), piece in 1_usize..50) {
        prop_assert_eq!(run(&input, piece).output, run(&input, usize::MAX).output);
    }

    #[test]
    fn routes_answer_with_the_same_statuses(input in fragments(), piece in 1_usize..50) {
        let wanted = read_statuses(&run(&input, usize::MAX).output);
        prop_assert_eq!(read_statuses(&routes::run(&input, piece)), wanted);
    }
}
