//! What the program does with listeners and connections, each a short visit
//! under the stack's lock.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::task::{Poll, Waker};
use core::time::Duration;

use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::IpEndpoint;

use super::connection::{Connection, Phase};
use super::listeners::ListenerId;
use super::options::{ListenerOptions, StreamOptions, TcpOptions};
use super::ports::PortSearch;
use super::socket::SendError;
use super::table::SocketId;
use super::unsettled;
use crate::net::Error;
use crate::net::frame::{Key, is_host, is_host_v6};
use crate::net::ip::loopback::{self, Link};
use crate::net::state::State;
use crate::net::wakes::Wakes;

/// All hosts of 127.0.0.0/8, of which there is one.
const LOOPBACK_BROADCAST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 255, 255, 255));

impl State {
    pub(super) fn bind(
        &mut self,
        port: u16,
        mut options: ListenerOptions,
    ) -> Result<ListenerId, Error> {
        options.buffers = options.buffers.clamped();
        self.listeners.bind(port, options)
    }

    /// Ends a listener, and resets what waits there.
    pub(super) fn unbind(&mut self, now: Instant, id: ListenerId, wakes: &mut Wakes) {
        let Some(mut listening) = self.listeners.remove(id) else {
            return;
        };
        while let Some(index) = listening.queue.pop(&mut self.table.queued) {
            self.abort(now, index, wakes);
        }
        let mut next = self.table.half_open.first();
        while let Some(index) = next {
            next = self.table.half_open.after(index);
            let phase = self.table.get(index).map(|connection| connection.phase);
            if phase == Some(Phase::HalfOpen(id)) {
                self.abort(now, index, wakes);
            }
        }
        self.flush();
    }

    /// Takes the connection that has waited longest.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Poll<Result<(SocketId, Key), Error>> {
        let Some(listening) = self.listeners.get_mut(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        let Some(index) = listening.queue.pop(&mut self.table.queued) else {
            return Poll::Pending;
        };
        let id = self.table.id(index);
        let connection = self.connection(id).ok_or(Error::NotConnected)?;
        connection.phase = Phase::Open;
        connection.update_timeout(now);
        let key = connection.key;
        self.stats.accepted += 1;
        Poll::Ready(Ok((id, key)))
    }

