//! The driver against a virtio network card in memory, which may misbehave.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use firstpoll::arch::host;
use firstpoll::drivers::virtio_net::{Interrupt, VirtioNet};
use firstpoll::net::{self, Config, Device, Ipv4Config, TcpListener};
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, runtime, yield_now};
use proptest::prelude::*;
use smoltcp::wire::{ArpOperation, TcpControl};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};

use crate::frames::{Sent, arp, look, ping, segment};
use crate::peer::{PEER_IP, PEER_MAC, STACK_IP, START};
use crate::wire::STACK_MAC;

const MS: Duration = Duration::from_millis(1);
const VERSION_1: u64 = 1 << 32;
const MAC: u64 = 1 << 5;
const EVENT_IDX: u64 = 1 << 29;
const RECEIVE: usize = 0;
const SEND: usize = 1;
const HEADER: usize = 12;

/// One queue, as the device sees it (virtio 1.3 §2.7).
#[derive(Clone, Copy, Default)]
struct Queue {
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    next_available: u16,
    next_used: u16,
}

#[derive(Default)]
struct Card {
    status: u32,
    features: u64,
    queues: [Queue; 2],
    kicks: [u64; 2],
}

impl Queue {
    unsafe fn read<T: Copy>(address: u64) -> T {
        // SAFETY: by the caller, who got the address from the driver.
        unsafe { (address as *const T).read_volatile() }
    }

    unsafe fn write<T>(address: u64, value: T) {
        // SAFETY: as above.
        unsafe { (address as *mut T).write_volatile(value) }
    }

    fn wants_interrupts(&self) -> bool {
        // SAFETY: the driver has set the queue up.
        unsafe { Self::read::<u16>(self.available) & 1 == 0 }
    }

    /// Takes the next buffer that the driver has made available: its number,
    /// address and length.
    fn take(&mut self) -> Option<(u16, u64, u32)> {
        // SAFETY: the driver has set the queue up.
        unsafe {
            if Self::read::<u16>(self.available + 2) == self.next_available {
                return None;
            }
            let place = u64::from(self.next_available % self.size);
            let head = Self::read::<u16>(self.available + 4 + 2 * place);
            self.next_available = self.next_available.wrapping_add(1);
            let descriptor = self.descriptors + 16 * u64::from(head);
            Some((head, Self::read(descriptor), Self::read(descriptor + 8)))
        }
    }

    /// Says that buffer `id` was used, and `len` bytes were written.
    fn give(&mut self, id: u32, len: u32) {
        let place = u64::from(self.next_used % self.size);
        self.next_used = self.next_used.wrapping_add(1);
        // SAFETY: the driver has set the queue up.
        unsafe {
            Self::write(self.used + 4 + 8 * place, id);
            Self::write(self.used + 8 + 8 * place, len);
            Self::write(self.used + 2, self.next_used);
        }
    }
}

/// The card's far side.
#[derive(Clone)]
struct Far {
    card: Arc<Mutex<Card>>,
    status: &'static AtomicU8,
    interrupt: &'static Interrupt,
}

impl Far {
    fn new() -> (Self, FakeTransport) {
        let status: &'static AtomicU8 = Box::leak(Box::default());
        // SAFETY: it lives for ever.
        let interrupt = unsafe { Interrupt::new(NonNull::from(status).cast()) };
        let card = Arc::<Mutex<Card>>::default();
        let transport = FakeTransport(card.clone());
        let far = Self {
            card,
            status,
            interrupt,
        };
        (far, transport)
    }

    fn raise(&self, queue: usize) {
        if self.card.lock().unwrap().queues[queue].wants_interrupts() {
            let (status, interrupt) = (self.status, self.interrupt);
            status.store(1, SeqCst);
            host::interrupt(move || {
                interrupt.handle();
                status.store(0, SeqCst);
            });
        }
    }

    /// Puts a frame into the next receive buffer; `false` if there is none.
    fn send(&self, frame: &[u8]) -> bool {
        let mut card = self.card.lock().unwrap();
        let queue = &mut card.queues[RECEIVE];
        let Some((head, address, len)) = queue.take() else {
            return false;
        };
        assert!(len as usize >= HEADER + frame.len());
        // SAFETY: the driver gave the buffer to the card.
        unsafe {
            let buffer = address as *mut u8;
            buffer.write_bytes(0, HEADER);
            buffer.add(HEADER).copy_from(frame.as_ptr(), frame.len());
        }
        queue.give(head.into(), (HEADER + frame.len()) as u32);
        drop(card);
        self.raise(RECEIVE);
        true
    }

    /// Takes the frames that were sent.
    fn sent(&self) -> VecDeque<Vec<u8>> {
        let mut card = self.card.lock().unwrap();
        let queue = &mut card.queues[SEND];
        let mut frames = VecDeque::new();
        while let Some((head, address, len)) = queue.take() {
            // SAFETY: the driver gave the buffer to the card.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) };
            assert_eq!(bytes[..HEADER], [0; HEADER]);
            frames.push_back(bytes[HEADER..].to_vec());
            queue.give(head.into(), 0);
        }
        drop(card);
        self.raise(SEND);
        frames
    }
}

