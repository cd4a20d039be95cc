//! Making the card's interface have the addresses and routes that are wanted.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use smoltcp::iface;
use smoltcp::time::Instant;
use smoltcp::wire::{
    self, EthernetAddress, EthernetFrame, Icmpv6Packet, IpCidr, Ipv4Cidr, Ipv6Cidr, Ipv6Packet,
};

use super::config::{Ipv4Config, Route};
use crate::net::state::State;

impl State {
    /// Gives the interface another address of IPv4, or none.
    pub(super) fn configure(&mut self, config: Option<Ipv4Config>, dns_servers: Vec<IpAddr>) {
        self.addresses.ipv4 = config.filter(Ipv4Config::is_usable);
        self.addresses.dhcp_dns_servers = dns_servers;
        self.apply_addresses();
    }

    /// Makes the interface have the addresses and routes that are wanted.
    pub(in crate::net) fn apply_addresses(&mut self) {
        let wanted = &self.addresses;
        self.iface.routes_mut().update(|routes| {
            routes.clear();
            // There is room for all.
            routes.extend(wanted.routes().take(routes.capacity()).map(to_smoltcp));
        });
        let cidrs = || wanted.all().map(|(address, len)| to_cidr(address, len));
        if !self.iface.ip_addrs().iter().copied().eq(cidrs()) {
            self.iface.update_ip_addrs(|addresses| {
                addresses.clear();
                addresses.extend(cidrs().take(addresses.capacity()));
            });
            let iface = &self.iface;
            self.table
                .note_addresses(|address| address.is_loopback() || iface.has_ip_addr(address));
            // By which neighbours ask for them.
            self.groups.renew();
        }
        // Those without a route may have one now.
        self.table.mark_waiting_dirty();
        if self.addresses.best().is_some() {
            self.unconfigured.wake_all();
        }
    }

    /// Does what time has brought.
    pub(in crate::net) fn poll_addresses(&mut self, now: Instant) {
        let addresses = &mut self.addresses;
        if addresses.deadline().is_none_or(|at| at > now) {
            return;
        }
        if addresses.patience_until.take_if(|at| *at <= now).is_some() && addresses.best().is_some()
        {
            self.unconfigured.wake_all();
        }
        let (mut solicits, mut expired) = (false, false);
        if let Some(slaac) = &mut addresses.slaac {
            solicits = slaac.solicits(now);
            expired = slaac.expire(now);
        }
        addresses.update_deadline();
        if solicits && let Some(source) = addresses.link_local {
            self.ask_routers(source);
        }
        if expired {
            self.apply_addresses();
        }
    }

    /// Learns from the router's advertisement that has arrived.
    pub(in crate::net) fn router_advertisement(&mut self, now: Instant) {
        let mac = EthernetAddress(self.nic.mac());
        let Some(slaac) = &mut self.addresses.slaac else {
            self.stats.unsupported += 1;
            return;
        };
        let learned = self.nic.split().0.front().is_some_and(|frame| {
            read_icmpv6(frame, mac).is_ok_and(|(router, message)| slaac.learn(now, router, message))
        });
        if learned {
            self.addresses.update_deadline();
            self.apply_addresses();
        } else {
            self.stats.malformed += 1;
        }
    }
}

/// The sender and the message of ICMPv6 that `frame` brings to the host with the
/// address `mac`.
fn read_icmpv6(frame: &[u8], mac: EthernetAddress) -> Result<(Ipv6Addr, &[u8]), wire::Error> {
    let ethernet = EthernetFrame::new_checked(frame)?;
    let packet = Ipv6Packet::new_checked(ethernet.payload())?;
    let message = Icmpv6Packet::new_checked(packet.payload())?;
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let is_mine = ethernet.dst_addr() == mac || ethernet.dst_addr().is_multicast();
    if !is_mine || !message.verify_checksum(&from, &to) {
        return Err(wire::Error);
    }
    Ok((from, packet.payload()))
}

fn to_cidr(address: IpAddr, prefix_len: u8) -> IpCidr {
    match address {
        IpAddr::V4(address) => IpCidr::Ipv4(Ipv4Cidr::new(address, prefix_len)),
        IpAddr::V6(address) => IpCidr::Ipv6(Ipv6Cidr::new(address, prefix_len)),
    }
}

fn to_smoltcp(route: Route) -> iface::Route {
    iface::Route {
        cidr: to_cidr(route.network, route.prefix_len),
        via_router: route.gateway.into(),
        preferred_until: None,
        expires_at: None,
    }
}
