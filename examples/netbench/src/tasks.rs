//! Messages between two tasks of this machine.

use alloc::vec::Vec;

use firstpoll::arch::{Instant, now};
use firstpoll::spawn;
use firstpoll::time::sleep;
use netbench_protocol::{CHANNEL_CAPACITY, FULL_SPEED, MAX_SAMPLES, PACE, TaskFigures};

use crate::channel::{Receiver, Sender, channel};

struct Message {
    sent: Instant,
    content: Vec<u8>,
}

/// There is no memory for a message.
struct NoMemory;

/// Has one task send messages of `size` bytes to another, the first `samples`
/// of them with a [`PACE`], the others at [`FULL_SPEED`]. Nothing if memory was
/// short.
pub async fn measure(size: usize, samples: u64) -> Option<TaskFigures> {
    let samples = samples.min(MAX_SAMPLES);
    let content = copy(&[]).ok().and_then(|mut content| {
        content.try_reserve_exact(size).ok()?;
        content.resize(size, 0x5a);
        Some(content)
    })?;
    let (paced_sender, paced) = channel(CHANNEL_CAPACITY);
    let (fast_sender, fast) = channel(CHANNEL_CAPACITY);
    let receiving = spawn(receive(paced, fast, size, samples as usize));
    let sending = spawn(send(paced_sender, fast_sender, content, samples));
    sending.await.ok()?;
    receiving.await
}

async fn send(
    mut paced: Sender<Message>,
    mut fast: Sender<Message>,
    content: Vec<u8>,
    samples: u64,
) -> Result<(), NoMemory> {
    for _ in 0..samples {
        sleep(PACE).await;
        send_one(&mut paced, &content).await?;
    }
    drop(paced);
    sleep(PACE).await;
    for _ in 0..CHANNEL_CAPACITY {
        send_one(&mut fast, &content).await?;
    }
    let start = now();
    while now() - start < FULL_SPEED {
        send_one(&mut fast, &content).await?;
    }
    Ok(())
}

async fn send_one(sender: &mut Sender<Message>, content: &[u8]) -> Result<(), NoMemory> {
    let sent = now();
    let content = copy(content)?;
    // The receiver goes before the sender does only if it has no memory.
    sender
        .send(Message { sent, content })
        .await
        .map_err(|_| NoMemory)
}

async fn receive(
    mut paced: Receiver<Message>,
    mut fast: Receiver<Message>,
    size: usize,
    samples: usize,
) -> Option<TaskFigures> {
    let mut figures = TaskFigures::default();
    figures.latencies_ns.try_reserve_exact(samples).ok()?;
    while let Some(Message { sent, content }) = paced.receive().await {
        let latency = now() - sent;
        figures.latencies_ns.push(latency.as_nanos() as u64);
        assert_eq!(content.len(), size, "a message was cut");
    }
    for _ in 0..CHANNEL_CAPACITY {
        fast.receive().await?;
    }
    let start = now();
    while let Some(message) = fast.receive().await {
        figures.messages += 1;
        figures.bytes += message.content.len() as u64;
    }
    let elapsed = now() - start;
    figures.elapsed_ns = elapsed.as_nanos() as u64;
    Some(figures)
}

fn copy(content: &[u8]) -> Result<Vec<u8>, NoMemory> {
    let mut copied = Vec::new();
    copied
        .try_reserve_exact(content.len())
        .map_err(|_| NoMemory)?;
    copied.extend_from_slice(content);
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use firstpoll::{block_on, runtime};

    use super::*;

    #[test]
    fn every_message_is_counted() {
        runtime::init();
        for size in [0, 8, 0x6_4000] {
            let start = now();
            let figures = block_on(measure(size, 3)).expect("there is memory");
            let elapsed = (now() - start).as_nanos() as u64;
            assert_eq!(figures.latencies_ns.len(), 3);
            assert!(figures.messages > 0);
            assert_eq!(figures.bytes, figures.messages * size as u64);
            assert!(figures.elapsed_ns >= FULL_SPEED.as_nanos() as u64 / 2);
            assert!(figures.elapsed_ns < elapsed);
        }
    }
}
