//! Addresses of IPv6 from what routers advertise (RFC 4861 §6.3, RFC 4862 §5.5,
//! RFC 8106).
//!
//! smoltcp has this too, but has every socket polled for it, in a loop once no
//! router has answered; and it leaves the servers of names out.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use smoltcp::time::{Duration, Instant};

use super::addresses::interface_identifier;
use crate::net::frame::is_host_v6;

/// How many addresses, routers and servers of names are kept: a liar on the link
/// can advertise many. Those that are known stay.
pub(super) const MAX_KNOWN: usize = 4;

/// How long the first question to the routers is put off where it can be, and by
/// how much more at most, so that hosts which start together do not ask together
/// (RFC 4861 §6.3.7).
const DELAY: Duration = Duration::from_millis(100);
const DELAY_SPREAD_MICROS: u64 = 100_000;

/// How long the first question to the routers waits for an answer, and the last
/// (RFC 7559 §2.1).
const FIRST_RETRY: Duration = Duration::from_secs(4);
const LONGEST_RETRY: Duration = Duration::from_secs(60 * 60);

/// An unauthenticated advertisement cannot shorten the life of an address to
/// less than this (RFC 4862 §5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);

/// The header of an advertisement, in bytes (RFC 4861 §4.2).
const HEADER_BYTES: usize = 16;
const PREFIX_INFORMATION: u8 = 3;
const PREFIX_INFORMATION_BYTES: usize = 32;
const DNS_SERVERS: u8 = 25;
const DNS_SERVERS_BYTES: usize = 8;

/// Only prefixes of this length make an address with the card's.
const PREFIX_LEN: u8 = 64;

/// Something that a router advertised, and until when it is valid; `None` means
/// for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known<T> {
    what: T,
    until: Option<Instant>,
}

/// An address made of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    address: Ipv6Addr,
    /// Whether the other hosts with that prefix are on the link.
    on_link: bool,
}

/// What the routers of the link have advertised.
#[derive(Debug)]
pub(super) struct Slaac {
    identifier: u64,
    addresses: Vec<Known<Made>>,
    routers: Vec<Known<Ipv6Addr>>,
    servers: Vec<Known<Ipv6Addr>>,
    /// When routers are to be asked, until one has answered.
    solicit_at: Option<Instant>,
    retry_after: Duration,
}

impl Slaac {
    pub(super) fn new(mac: [u8; 6]) -> Self {
        Self {
            identifier: interface_identifier(mac),
            addresses: Vec::with_capacity(MAX_KNOWN),
            routers: Vec::with_capacity(MAX_KNOWN),
            servers: Vec::with_capacity(MAX_KNOWN),
            solicit_at: Some(Instant::ZERO),
            retry_after: FIRST_RETRY,
        }
    }

    /// Puts the first question off, by an amount that depends on `draw`, a random
    /// number: what follows from the answer would hold up what a host with another
    /// address is there for.
    pub(super) fn delay(&mut self, now: Instant, draw: u64) {
        let more = Duration::from_micros(draw % DELAY_SPREAD_MICROS);
        self.solicit_at = Some(now + DELAY + more);
    }

