//! The network card's interrupts, with no stack in between: of frames that were
//! sent, and of changes of the card's configuration.

#![no_std]
#![no_main]

use core::future::poll_fn;
use core::task::Poll;

use firstpoll::drivers::virtio_net::{self, Interrupt};
use firstpoll::drivers::{self, ETHERNET_HEADER_BYTES};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, println};

firstpoll::entry!(main);

/// How often the send queue is filled.
const ROUNDS: usize = 100;

/// How long an interrupt may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(5);

/// A frame to everybody that nobody wants (of the type for experiments).
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let mut at = 0;
    while at < ETHERNET_HEADER_BYTES - 2 {
        frame[at] = if at < 6 { 0xff } else { 0x02 };
        at += 1;
    }
    frame[12] = 0x88;
    frame[13] = 0xb5;
    frame
};

fn main(_: Runtime) -> Result<(), drivers::Error> {
    let mut card = virtio_net::probe()?;
    let interrupt = card.interrupt();
    for _ in 0..ROUNDS {
        card.mask_interrupts();
        let (_, send) = card.queues();
        while send.has_room() {
            send.buffer(FRAME.len()).copy_from_slice(&FRAME);
            send.commit();
        }
        let before = interrupt.count();
        card.flush();
        // With room there need not be one.
        if !card.unmask_interrupts() && !card.queues().1.has_room() {
            let wait = timeout(PATIENCE, until(interrupt, || interrupt.count() > before));
            block_on(wait).expect("the interrupt of a sent frame was lost");
        }
    }
    println!("send_interrupts {}", interrupt.count());
    assert!(!interrupt.take_config_change(), "nothing has changed");
    assert_eq!(card.faults(), 0);

    println!("ready");
    loop {
        block_on(until(interrupt, || interrupt.take_config_change()));
        println!("the configuration has changed");
        println!("interrupts {}", interrupt.count());
    }
}

/// Ready as soon as an interrupt has made `condition` true.
async fn until(interrupt: &'static Interrupt, condition: impl Fn() -> bool) {
    poll_fn(|context| {
        interrupt.waker().register(context.waker());
        if condition() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
