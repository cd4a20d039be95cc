//! Both forms of the server over scripted streams.

use core::cell::RefCell;
use core::fmt;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

use firstpoll::block_on;
use firstpoll::time::{Duration, sleep};

use super::session::Counters;
use crate::{ByteStream, ReadyFirst, Session, serve, serve_blocking};

const PATIENCE: Duration = Duration::from_millis(50);

/// What a scripted client does next.
#[derive(Clone)]
enum Act {
    Send(&'static [u8]),
    Wait(Duration),
    /// Sends nothing more, and keeps the connection open.
    Idle,
    /// Breaks the connection.
    Reset,
}

/// A connection whose client acts by a script, then ends its stream.
#[derive(Clone, Default)]
struct Scripted {
    script: VecDeque<Act>,
    takes_nothing: bool,
    written: Rc<RefCell<Vec<u8>>>,
}

#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was reset")
    }
}

impl core::error::Error for Broken {}

impl ByteStream for Scripted {
    type Error = Broken;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        while let Some(act) = self.script.pop_front() {
            match act {
                Act::Send(bytes) => {
                    buffer[..bytes.len()].copy_from_slice(bytes);
                    return Ok(bytes.len());
                }
                Act::Wait(duration) => sleep(duration).await,
                Act::Idle => core::future::pending().await,
                Act::Reset => return Err(Broken),
            }
        }
        Ok(0)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if self.takes_nothing {
            core::future::pending().await
        }
        self.written.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }

    async fn shutdown(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}

/// The first lines of the answers, the same from both forms of the server, and
/// whether the stream broke.
#[track_caller]
fn served(stream: Scripted) -> (Vec<std::string::String>, bool) {
    firstpoll::runtime::init();
    let run = |form: fn(Scripted) -> Result<(), Broken>| {
        let stream = Scripted {
            written: Rc::default(),
            ..stream.clone()
        };
        let written = Rc::clone(&stream.written);
        let broke = form(stream).is_err();
        let output = std::string::String::from_utf8(written.take()).expect("answers are text");
        let lines = output.lines().filter(|line| line.starts_with("HTTP/"));
        (lines.map(Into::into).collect(), broke)
    };
    let as_future = run(|stream| block_on(serve(stream, Session::new(), &Counters, PATIENCE)));
    let blocking =
        run(|stream| serve_blocking(ReadyFirst, stream, Session::new(), &Counters, PATIENCE));
    assert_eq!(as_future, blocking);
    as_future
}

fn script(acts: &[Act]) -> Scripted {
    Scripted {
        script: acts.iter().cloned().collect(),
        ..Scripted::default()
    }
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_are_served_until_the_client_ends() {
    let stream = script(&[Act::Send(GET), Act::Send(GET)]);
    assert_eq!(served(stream).0, ["HTTP/1.1 200 OK"; 2]);
}

#[test]
fn an_idle_connection_is_closed_silently() {
    assert_eq!(served(script(&[Act::Send(GET), Act::Idle])).0.len(), 1);
    assert_eq!(served(script(&[Act::Idle])).0.len(), 0);
}

#[test]
fn a_request_must_arrive_in_time_as_a_whole() {
    let pause = Act::Wait(PATIENCE * 6 / 10);
    let slow = [
        Act::Send(&GET[..5]),
        pause.clone(),
        Act::Send(&GET[5..10]),
        pause.clone(),
        Act::Send(&GET[10..]),
    ];
    assert_eq!(served(script(&slow)).0, ["HTTP/1.1 408 Request Timeout"]);
    let quick = [
        Act::Send(GET),
        pause.clone(),
        Act::Send(GET),
        pause,
        Act::Send(GET),
    ];
    assert_eq!(served(script(&quick)).0, ["HTTP/1.1 200 OK"; 3]);
}

#[test]
fn a_client_that_takes_no_answer_is_given_up() {
    let stream = Scripted {
        takes_nothing: true,
        ..script(&[Act::Send(GET), Act::Idle])
    };
    assert_eq!(served(stream), (Vec::new(), false));
}

#[test]
fn a_broken_stream_is_reported() {
    assert!(served(script(&[Act::Send(GET), Act::Reset])).1);
}
