//! The stack's options on the kernel command line.

use alloc::vec::Vec;
use core::error;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::config::{Config, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, MAX_ROUTES, Route};
use crate::net::frame::{is_host, is_host_v6};
use crate::net::limits::Limits;

/// An option of the command line that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `ip=` is not of the form 10.0.2.15/24, or not a host's address.
    Ip,
    /// `gateway=` is not a host's address, or not on the network of `ip=`.
    Gateway,
    /// `ip6=` is not of the form 2001:db8::15/64, or not a host's address.
    Ip6,
    /// `gateway6=` is not a host's address, or not on the network of `ip6=`.
    Gateway6,
    /// `dns=` is not a list of hosts' addresses.
    Dns,
    /// `route=` is not of the form 10.1.0.0/16,10.0.2.9.
    Route,
    /// There are too many `route=`.
    Routes,
    /// `max_connections=` or another limit is not a number above zero.
    Limit,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => {
                "ip= wants a host's address and a prefix length, as 10.0.2.15/24, or dhcp, or off"
            }
            Self::Gateway => "gateway= wants a host's address on the network of ip=, as 10.0.2.2",
            Self::Ip6 => {
                "ip6= wants a host's address and a prefix length, as 2001:db8::15/64, or slaac, or off"
            }
            Self::Gateway6 => "gateway6= wants a host's address on the network of ip6=, as fe80::2",
            Self::Dns => "dns= wants hosts' addresses, as 10.0.2.3,2001:db8::3",
            Self::Route => {
                "route= wants a network and a router of the same kind, as 10.1.0.0/16,10.0.2.9"
            }
            Self::Routes => "route= may be given eight times",
            Self::Limit => {
                "max_buffer_bytes=, max_connections=, max_half_open=, max_orphans= and \
                 max_closing_records= want numbers above zero"
            }
        })
    }
}

impl error::Error for ConfigError {}

impl Config {
    /// The command line's options that [`from_options`](Self::from_options)
    /// reads.
    pub const OPTIONS: [&str; 11] = [
        "ip",
        "gateway",
        "ip6",
        "gateway6",
        "dns",
        "route",
        Limits::OPTIONS[0],
        Limits::OPTIONS[1],
        Limits::OPTIONS[2],
        Limits::OPTIONS[3],
        Limits::OPTIONS[4],
    ];

    /// Reads the names and values of the command line's options; those that it
    /// does not know are left alone. Of one that is given twice the last value
    /// counts, but every `route=` does.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the option whose value is of no use.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstpoll::net::{Config, Ipv4Source, Ipv6Source};
    ///
    /// let options = [("ip", "10.0.2.15/24"), ("gateway", "10.0.2.2"), ("ip6", "off")];
    /// let config = Config::from_options(options)?;
    /// assert!(matches!(config.ipv4, Ipv4Source::Static(_)));
    /// assert_eq!(config.ipv6, Ipv6Source::Off);
    /// assert_eq!(Config::from_options([])?, Config::default());
    /// # Ok::<(), firstpoll::net::ConfigError>(())
    /// ```
    pub fn from_options<'a>(
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let (mut ip, mut gateway) = (None, None);
        let (mut ip6, mut gateway6) = (None, None);
        let mut dns = None;
        let mut limits = [None; Limits::OPTIONS.len()];
        for (name, value) in options {
            match name {
                "ip" => ip = Some(value),
                "gateway" => gateway = Some(value),
                "ip6" => ip6 = Some(value),
                "gateway6" => gateway6 = Some(value),
                "dns" => dns = Some(value),
                "route" if config.routes.len() == MAX_ROUTES => return Err(ConfigError::Routes),
                "route" => config.routes.push(route(value).ok_or(ConfigError::Route)?),
                _ => {
                    let place = Limits::OPTIONS.iter().position(|&option| option == name);
                    if let Some(place) = place {
                        limits[place] = Some(value);
                    }
                }
            }
        }
        for (place, value) in config.limits.places().into_iter().zip(limits) {
            *place = read(value, limit, ConfigError::Limit)?.unwrap_or(*place);
        }
        let gateway = read(gateway, host_v4, ConfigError::Gateway)?;
        let gateway6 = read(gateway6, host_v6, ConfigError::Gateway6)?;
        config.ipv4 = read(ip, ipv4_source, ConfigError::Ip)?.unwrap_or_default();
        config.ipv6 = read(ip6, ipv6_source, ConfigError::Ip6)?.unwrap_or_default();
        config.dns_servers = read(dns, hosts, ConfigError::Dns)?.unwrap_or_default();
        if let Ipv4Source::Static(config) = &mut config.ipv4 {
            config.gateway = gateway;
            if !config.reaches_gateway() {
                return Err(ConfigError::Gateway);
            }
        }
        if let Ipv6Source::Static(config) = &mut config.ipv6 {
            config.gateway = gateway6;
            if !config.reaches_gateway() {
                return Err(ConfigError::Gateway6);
            }
        }
        Ok(config)
    }
}

