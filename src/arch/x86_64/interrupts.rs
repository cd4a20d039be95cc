//! Interrupts: the table, the entries, and what they call.
//!
//! ```text
//!   processor → entry::<VECTOR> → common → on_interrupt → the timer, a device
//!             ← (the bottom half, on its own stack) ←
//! ```
//!
//! Handlers run with interrupts masked, between the runtime's
//! [`Handlers::enter`] and [`Handlers::leave`], on the stack of whatever was
//! interrupted. Exceptions are in [`super::exceptions`].
//!
//! [`Handlers::enter`]: crate::arch::Handlers
//! [`Handlers::leave`]: crate::arch::Handlers

use core::arch::naked_asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use hermit_sync::ExclusiveCell;
use x86_64::VirtAddr;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::{apic, bottom_half, devices, exceptions, gdt, io_apic, pic, timer, vectors};
use crate::arch::{Handlers, InterruptCounts};

/// Written at boot, since the image would hold every byte of it otherwise.
static IDT: ExclusiveCell<MaybeUninit<InterruptDescriptorTable>> =
    ExclusiveCell::new(MaybeUninit::uninit());

static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(core::ptr::null_mut());

static COUNTS: Counts = Counts {
    timer: AtomicU64::new(0),
    device: AtomicU64::new(0),
    spurious: AtomicU64::new(0),
};

struct Counts {
    timer: AtomicU64,
    device: AtomicU64,
    spurious: AtomicU64,
}

/// How many interrupts there have been.
pub fn interrupt_counts() -> InterruptCounts {
    InterruptCounts {
        timer: COUNTS.timer.load(Relaxed),
        device: COUNTS.device.load(Relaxed),
        spurious: COUNTS.spurious.load(Relaxed),
    }
}

/// Registers what interrupts call.
pub fn set_handlers(handlers: &'static Handlers) {
    HANDLERS.store(core::ptr::from_ref(handlers).cast_mut(), Relaxed);
}

/// What is registered, if anything is.
pub(super) fn handlers() -> Option<&'static Handlers> {
    // SAFETY: only `set_handlers` writes the pointer, from a `&'static`.
    unsafe { HANDLERS.load(Relaxed).as_ref() }
}

/// Loads the segments and the interrupt table: from here on exceptions are
/// reported.
///
/// # Panics
///
/// Panics if it is called twice.
pub fn start_traps() {
    gdt::load();
    let idt = IDT.take().expect("the interrupt table is loaded once");
    let idt = idt.write(InterruptDescriptorTable::new());
    exceptions::set_entries(idt);
    for (vector, entry) in (0..=u8::MAX).zip(ENTRIES).skip(vectors::PIC.into()) {
        // SAFETY: the entries are interrupt entries that return by `iretq`.
        unsafe { idt[vector].set_handler_addr(entry.address()) };
    }
    let idt: &'static InterruptDescriptorTable = idt;
    idt.load();
}

/// Starts the interrupt controllers. Interrupts stay masked.
///
/// # Panics
///
/// Panics if the machine has no local APIC.
pub fn start_interrupts() {
    pic::mask();
    apic::start();
    io_apic::start();
}

/// Counts an interrupt that happens now.
fn count(counter: &AtomicU64) {
    // Only interrupts write it, and they do not nest.
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// What every interrupt entry calls. Returns whether the bottom half shall run
/// before what was interrupted goes on.
extern "C" fn on_interrupt(vector: u8) -> bool {
    const PIC_END: u8 = vectors::PIC + vectors::PIC_COUNT;
    if matches!(vector, vectors::PIC..PIC_END | vectors::SPURIOUS) {
        // Neither controller waits for the end of such an interrupt.
        count(&COUNTS.spurious);
        return false;
    }
    let handlers = handlers();
    let attention = handlers.map(|handlers| (handlers.enter)());
    let mut wants_bottom_half = false;
    if vector == vectors::TIMER {
        count(&COUNTS.timer);
        wants_bottom_half = timer::on_interrupt(handlers);
    } else if devices::on_interrupt(vector) {
        count(&COUNTS.device);
    } else {
        count(&COUNTS.spurious);
    }
    apic::end_of_interrupt();
    if let (Some(handlers), Some(attention)) = (handlers, attention) {
        (handlers.leave)(attention);
    }
    wants_bottom_half && bottom_half::claim()
}

/// An address to enter at.
#[derive(Clone, Copy)]
struct Entry(unsafe extern "C" fn());

impl Entry {
    fn address(self) -> VirtAddr {
        VirtAddr::from_ptr(self.0 as *const ())
    }
}

/// Where the processor enters for an interrupt. The frame pointer's chain is
/// kept: the word above the saved one is the address that was interrupted.
#[unsafe(naked)]
unsafe extern "C" fn entry<const VECTOR: u8>() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "mov edi, {vector}",
        "jmp {common}",
        vector = const VECTOR,
        common = sym common,
    )
}

/// Saves what a call may change, calls [`on_interrupt`], and if that says so
/// the bottom half on its own stack.
#[unsafe(naked)]
unsafe extern "C" fn common() {
    naked_asm!(
        "push rsi",
        "push rdx",
        "push rcx",
        "push rax",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "cld",
        // The processor aligns the stack and pushes 5 words; we have pushed 10.
        "sub rsp, 8",
        "call {on_interrupt}",
        "test al, al",
        "jz 2f",
        "mov rsp, offset {stack} + {stack_bytes}",
        "call {bottom_half}",
        "2:",
        "lea rsp, [rbp - 9 * 8]",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rax",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "iretq",
        on_interrupt = sym on_interrupt,
        bottom_half = sym bottom_half::run,
        stack = sym super::stacks::BOTTOM_HALF_STACK,
        stack_bytes = const size_of::<super::stacks::BottomHalfStack>(),
    )
}

/// The entries of all vectors; those of exceptions are not used.
static ENTRIES: [Entry; 256] = {
    /// Fills 16 entries.
    macro_rules! row {
        ($table:ident, $row:literal, $($column:literal)*) => {
            $($table[$row * 16 + $column] = Entry(entry::<{ $row * 16 + $column }>);)*
        };
    }
    macro_rules! rows {
        ($table:ident, $($row:literal)*) => {
            $(row!($table, $row, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);)*
        };
    }
    let mut table = [Entry(entry::<0>); 256];
    rows!(table, 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    table
};
