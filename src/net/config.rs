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
    /// Reads the values of the options `ip` and `gateway`; without the former
    /// the address comes by DHCP.
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
    /// let config = Config::from_options(Some("10.0.2.15/24"), Some("10.0.2.2"));
    /// assert!(matches!(config, Ok(Config::Static(_))));
    /// assert_eq!(Config::from_options(None, None), Ok(Config::Dhcp));
    /// ```
    pub fn from_options(ip: Option<&str>, gateway: Option<&str>) -> Result<Self, ConfigError> {
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
        let not_hosts = [
            "",
            "10.0.2",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
        ];
        for gateway in not_hosts {
            let config = Config::from_options(Some("10.0.2.15/24"), Some(gateway));
            assert_eq!(config, Err(ConfigError::Gateway), "{gateway}");
        }
        let lengths = ["", "/", "/0", "/33", "/-1", "/24/24", "/24 "];
        for ip in not_hosts
            .map(|host| std::format!("{host}/24"))
            .into_iter()
            .chain(lengths.map(|length| std::format!("10.0.2.15{length}")))
        {
            let config = Config::from_options(Some(&ip), None);
            assert_eq!(config, Err(ConfigError::Ip), "{ip}");
        }
    }
}
