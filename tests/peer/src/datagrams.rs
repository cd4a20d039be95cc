//! Datagrams that wait to be looked at.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::frame::Parsed;

/// A UDP datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it went to: an address of ours, a broadcast or a group.
    pub to: SocketAddr,
    /// What it says.
    pub data: Vec<u8>,
}

/// The datagrams to each port that is looked at, without bounds.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    ports: HashMap<u16, VecDeque<Datagram>>,
}

impl Datagrams {
    pub(crate) fn bind(&mut self, port: u16) {
        self.ports.entry(port).or_default();
    }

    pub(crate) fn unbind(&mut self, port: u16) {
        self.ports.remove(&port);
    }

    pub(crate) fn take(&mut self, port: u16) -> Option<Datagram> {
        self.ports.get_mut(&port)?.pop_front()
    }

    /// Looks at what came in: whether it was taken.
    pub(crate) fn receive(&mut self, parsed: &Parsed<'_>) -> bool {
        let &Parsed::Udp {
            from,
            to,
            src_port,
            dst_port,
            data,
        } = parsed
        else {
            return false;
        };
        let Some(queue) = self.ports.get_mut(&dst_port) else {
            return false;
        };
        queue.push_back(Datagram {
            from: SocketAddr::new(from.ip, src_port),
            to: SocketAddr::new(to.ip, dst_port),
            data: data.to_vec(),
        });
        true
    }
}
