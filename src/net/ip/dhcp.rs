//! The DHCP client.

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::iface::{self, SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    self, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetFrame, Ipv4Packet, UdpPacket,
};

use super::config::Ipv4Config;
use crate::net::device::Port;
use crate::net::frame::is_host;
use crate::net::ingress;
use crate::net::state::State;

/// How long the client waits for a server's answer before it asks again.
const RETRY: Duration = Duration::from_secs(2);

/// How long it waits at least when it asks for a longer lease; RFC 2131 §4.4.5
/// wants a minute, in which a short lease would be over.
const RENEWAL_RETRY: Duration = Duration::from_secs(4);

/// How long the address of a lease is kept once the link came up again, while no
/// server answers.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The client's socket, in a set of its own, and when it wants to act.
pub(in crate::net) struct Dhcp {
    set: SocketSet<'static>,
    handle: SocketHandle,
    at: Option<Instant>,
    /// It could not act for want of a neighbour's address.
    waits: bool,
    /// Until when the address of an earlier client holds.
    keeps_until: Option<Instant>,
}

impl Dhcp {
    #[inline(never)] // Large, and not alone in its calls.
    pub(in crate::net) fn new() -> Self {
        let mut socket = dhcpv4::Socket::new();
        let mut retry = socket.get_retry_config();
        retry.discover_timeout = RETRY;
        retry.initial_request_timeout = RETRY;
        retry.min_renew_timeout = RENEWAL_RETRY;
        socket.set_retry_config(retry);
        let mut set = SocketSet::new(Vec::new());
        let handle = set.add(socket);
        Self {
            set,
            handle,
            at: Some(Instant::ZERO),
            waits: false,
            keeps_until: None,
        }
    }

    /// Begins anew: the address that is known holds until there is another, or
    /// nobody answers for long.
    pub(super) fn ask_again(&mut self, now: Instant, has_address: bool) {
        *self = Self::new();
        self.keeps_until = has_address.then(|| now + KEPT_FOR);
    }

    /// Has the client try again, if it waits for the address of a neighbour.
    pub(in crate::net) fn retry(&mut self) {
        if core::mem::take(&mut self.waits) {
            self.at = Some(Instant::ZERO);
        }
    }

    /// When the client wants to act.
    pub(in crate::net) fn deadline(&self) -> Option<Instant> {
        [self.at, self.keeps_until].into_iter().flatten().min()
    }
}

impl State {
    /// Shows the client the server's answer that has arrived.
    pub(in crate::net) fn dhcp_answer(&mut self, now: Instant) {
        let Some(mut dhcp) = self.dhcp.take() else {
            self.stats.unsupported += 1;
            return;
        };
        let refused = self.nic.split().0.front().is_some_and(is_refusal);
        ingress::poll_set(self, now, &mut dhcp.set);
        self.apply_lease(&mut dhcp);
        // The client begins anew after a refusal: not in a loop.
        dhcp.at = Some(if refused { now + RETRY } else { now });
        self.dhcp = Some(dhcp);
    }

    /// Lets the client act, if it is time.
    pub(in crate::net) fn poll_dhcp(&mut self, now: Instant) {
        let Some(mut dhcp) = self
            .dhcp
            .take_if(|dhcp| dhcp.deadline().is_some_and(|at| at <= now))
        else {
            return;
        };
        if dhcp.keeps_until.take_if(|at| *at <= now).is_some() {
            self.configure(None, Vec::new());
        }
        let due = self.iface.poll_at(now, &dhcp.set);
        let mut port = Port::new(&mut *self.nic);
        while self.iface.poll_egress(now, &mut port, &mut dhcp.set)
            == iface::PollResult::SocketStateChanged
        {}
        let sent = port.sent;
        self.account(sent);
        dhcp.waits = due.is_some_and(|at| at <= now) && sent.frames == sent.aside;
        self.apply_lease(&mut dhcp);
        dhcp.at = self
            .iface
            .poll_at(now, &dhcp.set)
            // A server's address may have to be resolved first: not in a loop.
            .map(|at| at.max(now + Duration::from_millis(100)));
        self.dhcp = Some(dhcp);
    }

    fn apply_lease(&mut self, dhcp: &mut Dhcp) {
        let socket = dhcp.set.get_mut::<dhcpv4::Socket<'_>>(dhcp.handle);
        let (config, dns_servers) = match socket.poll() {
            None => return,
            // A client has no address when it begins.
            Some(dhcpv4::Event::Deconfigured) if dhcp.keeps_until.is_some() => return,
            Some(dhcpv4::Event::Deconfigured) => (None, Vec::new()),
            Some(dhcpv4::Event::Configured(lease)) => {
                dhcp.keeps_until = None;
                let config = Ipv4Config {
                    address: lease.address.address(),
                    prefix_len: lease.address.prefix_len(),
                    gateway: lease.router.filter(|&router| is_host(router)),
                };
                let servers = lease.dns_servers.iter().copied();
                let servers = servers.filter(|&server| is_host(server));
                (Some(config), servers.map(IpAddr::from).collect())
            }
        };
        self.configure(config, dns_servers);
    }
}

/// Whether `frame` holds a server's refusal (RFC 2131 §3.1).
fn is_refusal(frame: &[u8]) -> bool {
    let message_type = || -> Result<DhcpMessageType, wire::Error> {
        let ethernet = EthernetFrame::new_checked(frame)?;
        let packet = Ipv4Packet::new_checked(ethernet.payload())?;
        let datagram = UdpPacket::new_checked(packet.payload())?;
        let message = DhcpPacket::new_checked(datagram.payload())?;
        DhcpRepr::parse(&message).map(|message| message.message_type)
    };
    message_type() == Ok(DhcpMessageType::Nak)
}