/// The value of an option that was given.
fn read<T>(
    value: Option<&str>,
    parse: fn(&str) -> Option<T>,
    error: ConfigError,
) -> Result<Option<T>, ConfigError> {
    match value {
        Some(value) => parse(value).map(Some).ok_or(error),
        None => Ok(None),
    }
}

fn host_v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok().filter(|&address| is_host(address))
}

fn host_v6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok().filter(|&address| is_host_v6(address))
}

fn host(text: &str) -> Option<IpAddr> {
    host_v4(text)
        .map(IpAddr::from)
        .or_else(|| host_v6(text).map(IpAddr::from))
}

fn hosts(text: &str) -> Option<Vec<IpAddr>> {
    let mut hosts = Vec::new();
    for text in text.split(',') {
        hosts.push(host(text)?);
    }
    Some(hosts)
}

fn ipv4_source(text: &str) -> Option<Ipv4Source> {
    Some(match text {
        "off" => Ipv4Source::Off,
        "dhcp" => Ipv4Source::Dhcp,
        _ => {
            let (address, prefix_len) = network(text)?;
            let config = Ipv4Config {
                address,
                prefix_len,
                gateway: None,
            };
            Ipv4Source::Static(Some(config).filter(Ipv4Config::is_usable)?)
        }
    })
}

fn ipv6_source(text: &str) -> Option<Ipv6Source> {
    Some(match text {
        "off" => Ipv6Source::Off,
        "slaac" => Ipv6Source::Slaac,
        _ => {
            let (address, prefix_len) = network(text)?;
            let config = Ipv6Config {
                address,
                prefix_len,
                gateway: None,
            };
            Ipv6Source::Static(Some(config).filter(Ipv6Config::is_usable)?)
        }
    })
}

fn route(text: &str) -> Option<Route> {
    let (to, gateway) = text.split_once(',')?;
    let (network, prefix_len) = network(to)?;
    let route = Route {
        network,
        prefix_len,
        gateway: host(gateway)?,
    };
    Some(route).filter(Route::is_usable)
}

fn limit(text: &str) -> Option<usize> {
    text.parse().ok().filter(|&limit| limit > 0)
}

