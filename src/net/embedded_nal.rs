//! The stack as [`embedded_nal_async`] has it.

use core::net::{IpAddr, SocketAddr};

use embedded_nal_async::{AddrType, ConnectedUdp, Dns, TcpConnect, UdpStack, UnconnectedUdp};

use super::datagram::UdpSocket;
use super::dns::Family;
use super::tcp::TcpStream;
use super::{Error, Stack};

/// As [`TcpStream::connect`]: with the default options, cancel-safe.
impl TcpConnect for Stack {
    type Error = Error;

    type Connection<'a> = TcpStream;

    async fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Error> {
        TcpStream::connect(*self, remote).await
    }
}

/// As [`Stack::resolve`]: cancel-safe.
///
/// Addresses are not looked up: asked for the name of one,
/// [`Error::NameNotFound`] is the answer.
impl Dns for Stack {
    type Error = Error;

    async fn get_host_by_name(&self, host: &str, addr_type: AddrType) -> Result<IpAddr, Error> {
        let family = match addr_type {
            AddrType::IPv4 => Family::V4,
            AddrType::IPv6 => Family::V6,
            AddrType::Either => Family::Any,
        };
        let addresses = self.resolve(host, family).await?;
        addresses.first().copied().ok_or(Error::NameWithoutAddress)
    }

    async fn get_host_by_address(&self, _: IpAddr, _: &mut [u8]) -> Result<usize, Error> {
        Err(Error::NameNotFound)
    }
}

/// As [`UdpSocket::bind`] and [`UdpSocket::connect`], which wait for nothing.
/// Where a local address is left open but has to be a single one, it is that
/// from which the remote is reached, or else the first of its family.
impl UdpStack for Stack {
    type Error = Error;
    type Connected = UdpSocket;
    type UniquelyBound = UdpSocket;
    type MultiplyBound = UdpSocket;

    async fn connect_from(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(SocketAddr, UdpSocket), Error> {
        let address = if local.ip().is_unspecified() {
            let remote = remote.ip().to_canonical();
            self.shared.visit(|state, _| state.source_for(remote))?.1
        } else {
            local.ip()
        };
        let socket = UdpSocket::bind(*self, SocketAddr::new(address, local.port()))?;
        socket.connect(remote)?;
        Ok((socket.local_addr(), socket))
    }

    async fn bind_single(&self, local: SocketAddr) -> Result<(SocketAddr, UdpSocket), Error> {
        let address = if local.ip().is_unspecified() {
            let own = self.addresses().into_iter();
            let mut fitting = own.filter(|own| own.is_ipv4() == local.is_ipv4());
            fitting.next().ok_or(Error::AddrNotAvailable)?
        } else {
            local.ip()
        };
        let socket = UdpSocket::bind(*self, SocketAddr::new(address, local.port()))?;
        Ok((socket.local_addr(), socket))
    }

    async fn bind_multiple(&self, local: SocketAddr) -> Result<UdpSocket, Error> {
        UdpSocket::bind(*self, local)
    }
}

/// For sockets of [`UdpStack::connect`]. Both calls are cancel-safe.
impl ConnectedUdp for UdpSocket {
    type Error = Error;

    async fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        UdpSocket::send(self, data).await
    }

    async fn receive_into(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let received = self.recv_from(buffer).await?;
        Ok(received.datagram_bytes)
    }
}

/// Both calls are cancel-safe.
impl UnconnectedUdp for UdpSocket {
    type Error = Error;

    async fn send(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        data: &[u8],
    ) -> Result<(), Error> {
        if ![0, self.local_addr().port()].contains(&local.port()) {
            return Err(Error::InvalidInput);
        }
        if local.ip().is_unspecified() {
            self.send_to(data, remote).await
        } else {
            self.send_from(data, local.ip(), remote).await
        }
    }

    async fn receive_into(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<(usize, SocketAddr, SocketAddr), Error> {
        let received = self.recv_from(buffer).await?;
        let local = SocketAddr::new(received.to, self.local_addr().port());
        Ok((received.datagram_bytes, local, received.from))
    }
}