    /// Begins to open a connection. Pending means that the search for a port is
    /// to be continued at once, with the stack unlocked in between.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        options: &TcpOptions,
        search: &mut PortSearch,
        wakes: &mut Wakes,
    ) -> Poll<Result<(SocketId, Key), Error>> {
        let (link, unbound) = self.choose_key(remote)?;
        let key = match self.find_port(now, link, unbound, search) {
            Poll::Ready(key) => key?,
            Poll::Pending => return Poll::Pending,
        };
        self.admit_outgoing()
            .inspect_err(|shortage| shortage.count(&mut self.stats))?;
        let index = match self.make_outgoing(now, link, key, options) {
            Err(Error::OutOfMemory) if self.reclaim() => {
                self.make_outgoing(now, link, key, options)
            }
            made => made,
        }
        .inspect_err(|_| self.stats.out_of_memory += 1)?;
        let id = self.table.id(index);
        self.egress(now, index, wakes);
        self.flush();
        Poll::Ready(Ok((id, key)))
    }

    fn make_outgoing(
        &mut self,
        now: Instant,
        link: Link,
        key: Key,
        options: &TcpOptions,
    ) -> Result<u32, Error> {
        let mut connection = Connection::new(
            now,
            key,
            Phase::Connecting,
            options.buffers.clamped(),
            options.stream,
            self.budget,
        )
        .map_err(|_| Error::OutOfMemory)?;
        connection.link = link;
        let iface = loopback::interface(link, &mut self.iface, &mut self.loopback);
        let endpoint = |address: IpAddr, port| IpEndpoint::new(address.into(), port);
        connection
            .tcp_mut()
            .connect(
                iface.context(),
                endpoint(key.remote, key.remote_port),
                endpoint(key.local, key.local_port),
            )
            .map_err(|_| Error::InvalidInput)?;
        connection.last_state = tcp::State::SynSent;
        self.install(connection)
    }

    /// The ends of a connection to `remote`, through what it is reached and from
    /// which address; and a port that is still to be found.
    fn choose_key(&self, remote: SocketAddr) -> Result<(Link, Key), Error> {
        let (remote, remote_port) = (remote.ip().to_canonical(), remote.port());
        if remote_port == 0 {
            return Err(Error::InvalidInput);
        }
        let (link, local) = self.source_for(remote)?;
        let key = Key {
            local,
            remote,
            local_port: 0,
            remote_port,
        };
        Ok((link, key))
    }

    /// Through what the host `remote` is reached, and from which address.
    pub(in crate::net) fn source_for(&self, remote: IpAddr) -> Result<(Link, IpAddr), Error> {
        if remote == LOOPBACK_BROADCAST {
            return Err(Error::InvalidInput);
        }
        if remote.is_loopback() || self.addresses.is_own(remote) {
            return Ok((Link::Loopback, remote));
        }
        let is_unicast = match remote {
            IpAddr::V4(remote) => is_host(remote) && !self.addresses.is_broadcast(remote),
            IpAddr::V6(remote) => is_host_v6(remote),
        };
        if !is_unicast {
            return Err(Error::InvalidInput);
        }
        let path = self.addresses.path_to(remote);
        Ok((Link::Card, path.ok_or(Error::NetworkUnreachable)?.source))
    }

    /// Whether a connection that was begun is established.
    pub(super) fn poll_connected(&mut self, id: SocketId) -> Poll<Result<(), Error>> {
        let Some(connection) = self.connection(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        match (connection.failure, connection.phase) {
            (Some(failure), _) => Poll::Ready(Err(failure)),
            (None, Phase::Connecting) => Poll::Pending,
            (None, _) => Poll::Ready(Ok(())),
        }
    }

    pub(super) fn read(
        &mut self,
        now: Instant,
        id: SocketId,
        buffer: &mut [u8],
        wakes: &mut Wakes,
    ) -> Poll<Result<usize, Error>> {
        let Some(connection) = self.connection(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match connection.socket.receive(buffer) {
            Ok(0) => {
                self.unchanged = true;
                Poll::Pending
            }
            Ok(count) => {
                if connection.note_read() {
                    self.egress_of(now, id, wakes);
                } else {
                    self.unchanged = true;
                }
                Poll::Ready(Ok(count))
            }
            Err(tcp::RecvError::Finished) => Poll::Ready(Ok(0)),
            Err(tcp::RecvError::InvalidState) if connection.end_seen => Poll::Ready(Ok(0)),
            Err(tcp::RecvError::InvalidState) => {
                Poll::Ready(Err(connection.failure.unwrap_or(Error::NotConnected)))
            }
        }
    }

    /// Whether there is something to be read, be it an error.
    pub(super) fn readable(&mut self, id: SocketId) -> Poll<()> {
        match self.connection(id) {
            Some(connection) if !connection.is_readable() => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    pub(super) fn write(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &[u8],
        wakes: &mut Wakes,
    ) -> Poll<Result<usize, Error>> {
        let Some(connection) = self.connection(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        match connection.socket.send(data) {
            Ok(taken) if taken.bytes == 0 && !data.is_empty() => Poll::Pending,
            Ok(taken) => {
                if taken.was_idle && taken.bytes > 0 {
                    connection.restart_silence(now);
                }
                if taken.was_missing
                    && let Some(index) = self.table.index(id)
                {
                    self.note_warm(now, index);
                }
                if taken.was_idle || !self.gather(id, taken.bytes) {
                    self.egress_of(now, id, wakes);
                }
                Poll::Ready(Ok(taken.bytes))
            }
            Err(SendError::NoMemory) => self.write_later(now, id, data, wakes),
            Err(SendError::Closed) => {
                Poll::Ready(Err(connection.failure.unwrap_or(Error::NotConnected)))
            }
        }
    }

    /// Leaves it to the network task to send what was written behind other data,
    /// if the card has enough to do until then; whether that is so.
    ///
    /// So a program that writes many small messages makes few segments of them.
    /// The network task runs when the program waits, and within the deferral's
    /// bound if it does not.
    fn gather(&mut self, id: SocketId, bytes: usize) -> bool {
        let Some(index) = self.table.index(id) else {
            return false;
        };
        let Some(connection) = self.table.get_mut(index) else {
            return false;
        };
        let gathers = connection.gather(bytes) && self.nic.is_sending();
        if gathers {
            self.table.dirty.push(index);
        }
        gathers
    }

    /// A write for which there was no memory: with what others do not use, or in
    /// a while.
    #[cold]
    fn write_later(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &[u8],
        wakes: &mut Wakes,
    ) -> Poll<Result<usize, Error>> {
        let Some(index) = self.table.index(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        let found = self.find_room(index);
        let connection = self.table.get_mut(index).filter(|_| found);
        let taken = connection.and_then(|connection| {
            let taken = connection.socket.send(data).ok()?;
            if taken.was_idle {
                connection.restart_silence(now);
            }
            Some(taken)
        });
        let Some(taken) = taken else {
            self.wait_for_room(now, index);
            return Poll::Pending;
        };
        self.note_warm(now, index);
        self.egress_of(now, id, wakes);
        Poll::Ready(Ok(taken.bytes))
    }

    /// Closes the sending side.
    pub(super) fn shutdown(
        &mut self,
        now: Instant,
        id: SocketId,
        wakes: &mut Wakes,
    ) -> Result<(), Error> {
        let connection = self.connection(id).ok_or(Error::NotConnected)?;
        if connection.tcp().state() == tcp::State::Closed {
            return Err(connection.failure.unwrap_or(Error::NotConnected));
        }
        connection.close();
        self.egress_of(now, id, wakes);
        Ok(())
    }

    /// Lets a connection whose stream was dropped close in the background.
    ///
    /// Returns the wakers that it held, to be dropped with nothing locked.
    pub(super) fn release(
        &mut self,
        now: Instant,
        id: SocketId,
        wakes: &mut Wakes,
    ) -> [Option<Waker>; 2] {
        let Some(connection) = self.connection(id) else {
            return [None, None];
        };
        let wakers = [connection.reader.take(), connection.writer.take()];
        let resets = connection.options.linger == Some(Duration::ZERO);
        let socket = connection.tcp_mut();
        if socket.state() == tcp::State::SynSent {
            // Nobody knows of it yet; a late answer will be reset.
            if let Some(index) = self.table.index(id) {
                self.discard(index);
            }
            return wakers;
        }
        if socket.can_recv() || resets {
            socket.abort();
        } else {
            connection.close();
        }
        if let Some(index) = self.table.index(id) {
            self.orphan(now, index);
        }
        self.egress_of(now, id, wakes);
        wakers
    }

    pub(super) fn options(&mut self, id: SocketId) -> Option<StreamOptions> {
        self.connection(id).map(|connection| connection.options)
    }

    pub(super) fn set_options(
        &mut self,
        now: Instant,
        id: SocketId,
        options: StreamOptions,
        wakes: &mut Wakes,
    ) {
        if let Some(connection) = self.connection(id) {
            connection.options = options;
            connection.apply_options(now);
            // What Nagle's algorithm held back may go now.
            self.egress_of(now, id, wakes);
        }
    }

    pub(super) fn connection(&mut self, id: SocketId) -> Option<&mut Connection> {
        let index = self.table.index(id)?;
        self.table.get_mut(index)
    }

    /// Sends what a call of the program has given a connection to send, at
    /// once: the network task may not get its turn for a while.
    fn egress_of(&mut self, now: Instant, id: SocketId, wakes: &mut Wakes) {
        if let Some(index) = self.table.index(id) {
            let is_unsettled = self.egress(now, index, wakes);
            self.unchanged = is_unsettled && now + unsettled::SENT >= self.asleep_until;
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.nic.flush();
    }
}