fn network<A: FromStr>(text: &str) -> Option<(A, u8)> {
    let (address, prefix_len) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix_len.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(line: &str) -> Result<Config, ConfigError> {
        Config::from_options(line.split(' ').filter_map(|word| word.split_once('=')))
    }

    #[test]
    fn all_options_are_read() {
        let all = config(
            "ip=10.0.2.15/24 gateway=10.0.2.2 ip6=2001:db8::15/64 gateway6=fe80::2 \
             dns=10.0.2.3,2001:db8::3 route=10.1.0.0/16,10.0.2.9 route=2001:db9::/32,fe80::9",
        )
        .unwrap();
        let expected = Config {
            ipv4: Ipv4Source::Static(Ipv4Config {
                address: Ipv4Addr::new(10, 0, 2, 15),
                prefix_len: 24,
                gateway: Some(Ipv4Addr::new(10, 0, 2, 2)),
            }),
            ipv6: Ipv6Source::Static(Ipv6Config {
                address: "2001:db8::15".parse().unwrap(),
                prefix_len: 64,
                gateway: Some("fe80::2".parse().unwrap()),
            }),
            dns_servers: ["10.0.2.3", "2001:db8::3"]
                .map(|server| server.parse().unwrap())
                .into(),
            routes: [("10.1.0.0", 16, "10.0.2.9"), ("2001:db9::", 32, "fe80::9")]
                .map(|(network, prefix_len, gateway)| Route {
                    network: network.parse().unwrap(),
                    prefix_len,
                    gateway: gateway.parse().unwrap(),
                })
                .into(),
            limits: Limits::default(),
        };
        assert_eq!(all, expected);
        let off = config("ip=off ip6=off gateway=10.0.2.2").unwrap();
        assert_eq!(off, Config::loopback());
        assert_eq!(config("ip=dhcp ip6=slaac"), Ok(Config::default()));
        assert_eq!(config(""), Ok(Config::default()));
        // Of two the last counts, whatever the first is.
        assert_eq!(config("ip= ip=dhcp"), Ok(Config::default()));
    }

    #[test]
    fn garbage_is_named_and_never_panics() {
        let not_hosts = [
            "",
            "10.0.2",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "127.0.0.1",
            "::1",
            "::",
            "ff02::1",
            "::ffff:10.0.2.2",
            "x",
        ];
        let lengths = ["", "/", "/0", "/129", "/-1", "/24/24", "/24 "];
        for garbage in not_hosts {
            for (option, error) in [
                ("gateway", ConfigError::Gateway),
                ("gateway6", ConfigError::Gateway6),
                ("dns", ConfigError::Dns),
                ("route", ConfigError::Route),
                ("ip", ConfigError::Ip),
                ("ip6", ConfigError::Ip6),
            ] {
                let values = match option {
                    "ip" | "ip6" => [std::format!("{garbage}/24"), garbage.into()],
                    "route" => [std::format!("10.1.0.0/16,{garbage}"), garbage.into()],
                    "dns" => [std::format!("10.0.2.3,{garbage}"), garbage.into()],
                    _ => [garbage.into(), std::format!("{garbage}/24")],
                };
                for value in values {
                    let config = Config::from_options([(option, value.as_str())]);
                    assert_eq!(config, Err(error), "{option}={value}");
                }
            }
        }
        for length in lengths {
            for (option, address, error) in [
                ("ip", "10.0.2.15", ConfigError::Ip),
                ("ip6", "fd00::1", ConfigError::Ip6),
            ] {
                let value = std::format!("{address}{length}");
                let config = Config::from_options([(option, value.as_str())]);
                assert_eq!(config, Err(error), "{value}");
            }
        }
        assert_eq!(config("ip=10.0.2.15/33"), Err(ConfigError::Ip));
        for value in [
            "10.1.0.0/33,10.0.2.9",
            "10.1.0.0/16,fe80::9",
            "10.1/16,10.0.2.9",
        ] {
            let config = Config::from_options([("route", value)]);
            assert_eq!(config, Err(ConfigError::Route), "{value}");
        }
    }

    #[test]
    fn limits_are_numbers_above_zero() {
        let all = "max_buffer_bytes=1 max_connections=2 max_half_open=3 max_orphans=4 \
                   max_closing_records=5";
        let expected = Limits {
            buffer_bytes: 1,
            connections: 2,
            half_open: 3,
            orphans: 4,
            closing_records: 5,
        };
        assert_eq!(config(all).unwrap().limits, expected);
        for option in Limits::OPTIONS {
            for garbage in ["", "0", "-1", "many", "1.5", "99999999999999999999999"] {
                let config = Config::from_options([(option, garbage)]);
                assert_eq!(config, Err(ConfigError::Limit), "{option}={garbage}");
            }
        }
    }

    #[test]
    fn gateways_are_on_the_network() {
        assert_eq!(
            config("ip=10.0.2.15/24 gateway=10.0.3.2"),
            Err(ConfigError::Gateway)
        );
        assert_eq!(
            config("gateway6=2001:db9::1 ip6=2001:db8::15/64"),
            Err(ConfigError::Gateway6)
        );
        assert!(config("ip6=2001:db8::15/64 gateway6=2001:db8::1").is_ok());
        assert!(config("ip6=2001:db8::15/64 gateway6=fe80::1").is_ok());
    }

    #[test]
    fn the_number_of_routes_is_limited() {
        let route = ("route", "10.1.0.0/16,10.0.2.9");
        assert!(Config::from_options([route; MAX_ROUTES]).is_ok());
        let one_more = Config::from_options([route; MAX_ROUTES + 1]);
        assert_eq!(one_more, Err(ConfigError::Routes));
    }
}
