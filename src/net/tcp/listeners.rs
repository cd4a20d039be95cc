//! Ports that are listened on, and the connections that wait there.

use alloc::vec::Vec;
use core::task::Waker;

use super::options::ListenerOptions;
use crate::net::Error;
use crate::net::index_list::{Chain, Links};
use crate::net::waiters::Waiters;

/// Names a listener for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct ListenerId {
    index: u32,
    generation: u32,
}

/// A port that is listened on.
#[derive(Debug)]
pub(in crate::net) struct Listening {
    pub(super) port: u16,
    pub(in crate::net) options: ListenerOptions,
    /// The connections that are established and not accepted, in the order of
    /// arrival. All listeners share one set of links, since a connection waits
    /// at one.
    pub(super) queue: Chain,
    /// Who waits in `accept`.
    pub(in crate::net) acceptors: Waiters,
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    listening: Option<Listening>,
}

/// The listeners. There are few, and they are searched for opening segments
/// only, so a plain vector will do.
#[derive(Debug, Default)]
pub(in crate::net) struct Listeners {
    places: Vec<Place>,
    /// Whether any has acceptors to be woken.
    any_woken: bool,
}

impl Listeners {
    /// Starts to listen on `port`.
    pub(super) fn bind(
        &mut self,
        port: u16,
        options: ListenerOptions,
    ) -> Result<ListenerId, Error> {
        if port == 0 {
            return Err(Error::InvalidInput);
        }
        if self.on_port(port).is_some() {
            return Err(Error::AddrInUse);
        }
        let index = match self
            .places
            .iter()
            .position(|place| place.listening.is_none())
        {
            Some(index) => index,
            None => {
                self.places.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
                self.places.push(Place::default());
                self.places.len() - 1
            }
        };
        let place = &mut self.places[index];
        place.listening = Some(Listening {
            port,
            options,
            queue: Chain::new(),
            acceptors: Waiters::new(),
        });
        Ok(ListenerId {
            index: index as u32,
            generation: place.generation,
        })
    }

    /// The listener on `port`.
    pub(in crate::net) fn on_port(&self, port: u16) -> Option<ListenerId> {
        let index = self.places.iter().position(|place| {
            place
                .listening
                .as_ref()
                .is_some_and(|listening| listening.port == port)
        })?;
        Some(ListenerId {
            index: index as u32,
            generation: self.places[index].generation,
        })
    }

    pub(in crate::net) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listening> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        place.listening.as_mut()
    }

    /// Ends a listener.
    pub(super) fn remove(&mut self, id: ListenerId) -> Option<Listening> {
        self.get_mut(id)?;
        let place = &mut self.places[id.index as usize];
        place.generation = place.generation.wrapping_add(1);
        place.listening.take()
    }

    /// Queues an established connection; `false` if the listener is gone.
    pub(in crate::net) fn enqueue(
        &mut self,
        id: ListenerId,
        links: &mut Links,
        index: u32,
    ) -> bool {
        let Some(listening) = self.get_mut(id) else {
            return false;
        };
        listening.queue.push(links, index);
        self.any_woken |= listening.acceptors.wake_all();
        true
    }

    /// Takes a connection out of the queue in which it waits.
    pub(in crate::net) fn dequeue(&mut self, id: ListenerId, links: &mut Links, index: u32) {
        if let Some(listening) = self.get_mut(id) {
            listening.queue.remove(links, index);
        }
    }

    /// Whether there may be wakers to be woken.
    pub(in crate::net) fn has_woken(&self) -> bool {
        self.any_woken
    }

    /// Takes out one waker that is to be woken.
    pub(in crate::net) fn take_woken(&mut self) -> Option<Waker> {
        if !self.any_woken {
            return None;
        }
        for place in &mut self.places {
            if let Some(listening) = &mut place.listening
                && let Some(waker) = listening.acceptors.take_woken()
            {
                return Some(waker);
            }
        }
        self.any_woken = false;
        None
    }
}

impl Listening {
    /// Whether another connection may begin. Half-open ones do not count, or
    /// a flood of them could close the listener.
    pub(in crate::net) fn has_room(&self) -> bool {
        self.queue.len() < self.options.backlog
    }
}
