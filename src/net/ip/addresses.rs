//! The card's addresses and routes, from all their sources, and which of them
//! lead where.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::time::{Duration, Instant};

use super::config::{
    Config, IpConfig, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, MAX_ROUTES, Route, contains,
};
use super::slaac::Slaac;

/// How long an address of IPv6 does not count while DHCP has given none yet: a
/// program on a network of both kinds wants to wait for that.
const DHCP_PATIENCE: Duration = Duration::from_secs(10);

/// The networks of addresses that are made of a prefix and the card's address.
const INTERFACE_PREFIX_LEN: u8 = 64;

/// The addresses and routes that are wanted.
#[derive(Debug)]
pub(in crate::net) struct Addresses {
    /// From DHCP, or given.
    pub(super) ipv4: Option<Ipv4Config>,
    /// For the link alone, made of the card's; none if IPv6 is off.
    pub(super) link_local: Option<Ipv6Addr>,
    /// Given.
    ipv6: Option<Ipv6Config>,
    /// From routers.
    pub(super) slaac: Option<Slaac>,
    /// Given.
    routes: Vec<Route>,
    /// Servers of names: given.
    pub(in crate::net) dns_servers: Vec<IpAddr>,
    /// And those that DHCP tells of.
    pub(super) dhcp_dns_servers: Vec<IpAddr>,
    /// Until when an address of IPv6 alone does not count as one.
    pub(super) patience_until: Option<Instant>,
    /// When there is something to do although nothing happens: asked for often.
    deadline: Option<Instant>,
    /// There never will be any address.
    none: bool,
}

/// The first step on the way to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Path {
    /// The address to send from.
    pub(in crate::net) source: IpAddr,
    /// The host on the card's network that takes the packet on.
    pub(super) neighbour: IpAddr,
}

impl Addresses {
    /// The addresses of a card. `draw` is a random number.
    pub(in crate::net) fn new(now: Instant, config: &Config, mac: [u8; 6], draw: u64) -> Self {
        let link_local = Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(interface_identifier(mac)));
        let usable = config.routes.iter().filter(|route| route.is_usable());
        let mut addresses = Self {
            ipv4: match config.ipv4 {
                Ipv4Source::Static(config) => Some(config).filter(Ipv4Config::is_usable),
                Ipv4Source::Dhcp | Ipv4Source::Off => None,
            },
            link_local: (config.ipv6 != Ipv6Source::Off).then_some(link_local),
            ipv6: match config.ipv6 {
                Ipv6Source::Static(config) => Some(config).filter(Ipv6Config::is_usable),
                Ipv6Source::Slaac | Ipv6Source::Off => None,
            },
            slaac: (config.ipv6 == Ipv6Source::Slaac).then(|| Slaac::new(mac)),
            routes: usable.take(MAX_ROUTES).copied().collect(),
            dns_servers: config.dns_servers.clone(),
            dhcp_dns_servers: Vec::new(),
            patience_until: (config.ipv4 == Ipv4Source::Dhcp).then_some(now + DHCP_PATIENCE),
            deadline: None,
            none: config.ipv4 == Ipv4Source::Off && config.ipv6 == Ipv6Source::Off,
        };
        if addresses.ipv4.is_some()
            && let Some(slaac) = &mut addresses.slaac
        {
            slaac.delay(now, draw);
        }
        addresses.update_deadline();
        addresses
    }

    /// All addresses and the lengths of their prefixes.
    pub(in crate::net) fn all(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        let ipv4 = self.ipv4.iter();
        let ipv4 = ipv4.map(|config| (config.address.into(), config.prefix_len));
        let link_local = self.link_local.iter();
        let link_local = link_local.map(|&address| (address.into(), INTERFACE_PREFIX_LEN));
        let ipv6 = self.ipv6.iter();
        let ipv6 = ipv6.map(|config| (config.address.into(), config.prefix_len));
        let slaac = self.slaac.iter().flat_map(Slaac::addresses);
        ipv4.chain(link_local).chain(ipv6).chain(slaac)
    }

    /// All routes, those to the gateways among them.
    pub(super) fn routes(&self) -> impl Iterator<Item = Route> {
        let ipv4 = self.ipv4.and_then(|config| config.gateway);
        let ipv4 = ipv4.map(|gateway| default_route(gateway.into()));
        let given = self.ipv6.and_then(|config| config.gateway);
        let advertised = self.slaac.as_ref().and_then(Slaac::router);
        let ipv6 = given.or(advertised);
        let ipv6 = ipv6.map(|gateway| default_route(gateway.into()));
        let given = self.routes.iter().copied();
        given.chain(ipv4).chain(ipv6)
    }

    /// Servers of names, in the order in which they are to be asked.
    pub(in crate::net) fn dns_servers(&self) -> impl Iterator<Item = IpAddr> {
        let given = self.dns_servers.iter().copied();
        let dhcp = self.dhcp_dns_servers.iter().copied();
        let slaac = self.slaac.iter().flat_map(Slaac::dns_servers);
        given.chain(dhcp).chain(slaac)
    }

    /// Whether `address` is one of the card's own.
    pub(in crate::net) fn is_own(&self, address: IpAddr) -> bool {
        self.all().any(|(own, _)| own == address)
    }

    /// Whether all bits of `address` behind the prefix of its network are set.
    pub(in crate::net) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.ipv4.is_some_and(|config| {
            let host_bits = u32::MAX
                .checked_shr(config.prefix_len.into())
                .unwrap_or_default();
            config.prefix_len < 31
                && contains(config.address.into(), config.prefix_len, address.into())
                && address.to_bits() | !host_bits == u32::MAX
        })
    }

    /// The way to `remote`, which is another host.
    pub(in crate::net) fn path_to(&self, remote: IpAddr) -> Option<Path> {
        let on_link = self
            .all()
            .any(|(own, prefix_len)| contains(own, prefix_len, remote));
        let neighbour = if on_link {
            remote
        } else {
            let routes = self.routes();
            let matching = routes.filter(|route| contains(route.network, route.prefix_len, remote));
            matching.max_by_key(|route| route.prefix_len)?.gateway
        };
        let source = self.source_for(remote)?;
        Some(Path { source, neighbour })
    }

    /// The address to send from, of the same scope and else the most alike (RFC
    /// 6724 §5).
    fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(remote) = remote else {
            return self.ipv4.map(|config| config.address.into());
        };
        let candidates = self.all().filter_map(|(own, _)| match own {
            IpAddr::V6(own) => Some(own),
            IpAddr::V4(_) => None,
        });
        candidates
            .filter(|own| own.is_unicast_link_local() == remote.is_unicast_link_local())
            .max_by_key(|own| (own.to_bits() ^ remote.to_bits()).leading_zeros())
            .map(IpAddr::from)
    }

    /// The address that counts as that of the interface.
    pub(in crate::net) fn best(&self) -> Option<IpConfig> {
        if let Some(ipv4) = self.ipv4 {
            return Some(ipv4.into());
        }
        if self.none {
            return Some(IpConfig::V4(Ipv4Config {
                address: Ipv4Addr::LOCALHOST,
                prefix_len: 8,
                gateway: None,
            }));
        }
        if self.patience_until.is_some() {
            return None;
        }
        if let Some(ipv6) = self.ipv6 {
            return Some(ipv6.into());
        }
        let slaac = self.slaac.as_ref()?;
        match slaac.addresses().next()? {
            (IpAddr::V6(address), prefix_len) => Some(IpConfig::V6(Ipv6Config {
                address,
                prefix_len,
                gateway: slaac.router(),
            })),
            _ => None,
        }
    }

    /// When there is something to do although nothing happens.
    pub(in crate::net) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn update_deadline(&mut self) {
        let slaac = self.slaac.as_ref().and_then(Slaac::deadline);
        self.deadline = self.patience_until.into_iter().chain(slaac).min();
    }
}

