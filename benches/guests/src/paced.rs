//! A receive loop in the guest: one task sends at a pace and then in bursts,
//! the program receives, a `block_on` per message.
//!
//! Each line is `case metric unit value`, separated by tabs. The host's side of
//! the same loop is `benches/block-on-study`.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use async_channel::{Receiver, Sender};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, Instant, sleep_until, timeout};
use firstpoll::{block_on, executor, println, spawn, yield_now};

firstpoll::entry!(main);

const PERIOD: Duration = Duration::from_millis(5);
const WARM_UP: usize = 10;
const SAMPLES: usize = 100;
const BURST: usize = 100;
const BURSTS: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(1);
const HOLD: Duration = Duration::from_micros(300);

struct Message {
    /// When the producer wanted to wake up for it.
    due: Instant,
    sent: Instant,
}

/// How a message is awaited.
#[derive(Clone, Copy)]
enum Shape {
    /// The receive alone.
    Wait,
    /// A timeout around it.
    Timeout,
    /// Wait, then wait for more until nothing comes for the hold time.
    Hold,
}

fn main(_: Runtime) {
    for (name, shape) in [
        ("wait", Shape::Wait),
        ("timeout", Shape::Timeout),
        ("hold", Shape::Hold),
    ] {
        let (sender, receiver) = async_channel::unbounded();
        let mut inbox = Inbox {
            shape,
            receiver,
            queue: VecDeque::new(),
        };
        paced(name, &mut inbox, &sender);
        bursts(name, &mut inbox, &sender);
    }
}

fn paced(name: &str, inbox: &mut Inbox, sender: &Sender<Message>) {
    let sender = sender.clone();
    spawn(async move {
        for _ in 0..WARM_UP + SAMPLES {
            let due = Instant::now() + PERIOD;
            sleep_until(due).await;
            send(&sender, due).await;
        }
    })
    .detach();
    for _ in 0..WARM_UP {
        inbox.receive();
    }
    let halts = executor::stats().halts;
    let mut latencies = Vec::with_capacity(SAMPLES);
    let mut from_timer = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let message = inbox.receive();
        latencies.push(message.sent.elapsed());
        from_timer.push(message.due.elapsed());
    }
    let halts = executor::stats().halts - halts;
    percentiles(name, "paced", &mut latencies);
    percentiles(name, "paced, from the timer", &mut from_timer);
    let halts = halts as f64 / SAMPLES as f64;
    println!("{name}, paced\thalts\t1/message\t{halts}");
}

fn bursts(name: &str, inbox: &mut Inbox, sender: &Sender<Message>) {
    let mut rates = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let sender = sender.clone();
        spawn(async move {
            for _ in 0..BURST {
                send(&sender, Instant::now()).await;
                yield_now().await;
            }
        })
        .detach();
        let first = inbox.receive().sent;
        for _ in 1..BURST {
            inbox.receive();
        }
        rates.push(BURST as u64 * 1_000_000_000 / first.elapsed().as_nanos() as u64);
    }
    rates.sort_unstable();
    let rate = rates[BURSTS / 2];
    println!("{name}, burst\tthroughput\tmessages/s\t{rate}");
}

async fn send(sender: &Sender<Message>, due: Instant) {
    let message = Message {
        due,
        sent: Instant::now(),
    };
    sender.send(message).await.expect("the receiver is there");
}

struct Inbox {
    shape: Shape,
    receiver: Receiver<Message>,
    queue: VecDeque<Message>,
}

impl Inbox {
    fn receive(&mut self) -> Message {
        block_on(self.next())
    }

    async fn next(&mut self) -> Message {
        const HERE: &str = "the sender is there";
        match self.shape {
            Shape::Wait => self.receiver.recv().await.expect(HERE),
            Shape::Timeout => {
                let message = timeout(TIMEOUT, self.receiver.recv()).await;
                message.expect("messages come sooner").expect(HERE)
            }
            Shape::Hold => {
                if self.queue.is_empty() {
                    self.queue
                        .push_back(self.receiver.recv().await.expect(HERE));
                }
                while let Ok(message) = timeout(HOLD, self.receiver.recv()).await {
                    self.queue.push_back(message.expect(HERE));
                }
                self.queue.pop_front().expect("one was pushed")
            }
        }
    }
}

fn percentiles(name: &str, case: &str, latencies: &mut [Duration]) {
    latencies.sort_unstable();
    for (metric, percent) in [("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)] {
        let rank = (latencies.len() * percent).div_ceil(100).max(1);
        let micros = latencies[rank - 1].as_nanos() as f64 / 1e3;
        println!("{name}, {case}\t{metric}\tµs\t{micros}");
    }
}
