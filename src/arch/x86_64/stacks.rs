//! The stacks of the one core, each with a guard page below it.

use core::cell::UnsafeCell;
use core::ops::Range;

/// The guard page's size.
const GUARD_BYTES: usize = 4096;

/// The program's stack.
pub(super) static BOOT_STACK: BootStack = Stack::new();
/// The bottom half's stack.
pub(super) static BOTTOM_HALF_STACK: BottomHalfStack = Stack::new();
/// The stack of double faults, most of which are overflows of another.
pub(super) static DOUBLE_FAULT_STACK: ExceptionStack = Stack::new();
/// The stack of non-maskable interrupts.
pub(super) static NMI_STACK: ExceptionStack = Stack::new();
/// The stack of machine checks.
pub(super) static MACHINE_CHECK_STACK: ExceptionStack = Stack::new();

pub(super) type BootStack = Stack<{ 256 << 10 }>;
pub(super) type BottomHalfStack = Stack<{ 64 << 10 }>;
pub(super) type ExceptionStack = Stack<{ 16 << 10 }>;

/// Memory for a stack, above a page that paging leaves unmapped.
#[repr(C, align(4096))]
pub(super) struct Stack<const BYTES: usize> {
    guard: [u8; GUARD_BYTES],
    memory: UnsafeCell<[u8; BYTES]>,
}

// SAFETY: nothing in Rust reads or writes the memory through this type; the
// processor uses it as the stack of one flow of control at a time.
unsafe impl<const BYTES: usize> Sync for Stack<BYTES> {}

impl<const BYTES: usize> Stack<BYTES> {
    const fn new() -> Self {
        Self {
            guard: [0; GUARD_BYTES],
            memory: UnsafeCell::new([0; BYTES]),
        }
    }

    /// The address right above the stack, where it starts.
    pub(super) fn top(&'static self) -> u64 {
        self.area().end
    }

    fn area(&'static self) -> Range<u64> {
        let start = self.memory.get().addr() as u64;
        start..start + BYTES as u64
    }

    fn named(&'static self, name: &'static str) -> NamedStack {
        NamedStack {
            name,
            guard: self.guard.as_ptr().addr() as u64,
            area: self.area(),
        }
    }
}

/// A stack as reports show it.
#[derive(Debug)]
pub(super) struct NamedStack {
    pub(super) name: &'static str,
    /// Where its guard page is.
    pub(super) guard: u64,
    pub(super) area: Range<u64>,
}

impl NamedStack {
    /// Whether `address` lies in the guard page.
    pub(super) fn guards(&self, address: u64) -> bool {
        (self.guard..self.area.start).contains(&address)
    }

    /// Whether a stack pointer of `address` belongs to this stack.
    pub(super) fn holds(&self, address: u64) -> bool {
        (self.area.start..=self.area.end).contains(&address)
    }
}

/// All stacks.
pub(super) fn all() -> [NamedStack; 5] {
    [
        BOOT_STACK.named("program's stack"),
        BOTTOM_HALF_STACK.named("bottom half's stack"),
        DOUBLE_FAULT_STACK.named("double fault's stack"),
        NMI_STACK.named("NMI's stack"),
        MACHINE_CHECK_STACK.named("machine check's stack"),
    ]
}
