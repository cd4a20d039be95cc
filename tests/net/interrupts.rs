//! What a card's interrupt does to the card, and what it tells.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use firstpoll::drivers::virtio_net::{Acknowledge, Interrupt};

fn by_write() -> (&'static Interrupt, &'static [AtomicU32; 2]) {
    let registers: &'static [AtomicU32; 2] = Box::leak(Box::default());
    let [status, acknowledge] = registers;
    // SAFETY: they live for ever.
    let interrupt = unsafe {
        Interrupt::new(Acknowledge::ByWrite {
            status: NonNull::from(status).cast(),
            acknowledge: NonNull::from(acknowledge).cast(),
        })
    };
    (interrupt, registers)
}

#[test]
fn what_was_seen_is_taken_back() {
    let (interrupt, [status, acknowledge]) = by_write();
    for seen in [1, 2, 3] {
        status.store(seen, Ordering::Relaxed);
        interrupt.handle();
        assert_eq!(acknowledge.load(Ordering::Relaxed), seen);
        assert_eq!(interrupt.take_config_change(), seen & 2 != 0);
        assert!(!interrupt.take_config_change(), "it was taken");
    }
    assert_eq!(interrupt.count(), 3);
}

#[test]
fn a_message_needs_no_look_at_the_device() {
    let (interrupt, [_, acknowledge]) = by_write();
    acknowledge.store(77, Ordering::Relaxed);
    interrupt.on_queue();
    assert!(!interrupt.take_config_change());
    interrupt.on_config();
    assert!(interrupt.take_config_change());
    assert_eq!(interrupt.count(), 2);
    assert_eq!(acknowledge.load(Ordering::Relaxed), 77);
}

#[test]
fn the_interrupt_of_another_device_is_left_alone() {
    let (interrupt, [_, acknowledge]) = by_write();
    acknowledge.store(77, Ordering::Relaxed);
    interrupt.handle();
    assert_eq!(interrupt.count(), 0);
    assert_eq!(acknowledge.load(Ordering::Relaxed), 77);
}

#[test]
fn a_changed_configuration_is_told_from_a_used_buffer() {
    let status: &'static AtomicU32 = Box::leak(Box::default());
    // SAFETY: it lives for ever.
    let interrupt = unsafe { Interrupt::new(Acknowledge::ByRead(NonNull::from(status).cast())) };
    status.store(1, Ordering::Relaxed);
    interrupt.handle();
    assert!(!interrupt.take_config_change());
    status.store(3, Ordering::Relaxed);
    interrupt.handle();
    assert!(interrupt.take_config_change());
    assert_eq!(interrupt.count(), 2);
}