    /// The addresses, and the lengths of the prefixes that are on the link.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        let made = self.addresses.iter().map(|known| known.what);
        made.map(|made| {
            let prefix_len = if made.on_link { PREFIX_LEN } else { 128 };
            (made.address.into(), prefix_len)
        })
    }

    /// The router to all other networks.
    pub(super) fn router(&self) -> Option<Ipv6Addr> {
        self.routers.first().map(|known| known.what)
    }

    /// Servers of names.
    pub(in crate::net) fn dns_servers(&self) -> impl Iterator<Item = IpAddr> {
        self.servers.iter().map(|known| known.what.into())
    }

    /// Whether routers are to be asked now; then when next.
    pub(super) fn solicits(&mut self, now: Instant) -> bool {
        if self.solicit_at.is_none_or(|at| at > now) {
            return false;
        }
        self.solicit_at = Some(now + self.retry_after);
        self.retry_after = (self.retry_after * 2).min(LONGEST_RETRY);
        true
    }

    /// When there is something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let addresses = self.addresses.iter().filter_map(|known| known.until);
        let routers = self.routers.iter().filter_map(|known| known.until);
        let servers = self.servers.iter().filter_map(|known| known.until);
        let ends = addresses.chain(routers).chain(servers);
        ends.chain(self.solicit_at).min()
    }

    /// Forgets what is valid no longer; whether there was anything.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        expire(&mut self.addresses, now)
            | expire(&mut self.routers, now)
            | expire(&mut self.servers, now)
    }

    /// Learns from an advertisement, of which `message` is the whole of ICMPv6,
    /// its checksum right. Returns whether it was one.
    pub(super) fn learn(&mut self, now: Instant, router: Ipv6Addr, message: &[u8]) -> bool {
        let Some((header, options)) = message.split_at_checked(HEADER_BYTES) else {
            return false;
        };
        if header[1] != 0 || !router.is_unicast_link_local() || !are_whole(options) {
            return false;
        }
        let lifetime = u16::from_be_bytes([header[6], header[7]]);
        let lifetime = Duration::from_secs(lifetime.into());
        renew(&mut self.routers, now, router, Some(lifetime));
        if lifetime > Duration::ZERO {
            self.solicit_at = None;
        }
        let mut rest = options;
        while let Some((option, others)) = next_option(rest) {
            rest = others;
            match option[0] {
                PREFIX_INFORMATION if option.len() == PREFIX_INFORMATION_BYTES => {
                    self.learn_prefix(now, option);
                }
                DNS_SERVERS => self.learn_servers(now, option),
                _ => {}
            }
        }
        true
    }

    /// RFC 4861 §4.6.2, RFC 4862 §5.5.3.
    fn learn_prefix(&mut self, now: Instant, option: &[u8]) {
        const ON_LINK: u8 = 0x80;
        const AUTONOMOUS: u8 = 0x40;
        let flags = option[3];
        let (valid, preferred) = (word(option, 4), word(option, 8));
        let prefix = (u64::from(word(option, 16)) << 32) | u64::from(word(option, 20));
        let address = u128::from(prefix) << 64 | u128::from(self.identifier);
        let address = Ipv6Addr::from_bits(address);
        if flags & AUTONOMOUS == 0
            || option[2] != PREFIX_LEN
            || preferred > valid
            || address.is_unicast_link_local()
            || !is_host_v6(address)
        {
            return;
        }
        let mut lifetime = lifetime(valid);
        let made = Made {
            address,
            on_link: flags & ON_LINK != 0,
        };
        let mut addresses = self.addresses.iter_mut();
        if let Some(known) = addresses.find(|known| known.what.address == address) {
            let left = known.until.map(|until| until - now);
            let is_longer = lifetime.is_none_or(|lifetime| {
                lifetime > TWO_HOURS || left.is_some_and(|left| lifetime > left)
            });
            if !is_longer {
                if left.is_some_and(|left| left <= TWO_HOURS) {
                    return;
                }
                lifetime = Some(TWO_HOURS);
            }
            known.what = made;
        }
        renew(&mut self.addresses, now, made, lifetime);
    }

    /// RFC 8106 §5.1.
    fn learn_servers(&mut self, now: Instant, option: &[u8]) {
        let Some((_, servers)) = option.split_at_checked(DNS_SERVERS_BYTES) else {
            return;
        };
        let lifetime = lifetime(word(option, 4));
        for server in servers.as_chunks::<16>().0 {
            let server = Ipv6Addr::from_octets(*server);
            if is_host_v6(server) {
                renew(&mut self.servers, now, server, lifetime);
            }
        }
    }
}

/// A lifetime in seconds; none is for ever.
fn lifetime(seconds: u32) -> Option<Duration> {
    (seconds != u32::MAX).then(|| Duration::from_secs(seconds.into()))
}

/// The 32 bits at `place`.
fn word(option: &[u8], place: usize) -> u32 {
    let bytes = option.get(place..place + 4);
    bytes.map_or(0, |bytes| {
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    })
}

/// The first of the options, and the others. Each says its length in units of 8
/// bytes (RFC 4861 §4.6).
fn next_option(options: &[u8]) -> Option<(&[u8], &[u8])> {
    let &units = options.get(1)?;
    if units == 0 {
        return None;
    }
    options.split_at_checked(8 * usize::from(units))
}

