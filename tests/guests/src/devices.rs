//! A device's interrupt, from its line to the future that waits for it. The
//! device is the serial port, whose line is pin 4 of the I/O APIC.

#![no_std]
#![no_main]

use core::arch::asm;
use core::future::poll_fn;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::task::Poll;

use firstpoll::arch::{self, IrqError, register_irq};
use firstpoll::runtime::Runtime;
use firstpoll::sync::WakerSlot;
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, println};

firstpoll::entry!(main);

const LINE: u8 = 4;
const INTERRUPT_ENABLE: u16 = 0x3f9;
const INTERRUPT_IDENTITY: u16 = 0x3fa;
/// Interrupts when there is room for output, which there always is.
const TRANSMITTER_EMPTY: u8 = 1 << 1;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static SLOT: WakerSlot = WakerSlot::new();

fn main(_: Runtime) {
    // Before anybody handles it: nothing happens.
    raise();
    block_on(sleep(Duration::from_millis(1)));
    assert_eq!(COUNT.load(Relaxed), 0, "the line was not masked");

    // It is handled as soon as there is a handler.
    register_irq(LINE, on_interrupt, 7).expect("the machine has the line");
    assert_eq!(COUNT.load(Relaxed), 7, "the waiting interrupt was lost");

    for round in 2..=1_000 {
        let mut raised = false;
        block_on(poll_fn(|context| {
            SLOT.register(context.waker());
            if !raised {
                raised = true;
                raise();
            }
            match COUNT.load(Relaxed) {
                count if count >= 7 * round => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        assert_eq!(COUNT.load(Relaxed), 7 * round, "an interrupt came twice");
    }

    for _ in 1..4 {
        register_irq(LINE, |_| {}, 0).expect("a line can be shared");
    }
    assert_eq!(register_irq(LINE, |_| {}, 0), Err(IrqError::LineFull));
    for missing in [24, 200, u8::MAX] {
        let result = register_irq(missing, |_| {}, 0);
        assert_eq!(result, Err(IrqError::NoSuchLine));
    }
    println!("device_interrupts {}", arch::interrupt_counts().device);
    println!("spurious_interrupts {}", arch::interrupt_counts().spurious);
}

/// Lets the serial port interrupt.
fn raise() {
    // SAFETY: the port is the serial port's; only its interrupts change.
    unsafe {
        asm!("out dx, al", in("dx") INTERRUPT_ENABLE, in("al") 0u8);
        asm!("out dx, al", in("dx") INTERRUPT_ENABLE, in("al") TRANSMITTER_EMPTY);
    }
}

/// The handler: makes the device take its interrupt back, and wakes.
fn on_interrupt(context: usize) {
    // SAFETY: as above; reading the identity takes the interrupt back.
    unsafe { asm!("in al, dx", in("dx") INTERRUPT_IDENTITY, out("al") _) };
    COUNT.fetch_add(context, Relaxed);
    SLOT.wake();
}