struct FakeTransport(Arc<Mutex<Card>>);

impl FakeTransport {
    fn card(&self) -> std::sync::MutexGuard<'_, Card> {
        self.0.lock().unwrap()
    }
}

impl Transport for FakeTransport {
    fn device_type(&self) -> DeviceType {
        DeviceType::Network
    }

    fn read_device_features(&mut self) -> u64 {
        VERSION_1 | MAC | EVENT_IDX
    }

    fn write_driver_features(&mut self, features: u64) {
        self.card().features = features;
    }

    fn max_queue_size(&mut self, _: u16) -> u32 {
        256
    }

    fn notify(&mut self, queue: u16) {
        self.card().kicks[usize::from(queue)] += 1;
    }

    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_retain(self.card().status)
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.card().status = status.bits();
    }

    fn set_guest_page_size(&mut self, _: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(&mut self, queue: u16, size: u32, descriptors: u64, available: u64, used: u64) {
        self.card().queues[usize::from(queue)] = Queue {
            size: size as u16,
            descriptors,
            available,
            used,
            ..Queue::default()
        };
    }

    fn queue_unset(&mut self, _: u16) {}

    fn queue_used(&mut self, queue: u16) -> bool {
        self.card().queues[usize::from(queue)].size != 0
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        0
    }

    fn read_config_space<T: zerocopy::FromBytes + zerocopy::IntoBytes>(
        &self,
        offset: usize,
    ) -> virtio_drivers::Result<T> {
        let space = [&STACK_MAC[..], &[0; 10]].concat();
        T::read_from_prefix(&space[offset..])
            .map(|(value, _)| value)
            .map_err(|_| virtio_drivers::Error::ConfigSpaceTooSmall)
    }

    fn write_config_space<T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        _: usize,
        _: T,
    ) -> virtio_drivers::Result<()> {
        Err(virtio_drivers::Error::Unsupported)
    }
}

fn start() -> (net::Stack, Far) {
    host::set_clock(START);
    runtime::init();
    let (far, transport) = Far::new();
    let card = VirtioNet::new(transport, far.interrupt).unwrap();
    let config = Config::from(Ipv4Config {
        address: STACK_IP,
        prefix_len: 24,
        gateway: None,
    });
    let stack = net::start(Device::virtio(card), config, 7);
    block_on(yield_now());
    host::advance(100 * MS);
    (stack, far)
}

#[test]
fn event_idx_is_not_negotiated() {
    let (_stack, far) = start();
    assert_eq!(far.card.lock().unwrap().features, VERSION_1 | MAC);
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
    let kicks = far.card.lock().unwrap().kicks[SEND];
    host::advance(100 * MS);
    assert!(far.card.lock().unwrap().kicks[SEND] > kicks);
    far.sent();
    host::advance(2000 * MS);
    let kicks = far.card.lock().unwrap().kicks[SEND];
    host::advance(10_000 * MS);
    assert_eq!(far.card.lock().unwrap().kicks[SEND], kicks);
}

/// What the card writes into the used rings can be anything.
#[derive(Clone, Debug)]
enum Mischief {
    Used { send: bool, id: u32, len: u32 },
    Jump { send: bool, by: u16 },
    Frame,
}

fn mischief() -> impl Strategy<Value = Mischief> {
    let id = prop_oneof![0..300_u32, any::<u32>()];
    let len = prop_oneof![0..2000_u32, any::<u32>()];
    prop_oneof![
        (any::<bool>(), id, len).prop_map(|(send, id, len)| Mischief::Used { send, id, len }),
        (any::<bool>(), any::<u16>()).prop_map(|(send, by)| Mischief::Jump { send, by }),
        Just(Mischief::Frame),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_card_that_lies_is_survived(acts in proptest::collection::vec(mischief(), 1..20)) {
        let (stack, far) = start();
        let listener = TcpListener::bind(stack, 80).unwrap();
        far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        for act in acts {
            match act {
                Mischief::Used { send, id, len } => {
                    far.card.lock().unwrap().queues[usize::from(send)].give(id, len);
                }
                Mischief::Jump { send, by } => {
                    let mut card = far.card.lock().unwrap();
                    let queue = &mut card.queues[usize::from(send)];
                    queue.next_used = queue.next_used.wrapping_add(by);
                    let (used, index) = (queue.used, queue.next_used);
                    // SAFETY: the driver has set the queue up.
                    unsafe { Queue::write(used + 2, index) };
                }
                Mischief::Frame => {
                    far.send(&segment(PEER_IP, (9, 80), TcpControl::Syn, 1, None));
                }
            }
            far.raise(RECEIVE);
            host::advance(2 * MS);
            far.sent();
        }
        host::advance(Duration::from_secs(30));
        let _ = block_on(timeout(Duration::ZERO, listener.accept()));
    }
}