/// Whether the options fill their place (RFC 4861 §6.1.2).
fn are_whole(mut options: &[u8]) -> bool {
    while let Some((_, others)) = next_option(options) {
        options = others;
    }
    options.is_empty()
}

/// Notes for how long `what` is valid from now on: for ever, or not at all.
fn renew<T: PartialEq>(known: &mut Vec<Known<T>>, now: Instant, what: T, life: Option<Duration>) {
    let place = known.iter().position(|known| known.what == what);
    let until = life.map(|life| now + life);
    match place {
        Some(place) if life == Some(Duration::ZERO) => {
            known.remove(place);
        }
        Some(place) => known[place].until = until,
        None if life == Some(Duration::ZERO) || known.len() == MAX_KNOWN => {}
        None => known.push(Known { what, until }),
    }
}

fn expire<T>(known: &mut Vec<Known<T>>, now: Instant) -> bool {
    let before = known.len();
    known.retain(|known| known.until.is_none_or(|until| until > now));
    known.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);
    const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

    fn at(seconds: i64) -> Instant {
        Instant::from_secs(seconds)
    }

    fn advertisement(router_seconds: u16, options: &[Vec<u8>]) -> Vec<u8> {
        let mut message = std::vec![0; HEADER_BYTES];
        message[0] = 134;
        message[6..8].copy_from_slice(&router_seconds.to_be_bytes());
        message.extend(options.iter().flatten());
        message
    }

    fn prefix(flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
        let mut option = std::vec![0; PREFIX_INFORMATION_BYTES];
        option[..4].copy_from_slice(&[PREFIX_INFORMATION, 4, PREFIX_LEN, flags]);
        option[4..8].copy_from_slice(&valid.to_be_bytes());
        option[8..12].copy_from_slice(&preferred.to_be_bytes());
        option[16..].copy_from_slice(&PREFIX.octets());
        option
    }

    fn servers(seconds: u32, servers: &[Ipv6Addr]) -> Vec<u8> {
        let mut option = std::vec![DNS_SERVERS, 1 + 2 * servers.len() as u8, 0, 0];
        option.extend(seconds.to_be_bytes());
        option.extend(servers.iter().flat_map(Ipv6Addr::octets));
        option
    }

    fn addresses(slaac: &Slaac) -> Vec<(IpAddr, u8)> {
        slaac.addresses().collect()
    }

    #[test]
    fn an_advertisement_gives_address_router_and_servers_for_a_time() {
        let mut slaac = Slaac::new(MAC);
        let options = [prefix(0xc0, 86_400, 3600), servers(600, &[SERVER])];
        assert!(slaac.learn(at(1), ROUTER, &advertisement(1800, &options)));
        let address: IpAddr = "2001:db8:0:1:5054:ff:fe00:1".parse().unwrap();
        assert_eq!(addresses(&slaac), [(address, 64)]);
        assert_eq!(slaac.router(), Some(ROUTER));
        assert_eq!(slaac.dns_servers().next(), Some(SERVER.into()));
        assert_eq!(slaac.deadline(), Some(at(601)));
        assert!(slaac.expire(at(601)));
        assert_eq!(slaac.dns_servers().count(), 0);
        assert_eq!(slaac.deadline(), Some(at(1801)));
        assert!(slaac.expire(at(1801)));
        assert_eq!(slaac.router(), None);
        assert!(!slaac.expire(at(1802)));
        assert!(slaac.expire(at(86_401)));
        assert_eq!(addresses(&slaac), []);
        assert_eq!(slaac.deadline(), None);
    }

    #[test]
    fn the_first_question_can_be_put_off() {
        for (draw, micros) in [(0, 100_000), (99_999, 199_999), (u64::MAX, 151_615)] {
            let mut slaac = Slaac::new(MAC);
            slaac.delay(at(7), draw);
            let first = at(7) + Duration::from_micros(micros);
            assert!(!slaac.solicits(first - Duration::from_micros(1)));
            assert!(slaac.solicits(first));
        }
    }

    #[test]
    fn routers_are_asked_until_one_answers() {
        let mut slaac = Slaac::new(MAC);
        let mut now = at(0);
        let mut asked = Vec::new();
        while now < at(3 * 60 * 60) {
            assert!(slaac.solicits(now));
            assert!(!slaac.solicits(now));
            asked.push(now.secs());
            now = slaac.deadline().unwrap();
        }
        assert_eq!(asked[..4], [0, 4, 12, 28]);
        assert!(asked.len() < 14, "{asked:?}");
        assert!(slaac.learn(now, ROUTER, &advertisement(1800, &[])));
        assert!(!slaac.solicits(now + Duration::from_secs(1000)));
    }

    #[test]
    fn an_address_is_not_taken_away_by_one_forged_message() {
        let mut slaac = Slaac::new(MAC);
        let learn = |slaac: &mut Slaac, now, valid| {
            slaac.learn(
                at(now),
                ROUTER,
                &advertisement(0, &[prefix(0xc0, valid, 0)]),
            );
            slaac.addresses[0].until
        };
        assert_eq!(learn(&mut slaac, 0, 86_400), Some(at(86_400)));
        assert_eq!(learn(&mut slaac, 0, 0), Some(at(7200)));
        assert_eq!(learn(&mut slaac, 100, 0), Some(at(7200)));
        assert_eq!(learn(&mut slaac, 100, 7150), Some(at(7250)));
        assert_eq!(learn(&mut slaac, 100, u32::MAX), None);
        assert_eq!(learn(&mut slaac, 100, 5), Some(at(7300)));
    }

    #[test]
    fn what_makes_no_address_is_ignored() {
        for (flags, valid, preferred) in [(0x80, 100, 100), (0xc0, 100, 101), (0xc0, 0, 0)] {
            let mut slaac = Slaac::new(MAC);
            let option = prefix(flags, valid, preferred);
            slaac.learn(at(0), ROUTER, &advertisement(0, &[option]));
            assert_eq!(addresses(&slaac), []);
        }
        let mut slaac = Slaac::new(MAC);
        let mut long = prefix(0xc0, 100, 100);
        long[2] = 65;
        let mut link_local = prefix(0xc0, 100, 100);
        link_local[16..32].copy_from_slice(&ROUTER.octets());
        slaac.learn(at(0), ROUTER, &advertisement(0, &[long, link_local]));
        assert_eq!(addresses(&slaac), []);
        assert_eq!(slaac.router(), None);
        slaac.learn(at(0), ROUTER, &advertisement(0, &[prefix(0x40, 100, 100)]));
        assert!(
            addresses(&slaac)[0].1 == 128,
            "others are behind the router"
        );
    }

    #[test]
    fn damaged_messages_are_refused_whole() {
        let options = [prefix(0xc0, 100, 100), servers(100, &[SERVER])];
        let whole = advertisement(100, &options);
        for len in 0..whole.len() {
            let mut slaac = Slaac::new(MAC);
            let between_options = len == 16 || len == 48;
            assert_eq!(
                slaac.learn(at(0), ROUTER, &whole[..len]),
                between_options,
                "{len}"
            );
        }
        let mut slaac = Slaac::new(MAC);
        let mut endless = whole.clone();
        endless[17] = 0;
        assert!(!slaac.learn(at(0), ROUTER, &endless));
        assert!(!slaac.learn(at(0), SERVER, &whole), "not of this link");
        assert_eq!(addresses(&slaac), []);
    }

    #[test]
    fn a_liar_cannot_make_it_keep_much() {
        let mut slaac = Slaac::new(MAC);
        for number in 0..100_u16 {
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
            let mut option = prefix(0xc0, 100, 100);
            option[22..24].copy_from_slice(&number.to_be_bytes());
            let server = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number + 1);
            let options = [option, servers(100, &[server; 3])];
            assert!(slaac.learn(at(0), router, &advertisement(100, &options)));
        }
        assert_eq!(addresses(&slaac).len(), MAX_KNOWN);
        assert_eq!(slaac.routers.len(), MAX_KNOWN);
        assert_eq!(slaac.servers.len(), MAX_KNOWN);
    }
}
