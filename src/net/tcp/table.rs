//! All connections, found by their two ends in one look.
//!
//! smoltcp would walk through every socket for every packet. Here the packet's
//! key is looked up first, and smoltcp is handed the one socket that it
//! concerns; the lists and deadlines say which others want to be looked at.

use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashTable;
use smoltcp::iface::SocketStorage;
use smoltcp::time::Instant;

use super::connection::Connection;
use super::unsettled::Unsettled;
use crate::net::Error;
use crate::net::deadlines::{Deadlines, sooner};
use crate::net::frame::Key;
use crate::net::index_list::{IndexList, Links, Rehash};

const NONE: u32 = u32::MAX;

/// Names a connection for as long as it exists; stale ones find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketId {
    index: u32,
    generation: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    next_free: u32,
    connection: Option<Connection>,
    /// Whether the index leads here.
    indexed: bool,
}

/// The connections.
pub(in crate::net) struct Table {
    slots: Vec<Slot>,
    first_free: u32,
    len: usize,
    index: HashTable<u32>,
    secret: [u64; 2],
    /// Those that may have something to send now.
    pub(in crate::net) dirty: IndexList,
    /// Those that wait for a neighbour's address.
    pub(in crate::net) waiting: IndexList,
    /// Those that wait for room in the card's send queue.
    pub(in crate::net) stalled: IndexList,
    /// Those that a peer has begun to open, oldest first.
    pub(in crate::net) half_open: IndexList,
    /// Those whose stream was dropped, oldest first.
    pub(in crate::net) orphans: IndexList,
    /// The places in the queues of the listeners.
    pub(in crate::net) queued: Links,
    /// Those whose buffers have memory.
    pub(super) warm: IndexList,
    /// When each wants to be looked at again.
    pub(in crate::net) deadlines: Deadlines,
    /// Those that may want it sooner.
    pub(in crate::net) unsettled: Unsettled,
}

impl Table {
    pub(in crate::net) const fn new(secret: [u64; 2]) -> Self {
        Self {
            slots: Vec::new(),
            first_free: NONE,
            len: 0,
            index: HashTable::new(),
            secret,
            dirty: IndexList::new(),
            waiting: IndexList::new(),
            stalled: IndexList::new(),
            half_open: IndexList::new(),
            orphans: IndexList::new(),
            queued: Links::new(),
            warm: IndexList::new(),
            deadlines: Deadlines::new(),
            unsettled: Unsettled::new(),
        }
    }

    pub(in crate::net) fn len(&self) -> usize {
        self.len
    }

    /// The memory of the connections, without their buffers, and of all that is
    /// there to find them, in bytes.
    pub(in crate::net) fn memory_bytes(&self) -> (usize, usize) {
        let connections = self.len * size_of::<Connection>();
        let sockets = self.len * size_of::<SocketStorage<'static>>();
        let slots = self.slots.capacity() * size_of::<Slot>();
        let lists = [
            &self.dirty,
            &self.waiting,
            &self.half_open,
            &self.orphans,
            &self.warm,
        ];
        let lists: usize = lists.map(IndexList::memory_bytes).iter().sum();
        let tables = slots
            + lists
            + self.queued.memory_bytes()
            + self.deadlines.memory_bytes()
            + self.unsettled.memory_bytes()
            + self.index.allocation_size();
        (connections + sockets, tables - connections)
    }

    /// The connection with these ends.
    pub(in crate::net) fn find(&self, key: Key) -> Option<u32> {
        self.index
            .find(key.hash(self.secret), |&index| {
                self.slots[index as usize]
                    .connection
                    .as_ref()
                    .is_some_and(|connection| connection.key == key)
            })
            .copied()
    }

    /// Adds a connection whose key is not in use.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; the table is then as before.
    pub(in crate::net) fn insert(&mut self, connection: Connection) -> Result<u32, Error> {
        self.reserve().map_err(|_| Error::OutOfMemory)?;
        let index = self.first_free;
        let hash = connection.key.hash(self.secret);
        let slot = &mut self.slots[index as usize];
        self.first_free = slot.next_free;
        slot.connection = Some(connection);
        slot.indexed = true;
        self.len += 1;
        let (slots, secret) = (&self.slots, self.secret);
        let rehash: Rehash<'_> = &|&index| key_hash(slots, secret, index);
        self.index.insert_unique(hash, index, rehash);
        Ok(index)
    }

