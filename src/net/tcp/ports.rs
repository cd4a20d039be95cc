//! The local port of a connection that the program opens.

use core::task::Poll;

use smoltcp::time::Instant;

use super::closing::Wait;
use super::port_order::{FIRST_PORT, PORTS};
use crate::net::Error;
use crate::net::frame::Key;
use crate::net::ip::loopback::Link;
use crate::net::state::State;

/// How many ports are looked at in one visit. The stack is locked for that
/// long.
const PORTS_PER_VISIT: u32 = 256;

/// A search for a free port: from one that nobody can foretell upwards, all
/// around (RFC 6056 §3.3). It can be interrupted, since hardly any port may be
/// free.
#[derive(Debug, Default)]
pub(super) struct PortSearch {
    begun: bool,
    next: u16,
    looked_at: u32,
    /// A port that has only late segments to wait for.
    waiting: Option<u16>,
}

impl PortSearch {
    /// The next port to look at.
    fn next(&mut self) -> u16 {
        let port = self.next;
        self.next = port.checked_add(1).unwrap_or(FIRST_PORT);
        self.looked_at += 1;
        port
    }
}

impl State {
    /// Finds a local port for a connection between the other ends of `key`: one
    /// that has no connection to the same place, no record of one and no
    /// listener. Pending means that the search is not over.
    ///
    /// If the first ports are all taken, one will do whose last connection is in
    /// TIME-WAIT: the peer has closed that, and the numbers of a new connection
    /// begin at random, far from those of late segments.
    pub(super) fn find_port(
        &mut self,
        now: Instant,
        link: Link,
        mut key: Key,
        search: &mut PortSearch,
    ) -> Poll<Result<Key, Error>> {
        if !search.begun {
            search.begun = true;
            search.next = self.port_order.next();
        }
        for _ in 0..PORTS_PER_VISIT {
            if search.looked_at == PORTS {
                break;
            }
            key.local_port = search.next();
            if link == Link::Loopback && key.local_port == key.remote_port {
                // Both ends would be the same.
                continue;
            }
            if self.table.find(key).is_some() || self.listeners.on_port(key.local_port).is_some() {
                continue;
            }
            match self.closing.find(now, key) {
                None => return Poll::Ready(Ok(key)),
                Some(Wait::Time) => search.waiting = search.waiting.or(Some(key.local_port)),
                Some(Wait::Fin) => {}
            }
        }
        if let Some(port) = search.waiting {
            key.local_port = port;
            // It may be taken since the last visit.
            if self.table.find(key).is_none() && self.listeners.on_port(port).is_none() {
                self.closing.remove(key);
                return Poll::Ready(Ok(key));
            }
            search.waiting = None;
        }
        if search.looked_at == PORTS {
            return Poll::Ready(Err(Error::AddrNotAvailable));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_every_port_once() {
        let mut search = PortSearch {
            begun: true,
            next: 65_000,
            ..PortSearch::default()
        };
        let mut seen = std::vec![false; 1 << 16];
        while search.looked_at < PORTS {
            let port = search.next();
            assert!(!core::mem::replace(&mut seen[usize::from(port)], true));
        }
        let unseen = seen.iter().filter(|&&seen| !seen).count();
        assert_eq!(unseen, usize::from(FIRST_PORT));
        assert!(!seen[0]);
    }
}
