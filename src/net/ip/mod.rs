//! The addresses and routes of the guest, and the hosts of its link.
//!
//! | file | what it holds |
//! |---|---|
//! | `config`, `command_line` | what the stack is told at its start |
//! | `addresses`, `interface` | the card's addresses and routes |
//! | `dhcp`, `slaac` | those from a DHCP server and from routers |
//! | `discovery` | asking for the addresses of neighbours |
//! | `carrier` | the card's link going down and coming up |
//! | `multicast` | telling routers which groups are listened to |
//! | `loopback` | the interface from the guest to itself |

pub(super) mod addresses;
pub(super) mod carrier;
mod command_line;
mod config;
pub(super) mod dhcp;
pub(super) mod discovery;
mod interface;
pub(super) mod loopback;
pub(super) mod multicast;
mod slaac;

pub use command_line::ConfigError;
pub use config::{Config, IpConfig, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, Route};
