//! Addresses, routes and links, set through rtnetlink (RFC 3549).

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// The kernel's answer to one request, and the request itself, take far less.
const ANSWER_BYTES: usize = 4096;

/// A connection to the kernel's network configuration.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// If the kernel has none.
    pub fn open() -> Result<Self> {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.context("no netlink")?;
        rustix::net::connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))
            .context("no netlink")?;
        Ok(Self(socket))
    }

    /// Brings the interface up.
    ///
    /// # Errors
    ///
    /// Whatever the kernel says.
    pub fn set_up(&self, interface: u32) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = interface;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
            .context("cannot bring the link up")
    }

    /// Gives the interface an address, and with it the route to its neighbours.
    ///
    /// # Errors
    ///
    /// Whatever the kernel says.
    pub fn add_address(&self, interface: u32, address: Ipv4Addr, prefix_length: u8) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.index = interface;
        message.header.prefix_len = prefix_length;
        message.attributes = vec![
            AddressAttribute::Local(IpAddr::V4(address)),
            AddressAttribute::Address(IpAddr::V4(address)),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewAddress(message), flags)
            .with_context(|| format!("cannot set the address {address}/{prefix_length}"))
    }

    /// Makes `gateway` the way to everywhere else.
    ///
    /// # Errors
    ///
    /// Whatever the kernel says.
    pub fn add_default_route(&self, gateway: Ipv4Addr) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway))];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewRoute(message), flags)
            .with_context(|| format!("cannot set the gateway {gateway}"))
    }

    /// Sends one request and waits for what became of it.
    fn request(&self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        rustix::net::send(&self.0, &bytes, SendFlags::empty())?;

        let mut answer = vec![0; ANSWER_BYTES];
        let (length, _) = rustix::net::recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..length])?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io().into()),
            other => bail!("the kernel answers {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    use rustix::io::Errno;

    #[test]
    fn the_kernels_refusal_is_an_error() {
        let netlink = Netlink::open().expect("Linux has netlink");
        let error = netlink.set_up(u32::MAX / 2).expect_err("no such interface");
        let cause = error.root_cause().downcast_ref::<io::Error>();
        let code = cause.and_then(io::Error::raw_os_error);
        let refusals = [Errno::NODEV, Errno::PERM].map(|errno| Some(errno.raw_os_error()));
        assert!(refusals.contains(&code), "{error:#}");
    }
}
