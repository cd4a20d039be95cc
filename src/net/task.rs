//! The network task: everything that the stack does of its own accord.
//!
//! It is interrupt-safe, so pings, handshakes and acknowledgements go on while
//! the program computes. It works in bounded steps, between which the stack is
//! unlocked and wakers are woken. While there is work it polls the card with
//! its interrupts off; when it runs dry it turns them on, looks once more, and
//! sleeps until an interrupt, a deadline, or a call of the program that leaves
//! it something to do.

#![allow(unsafe_code)] // One `spawn_interrupt_safe`.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use smoltcp::time::Instant;

use super::device::{Backlog, Room};
use super::stack::Shared;
use super::state::{State, now};
use crate::arch;
use crate::executor;
use crate::time::{Sleep, sleep_until};

/// How many steps one poll makes before others get their turn.
const STEPS: usize = 4;

/// smoltcp's end of time.
const NEVER: Instant = Instant::from_micros_const(i64::MAX);

/// Starts the task of a stack.
pub(super) fn spawn(shared: &'static Shared) {
    let task = NetworkTask {
        shared,
        sleep: sleep_until(arch::Instant::MAX),
        watchdog: Watchdog::default(),
    };
    // SAFETY: the task touches the stack's state, which has a bottom-half lock,
    // its own fields, waker slots, and the wakers that it wakes with nothing
    // locked.
    unsafe { executor::spawn_interrupt_safe(task) }.detach();
}

struct NetworkTask {
    shared: &'static Shared,
    sleep: Sleep,
    watchdog: Watchdog,
}

impl Future for NetworkTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let shared = this.shared;
        shared.interrupt.register(context.waker());
        shared.task.register(context.waker());
        for _ in 0..STEPS {
            let more = shared.visit_by_task(|state, wakes| {
                state.nic.mask_interrupts();
                state.step(now(), wakes)
            });
            if !more {
                return this.rest(context);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl NetworkTask {
    /// Turns the card's interrupts on and sleeps, unless something came in
    /// between.
    fn rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let watchdog = &mut self.watchdog;
        let asleep_until = self.sleep.deadline();
        let deadline = self.shared.visit_by_task(|state, _| {
            let backlog = state.nic.unmask_interrupts();
            let is_full = state.blocked && state.nic.split().1.room() == Room::Full;
            if !is_full && (state.blocked || backlog == Backlog::Waiting) {
                return None;
            }
            let wanted = watchdog.look(state);
            let wanted = state
                .next_deadline()
                .into_iter()
                .chain(state.sweep.at())
                .chain(wanted)
                .min();
            // A sleep that ends too soon costs less than moving it each time.
            let deadline = wanted.map_or(arch::Instant::MAX, to_arch);
            let deadline = if arch::now() < asleep_until {
                deadline.min(asleep_until)
            } else {
                deadline
            };
            state.asleep_until = match deadline {
                arch::Instant::MAX => NEVER,
                deadline => from_arch(deadline),
            };
            Some(deadline)
        });
        let Some(deadline) = deadline else {
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        if deadline != asleep_until {
            self.sleep = sleep_until(deadline);
        }
        if Pin::new(&mut self.sleep).poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

fn to_arch(at: Instant) -> arch::Instant {
    arch::Instant::from_nanos((at.total_micros().max(0) as u64).saturating_mul(1_000))
}

fn from_arch(at: arch::Instant) -> Instant {
    Instant::from_micros((at.as_nanos() / 1_000) as i64)
}

/// Looks again a while after things went quiet: a notification in either
/// direction can get lost where the machine's emulator leaves barriers out,
/// and an interrupt line can be dead.
#[derive(Debug, Default)]
struct Watchdog {
    at: Option<Instant>,
    interval: Duration,
    interrupts: u64,
    frames_received: u64,
    frames_sent: u64,
    /// Times in a row that frames came without any interrupt ever.
    silent: u32,
}

impl Watchdog {
    /// How long after the last frame it looks.
    const QUIET: Duration = Duration::from_millis(10);
    /// How long it waits at most while frames lie unsent.
    const PATIENCE: Duration = Duration::from_secs(1);
    /// How often it looks until the first interrupt has come.
    const UNPROVEN: Duration = Duration::from_millis(250);
    /// How often it looks once the interrupt is known to be dead.
    const POLLING: Duration = Duration::from_millis(1);
    /// How many unannounced frames prove that.
    const DEAD_AFTER: u32 = 3;

    /// Looks at what happened since the last time; returns when to look again.
    fn look(&mut self, state: &mut State) -> Option<Instant> {
        let now = now();
        let interrupts = state.nic.interrupts();
        let received = state.stats.frames_received != self.frames_received;
        let active = received || state.stats.frames_sent != self.frames_sent;
        let due = self.at.is_some_and(|at| at <= now);
        if due && received && interrupts == self.interrupts {
            state.stats.unannounced += 1;
            if interrupts == 0 {
                self.silent += 1;
                if self.silent == Self::DEAD_AFTER {
                    log::warn!("the network card raises no interrupts; polling it instead");
                }
            }
        }
        self.interrupts = interrupts;
        self.frames_received = state.stats.frames_received;
        self.frames_sent = state.stats.frames_sent;
        if interrupts == 0 && self.silent >= Self::DEAD_AFTER {
            self.at = Some(now + Self::POLLING.into());
        } else if active {
            self.interval = Self::QUIET;
            self.at = Some(now + self.interval.into());
        } else if due {
            self.interval = (self.interval * 2).clamp(Self::QUIET, Self::PATIENCE);
            self.at = state.nic.kick_again().then(|| now + self.interval.into());
        }
        if interrupts == 0 && self.at.is_none() {
            self.at = Some(now + Self::UNPROVEN.into());
        }
        self.at
    }
}
