//! The handle to the network stack.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::net::IpAddr;
use core::task::{Context, Poll, Waker};

use super::device::Device;
use super::ip::{Config, IpConfig};
use super::limits::Limits;
use super::state::State;
use super::stats::Stats;
use super::waiters::{Event, Waiting};
use super::wakes::Wakes;
use super::{Error, task};
use crate::sync::{BottomHalfLock, WakerSlot};

/// What the stack's handles, sockets and task share.
pub(super) struct Shared {
    state: BottomHalfLock<State>,
    /// Woken by the card's interrupt.
    pub(super) interrupt: &'static WakerSlot,
    /// Woken when a call of the program leaves something to the network task.
    pub(super) task: WakerSlot,
}

/// What an attempt is likely to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Its end.
    Ready,
    /// It has to wait.
    Pending,
}

/// A handle to a network stack: small, copyable, for passing around.
#[derive(Clone, Copy)]
pub struct Stack {
    pub(super) shared: &'static Shared,
}

/// Starts a stack on `device`, with its network task on the calling core.
///
/// `seed` is what initial sequence numbers, ports and DHCP's transaction ids
/// are drawn from; it must be different at each boot and unknown to others.
/// Mind that even so they come from one small generator, which falls short of
/// RFC 6528: whoever sees many of them can predict the next.
///
/// Stacks are never taken down, so the memory of one is never freed.
pub fn start(device: Device, config: Config, seed: u64) -> Stack {
    let shared = Box::leak(Box::new(Shared {
        state: BottomHalfLock::new(State::new(device.nic, config, seed)),
        interrupt: device.interrupt,
        task: WakerSlot::new(),
    }));
    task::spawn(shared);
    Stack { shared }
}

impl Stack {
    /// Waits until the interface has an address, and returns it: see
    /// [`config`](Self::config).
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if it could not be registered as waiting.
    pub async fn wait_configured(self) -> Result<IpConfig, Error> {
        let mut waiting = Waiting::new(self, Event::Configured);
        let config = |state: &mut State| match state.addresses.best() {
            Some(config) => Poll::Ready(Ok(config)),
            None => Poll::Pending,
        };
        poll_fn(|context| waiting.poll(context, config)).await
    }

    /// The address that the interface is best reached at, if it has one: that
    /// of IPv4; where there is none, because it is off or no DHCP server has
    /// answered for ten seconds, one of IPv6 that reaches beyond the link.
    pub fn config(self) -> Option<IpConfig> {
        self.shared.visit(|state, _| state.addresses.best())
    }

    /// All addresses of the interface.
    pub fn addresses(self) -> Vec<IpAddr> {
        self.shared
            .visit(|state, _| state.addresses.all().map(|(address, _)| address).collect())
    }

    /// The servers of names: those that were given, and those that the network
    /// has told of.
    pub fn dns_servers(self) -> Vec<IpAddr> {
        self.shared
            .visit(|state, _| state.addresses.dns_servers().collect())
    }

    /// The card's address.
    pub fn mac(self) -> [u8; 6] {
        self.shared.visit(|state, _| state.nic.mac())
    }

    /// Whether the card's link is up: true where the card does not know.
    pub fn is_link_up(self) -> bool {
        self.shared.visit(|state, _| state.link.is_up())
    }

    /// What the stack may hold.
    pub fn limits(self) -> Limits {
        self.shared.visit(|state, _| state.limits)
    }

    /// What the stack has counted.
    pub fn stats(self) -> Stats {
        self.shared.visit(|state, _| state.stats())
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl Shared {
    /// Runs `visit` under the stack's lock, for a call of the program; then
    /// wakes whom it found, and the network task if it is left something.
    pub(super) fn visit<R>(&self, visit: impl FnOnce(&mut State, &mut Wakes) -> R) -> R {
        let (result, wants_task) = self.visit_by_task(|state, wakes| {
            let result = visit(state, wakes);
            let unchanged = core::mem::take(&mut state.unchanged);
            (result, !unchanged && state.wants_task())
        });
        if wants_task {
            self.task.wake();
        }
        result
    }

    /// Makes an attempt; if it has to wait, leaves the context's waker in `place`.
    ///
    /// Who expects to wait needs one visit for both, not two.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        expected: Outlook,
        place: impl Fn(&mut State) -> Option<&mut Option<Waker>>,
        mut attempt: impl FnMut(&mut State, &mut Wakes) -> Poll<T>,
    ) -> Poll<T> {
        if expected == Outlook::Ready {
            let mut registered = false;
            let result = self.visit(|state, wakes| {
                let result = attempt(state, wakes);
                if result.is_pending() {
                    registered = place(state)
                        .and_then(|place| place.as_ref())
                        .is_some_and(|known| known.will_wake(context.waker()));
                }
                result
            });
            if result.is_ready() || registered {
                return result;
            }
        }
        // Cloned and dropped with nothing locked: both may run foreign code.
        let mut waker = Some(context.waker().clone());
        let result = self.visit(|state, wakes| {
            let result = attempt(state, wakes);
            if result.is_pending()
                && let Some(place) = place(state)
            {
                core::mem::swap(place, &mut waker);
            }
            result
        });
        drop(waker);
        result
    }

    /// Runs `visit` under the stack's lock, for the network task; then wakes
    /// whom it found.
    pub(super) fn visit_by_task<R>(&self, visit: impl FnOnce(&mut State, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        let result = visit(&mut state, &mut wakes);
        let shared = state.has_shared_wakers();
        drop(state);
        wakes.wake_all();
        if shared {
            self.wake_shared();
        }
        result
    }

    /// Wakes those who wait in numbers.
    #[inline(never)] // Few visits find any.
    fn wake_shared(&self) {
        let next = || self.state.lock().take_shared_waker();
        while let Some(waker) = next() {
            waker.wake();
        }
    }
}

impl State {
    /// Whether some are to be woken who wait in numbers: for a connection to
    /// accept, or for an address.
    fn has_shared_wakers(&self) -> bool {
        self.unconfigured.has_woken() || self.listeners.has_woken()
    }

    /// Takes out one waker of those.
    fn take_shared_waker(&mut self) -> Option<Waker> {
        self.unconfigured
            .take_woken()
            .or_else(|| self.listeners.take_woken())
    }
}
