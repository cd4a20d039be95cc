//! The stack over a virtio network card in memory, which may misbehave.

use firstpoll::arch::host;
use firstpoll::drivers::virtio_net::VirtioNet;
use firstpoll::net::{self, Config, Device, Ipv4Config, Ipv6Source, TcpListener};
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, runtime, yield_now};
use proptest::prelude::*;
use smoltcp::wire::{ArpOperation, TcpControl};

use crate::card_model::{
    CSUM, EVENT_IDX, Far, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HEADER, HOST_TSO4, MAC, MRG_RXBUF,
    Queue, RECEIVE, SEND, STATUS, VERSION_1,
};
use crate::frames::{Sent, arp, look, ping, segment};
use crate::peer::{PEER_IP, PEER_MAC, STACK_IP, START};

const MS: Duration = Duration::from_millis(1);

fn start() -> (net::Stack, Far) {
    start_with(0)
}

/// With a card that offers these features, too.
pub fn start_with(features: u64) -> (net::Stack, Far) {
    start_as(features, Ipv6Source::Off)
}

fn start_as(features: u64, ipv6: Ipv6Source) -> (net::Stack, Far) {
    host::set_clock(START);
    runtime::init();
    let (far, transport) = Far::new(VERSION_1 | MAC | EVENT_IDX | features, [256; 2]);
    let card = VirtioNet::new(transport, far.interrupt).unwrap();
    let ipv4 = Ipv4Config {
        address: STACK_IP,
        prefix_len: 24,
        gateway: None,
    };
    let config = Config {
        ipv6,
        ..Config::from(ipv4)
    };
    let stack = net::start(Device::virtio(card), config, 7);
    block_on(yield_now());
    host::advance(100 * MS);
    (stack, far)
}

#[test]
fn pings_are_answered_through_the_card_for_longer_than_its_rings() {
    let (_stack, far) = start();
    assert!(far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC)));
    host::advance(2 * MS);
    assert_eq!(far.sent().len(), 1);
    for number in 0..2000 {
        assert!(far.send(&ping(PEER_IP, number)));
        host::advance(2 * MS);
        let answers: Vec<_> = far.sent().iter().map(|frame| look(frame)).collect();
        assert_eq!(answers, [Sent::Pong(number)]);
    }
}

#[test]
fn a_full_send_queue_is_waited_for() {
    let (stack, far) = start();
    assert!(far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC)));
    let mut pings = 0;
    // The card sends nothing, until more answers wait than it has places.
    for _ in 0..600 {
        pings += u64::from(far.send(&ping(PEER_IP, 1)));
        host::advance(2 * MS);
    }
    assert!(stack.stats().frames_sent <= 256);
    let mut answers = 0;
    for _ in 0..20 {
        answers += far.sent().len() as u64;
        host::advance(2 * MS);
    }
    assert!(pings >= 256 + 200, "{pings}");
    assert_eq!(answers, pings + 1);
}

#[test]
fn a_kick_that_was_lost_is_repeated() {
    let (_stack, far) = start();
    assert!(far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC)));
    host::advance(2 * MS);
    let kicks = far.card().kicks[SEND];
    host::advance(100 * MS);
    assert!(far.card().kicks[SEND] > kicks);
    far.sent();
    host::advance(2000 * MS);
    let kicks = far.card().kicks[SEND];
    host::advance(10_000 * MS);
    assert_eq!(far.card().kicks[SEND], kicks);
}

#[test]
fn a_card_that_breaks_the_rules_is_counted() {
    let (stack, far) = start();
    assert_eq!(stack.stats().card_faults, 0);
    far.card().queues[RECEIVE].give(u32::MAX, 0);
    far.raise(RECEIVE);
    host::advance(2 * MS);
    assert_eq!(stack.stats().card_faults, 1);
}