fn default_route(gateway: IpAddr) -> Route {
    let network = match gateway {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Route {
        network,
        prefix_len: 0,
        gateway,
    }
}

/// The part of an address that names the card on its link (RFC 4291 appendix A).
pub(super) fn interface_identifier(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

    fn addresses(line: &str) -> Addresses {
        let options = line.split(' ').filter_map(|word| word.split_once('='));
        let config = Config::from_options(options).unwrap();
        Addresses::new(Instant::ZERO, &config, MAC, 0)
    }

    fn path(addresses: &Addresses, remote: &str) -> Option<(IpAddr, IpAddr)> {
        let path = addresses.path_to(remote.parse().unwrap())?;
        Some((path.source, path.neighbour))
    }

    fn pair(source: &str, neighbour: &str) -> Option<(IpAddr, IpAddr)> {
        Some((source.parse().unwrap(), neighbour.parse().unwrap()))
    }

    #[test]
    fn the_longest_matching_route_is_taken() {
        let addresses = addresses(
            "ip=10.0.2.15/24 gateway=10.0.2.2 ip6=off \
             route=10.1.0.0/16,10.0.2.9 route=10.1.7.0/24,10.0.2.10",
        );
        for (remote, neighbour) in [
            ("10.0.2.77", "10.0.2.77"),
            ("192.0.2.1", "10.0.2.2"),
            ("10.1.8.1", "10.0.2.9"),
            ("10.1.7.1", "10.0.2.10"),
        ] {
            assert_eq!(
                path(&addresses, remote),
                pair("10.0.2.15", neighbour),
                "{remote}"
            );
        }
        assert_eq!(path(&addresses, "2001:db8::1"), None);
    }

    #[test]
    fn without_a_gateway_there_is_no_way_out() {
        let addresses = addresses("ip=10.0.2.15/24 ip6=2001:db8::15/64");
        assert_eq!(path(&addresses, "192.0.2.1"), None);
        assert_eq!(path(&addresses, "2001:db9::1"), None);
        assert_eq!(
            path(&addresses, "2001:db8::1"),
            pair("2001:db8::15", "2001:db8::1")
        );
    }

    #[test]
    fn the_source_is_of_the_destinations_scope() {
        let addresses = addresses("ip=off ip6=2001:db8::15/64 gateway6=fe80::2");
        let link_local = "fe80::5054:ff:fe00:1";
        assert_eq!(path(&addresses, "fe80::9"), pair(link_local, "fe80::9"));
        assert_eq!(
            path(&addresses, "2001:db9::1"),
            pair("2001:db8::15", "fe80::2")
        );
        let mut only_link_local = addresses;
        only_link_local.ipv6 = None;
        assert_eq!(path(&only_link_local, "2001:db8::1"), None);
    }

    #[test]
    fn broadcast_addresses_are_known() {
        let is_broadcast = |network: &str, address: &str| {
            addresses(&std::format!("ip={network}")).is_broadcast(address.parse().unwrap())
        };
        assert!(is_broadcast("10.0.2.15/24", "10.0.2.255"));
        assert!(!is_broadcast("10.0.2.15/24", "10.0.3.255"));
        assert!(!is_broadcast("10.0.2.15/16", "10.0.2.255"));
        assert!(!is_broadcast("10.0.2.15/31", "10.0.2.15"));
        assert!(!is_broadcast("10.0.2.15/32", "10.0.2.15"));
    }
}
