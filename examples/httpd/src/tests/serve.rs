//! All forms of the server over scripted streams.

use std::string::String;
use std::vec::Vec;

use firstpoll::block_on;
use firstpoll::time::Duration;

use super::session::Counters;
use super::stream::{Act, Broken, Scripted, text};
use crate::{ReadyFirst, Session, routes, serve, serve_blocking, serve_routes};

const PATIENCE: Duration = Duration::from_millis(50);

/// The statuses of the answers, the same from all forms of the server, and
/// whether the stream broke.
#[track_caller]
fn served(stream: Scripted) -> (Vec<String>, bool) {
    firstpoll::runtime::init();
    let run = |form: fn(Scripted) -> Result<(), Broken>| {
        let (written, result) = stream.served(form);
        let output = text(&written);
        let lines = output.lines().filter(|line| line.starts_with("HTTP/"));
        let statuses = lines.map(|line| line[..12].into()).collect();
        (statuses, result.is_err())
    };
    let as_future = run(|stream| block_on(serve(stream, Session::new(), &Counters, PATIENCE)));
    let blocking =
        run(|stream| serve_blocking(ReadyFirst, stream, Session::new(), &Counters, PATIENCE));
    assert_eq!(as_future, blocking);
    let routes = run(|stream| {
        let routes = routes(Counters);
        block_on(serve_routes(stream, &routes, &Counters, PATIENCE))
    });
    assert_eq!(as_future, routes);
    as_future
}

fn script(acts: &[Act]) -> Scripted {
    Scripted::new(acts.iter().cloned())
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_are_served_until_the_client_ends() {
    let stream = script(&[Act::send(GET), Act::send(GET)]);
    assert_eq!(served(stream).0, ["HTTP/1.1 200"; 2]);
}

#[test]
fn an_idle_connection_is_closed_silently() {
    assert_eq!(served(script(&[Act::send(GET), Act::Idle])).0.len(), 1);
    assert_eq!(served(script(&[Act::Idle])).0.len(), 0);
}

#[test]
fn a_request_must_arrive_in_time_as_a_whole() {
    let pause = Act::Wait(PATIENCE * 6 / 10);
    let slow = [
        Act::send(&GET[..5]),
        pause.clone(),
        Act::send(&GET[5..10]),
        pause.clone(),
        Act::send(&GET[10..]),
    ];
    assert_eq!(served(script(&slow)).0, ["HTTP/1.1 408"]);
    let quick = [
        Act::send(GET),
        pause.clone(),
        Act::send(GET),
        pause,
        Act::send(GET),
    ];
    assert_eq!(served(script(&quick)).0, ["HTTP/1.1 200"; 3]);
}

#[test]
fn a_client_that_takes_no_answer_is_given_up() {
    let stream = script(&[Act::send(GET), Act::Idle]);
    assert_eq!(served(stream.taking_nothing()), (Vec::new(), false));
}

#[test]
fn a_broken_stream_is_reported() {
    assert!(served(script(&[Act::send(GET), Act::Reset])).1);
}
