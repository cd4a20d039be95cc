//! HTTP requests without a machine's network: prepared frames go in at the
//! card's end, and the answers' frames are taken back there.
//!
//! A request counts from the card's interrupt until no task is ready: the
//! network task, the stack, the server's task with its timers, the answer.

use alloc::vec::Vec;
use core::fmt::Display;

use firstpoll::executor::{self, DEFAULT_BUDGET, Work, pass};
use firstpoll::net::{self, Buffers, Config, Ipv4Config, ListenerOptions, TcpListener, TcpStream};
use firstpoll::time::Duration;
use firstpoll::{block_on, println, spawn};
use httpd::{ByteStream, Pages, Session, serve};

use crate::client::{self, Client, Frame, STACK_IP, STACK_PORT};
use crate::count::{each, instructions};
use crate::stages::{self, Point, STAGES, Staged, reach};
use crate::wire::Wire;

/// The connections, of which one is served alone first.
pub const CONNECTIONS: usize = 128;
/// Requests that arrive together: their answers are ready before the stack
/// acknowledges any without one, after 1 ms.
pub const AT_ONCE: usize = 32;
/// The requests of each measurement.
const REQUESTS: usize = 2048;

/// As httpd has them.
const BUFFERS: Buffers = Buffers {
    receive_bytes: 4 << 10,
    send_bytes: 4 << 10,
};
pub const PATIENCE: Duration = Duration::from_secs(10);

pub fn count() -> Bench {
    // What a card's interrupt wakes is polled by the pass that follows it, as
    // on a core that it has found halted: no deferral is armed.
    executor::set_deferral_bound(Duration::MAX);
    let mut bench = Bench::new();

    bench.connect(|stream| stream);
    println!("http_request_1 {}", bench.per_request(1));

    bench.clients.clear();
    bench.connect(Staged);
    let totals = stages::counted(|| {
        bench.per_request(1);
    });
    for (stage, total) in STAGES.iter().zip(totals) {
        println!("http_{stage} {}", each(total, REQUESTS as u64));
    }

    bench.clients.clear();
    for _ in 0..CONNECTIONS {
        bench.connect(|stream| stream);
    }
    println!("http_request_128 {}", bench.per_request(1));
    println!("http_request_128_by_32 {}", bench.per_request(AT_ONCE));
    bench
}

/// Runs tasks until none is ready.
fn settle() {
    while pass(DEFAULT_BUDGET).work == Work::Ready {}
}

pub struct NoPages;

impl Pages for NoPages {
    fn stats(&self) -> impl Display {
        ""
    }
}

/// The stack under test and its clients.
pub struct Bench {
    pub wire: Wire,
    listener: TcpListener,
    pub clients: Vec<Client>,
    next_port: u16,
    answer_bytes: usize,
}

impl Bench {
    fn new() -> Self {
        let (wire, device) = Wire::new(CONNECTIONS);
        let config = Config::from(Ipv4Config {
            address: STACK_IP,
            prefix_len: 24,
            gateway: None,
        });
        let stack = net::start(device, config, 7);
        let options = ListenerOptions {
            buffers: BUFFERS,
            ..ListenerOptions::default()
        };
        let listener = TcpListener::bind_with(stack, STACK_PORT, options).expect("nobody listens");
        let bench = Self {
            wire,
            listener,
            clients: Vec::new(),
            next_port: 40_000,
            answer_bytes: 0,
        };
        settle();
        bench.ask(&[client::arp_request()], 1);
        bench
    }

    /// Sends `frames` together, runs what they ask for, and counts. The stack
    /// sends `answers` frames.
    #[inline(always)]
    fn ask(&self, frames: &[Frame], answers: usize) -> u64 {
        let before = self.wire.sent_count();
        for frame in frames {
            self.wire.put(frame);
        }
        stages::start();
        let start = instructions();
        self.wire.interrupt();
        settle();
        let count = instructions() - start;
        reach(Point::Quiet);
        assert_eq!(self.wire.sent_count() - before, answers as u64);
        count
    }

    /// Adds a connection that is served by a task, and has its first request
    /// answered.
    fn connect<S: ByteStream + 'static>(&mut self, stream: impl FnOnce(TcpStream) -> S) {
        let accepted = stream(self.accept());
        spawn(async {
            let end = serve(accepted, Session::new(), &NoPages, PATIENCE).await;
            end.expect("the connection holds");
        })
        .detach();
        settle();

        let client = self.clients.last_mut().expect("it was added");
        let request = client.request();
        self.ask(&[request], 1);
        let client = self.clients.last_mut().expect("it was added");
        self.answer_bytes = client.check(&self.wire.last_sent(), false);
        client.expect(self.answer_bytes);
        let acknowledgement = client.acknowledge();
        self.ask(&[acknowledgement], 0);
    }

    /// Adds a connection.
    pub fn accept(&mut self) -> TcpStream {
        let (mut client, syn) = Client::connect(self.next_port);
        self.next_port += 1;
        self.ask(&[syn], 1);
        let ack = client.accept(&self.wire.last_sent());
        self.ask(&[ack], 0);
        self.clients.push(client);
        block_on(self.listener.accept()).expect("it has connected")
    }

    /// Requests of the clients in turn.
    pub fn requests(&mut self) -> Vec<Frame> {
        let clients = self.clients.len();
        let mut frames = Vec::with_capacity(REQUESTS);
        for request in 0..REQUESTS {
            let client = &mut self.clients[request % clients];
            frames.push(client.request());
            client.expect(self.answer_bytes);
        }
        frames
    }

    /// Checks the answer to the last of those requests, and acknowledges all:
    /// else the stack would repeat answers while the next are prepared.
    pub fn finish(&self) {
        let last = &self.clients[(REQUESTS - 1) % self.clients.len()];
        last.check(&self.wire.last_sent(), true);
        for client in &self.clients {
            self.ask(&[client.acknowledge()], 0);
        }
    }

    /// Instructions per request, of the clients in turn, `at_once` together.
    fn per_request(&mut self, at_once: usize) -> u64 {
        let frames = self.requests();
        let chunks = frames.chunks(at_once);
        let total = chunks.map(|frames| self.ask(frames, frames.len())).sum();
        self.finish();
        each(total, REQUESTS as u64)
    }
}
