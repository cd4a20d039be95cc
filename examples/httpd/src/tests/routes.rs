//! The routes: what each answers, and how it leaves.

use std::format;
use std::string::String;
use std::vec::Vec;

use firstpoll::block_on;
use firstpoll::time::Duration;

use super::session::Counters;
use super::stream::{Act, Scripted, text};
use crate::{routes, serve_routes};

const PATIENCE: Duration = Duration::from_secs(5);

/// What a connection answers to `input`, sent in pieces of at most `piece`
/// bytes.
pub(super) fn run(input: &[u8], piece: usize) -> String {
    answers(&Scripted::in_pieces(input, piece))
}

fn answers(stream: &Scripted) -> String {
    text(&pieces(stream))
}

/// What was written together, piece by piece.
fn pieces(stream: &Scripted) -> Vec<Vec<u8>> {
    firstpoll::runtime::init();
    let routes = routes(Counters);
    let (written, result) =
        stream.served(|stream| block_on(serve_routes(stream, &routes, &Counters, PATIENCE)));
    result.expect("the stream does not break");
    written
}

/// Head and body of the answer to one request.
#[track_caller]
fn ask(request: &str) -> (String, String) {
    let output = run(request.as_bytes(), usize::MAX);
    let (head, body) = output.split_once("\r\n\r\n").expect("there is an answer");
    (format!("{head}\r\n"), body.into())
}

