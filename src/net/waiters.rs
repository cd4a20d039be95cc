//! Futures that wait in numbers for the same event.
//!
//! Each has a place of its own, which it leaves when it is dropped: a program
//! that waits with a timeout again and again leaves nothing behind.

use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};

use super::state::State;
use super::tcp::listeners::ListenerId;
use super::{Error, Stack};

/// Those who wait for one event. All are woken when it happens, as one that was
/// woken may not come back for it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    places: Vec<(Ticket, Waker)>,
    last: u64,
    woken: bool,
}

/// Names a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket(u64);

impl Waiters {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            last: 0,
            woken: false,
        }
    }

    /// Has all woken that wait now; returns whether there are any.
    pub(super) fn wake_all(&mut self) -> bool {
        self.woken |= !self.places.is_empty();
        self.woken
    }

    /// Whether there may be wakers to be woken.
    pub(super) fn has_woken(&self) -> bool {
        self.woken
    }

    /// Takes out one waker that is to be woken.
    pub(super) fn take_woken(&mut self) -> Option<Waker> {
        if !self.woken {
            return None;
        }
        let place = self.places.pop();
        self.woken = place.is_some();
        place.map(|(_, waker)| waker)
    }

    fn position(&self, ticket: Option<Ticket>) -> Option<usize> {
        let ticket = ticket?;
        self.places.iter().position(|&(other, _)| other == ticket)
    }

    /// Whether `waker`'s task is woken by what stands at the place.
    fn holds(&self, ticket: Option<Ticket>, waker: &Waker) -> bool {
        self.position(ticket)
            .is_some_and(|position| self.places[position].1.will_wake(waker))
    }

    /// Puts `waker` into the place, or into a new one if that is gone. Returns
    /// the waker that is not needed any more, or this one if there is no memory.
    fn enter(&mut self, ticket: &mut Option<Ticket>, waker: Waker) -> Result<Option<Waker>, Waker> {
        if let Some(position) = self.position(*ticket) {
            let place = &mut self.places[position].1;
            return Ok(Some(core::mem::replace(place, waker)));
        }
        if self.places.try_reserve(1).is_err() {
            return Err(waker);
        }
        self.last += 1;
        self.places.push((Ticket(self.last), waker));
        *ticket = Some(Ticket(self.last));
        Ok(None)
    }

    /// Gives the place up, if it is not gone.
    fn leave(&mut self, ticket: Option<Ticket>) -> Option<Waker> {
        let position = self.position(ticket)?;
        Some(self.places.remove(position).1)
    }
}

/// What is waited for in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The interface has an address.
    Configured,
    /// A connection can be accepted.
    Connection(ListenerId),
}

impl State {
    fn waiters(&mut self, event: Event) -> Option<&mut Waiters> {
        match event {
            Event::Configured => Some(&mut self.unconfigured),
            Event::Connection(listener) => self
                .listeners
                .get_mut(listener)
                .map(|listening| &mut listening.acceptors),
        }
    }
}

/// A future's place among those who wait for an event, once it has to.
#[derive(Debug)]
pub(super) struct Waiting {
    stack: Stack,
    event: Event,
    ticket: Option<Ticket>,
}

impl Waiting {
    pub(super) const fn new(stack: Stack, event: Event) -> Self {
        Self {
            stack,
            event,
            ticket: None,
        }
    }

    /// Makes an attempt; if it has to wait, leaves the context's waker.
    pub(super) fn poll<T>(
        &mut self,
        context: &Context<'_>,
        mut attempt: impl FnMut(&mut State) -> Poll<Result<T, Error>>,
    ) -> Poll<Result<T, Error>> {
        let Self {
            stack,
            event,
            ref mut ticket,
        } = *self;
        // Wakers are cloned and dropped with nothing locked: it may be the last
        // of a task that owns sockets.
        let mut registered = false;
        let result = stack.shared.visit(|state, _| {
            let result = attempt(state);
            if result.is_pending() {
                registered = state
                    .waiters(event)
                    .is_some_and(|waiters| waiters.holds(*ticket, context.waker()));
            }
            result
        });
        if result.is_ready() || registered {
            return result;
        }
        let waker = context.waker().clone();
        let entered = stack.shared.visit(|state, _| match state.waiters(event) {
            Some(waiters) => waiters.enter(ticket, waker),
            None => Err(waker),
        });
        if entered.is_err() {
            return Poll::Ready(Err(Error::OutOfMemory));
        }
        // It may have happened in between.
        stack.shared.visit(|state, _| attempt(state))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Self {
            stack,
            event,
            ticket,
        } = *self;
        if ticket.is_some() {
            let waker = stack
                .shared
                .visit(|state, _| state.waiters(event)?.leave(ticket));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::task::Wake;

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    fn waker() -> (Arc<Nobody>, Waker) {
        let nobody = Arc::new(Nobody);
        (nobody.clone(), nobody.into())
    }

    #[test]
    fn each_has_one_place_and_leaves_nothing_in_it() {
        let (nobody, waker) = waker();
        let mut waiters = Waiters::new();
        let (mut first, mut second) = (None, None);
        for _ in 0..3 {
            waiters.enter(&mut first, waker.clone()).unwrap();
            waiters.enter(&mut second, waker.clone()).unwrap();
        }
        assert_eq!(Arc::strong_count(&nobody), 4);
        assert!(waiters.holds(first, &waker) && waiters.holds(second, &waker));
        drop(waiters.leave(first));
        assert!(!waiters.holds(first, &waker) && waiters.holds(second, &waker));
        drop(waiters.leave(second));
        assert_eq!(Arc::strong_count(&nobody), 2);
    }

    #[test]
    fn all_are_woken_once() {
        let (_, waker) = waker();
        let mut waiters = Waiters::new();
        assert!(!waiters.wake_all());
        let mut tickets = [None; 3];
        for ticket in &mut tickets {
            waiters.enter(ticket, waker.clone()).unwrap();
        }
        assert!(waiters.take_woken().is_none());
        assert!(waiters.wake_all());
        assert!((0..3).all(|_| waiters.take_woken().is_some()));
        assert!(waiters.take_woken().is_none());
        // Who comes later waits for the next time.
        waiters.enter(&mut tickets[0], waker).unwrap();
        assert!(waiters.take_woken().is_none());
    }
}
