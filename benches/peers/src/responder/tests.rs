//! A real server on loopback, and clients that cut, hurry, lag and leave.

use super::*;
use crate::listen::listen;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A server in a thread, which ends with it.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Server {
    fn start() -> Self {
        let listener = listen(0).expect("some port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let mut responder = Responder::new(listener).expect("there are descriptors");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            let mut events = Vec::with_capacity(BATCH_EVENTS);
            while !stopped.load(Ordering::Relaxed) {
                responder
                    .turn(&mut events, Some(&timeout))
                    .expect("it serves");
            }
            responder.connections.len()
        });
        Self {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            stop,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let timeout = Some(Duration::from_secs(10));
        stream.set_read_timeout(timeout).expect("it is not zero");
        stream.set_nodelay(true).expect("it is open");
        stream
    }

    /// Ends the server; how many connections it still had.
    fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the server did not panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn expect_answers(stream: &mut TcpStream, count: usize) {
    let mut answers = vec![0; ANSWER.len() * count];
    stream.read_exact(&mut answers).expect("the answers come");
    for answer in answers.chunks(ANSWER.len()) {
        assert_eq!(answer, ANSWER);
    }
}

fn expect_end(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the stream ends");
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
}

#[test]
fn requests_are_answered_one_after_the_other() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..100 {
        client.write_all(REQUEST).expect("it is open");
        expect_answers(&mut client, 1);
    }
    assert_eq!(server.stop(), 1);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = Server::start();
    let mut client = server.connect();
    for byte in REQUEST.repeat(3) {
        client.write_all(&[byte]).expect("it is open");
    }
    expect_answers(&mut client, 3);
    assert_eq!(server.stop(), 1);
}

#[test]
fn many_clients_are_served_side_by_side() {
    let server = Server::start();
    let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.write_all(REQUEST).expect("it is open");
        }
        for client in &mut clients {
            expect_answers(client, 1);
        }
    }
    assert_eq!(server.stop(), 200);
}

/// The answers of this many requests fill every socket's buffers.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const REQUESTS: usize = 400_000;
    let server = Server::start();
    let mut slow = server.connect();
    let mut sender = slow.try_clone().expect("there are descriptors");
    let sending = std::thread::spawn(move || {
        for _ in 0..REQUESTS / 1000 {
            sender.write_all(&REQUEST.repeat(1000)).expect("it is open");
        }
        sender.shutdown(Shutdown::Write).expect("it is open");
    });
    // The others do not wait for it.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!sending.is_finished(), "the buffers took everything");
    let mut other = server.connect();
    other.write_all(REQUEST).expect("it is open");
    expect_answers(&mut other, 1);

    for _ in 0..REQUESTS / 1000 {
        expect_answers(&mut slow, 1000);
    }
    expect_end(&mut slow);
    sending.join().expect("all was sent");
    assert_eq!(server.stop(), 1);
}

#[test]
fn a_client_that_sends_its_end_is_answered_and_let_go() {
    let server = Server::start();
    for _ in 0..50 {
        let mut client = server.connect();
        client.write_all(&REQUEST.repeat(2)).expect("it is open");
        client.shutdown(Shutdown::Write).expect("it is open");
        expect_answers(&mut client, 2);
        expect_end(&mut client);
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let server = Server::start();
    for requests in 0..50 {
        let mut client = server.connect();
        client.write_all(&REQUEST.repeat(requests)).expect("open");
        // With answers unread, this is a reset.
        drop(client);
    }
    let mut last = server.connect();
    last.write_all(REQUEST).expect("it is open");
    expect_answers(&mut last, 1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.stop(), 1);
}
