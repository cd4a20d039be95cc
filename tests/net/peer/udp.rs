//! UDP sockets of the far host.

use smoltcp::iface::SocketHandle;
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket, UdpMetadata};
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint, Ipv4Address};

use super::Peer;

impl Peer {
    /// A UDP socket on `port` of the far host's address, or of all of them.
    pub fn udp(&self, address: Option<Ipv4Address>, port: u16) -> PeerSocket {
        let addr = address.map(IpAddress::Ipv4);
        self.udp_at(IpListenEndpoint { addr, port })
    }

    /// The same at an address of any family.
    pub fn udp_at(&self, at: IpListenEndpoint) -> PeerSocket {
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; 256], vec![0; 1 << 18]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.bind(at).unwrap();
        PeerSocket {
            peer: self.clone(),
            handle: self.with(|inner| inner.sockets.add(socket)),
        }
    }
}

/// A UDP socket of the far host.
pub struct PeerSocket {
    peer: Peer,
    handle: SocketHandle,
}

impl PeerSocket {
    /// Waits for a datagram; returns it and its two ends.
    pub async fn receive(&self) -> (Vec<u8>, UdpMetadata) {
        self.peer
            .until(|inner| {
                let socket = inner.sockets.get_mut::<Socket<'_>>(self.handle);
                let (data, meta) = socket.recv().ok()?;
                Some((data.to_vec(), meta))
            })
            .await
    }

    /// Sends a datagram.
    pub fn send(&self, data: &[u8], to: IpEndpoint, from: Option<IpAddress>) {
        let meta = UdpMetadata {
            local_address: from,
            ..to.into()
        };
        self.peer.with(|inner| {
            let socket = inner.sockets.get_mut::<Socket<'_>>(self.handle);
            socket.send_slice(data, meta).unwrap();
        });
        self.peer.poll();
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        self.peer.with(|inner| inner.sockets.remove(self.handle));
    }
}
