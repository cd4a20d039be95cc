//! The server's messages, true and false.

use smoltcp::wire::{DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, Ipv4Address};

use super::{Lease, Lie};
use crate::frame::{EthernetAddress, Host};

/// Where the number of the exchange stands.
const TRANSACTION_ID: usize = 4;

/// Where the magic number stands that begins the options.
const COOKIE: usize = 236;

/// Where the options begin.
const OPTIONS: usize = 240;

/// Options that smoltcp does not write, or not for so many servers (RFC 2132
/// §3.8, §9.11 and §9.12).
const DOMAIN_NAME_SERVER: u8 = 6;
const RENEWAL_TIME: u8 = 58;
const REBINDING_TIME: u8 = 59;

/// Options without a length (RFC 2132 §3.1 and §3.2).
const PAD: u8 = 0;
const END: u8 = 255;

/// Says no.
pub(super) fn denial(us: Host, asked: &DhcpRepr<'_>) -> Vec<u8> {
    emit(&DhcpRepr {
        message_type: DhcpMessageType::Nak,
        ..empty(us, asked)
    })
}

/// Offers or grants `lease`, but for a lie.
pub(super) fn lease(
    us: Host,
    asked: &DhcpRepr<'_>,
    message_type: DhcpMessageType,
    lease: &Lease,
    lie: Option<&Lie>,
) -> Vec<u8> {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(lease.prefix_len))
        .unwrap_or(0);
    let seconds = |duration: std::time::Duration| duration.as_secs().try_into().unwrap_or(u32::MAX);
    let dns: Vec<u8> = lease.dns.iter().flat_map(|ip| ip.octets()).collect();
    let times = [lease.renew_after, lease.rebind_after].map(|after| after.map(seconds));
    let times = times.map(|after| after.map(u32::to_be_bytes).map_or(Vec::new(), Vec::from));
    let more = [
        (DOMAIN_NAME_SERVER, &dns),
        (RENEWAL_TIME, &times[0]),
        (REBINDING_TIME, &times[1]),
    ];
    let more = more.into_iter().filter(|(_, data)| !data.is_empty());
    let more: Vec<_> = more.map(|(kind, data)| DhcpOption { kind, data }).collect();
    let mut message = DhcpRepr {
        message_type,
        your_ip: lease.ip,
        router: lease.gateway,
        subnet_mask: Some(Ipv4Address::from_bits(mask)),
        lease_duration: Some(seconds(lease.duration)),
        additional_options: &more,
        ..empty(us, asked)
    };
    match lie {
        Some(Lie::ServerId(other)) => message.server_identifier = Some(*other),
        Some(Lie::Client) => {
            message.client_hardware_address = EthernetAddress([2, 0, 0, 0, 0, 0xee]);
        }
        _ => {}
    }
    let mut bytes = emit(&message);
    match lie {
        Some(Lie::TransactionId) => bytes[TRANSACTION_ID] ^= 0x55,
        Some(Lie::Cookie) => bytes[COOKIE] ^= 0x55,
        Some(Lie::Cut(length)) => bytes.truncate(*length),
        Some(Lie::Without(kind)) => {
            let at = find(&bytes, *kind).expect("the message has the option");
            let length = usize::from(bytes[at + 1]);
            bytes.drain(at..at + 2 + length);
        }
        Some(Lie::OptionLength(kind, length)) => {
            let at = find(&bytes, *kind).expect("the message has the option");
            bytes[at + 1] = *length;
        }
        Some(Lie::Garbage(garbage)) => bytes.clone_from(garbage),
        Some(Lie::ServerId(_) | Lie::Client) | None => {}
    }
    bytes
}

/// Where an option stands.
fn find(message: &[u8], kind: u8) -> Option<usize> {
    let mut at = OPTIONS;
    loop {
        match *message.get(at)? {
            found if found == kind => return Some(at),
            PAD => at += 1,
            END => return None,
            _ => at += 2 + usize::from(*message.get(at + 1)?),
        }
    }
}

/// What all answers to a request have in common.
fn empty(us: Host, asked: &DhcpRepr<'_>) -> DhcpRepr<'static> {
    DhcpRepr {
        message_type: DhcpMessageType::Nak,
        transaction_id: asked.transaction_id,
        secs: 0,
        client_hardware_address: asked.client_hardware_address,
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: Ipv4Address::UNSPECIFIED,
        server_ip: us.ip,
        router: None,
        subnet_mask: None,
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: false,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(us.ip),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: None,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    }
}

fn emit(message: &DhcpRepr<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message
        .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
        .expect("the buffer has the length it wants");
    bytes
}
