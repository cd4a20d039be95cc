//! A DHCP server with one lease, enough for one guest (RFC 2131).

use std::time::Duration;

use smoltcp::wire::{
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT, DhcpMessageType, DhcpPacket, DhcpRepr, Ipv4Address,
};

use crate::frame::{self, Host, Parsed};

/// What the server gives to whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The client's address.
    pub ip: Ipv4Address,
    /// The length of the network's part of it.
    pub prefix_len: u8,
    /// The router.
    pub gateway: Option<Ipv4Address>,
    /// Name servers; at most one is sent.
    pub dns: Vec<Ipv4Address>,
    /// How long the client may keep the address.
    pub duration: Duration,
}

#[derive(Debug)]
pub(crate) struct Server {
    lease: Lease,
    acknowledged: u32,
}

impl Server {
    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            lease,
            acknowledged: 0,
        }
    }

    /// How many requests were granted.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Looks at what came in: whether it is for a DHCP server, and the answer.
    pub(crate) fn receive(&mut self, us: Host, parsed: &Parsed<'_>) -> Option<Option<Vec<u8>>> {
        let Parsed::Udp {
            from,
            dst_port: DHCP_SERVER_PORT,
            data,
            ..
        } = parsed
        else {
            return None;
        };
        let packet = DhcpPacket::new_unchecked(*data);
        let Ok(request) = DhcpRepr::parse(&packet) else {
            return Some(None);
        };
        let for_us = request
            .server_identifier
            .is_none_or(|server| server == us.ip);
        let message_type = match request.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request if for_us => self.judge(&request),
            _ => return Some(None),
        };
        let answer = self.answer(us, &request, message_type);
        let mut bytes = vec![0; answer.buffer_len()];
        answer
            .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
            .expect("the buffer has the length it wants");
        // The client has no address yet, but its card has one.
        let to = Host {
            mac: from.mac,
            ip: Ipv4Address::BROADCAST,
        };
        let ports = (DHCP_SERVER_PORT, DHCP_CLIENT_PORT);
        Some(Some(frame::udp(us, to, ports.0, ports.1, &bytes)))
    }

    /// A request for another address than the lease's is denied.
    fn judge(&mut self, request: &DhcpRepr<'_>) -> DhcpMessageType {
        let wanted = request.requested_ip.unwrap_or(request.client_ip);
        if wanted == self.lease.ip {
            self.acknowledged += 1;
            DhcpMessageType::Ack
        } else {
            DhcpMessageType::Nak
        }
    }

    fn answer(
        &self,
        us: Host,
        request: &DhcpRepr<'_>,
        message_type: DhcpMessageType,
    ) -> DhcpRepr<'static> {
        let denied = message_type == DhcpMessageType::Nak;
        let unless_denied = |ip| if denied { None } else { Some(ip) };
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.lease.prefix_len))
            .unwrap_or(0);
        let seconds = self.lease.duration.as_secs().try_into().unwrap_or(u32::MAX);
        DhcpRepr {
            message_type,
            transaction_id: request.transaction_id,
            secs: 0,
            client_hardware_address: request.client_hardware_address,
            client_ip: Ipv4Address::UNSPECIFIED,
            your_ip: unless_denied(self.lease.ip).unwrap_or(Ipv4Address::UNSPECIFIED),
            server_ip: us.ip,
            router: self.lease.gateway.and_then(unless_denied),
            subnet_mask: unless_denied(Ipv4Address::from_bits(mask)),
            relay_agent_ip: Ipv4Address::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: Some(us.ip),
            parameter_request_list: None,
            dns_servers: (!denied && !self.lease.dns.is_empty())
                .then(|| self.lease.dns.iter().copied().take(1).collect()),
            max_size: None,
            lease_duration: (!denied).then_some(seconds),
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::wire::EthernetAddress;

    const US: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
        ip: Ipv4Address::new(10, 0, 2, 2),
    };
    const CLIENT: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 15]);
    const LEASED: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);

    fn server() -> Server {
        Server::new(Lease {
            ip: LEASED,
            prefix_len: 24,
            gateway: Some(US.ip),
            dns: vec![Ipv4Address::new(10, 0, 2, 3)],
            duration: Duration::from_secs(20),
        })
    }

    /// What the server answers, with the address, the mask and the lease.
    fn asked(
        server: &mut Server,
        message_type: DhcpMessageType,
        requested_ip: Option<Ipv4Address>,
    ) -> (
        DhcpMessageType,
        Ipv4Address,
        Option<Ipv4Address>,
        Option<u32>,
    ) {
        let request = DhcpRepr {
            message_type,
            requested_ip,
            client_hardware_address: CLIENT,
            server_identifier: None,
            server_ip: Ipv4Address::UNSPECIFIED,
            router: None,
            your_ip: Ipv4Address::UNSPECIFIED,
            subnet_mask: None,
            dns_servers: None,
            lease_duration: None,
            transaction_id: 7,
            ..server.answer(US, &EMPTY, message_type)
        };
        let mut bytes = vec![0; request.buffer_len()];
        request
            .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
            .expect("the buffer is large enough");
        let from = Host {
            mac: CLIENT,
            ip: Ipv4Address::UNSPECIFIED,
        };
        let frame = frame::udp(
            from,
            Host::BROADCAST,
            DHCP_CLIENT_PORT,
            DHCP_SERVER_PORT,
            &bytes,
        );
        let parsed = Parsed::parse(&frame).expect("the request is well-formed");
        let answer = server.receive(US, &parsed).flatten().expect("it answers");
        let Some(Parsed::Udp { to, data, .. }) = Parsed::parse(&answer) else {
            panic!("the answer is a datagram");
        };
        assert_eq!(to.mac, CLIENT);
        let packet = DhcpPacket::new_unchecked(data);
        let answer = DhcpRepr::parse(&packet).expect("the answer is well-formed");
        assert_eq!(answer.transaction_id, 7);
        (
            answer.message_type,
            answer.your_ip,
            answer.subnet_mask,
            answer.lease_duration,
        )
    }

    const EMPTY: DhcpRepr<'static> = DhcpRepr {
        message_type: DhcpMessageType::Discover,
        transaction_id: 7,
        secs: 0,
        client_hardware_address: CLIENT,
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: Ipv4Address::UNSPECIFIED,
        server_ip: Ipv4Address::UNSPECIFIED,
        router: None,
        subnet_mask: None,
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: false,
        requested_ip: None,
        client_identifier: None,
        server_identifier: None,
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: None,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };

    #[test]
    fn the_lease_is_offered_and_granted() {
        let mut server = server();
        let mask = Some(Ipv4Address::new(255, 255, 255, 0));
        assert_eq!(
            asked(&mut server, DhcpMessageType::Discover, None),
            (DhcpMessageType::Offer, LEASED, mask, Some(20))
        );
        assert_eq!(server.acknowledged(), 0);
        assert_eq!(
            asked(&mut server, DhcpMessageType::Request, Some(LEASED)),
            (DhcpMessageType::Ack, LEASED, mask, Some(20))
        );
        assert_eq!(server.acknowledged(), 1);
    }

    #[test]
    fn another_address_is_denied() {
        let mut server = server();
        let wanted = Some(Ipv4Address::new(10, 0, 2, 16));
        let nothing = Ipv4Address::UNSPECIFIED;
        assert_eq!(
            asked(&mut server, DhcpMessageType::Request, wanted),
            (DhcpMessageType::Nak, nothing, None, None)
        );
        assert_eq!(server.acknowledged(), 0);
    }
}
