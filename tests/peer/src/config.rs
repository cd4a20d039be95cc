//! Who the peer is.

use smoltcp::wire::{EthernetAddress, Ipv4Address, Ipv6Address};

use crate::frame::Host;

/// Who the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its addresses.
    pub host: Host,
    /// The length of the network's part of its IP address.
    pub prefix_len: u8,
    /// Its IPv6 address, of a network with a prefix of 64 bits, beside the
    /// link-local one that goes with its card.
    pub ip6: Ipv6Address,
    /// The largest packet that it sends and takes, in bytes.
    pub mtu: usize,
    /// The size of a TCP connection's buffers, of each direction.
    pub tcp_buffer_bytes: usize,
}

impl Default for Config {
    /// 10.0.2.2/24, where QEMU's user-mode network has the host, and fd00::2/64.
    fn default() -> Self {
        Self {
            host: Host {
                mac: EthernetAddress([0x52, 0x55, 0x0a, 0x00, 0x02, 0x02]),
                ip: Ipv4Address::new(10, 0, 2, 2),
            },
            prefix_len: 24,
            ip6: Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
            mtu: 1500,
            tcp_buffer_bytes: 64 << 10,
        }
    }
}
