//! Exceptions: all are fatal, and all are reported.
//!
//! The report goes to the runtime, which adds what it knows, prints it and ends
//! the machine.

use core::arch::naked_asm;
use core::fmt;

use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, EntryOptions, InterruptDescriptorTable};

use super::backtrace::Backtrace;
use super::gdt::InterruptStack;
use super::{reserved, stacks};

unsafe extern "Rust" {
    /// The runtime's report of what ends the kernel, which the program's
    /// `entry!` defines.
    fn firstpoll_exception(report: &dyn fmt::Display, backtrace: &Backtrace) -> !;
}

const DOUBLE_FAULT: u64 = 8;
const PAGE_FAULT: u64 = 14;

const NAMES: [&str; 32] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid task state segment",
    "segment not present",
    "stack-segment fault",
    "general protection fault",
    "page fault",
    "reserved exception",
    "x87 floating-point exception",
    "alignment check",
    "machine check",
    "SIMD floating-point exception",
    "virtualization exception",
    "control protection exception",
    "reserved exception",
    "reserved exception",
    "reserved exception",
    "reserved exception",
    "reserved exception",
    "reserved exception",
    "hypervisor injection exception",
    "VMM communication exception",
    "security exception",
    "reserved exception",
];

/// Whether the processor pushes an error code.
const fn has_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}

/// What the entries push, the last first.
#[derive(Debug)]
#[repr(C)]
struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    /// Zero where the exception has none.
    error_code: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Where the processor enters for an exception.
#[unsafe(naked)]
unsafe extern "C" fn entry<const VECTOR: u8>() {
    naked_asm!(
        ".if {has_error_code} == 0",
        "push 0",
        ".endif",
        "push {vector}",
        "jmp {common}",
        has_error_code = const has_error_code(VECTOR) as u8,
        vector = const VECTOR,
        common = sym common,
    )
}

/// Saves all registers and reports. The processor aligns the stack and pushes
/// five words; with the error code, the vector and 15 registers it is aligned
/// again.
#[unsafe(naked)]
unsafe extern "C" fn common() {
    naked_asm!(
        "push rax",
        "push rbx",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rbp",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cld",
        "mov rdi, rsp",
        "call {report}",
        "ud2",
        report = sym report,
    )
}

extern "C" fn report(frame: &Frame) -> ! {
    let backtrace = Backtrace::interrupted(frame.rip, frame.rbp);
    // SAFETY: `entry!` defines the function with this signature.
    unsafe { firstpoll_exception(frame, &backtrace) }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.get(self.vector as usize).unwrap_or(&"exception");
        write!(f, "exception {}: {name}", self.vector)?;
        if has_error_code(self.vector as u8) {
            write!(f, ", error code {:#x}", self.error_code)?;
        }
        if self.vector == PAGE_FAULT {
            write!(f, " ({})", PageFault(self.error_code))?;
        }
        if matches!(self.vector, PAGE_FAULT | DOUBLE_FAULT) {
            let address = Cr2::read_raw();
            write!(f, ", address {address:#018x}")?;
            if let Some(stack) = stacks::all().iter().find(|stack| stack.guards(address)) {
                write!(f, ": the {} overflowed", stack.name)?;
            } else if reserved::holds(address) {
                write!(f, ": reserved, but no memory was asked for there")?;
            }
        }
        writeln!(f)?;
        let Self {
            rip,
            rsp,
            rbp,
            rflags,
            cs,
            ss,
            ..
        } = self;
        let Self {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            ..
        } = self;
        let Self {
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            ..
        } = self;
        writeln!(f, "  rip {rip:016x}  rsp {rsp:016x}  rbp {rbp:016x}")?;
        writeln!(f, "  rax {rax:016x}  rbx {rbx:016x}  rcx {rcx:016x}")?;
        writeln!(f, "  rdx {rdx:016x}  rsi {rsi:016x}  rdi {rdi:016x}")?;
        writeln!(f, "  r8  {r8:016x}  r9  {r9:016x}  r10 {r10:016x}")?;
        writeln!(f, "  r11 {r11:016x}  r12 {r12:016x}  r13 {r13:016x}")?;
        writeln!(f, "  r14 {r14:016x}  r15 {r15:016x}  rflags {rflags:x}")?;
        write!(f, "  cs  {cs:x}  ss {ss:x}")
    }
}

/// A page fault's error code, in words.
struct PageFault(u64);

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.0 {
            code if code & 1 << 4 != 0 => "execution",
            code if code & 1 << 1 != 0 => "write",
            _ => "read",
        };
        let cause = match self.0 {
            code if code & 1 << 3 != 0 => "a malformed page table",
            code if code & 1 << 0 != 0 => "not allowed",
            _ => "not mapped",
        };
        write!(f, "{access}: {cause}")
    }
}

/// Sets one entry; once in the image and not for each exception.
///
/// # Safety
///
/// `address` is an entry of the exception that `entry` is for.
#[inline(never)]
unsafe fn set_entry<F>(entry: &mut Entry<F>, address: unsafe extern "C" fn()) -> &mut EntryOptions {
    // SAFETY: as the contract says.
    unsafe { entry.set_handler_addr(VirtAddr::from_ptr(address as *const ())) }
}

/// Sets the entries of all exceptions.
pub(super) fn set_entries(idt: &mut InterruptDescriptorTable) {
    macro_rules! set {
        ($($field:ident $vector:literal,)*) => {
            $(
                let address: unsafe extern "C" fn() = entry::<$vector>;
                // SAFETY: the entry is one of exceptions and does not return.
                unsafe { set_entry(&mut idt.$field, address) };
            )*
        };
    }
    set! {
        divide_error 0,
        debug 1,
        breakpoint 3,
        overflow 4,
        bound_range_exceeded 5,
        invalid_opcode 6,
        device_not_available 7,
        invalid_tss 10,
        segment_not_present 11,
        stack_segment_fault 12,
        general_protection_fault 13,
        page_fault 14,
        x87_floating_point 16,
        alignment_check 17,
        simd_floating_point 19,
        virtualization 20,
        cp_protection_exception 21,
        hv_injection_exception 28,
        vmm_communication_exception 29,
        security_exception 30,
    }
    macro_rules! set_on_own_stack {
        ($($field:ident $vector:literal $stack:ident,)*) => {
            $(
                let address: unsafe extern "C" fn() = entry::<$vector>;
                // SAFETY: as above; the task state segment names a stack of its
                // own for each.
                unsafe {
                    set_entry(&mut idt.$field, address)
                        .set_stack_index(InterruptStack::$stack as u16);
                }
            )*
        };
    }
    set_on_own_stack! {
        non_maskable_interrupt 2 Nmi,
        double_fault 8 DoubleFault,
        machine_check 18 MachineCheck,
    }
}