    /// Makes sure that there is a free slot, and place for it everywhere.
    fn reserve(&mut self) -> Result<(), ()> {
        let (slots, secret) = (&self.slots, self.secret);
        let rehash: Rehash<'_> = &|&index| key_hash(slots, secret, index);
        self.index.try_reserve(1, rehash).map_err(drop)?;
        if self.first_free != NONE {
            return Ok(());
        }
        let count = self.slots.len() + 1;
        self.dirty.grow(count).map_err(drop)?;
        self.waiting.grow(count).map_err(drop)?;
        self.stalled.grow(count).map_err(drop)?;
        self.half_open.grow(count).map_err(drop)?;
        self.orphans.grow(count).map_err(drop)?;
        self.queued.grow(count).map_err(drop)?;
        self.warm.grow(count).map_err(drop)?;
        self.deadlines.grow(count).map_err(drop)?;
        self.unsettled.grow(count).map_err(drop)?;
        self.slots.try_reserve(1).map_err(drop)?;
        self.first_free = self.slots.len() as u32;
        self.slots.push(Slot {
            next_free: NONE,
            ..Slot::default()
        });
        Ok(())
    }

    /// Takes a connection out of everything but the queue of its listener.
    pub(in crate::net) fn remove(&mut self, index: u32) -> Option<Connection> {
        self.unindex(index);
        for list in [
            &mut self.dirty,
            &mut self.waiting,
            &mut self.stalled,
            &mut self.half_open,
            &mut self.orphans,
            &mut self.warm,
        ] {
            list.remove(index);
        }
        self.deadlines.set(index, None);
        self.unsettled.remove(index);
        let slot = &mut self.slots[index as usize];
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.first_free;
        self.first_free = index;
        self.len -= 1;
        Some(connection)
    }

    /// Frees the key of a connection that has ended, for a new one.
    pub(in crate::net) fn unindex(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !core::mem::take(&mut slot.indexed) {
            return;
        }
        let Some(connection) = &slot.connection else {
            return;
        };
        let hash = connection.key.hash(self.secret);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == index) {
            entry.remove();
        }
    }

    pub(super) fn id(&self, index: u32) -> SocketId {
        SocketId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// The slot of `id`, if its connection still exists.
    pub(super) fn index(&self, id: SocketId) -> Option<u32> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.generation == id.generation && slot.connection.is_some()).then_some(id.index)
    }

    pub(in crate::net) fn get(&self, index: u32) -> Option<&Connection> {
        self.slots.get(index as usize)?.connection.as_ref()
    }

    pub(in crate::net) fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots.get_mut(index as usize)?.connection.as_mut()
    }

    /// Notes which connections have lost their address, and marks those as ones
    /// that may have something to send: their end.
    pub(in crate::net) fn note_addresses(&mut self, has_address: impl Fn(IpAddr) -> bool) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(connection) = &mut slot.connection else {
                continue;
            };
            connection.has_address = has_address(connection.key.local);
            if !connection.has_address {
                self.dirty.push(index as u32);
            }
        }
    }

    /// When one wants to be looked at.
    #[inline]
    pub(in crate::net) fn earliest(&self) -> Option<Instant> {
        sooner(self.deadlines.earliest(), self.unsettled.earliest())
    }

    /// Marks those dirty that wait for a neighbour's address. They wait on until
    /// they have sent something: this one may be another's.
    pub(in crate::net) fn mark_waiting_dirty(&mut self) {
        let mut next = self.waiting.first();
        while let Some(index) = next {
            next = self.waiting.after(index);
            self.dirty.push(index);
        }
    }

    /// Marks those dirty that wait for room to send, at most `limit`.
    pub(in crate::net) fn mark_stalled_dirty(&mut self, limit: usize) {
        self.dirty.take_from(&mut self.stalled, limit);
    }

    /// Marks those dirty whose deadline has come, at most `limit`.
    pub(in crate::net) fn mark_due_dirty(&mut self, now: Instant, limit: usize) {
        self.deadlines.move_due(now, limit, &mut self.dirty);
    }
}

fn key_hash(slots: &[Slot], secret: [u64; 2], index: u32) -> u64 {
    slots[index as usize]
        .connection
        .as_ref()
        .map_or(0, |connection| connection.key.hash(secret))
}
