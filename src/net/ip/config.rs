//! What a stack is told at its start: addresses, routers, servers.

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::frame::{is_host, is_host_v6};
use crate::net::limits::Limits;

/// How many static routes there may be.
pub(super) const MAX_ROUTES: usize = 8;

/// What a stack is told at its start.
///
/// The default is what a machine on an ordinary network wants: IPv4 by DHCP and
/// IPv6 by the router's advertisements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Where the interface's address of IPv4 comes from.
    pub ipv4: Ipv4Source,
    /// Where those of IPv6 come from.
    pub ipv6: Ipv6Source,
    /// Servers of names, asked before those that the network tells of.
    pub dns_servers: Vec<IpAddr>,
    /// Routes beside those to the gateways, at most 8.
    pub routes: Vec<Route>,
    /// What the stack may hold; by default what suits the heap.
    pub limits: Limits,
}

/// Where the interface's address of IPv4 comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv4Source {
    /// Nowhere: the interface has none.
    Off,
    /// From a DHCP server (RFC 2131).
    #[default]
    Dhcp,
    /// Given.
    Static(Ipv4Config),
}

/// Where the interface's addresses of IPv6 come from. Unless it has none, it
/// also has one for its own link, made of the card's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Source {
    /// Nowhere: the interface has none.
    Off,
    /// From what routers advertise, and the card's own address (SLAAC, RFC
    /// 4862).
    #[default]
    Slaac,
    /// Given.
    Static(Ipv6Config),
}

/// An address of IPv4 and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Config {
    /// The interface's address.
    pub address: Ipv4Addr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
    /// The router to all other networks.
    pub gateway: Option<Ipv4Addr>,
}

/// An address of IPv6 and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Config {
    /// The interface's address.
    pub address: Ipv6Addr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
    /// The router to all other networks.
    pub gateway: Option<Ipv6Addr>,
}

/// The address that the interface is best reached at, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpConfig {
    /// One of IPv4.
    V4(Ipv4Config),
    /// One of IPv6.
    V6(Ipv6Config),
}

/// Packets to one network go to one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// An address of the network.
    pub network: IpAddr,
    /// The length of the network's prefix, in bits.
    pub prefix_len: u8,
    /// The router, on the interface's own network.
    pub gateway: IpAddr,
}

impl Config {
    /// Whether there is anything to be done by a network card: not if both
    /// families are off.
    pub fn needs_card(&self) -> bool {
        self.ipv4 != Ipv4Source::Off || self.ipv6 != Ipv6Source::Off
    }

    /// No address at all: the stack has its loopback interface only.
    pub fn loopback() -> Self {
        Self {
            ipv4: Ipv4Source::Off,
            ipv6: Ipv6Source::Off,
            dns_servers: Vec::new(),
            routes: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// That address alone, and nothing of IPv6.
impl From<Ipv4Config> for Config {
    fn from(config: Ipv4Config) -> Self {
        Self {
            ipv4: Ipv4Source::Static(config),
            ..Self::loopback()
        }
    }
}

/// That address alone, and nothing of IPv4.
impl From<Ipv6Config> for Config {
    fn from(config: Ipv6Config) -> Self {
        Self {
            ipv6: Ipv6Source::Static(config),
            ..Self::loopback()
        }
    }
}

impl Ipv4Config {
    /// Whether an interface can have it.
    pub(super) fn is_usable(&self) -> bool {
        is_host(self.address) && (1..=32).contains(&self.prefix_len)
    }

    pub(super) fn reaches_gateway(&self) -> bool {
        self.gateway
            .is_none_or(|gateway| contains(self.address.into(), self.prefix_len, gateway.into()))
    }
}

impl Ipv6Config {
    /// Whether an interface can have it.
    pub(super) fn is_usable(&self) -> bool {
        is_host_v6(self.address) && (1..=128).contains(&self.prefix_len)
    }

    pub(super) fn reaches_gateway(&self) -> bool {
        self.gateway.is_none_or(|gateway| {
            gateway.is_unicast_link_local()
                || contains(self.address.into(), self.prefix_len, gateway.into())
        })
    }
}

impl Route {
    /// Whether it makes sense; the gateway is of the network's family.
    pub(super) fn is_usable(&self) -> bool {
        match (self.network, self.gateway) {
            (IpAddr::V4(_), IpAddr::V4(gateway)) => self.prefix_len <= 32 && is_host(gateway),
            (IpAddr::V6(_), IpAddr::V6(gateway)) => self.prefix_len <= 128 && is_host_v6(gateway),
            _ => false,
        }
    }
}

impl IpConfig {
    /// The address.
    pub fn address(&self) -> IpAddr {
        match self {
            Self::V4(config) => config.address.into(),
            Self::V6(config) => config.address.into(),
        }
    }
}

impl From<Ipv4Config> for IpConfig {
    fn from(config: Ipv4Config) -> Self {
        Self::V4(config)
    }
}

impl From<Ipv6Config> for IpConfig {
    fn from(config: Ipv6Config) -> Self {
        Self::V6(config)
    }
}

impl fmt::Display for Ipv4Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.address, self.prefix_len, self.gateway)
    }
}

impl fmt::Display for Ipv6Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.address, self.prefix_len, self.gateway)
    }
}

impl fmt::Display for IpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(config) => config.fmt(f),
            Self::V6(config) => config.fmt(f),
        }
    }
}

fn show<A: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    address: A,
    prefix_len: u8,
    gateway: Option<A>,
) -> fmt::Result {
    write!(f, "{address}/{prefix_len}")?;
    match gateway {
        Some(gateway) => write!(f, " by {gateway}"),
        None => Ok(()),
    }
}

/// Whether `address` lies in the network of `of`, whose prefix has `len` bits.
pub(super) fn contains(of: IpAddr, len: u8, address: IpAddr) -> bool {
    // A shift by the whole width is a mask of no bits.
    match (of, address) {
        (IpAddr::V4(of), IpAddr::V4(address)) => {
            let differs = of.to_bits() ^ address.to_bits();
            differs.checked_shr(32 - u32::from(len)).unwrap_or(0) == 0
        }
        (IpAddr::V6(of), IpAddr::V6(address)) => {
            let differs = of.to_bits() ^ address.to_bits();
            differs.checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_all_lengths_contain_what_they_should() {
        let [a, b] = ["10.0.2.15", "10.0.3.15"].map(|text| text.parse().unwrap());
        assert!(contains(a, 23, b) && !contains(a, 24, b));
        assert!(contains(a, 0, b) && contains(a, 32, a) && !contains(a, 32, b));
        let [c, d] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        assert!(contains(c, 126, d) && !contains(c, 127, d));
        assert!(contains(c, 0, d) && contains(c, 128, c) && !contains(c, 128, d));
        assert!(!contains(a, 0, c));
    }
}