#[track_caller]
fn get(path: &str) -> (String, String) {
    ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

#[track_caller]
fn post(path: &str, body: &str) -> (String, String) {
    let length = body.len();
    ask(&format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn has_status(answer: &(String, String), status: u16) {
    let (head, body) = answer;
    assert!(
        head.starts_with(&format!("HTTP/1.1 {status} ")),
        "{head}{body}"
    );
}

#[test]
fn the_page_comes_with_its_script_and_style() {
    for (path, kind, start) in [
        ("/", "text/html", "<!DOCTYPE html>"),
        ("/page.js", "application/javascript", "//"),
        ("/page.css", "text/css", "body"),
    ] {
        let answer = get(path);
        has_status(&answer, 200);
        let (head, body) = answer;
        assert!(
            head.contains(&format!("\r\nContent-Type: {kind}")),
            "{head}"
        );
        assert!(body.starts_with(start), "{body}");
        let length = format!("\r\nContent-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head}");
    }
}

#[test]
fn the_greeting_and_the_counters_are_those_of_the_other_forms() {
    assert_eq!(get("/hello").1, "Hello from firstpoll!\n");
    assert_eq!(get("/stats?x=1").1, "polls 12\n");
}

#[test]
fn json_is_given_and_taken() {
    let (head, body) = get("/json");
    assert!(
        head.contains("\r\nContent-Type: application/json\r\n"),
        "{head}"
    );
    assert!(
        body.starts_with("{\"name\":\"firstpoll\",\"version\":\""),
        "{body}"
    );

    let answer = post("/json", r#"{ "name": "a \"b\"", "values": [1, -2, 30] }"#);
    has_status(&answer, 200);
    assert_eq!(answer.1, r#"{"name":"a \"b\"","count":3,"sum":29}"#);
    for wrong in [
        "",
        "{",
        "[]",
        r#"{"name":"a"}"#,
        r#"{"name":"a","values":[1.5]}"#,
        r#"{"name":"a","values":[9223372036854775807,1]}"#,
        r#"{"name":"a","values":[],"more":{}}"#,
    ] {
        has_status(&post("/json", wrong), 400);
    }
    let refused = ask("PUT /json HTTP/1.1\r\nHost: h\r\n\r\n");
    has_status(&refused, 405);
    assert!(
        refused.0.contains("\r\nAllow: GET, HEAD, POST\r\n"),
        "{}",
        refused.0
    );
}

#[test]
fn a_body_may_come_in_chunks() {
    let body = r#"{"name":"a","values":[1,2]}"#;
    let chunks: Vec<_> = body.as_bytes().chunks(7).collect();
    let chunks = chunks.iter().map(|chunk| {
        let text = String::from_utf8_lossy(chunk);
        format!("{:x}\r\n{text}\r\n", text.len())
    });
    let chunked: String = chunks.collect();
    let request = format!(
        "POST /json HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}0\r\n\r\n"
    );
    for piece in [1, 10, usize::MAX] {
        let output = run(request.repeat(2).as_bytes(), piece);
        let answers = output.matches(r#"{"name":"a","count":2,"sum":3}"#);
        assert_eq!(answers.count(), 2, "{output}");
    }
}

#[test]
fn queries_are_decoded() {
    assert_eq!(get("/query?name=Ada").1, "Hello, Ada!\n");
    assert_eq!(get("/query?x=1&name=a%20b+c%26&y=2").1, "Hello, a b c&!\n");
    assert_eq!(get("http://h/query?name=Ada").1, "Hello, Ada!\n");
    has_status(&get("/query"), 400);
    has_status(&get("/query?name"), 400);
    has_status(&get("/query?name=%zz"), 400);
}

#[test]
fn a_head_has_no_content() {
    for path in ["/", "/hello", "/stats", "/json", "/query?name=a", "/stream"] {
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let output = run(request.repeat(2).as_bytes(), usize::MAX);
        assert_eq!(output.matches("HTTP/1.1 200 ").count(), 2, "{output}");
        assert!(output.ends_with("\r\n\r\n"), "{output}");
        assert_eq!(output.matches("\r\n\r\n").count(), 2, "{output}");
    }
}

#[test]
fn a_stream_comes_in_chunks_and_to_old_clients_as_one() {
    let lines: String = (1..=8).map(|line| format!("line {line} of 8\n")).collect();
    let chunks: String = (1..=8)
        .map(|line| format!("c\r\nline {line} of 8\n\r\n"))
        .collect();
    let (head, body) = get("/stream");
    assert!(
        head.contains("\r\nTransfer-Encoding: chunked\r\n"),
        "{head}"
    );
    assert_eq!(body, chunks + "0\r\n\r\n");
    let (head, body) = ask("GET /stream HTTP/1.0\r\n\r\n");
    assert!(!head.contains("chunked"), "{head}");
    assert_eq!(body, lines);
}

#[test]
fn events_are_told_until_the_client_leaves() {
    let request = "GET /events HTTP/1.1\r\nHost: h\r\n\r\n";
    let stream = Scripted::new([
        Act::send(request),
        Act::Wait(Duration::from_millis(450)),
        // Events are the last answer of a connection.
        Act::send(request),
        Act::Wait(Duration::from_millis(200)),
    ]);
    let output = answers(&stream);
    assert_eq!(output.matches("HTTP/1.1 200 ").count(), 1, "{output}");
    assert!(
        output.contains("\r\nContent-Type: text/event-stream\r\n"),
        "{output}"
    );
    assert!(output.contains("\r\nConnection: close\r\n"), "{output}");
    assert!(
        output.contains("event:count\ndata:1\n\nevent:count\ndata:2\n\n"),
        "{output}"
    );
}

/// A client's frame, masked as it has to be (RFC 6455 §5.2).
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let length = u8::try_from(payload.len()).expect("it is short");
    let masked = payload.iter().zip(mask.iter().cycle());
    let mut frame = Vec::from([0x80 | opcode, 0x80 | length]);
    frame.extend(mask);
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

#[test]
fn a_web_socket_returns_its_messages() {
    let request = "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let frames = [frame(1, b"over"), frame(9, b"ping"), frame(8, b"")];
    let input = [request.as_bytes(), &frames.concat()].concat();
    for piece in [1, 7, usize::MAX] {
        let output = run(&input, piece);
        let (head, frames) = output.split_once("\r\n\r\n").expect("there is an answer");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        // The example of RFC 6455 §1.3.
        assert!(
            head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{head}"
        );
        let wanted = b"\x81\x04over\x8a\x04ping\x88\x00";
        assert_eq!(frames, String::from_utf8_lossy(wanted));
    }
    let plain = get("/echo");
    has_status(&plain, 400);
}

#[test]
fn an_answer_leaves_in_as_few_pieces_as_it_can() {
    for line in ["GET /hello", "HEAD /hello", "GET /json", "GET /none"] {
        let request = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
        let written = pieces(&Scripted::new([Act::send(request)]));
        assert_eq!(written.len(), 1, "{}", text(&written));
    }
    // A head and ten pieces: a head that goes with the first would do as well,
    // but none may wait for the next.
    let written = pieces(&Scripted::in_pieces(
        b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n",
        usize::MAX,
    ));
    assert!(written.len() >= 9, "{}", text(&written));
}