/// RFC 5227 §2.3 and RFC 4861 §7.2.6: switches learn where the addresses are.
#[test]
fn addresses_are_announced_when_the_link_comes_up() {
    let (stack, far) = start_as(STATUS, Ipv6Source::Slaac);
    host::advance(Duration::from_secs(30));
    far.sent();
    for _ in 0..2 {
        far.set_link(false);
        host::advance(100 * MS);
        assert!(!stack.is_link_up());
        assert_eq!(far.sent().len(), 0);
        far.set_link(true);
        host::advance(MS);
        assert!(stack.is_link_up());
        let sent: Vec<_> = far.sent().into_iter().collect();
        let is_announcement = |frame: &&Vec<u8>| look(frame) == Sent::ArpRequest(STACK_IP);
        let announcements: Vec<_> = sent.iter().filter(is_arp).filter(is_announcement).collect();
        let [announcement] = announcements[..] else {
            panic!("{sent:?}");
        };
        assert_eq!(announcement[28..32], STACK_IP.octets());
        let advertisement = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[54] == 136;
        assert_eq!(sent.iter().filter(advertisement).count(), 1);
    }
}

fn is_arp(frame: &&Vec<u8>) -> bool {
    frame[12..14] == [0x08, 0x06]
}

#[test]
fn a_card_that_does_not_tell_has_its_link_up() {
    let (stack, far) = start();
    far.set_link(false);
    host::advance(100 * MS);
    assert!(stack.is_link_up());
}

/// What the card writes into the used rings can be anything.
#[derive(Clone, Debug)]
enum Mischief {
    Used {
        send: bool,
        id: u32,
        len: u32,
    },
    Jump {
        send: bool,
        by: u16,
    },
    Frame,
    /// A frame whose header says anything, in any number of buffers.
    Header {
        header: [u8; HEADER],
        buffers: u16,
    },
}

fn mischief() -> impl Strategy<Value = Mischief> {
    let id = prop_oneof![0..300_u32, any::<u32>()];
    let len = prop_oneof![0..2000_u32, any::<u32>()];
    prop_oneof![
        (any::<bool>(), id, len).prop_map(|(send, id, len)| Mischief::Used { send, id, len }),
        (any::<bool>(), any::<u16>()).prop_map(|(send, by)| Mischief::Jump { send, by }),
        Just(Mischief::Frame),
        (any::<[u8; HEADER]>(), prop_oneof![0..5_u16, any::<u16>()])
            .prop_map(|(header, buffers)| Mischief::Header { header, buffers }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_card_that_lies_is_survived(
        offloads: bool,
        acts in proptest::collection::vec(mischief(), 1..20),
    ) {
        let features = GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | MRG_RXBUF | CSUM | HOST_TSO4;
        let (stack, far) = start_with(if offloads { features } else { 0 });
        let listener = TcpListener::bind(stack, 80).unwrap();
        far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        for act in acts {
            match act {
                Mischief::Used { send, id, len } => {
                    far.card().queues[usize::from(send)].give(id, len);
                }
                Mischief::Jump { send, by } => {
                    let mut card = far.card();
                    let queue = &mut card.queues[usize::from(send)];
                    queue.next_used = queue.next_used.wrapping_add(by);
                    let (used, index) = (queue.used, queue.next_used);
                    // SAFETY: the driver has set the queue up.
                    unsafe { Queue::write(used + 2, index) };
                }
                Mischief::Header { mut header, buffers } => {
                    header[10..].copy_from_slice(&buffers.to_le_bytes());
                    let frame = segment(PEER_IP, (9, 80), TcpControl::Syn, 1, None);
                    let mut card = far.card();
                    let queue = &mut card.queues[RECEIVE];
                    if let Some((id, address, _)) = queue.take() {
                        let bytes = [&header[..], &frame].concat();
                        // SAFETY: the driver gave the buffer to the card.
                        unsafe { (address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
                        queue.give(id.into(), bytes.len() as u32);
                    }
                }
                Mischief::Frame => {
                    far.send(&segment(PEER_IP, (9, 80), TcpControl::Syn, 1, None));
                }
            }
            far.raise(RECEIVE);
            host::advance(2 * MS);
            far.sent_under(usize::MAX);
        }
        host::advance(Duration::from_secs(30));
        let _ = block_on(timeout(Duration::ZERO, listener.accept()));
    }
}
