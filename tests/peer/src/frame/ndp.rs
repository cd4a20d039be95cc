//! Messages between the hosts and routers of an IPv6 link (RFC 4861).

use std::time::Duration;

use smoltcp::wire::{
    EthernetAddress, IPV6_LINK_LOCAL_ALL_NODES, IPV6_LINK_LOCAL_ALL_ROUTERS, Icmpv6Repr,
    Ipv6Address, NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr,
    NdiscRouterFlags,
};

use super::{Host, icmpv6};

/// Messages that passed a router have a smaller one, and are not believed.
const HOP_LIMIT: u8 = 255;

/// What a router tells the hosts of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// For how long the router may be used for other networks.
    pub router_lifetime: Duration,
    /// The first addresses of the link's network.
    pub prefix: Ipv6Address,
    /// The length of the network's part of an address.
    pub prefix_len: u8,
    /// For how long addresses of the prefix are valid.
    pub valid: Duration,
    /// For how long they should be used for new connections.
    pub preferred: Duration,
}

/// The link-local address that goes with `mac` (RFC 4291 appendix A).
pub fn link_local(mac: EthernetAddress) -> Ipv6Address {
    autoconfigured(Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), mac)
}

/// The address that a host with `mac` makes of a prefix of 64 bits
/// (RFC 4862 §5.5.3).
pub fn autoconfigured(prefix: Ipv6Address, mac: EthernetAddress) -> Ipv6Address {
    let [a, b, c, d, e, f] = mac.0;
    let interface = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Address::from_bits(prefix.to_bits() >> 64 << 64 | u128::from(interface))
}

/// All hosts of the link.
pub fn all_nodes() -> Host<Ipv6Address> {
    group(IPV6_LINK_LOCAL_ALL_NODES)
}

/// All routers of the link.
pub fn all_routers() -> Host<Ipv6Address> {
    group(IPV6_LINK_LOCAL_ALL_ROUTERS)
}

/// The members of a multicast group (RFC 2464 §7).
pub fn group(ip: Ipv6Address) -> Host<Ipv6Address> {
    let [.., a, b, c, d] = ip.octets();
    Host {
        mac: EthernetAddress([0x33, 0x33, a, b, c, d]),
        ip,
    }
}

/// The hosts whose address ends as `ip` does (RFC 4291 §2.7.1).
pub fn solicited(ip: Ipv6Address) -> Host<Ipv6Address> {
    let group_prefix = Ipv6Address::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0);
    let ending = ip.to_bits() & 0xff_ffff;
    group(Ipv6Address::from_bits(group_prefix.to_bits() | ending))
}

/// Asks the link who has `ip`.
pub fn neighbor_solicitation(from: Host<Ipv6Address>, ip: Ipv6Address) -> Vec<u8> {
    let solicitation = NdiscRepr::NeighborSolicit {
        target_addr: ip,
        lladdr: Some(from.mac.into()),
    };
    message(from, solicited(ip), solicitation)
}

/// Tells `to` that `from` is at its addresses.
pub fn neighbor_advertisement(from: Host<Ipv6Address>, to: Host<Ipv6Address>) -> Vec<u8> {
    let advertisement = NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE,
        target_addr: from.ip,
        lladdr: Some(from.mac.into()),
    };
    message(from, to, advertisement)
}

/// Asks for the routers of the link.
pub fn router_solicitation(from: Host<Ipv6Address>) -> Vec<u8> {
    let solicitation = NdiscRepr::RouterSolicit {
        lladdr: Some(from.mac.into()),
    };
    message(from, all_routers(), solicitation)
}

/// Tells all hosts of the link about the router `from`, whose address must be
/// link-local.
pub fn router_advertisement(from: Host<Ipv6Address>, about: Advertisement) -> Vec<u8> {
    let advertisement = NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: about.router_lifetime.into(),
        reachable_time: Duration::ZERO.into(),
        retrans_time: Duration::ZERO.into(),
        lladdr: Some(from.mac.into()),
        mtu: None,
        prefix_info: Some(NdiscPrefixInformation {
            prefix_len: about.prefix_len,
            flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
            valid_lifetime: about.valid.into(),
            preferred_lifetime: about.preferred.into(),
            prefix: about.prefix,
        }),
    };
    message(from, all_nodes(), advertisement)
}

fn message(from: Host<Ipv6Address>, to: Host<Ipv6Address>, message: NdiscRepr<'_>) -> Vec<u8> {
    icmpv6(from, to, HOP_LIMIT, &Icmpv6Repr::Ndisc(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_the_cards() {
        let mac = EthernetAddress([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);
        assert_eq!(link_local(mac).to_string(), "fe80::5054:ff:fe12:3456");
        let prefix = "2001:db8:1:2::".parse().expect("it is an address");
        let made = autoconfigured(prefix, mac);
        assert_eq!(made.to_string(), "2001:db8:1:2:5054:ff:fe12:3456");
        let asked = solicited(made);
        assert_eq!(asked.ip.to_string(), "ff02::1:ff12:3456");
        assert_eq!(asked.mac.to_string(), "33-33-ff-12-34-56");
    }
}
