//! HTTP requests without a machine's network: prepared frames go in at the
//! card's end, and the answers' frames are taken back there.
//!
//! A request counts from the card's interrupt until no task is ready: the
//! network task, the stack, the server's task with its timers, the answer.

use alloc::vec::Vec;
use core::fmt::Display;
use core::net::SocketAddrV4;

use firstpoll::executor::{self, DEFAULT_BUDGET, Work, pass};
use firstpoll::net::{
    self, Buffers, Config, Ipv4Config, ListenerOptions, Stack, TcpListener, TcpStream,
};
use firstpoll::time::Duration;
use firstpoll::{block_on, println, spawn};
use httpd::{ByteStream, Pages, Session, serve};

use crate::client::{self, CLIENT_IP, Client, Frame, STACK_IP, STACK_PORT};
use crate::count::{each, instructions};
use crate::stages::{self, Point, STAGES, Staged, reach};
use crate::wire::{Sums, Wire};

/// The connections, of which one is served alone first.
pub const CONNECTIONS: usize = 128;
/// Requests that arrive together: their answers are ready before the stack
/// acknowledges any without one, after 1 ms.
pub const AT_ONCE: usize = 32;
/// The requests of each measurement.
const REQUESTS: usize = 2048;

/// As httpd has them.
pub const BUFFERS: Buffers = Buffers {
    receive_bytes: 4 << 10,
    send_bytes: 4 << 10,
};
/// All connections have the same, as in a server.
pub const PATIENCE: Duration = Duration::from_secs(3600);

pub fn count() -> Bench {
    // What a card's interrupt wakes is polled by the pass that follows it, as
    // on a core that it has found halted: no deferral is armed.
    executor::set_deferral_bound(Duration::MAX);
    let (mut bench, _) = Bench::ours(Sums::Stack);
    bench.connect(|stream| stream);
    println!("http_request_1_own_sums {}", bench.per_request(1));

    let (mut bench, _) = Bench::ours(Sums::Card);

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

/// A server's side of the stack under test.
pub trait Accept {
    /// A connection.
    type Stream: ByteStream + 'static;

    /// Gets ready for one connection.
    fn listen(&mut self) {}

    /// The connection whose handshake has just ended.
    fn accept(&mut self) -> Self::Stream;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn accept(&mut self) -> TcpStream {
        block_on(TcpListener::accept(self)).expect("it has connected")
    }
}

/// The stack under test and its clients.
pub struct Bench<L = TcpListener> {
    pub wire: Wire,
    pub listener: L,
    pub clients: Vec<Client>,
    next_port: u16,
    answer_bytes: usize,
    /// The requests of each measurement.
    pub measured: usize,
}

/// Starts a stack and listens.
pub fn listen(options: ListenerOptions, sums: Sums) -> (Wire, Stack, TcpListener) {
    let (wire, device) = Wire::new(CONNECTIONS, sums);
    let config = Config::from(Ipv4Config {
        address: STACK_IP,
        prefix_len: 24,
        gateway: Some(CLIENT_IP),
    });
    let stack = net::start(device, config, 7);
    let listener = TcpListener::bind_with(stack, STACK_PORT, options).expect("nobody listens");
    (wire, stack, listener)
}

impl Bench {
    /// Our stack.
    pub fn ours(sums: Sums) -> (Self, Stack) {
        let options = ListenerOptions {
            buffers: BUFFERS,
            ..ListenerOptions::default()
        };
        let (wire, stack, listener) = listen(options, sums);
        (Self::of(wire, listener), stack)
    }
}

impl<L: Accept> Bench<L> {
    /// A stack at the end of `wire` that serves what `listener` accepts.
    pub fn of(wire: Wire, listener: L) -> Self {
        let bench = Self {
            wire,
            listener,
            clients: Vec::new(),
            next_port: 40_000,
            answer_bytes: 0,
            measured: REQUESTS,
        };
        settle();
        bench.introduce();
        bench
    }

    /// Tells the stack the client's hardware address, which it forgets after a
    /// minute.
    pub fn introduce(&self) {
        self.ask(&[client::arp_request()], 1);
    }

    /// Sends `frames` together, runs what they ask for, and counts. The stack
    /// sends `answers` frames.
    #[inline(always)]
    pub fn ask(&self, frames: &[Frame], answers: usize) -> u64 {
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
    pub fn connect<S: ByteStream + 'static>(&mut self, stream: impl FnOnce(L::Stream) -> S) {
        let accepted = stream(self.accept());
        serve_by_task(accepted);
        let mut client = self.clients.pop().expect("it was added");
        self.request(&mut client);
        self.clients.push(client);
    }

    /// Makes a connection from `from` that is served by a task.
    pub fn open(&mut self, from: SocketAddrV4) -> Client {
        let (client, stream) = self.handshake(from);
        serve_by_task(stream);
        client
    }

    /// Has a request of `client` answered, and acknowledges that.
    pub fn request(&mut self, client: &mut Client) {
        let request = client.request();
        self.ask(&[request], 1);
        self.answer_bytes = client.check(&self.wire.last_sent(), false);
        client.expect(self.answer_bytes);
        self.ask(&[client.acknowledge()], 0);
    }

    /// Adds a connection.
    pub fn accept(&mut self) -> L::Stream {
        let from = SocketAddrV4::new(CLIENT_IP, self.next_port);
        self.next_port += 1;
        let (client, stream) = self.handshake(from);
        self.clients.push(client);
        stream
    }

    fn handshake(&mut self, from: SocketAddrV4) -> (Client, L::Stream) {
        self.listener.listen();
        let (mut client, syn) = Client::connect(from);
        self.ask(&[syn], 1);
        let ack = client.accept(&self.wire.last_sent());
        self.ask(&[ack], 0);
        (client, self.listener.accept())
    }

    /// Requests of the clients in turn.
    pub fn requests(&mut self) -> Vec<Frame> {
        let clients = self.clients.len();
        let mut frames = Vec::with_capacity(self.measured);
        for request in 0..self.measured {
            let client = &mut self.clients[request % clients];
            frames.push(client.request());
            client.expect(self.answer_bytes);
        }
        frames
    }

    /// Checks the answer to the last of those requests, and acknowledges all:
    /// else the stack would repeat answers while the next are prepared.
    pub fn finish(&self) {
        let last = &self.clients[(self.measured - 1) % self.clients.len()];
        last.check(&self.wire.last_sent(), true);
        for client in &self.clients {
            self.ask(&[client.acknowledge()], 0);
        }
    }

    /// Instructions per request, of the clients in turn, `at_once` together.
    pub fn per_request(&mut self, at_once: usize) -> u64 {
        let frames = self.requests();
        let chunks = frames.chunks(at_once);
        let total = chunks.map(|frames| self.ask(frames, frames.len())).sum();
        self.finish();
        each(total, self.measured as u64)
    }
}

/// Serves a connection until its end.
fn serve_by_task<S: ByteStream + 'static>(stream: S) {
    spawn(async move {
        let end = serve(stream, Session::new(), &NoPages, PATIENCE).await;
        end.expect("the connection holds");
    })
    .detach();
    settle();
}
