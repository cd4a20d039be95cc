//! The address of the interface: where it comes from, and what it is.

use core::error;
use core::fmt;
use core::net::Ipv4Addr;

use super::frame::is_host;

/// Where the interface's address comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Config {
    /// From a DHCP server (RFC 2131).
    #[default]
    Dhcp,
    /// Given.
    Static(Ipv4Config),
}

/// An address of the interface and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Config {
    /// The interface's address.
    pub address: Ipv4Addr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
    /// The router to all other networks.
    pub gateway: Option<Ipv4Addr>,
}

impl fmt::Display for Ipv4Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)?;
        match self.gateway {
            Some(gateway) => write!(f, " by {gateway}"),
            None => Ok(()),
        }
    }
}

/// An option of the command line that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// `ip=` is not of the form 10.0.2.15/24, or not a host's address.
    Ip,
    /// `gateway=` is not a host's address.
    Gateway,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip= wants a host's address and a prefix length, as 10.0.2.15/24",
            Self::Gateway => "gateway= wants a host's address, as 10.0.2.2",
        })
    }
}

impl error::Error for ConfigError {}

impl Config {
    /// Reads `ip=` and `gateway=` from a kernel command line; without `ip=` the
    /// address comes by DHCP. Other words are ignored; of equal ones the last
    /// counts.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the option whose value is of no use.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstpoll::net::Config;
    ///
    /// let config = Config::from_command_line("log=info ip=10.0.2.15/24 gateway=10.0.2.2");
    /// assert!(matches!(config, Ok(Config::Static(_))));
    /// assert_eq!(Config::from_command_line("log=info"), Ok(Config::Dhcp));
    /// ```
    pub fn from_command_line(line: &str) -> Result<Self, ConfigError> {
        let (mut ip, mut gateway) = (None, None);
        for word in line.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("ip", value)) => ip = Some(value),
                Some(("gateway", value)) => gateway = Some(value),
                _ => {}
            }
        }
        let gateway = match gateway {
            Some(value) => Some(host(value).ok_or(ConfigError::Gateway)?),
            None => None,
        };
        let Some(ip) = ip else {
            return Ok(Self::Dhcp);
        };
        let (address, prefix_len) = ip.split_once('/').ok_or(ConfigError::Ip)?;
        let config = Ipv4Config {
            address: host(address).ok_or(ConfigError::Ip)?,
            prefix_len: prefix_len.parse().map_err(|_| ConfigError::Ip)?,
            gateway,
        };
        if !config.is_usable() {
            return Err(ConfigError::Ip);
        }
        Ok(Self::Static(config))
    }
}

impl Ipv4Config {
    /// Whether an interface can have it.
    pub(super) fn is_usable(&self) -> bool {
        is_host(self.address) && (1..=32).contains(&self.prefix_len)
    }
}

fn host(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok().filter(|&address| is_host(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_named_and_never_panics() {
        for line in ["ip=", "ip=10.0.2.15", "ip=10.0.2.15/33", "ip=10.0.2.15/0", "ip=/", "ip=0.0.0.0/8", "ip=255.255.255.255/24", "ip=10.0.2.15/-1", "ip=10.0.2.15/24/24"] {
            assert_eq!(Config::from_command_line(line), Err(ConfigError::Ip), "{line}");
        }
        for line in ["gateway=", "gateway=10.0.2", "ip=10.0.2.15/24 gateway=224.0.0.1"] {
            assert_eq!(Config::from_command_line(line), Err(ConfigError::Gateway), "{line}");
        }
        assert_eq!(Config::from_command_line("\u{7f} = == ip gateway x=\0"), Ok(Config::Dhcp));
    }

    #[test]
    fn of_equal_words_the_last_counts() {
        let config = Config::from_command_line("ip=10.0.0.1/8 ip=10.0.2.15/24");
        assert_eq!(
            config,
            Ok(Config::Static(Ipv4Config {
                address: Ipv4Addr::new(10, 0, 2, 15),
                prefix_len: 24,
                gateway: None,
            }))
        );
    }
}
