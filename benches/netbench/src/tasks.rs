//! Messages between two threads of this machine: what two tasks are to the
//! guest.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use netbench_protocol::{CHANNEL_CAPACITY, FULL_SPEED, MAX_SAMPLES, PACE, TaskFigures};

struct Message {
    sent: Instant,
    content: Vec<u8>,
}

/// The receiver has panicked.
struct Gone;

/// Has one thread send messages of `size` bytes to another, the first `samples`
/// of them with a [`PACE`], the others at [`FULL_SPEED`]. Nothing if it failed.
pub(crate) fn measure(size: usize, samples: u64) -> Option<TaskFigures> {
    let samples = samples.min(MAX_SAMPLES);
    let (paced_sender, paced) = sync_channel(CHANNEL_CAPACITY);
    let (fast_sender, fast) = sync_channel(CHANNEL_CAPACITY);
    let receiving = thread::spawn(move || receive(&paced, &fast, size));
    let sending = thread::spawn(move || send(paced_sender, &fast_sender, size, samples));
    let sent = sending.join().ok()?;
    let figures = receiving.join().ok()?;
    sent.ok().and(figures)
}

fn send(
    paced: SyncSender<Message>,
    fast: &SyncSender<Message>,
    size: usize,
    samples: u64,
) -> Result<(), Gone> {
    let content = vec![0x5a; size];
    for _ in 0..samples {
        thread::sleep(PACE);
        send_one(&paced, &content)?;
    }
    drop(paced);
    thread::sleep(PACE);
    for _ in 0..CHANNEL_CAPACITY {
        send_one(fast, &content)?;
    }
    let start = Instant::now();
    while start.elapsed() < FULL_SPEED {
        send_one(fast, &content)?;
    }
    Ok(())
}

fn send_one(sender: &SyncSender<Message>, content: &[u8]) -> Result<(), Gone> {
    let sent = Instant::now();
    let content = content.to_vec();
    sender.send(Message { sent, content }).map_err(|_| Gone)
}

fn receive(
    paced: &Receiver<Message>,
    fast: &Receiver<Message>,
    size: usize,
) -> Option<TaskFigures> {
    let mut figures = TaskFigures::default();
    for Message { sent, content } in paced {
        figures.latencies_ns.push(sent.elapsed().as_nanos() as u64);
        assert_eq!(content.len(), size, "a message was cut");
    }
    for _ in 0..CHANNEL_CAPACITY {
        fast.recv().ok()?;
    }
    let start = Instant::now();
    for message in fast {
        figures.messages += 1;
        figures.bytes += message.content.len() as u64;
    }
    figures.elapsed_ns = start.elapsed().as_nanos() as u64;
    Some(figures)
}
