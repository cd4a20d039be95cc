use smoltcp::wire::EthernetAddress;

use super::*;

const US: Host = Host {
    mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
    ip: Ipv4Address::new(10, 0, 2, 2),
};
const CLIENT: Host = Host {
    mac: EthernetAddress([2, 0, 0, 0, 0, 15]),
    ip: Ipv4Address::UNSPECIFIED,
};
const LEASED: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);
const OTHER: Ipv4Address = Ipv4Address::new(10, 0, 2, 16);

fn lease() -> Lease {
    Lease {
        duration: Duration::from_secs(20),
        ..Lease::default()
    }
}

/// A client's message.
fn request(message_type: DhcpMessageType, requested_ip: Option<Ipv4Address>) -> Vec<u8> {
    let request = DhcpRepr {
        message_type,
        transaction_id: 7,
        secs: 0,
        client_hardware_address: CLIENT.mac,
        client_ip: Ipv4Address::UNSPECIFIED,
        your_ip: Ipv4Address::UNSPECIFIED,
        server_ip: Ipv4Address::UNSPECIFIED,
        router: None,
        subnet_mask: None,
        relay_agent_ip: Ipv4Address::UNSPECIFIED,
        broadcast: false,
        requested_ip,
        client_identifier: None,
        server_identifier: requested_ip.map(|_| US.ip),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: None,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let mut bytes = vec![0; request.buffer_len()];
    request
        .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
        .expect("the buffer is large enough");
    let ports = (DHCP_CLIENT_PORT, DHCP_SERVER_PORT);
    frame::udp(CLIENT, Host::BROADCAST, ports.0, ports.1, &bytes)
}

/// The messages that answer a client's.
fn answers(
    server: &mut Server,
    message_type: DhcpMessageType,
    requested_ip: Option<Ipv4Address>,
) -> Vec<Vec<u8>> {
    let frame = request(message_type, requested_ip);
    let parsed = Parsed::parse(&frame).expect("the request is well-formed");
    let frames = server.receive(US, &parsed, Duration::ZERO);
    let frames = frames.expect("it is for a DHCP server").into_iter();
    let message = |frame: Vec<u8>| match Parsed::parse(&frame) {
        Some(Parsed::Udp { to, data, .. }) if to.mac == CLIENT.mac => data.to_vec(),
        other => panic!("the answer is {other:?}"),
    };
    frames.map(message).collect()
}

/// The kind of the only answer, with the address, the mask and the lease.
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
    let answers = answers(server, message_type, requested_ip);
    let [answer] = &answers[..] else {
        panic!("there are {} answers", answers.len());
    };
    let packet = DhcpPacket::new_unchecked(&answer[..]);
    let answer = DhcpRepr::parse(&packet).expect("the answer is well-formed");
    assert_eq!(answer.transaction_id, 7);
    (
        answer.message_type,
        answer.your_ip,
        answer.subnet_mask,
        answer.lease_duration,
    )
}

#[test]
fn the_lease_is_offered_and_granted() {
    let mut server = Server::granting(lease());
    let mask = Some(Ipv4Address::new(255, 255, 255, 0));
    assert_eq!(
        asked(&mut server, DhcpMessageType::Discover, None),
        (DhcpMessageType::Offer, LEASED, mask, Some(20))
    );
    assert_eq!(server.granted(), 0);
    assert_eq!(
        asked(&mut server, DhcpMessageType::Request, Some(LEASED)),
        (DhcpMessageType::Ack, LEASED, mask, Some(20))
    );
    assert_eq!(server.granted(), 1);
    let kinds: Vec<_> = server.requests().iter().map(|asked| asked.kind).collect();
    assert_eq!(kinds, [Kind::Discover, Kind::Select]);
}

#[test]
fn another_address_is_denied_unless_the_server_insists() {
    let mut server = Server::granting(lease());
    let nothing = Ipv4Address::UNSPECIFIED;
    assert_eq!(
        asked(&mut server, DhcpMessageType::Request, Some(OTHER)),
        (DhcpMessageType::Nak, nothing, None, None)
    );
    assert_eq!(server.granted(), 0);
    let mut server = Server::new(|_| Reply::Insist(lease()));
    let (message_type, ip, ..) = asked(&mut server, DhcpMessageType::Request, Some(OTHER));
    assert_eq!((message_type, ip), (DhcpMessageType::Ack, LEASED));
}

#[test]
fn the_script_decides() {
    let mut server = Server::new(|request| match request.kind {
        Kind::Discover => Reply::Several(vec![Reply::Silence, Reply::Deny, Reply::Grant(lease())]),
        _ => Reply::Silence,
    });
    let answers_to_discover = answers(&mut server, DhcpMessageType::Discover, None);
    assert_eq!(answers_to_discover.len(), 2);
    let to_request = answers(&mut server, DhcpMessageType::Request, Some(LEASED));
    assert!(to_request.is_empty());
}

#[test]
fn lies_are_what_they_are_called() {
    let lying = |lie: Lie| {
        let mut server = Server::new(move |_| Reply::Lie(lease(), lie.clone()));
        answers(&mut server, DhcpMessageType::Request, Some(LEASED)).remove(0)
    };
    let parse = |bytes: &[u8]| {
        let packet = DhcpPacket::new_unchecked(bytes);
        let message = DhcpRepr::parse(&packet).expect("it can be read");
        (
            message.transaction_id,
            message.server_identifier,
            message.client_hardware_address,
            message.lease_duration,
        )
    };
    let truth = (7, Some(US.ip), CLIENT.mac, Some(20));
    assert_ne!(parse(&lying(Lie::TransactionId)).0, truth.0);
    assert_eq!(parse(&lying(Lie::ServerId(OTHER))).1, Some(OTHER));
    assert_ne!(parse(&lying(Lie::Client)).2, truth.2);
    assert_eq!(
        parse(&lying(Lie::Without(51))),
        (7, Some(US.ip), CLIENT.mac, None)
    );
    assert_eq!(lying(Lie::Cut(100)).len(), 100);
    assert_eq!(lying(Lie::Garbage(vec![1, 2])), [1, 2]);
    let is_malformed = |bytes: &[u8]| DhcpRepr::parse(&DhcpPacket::new_unchecked(bytes)).is_err();
    assert!(is_malformed(&lying(Lie::Cookie)));
    let long = lying(Lie::OptionLength(51, 200));
    assert_eq!(long.len(), lying(Lie::Without(51)).len() + 6);
}
