//! The reflector: frames go back straight from the driver.

use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use firstpoll::arch::now;
use firstpoll::drivers::offload::{Checksum, Work};
use firstpoll::drivers::virtio::AnyTransport;
use firstpoll::drivers::virtio_net::VirtioNet;
use firstpoll::println;
use firstpoll::time::{Duration, Sleep, sleep};

use crate::frame::{Endpoint, Verdict};

/// How many rounds over the card one poll makes before others get their turn.
const ROUNDS: usize = 64;

/// How many frames one round takes before the card is told.
const BATCH: usize = 128;

/// How often it looks at the card by itself: a notification can get lost, and
/// an interrupt line can be dead.
const LOOK: Duration = Duration::from_millis(100);

/// Reflects datagrams; a future that never ends.
///
/// While there are frames it polls the card with its interrupts off, and tells
/// the card once per batch.
pub struct Reflector {
    card: VirtioNet<AnyTransport>,
    endpoint: Endpoint,
    counts: Counts,
    printed: Counts,
    seen: Counts,
    look: Sleep,
}

/// What became of the frames.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    reflected: u64,
    answered: u64,
    dropped: u64,
}

/// Why a round over the card ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There may be more frames.
    Full,
    /// There are no more frames, or no room to send any.
    Dry,
}

impl Reflector {
    /// A reflector at `endpoint`, whose frames come over `card`.
    pub fn new(card: VirtioNet<AnyTransport>, endpoint: Endpoint) -> Self {
        Self {
            card,
            endpoint,
            counts: Counts::default(),
            printed: Counts::default(),
            seen: Counts::default(),
            look: sleep(LOOK),
        }
    }

    fn round(&mut self) -> Round {
        let finishes = self.card.offloads().checksums;
        let (receive, send) = self.card.queues();
        let mut outcome = Round::Full;
        for _ in 0..BATCH {
            if !send.has_room() {
                outcome = Round::Dry;
                break;
            }
            let Some((frame, checksum)) = receive.front_with_checksum() else {
                outcome = Round::Dry;
                break;
            };
            // A frame that the host has left to its card is left to ours.
            let unfinished = match checksum {
                Checksum::Unfinished(unfinished) => Some(unfinished),
                Checksum::Unverified | Checksum::Right => None,
            };
            match self.endpoint.judge(frame) {
                Verdict::Reflect if unfinished.is_some() && !finishes => self.counts.dropped += 1,
                Verdict::Reflect => {
                    Endpoint::reflect(frame, send.buffer(frame.len()));
                    if let Some(checksum) = unfinished {
                        let cut = None;
                        send.set_work(Work { checksum, cut });
                    }
                    send.commit();
                    self.counts.reflected += 1;
                }
                Verdict::Answer => {
                    self.endpoint.answer(frame, send.buffer(frame.len()));
                    send.commit();
                    self.counts.answered += 1;
                }
                Verdict::Drop => self.counts.dropped += 1,
            }
            receive.release();
        }
        self.card.flush();
        outcome
    }

    /// Prints the counts when things have gone quiet.
    fn report(&mut self) {
        if self.counts == self.seen && self.counts != self.printed {
            println!("{:?}", self.counts);
            self.printed = self.counts;
        }
        self.seen = self.counts;
    }
}

impl Future for Reflector {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Infallible> {
        let this = &mut *self;
        this.card.interrupt().waker().register(context.waker());
        this.card.mask_interrupts();
        for _ in 0..ROUNDS {
            if this.round() == Round::Full {
                continue;
            }
            if this.card.unmask_interrupts() {
                this.card.mask_interrupts();
                continue;
            }
            if now() >= this.look.deadline() {
                this.card.kick_again();
                this.report();
                this.look = sleep(LOOK);
            }
            if Pin::new(&mut this.look).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reflected,
            answered,
            dropped,
        } = self;
        write!(
            f,
            "reflected {reflected}, answered {answered}, dropped {dropped}"
        )
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("endpoint", &self.endpoint)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
