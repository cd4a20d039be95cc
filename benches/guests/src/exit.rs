//! A kernel that does nothing but exit: what the machine and the loader take.

#![no_std]
#![no_main]

use core::arch::naked_asm;
use core::panic::PanicInfo;

pvh::xen_elfnote_phys32_entry!(firstpoll_start);

/// The exit device of `cargo xtask run`, and its code for success.
const EXIT_PORT: u16 = 0xf4;
const SUCCESS: u32 = 0x10;

/// The entry point, which the linker script names.
///
/// # Safety
///
/// For the loader only.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn firstpoll_start() -> ! {
    naked_asm!(
        ".code32",
        "mov dx, {port}",
        "mov eax, {success}",
        "out dx, eax",
        "2: hlt",
        "jmp 2b",
        ".code64",
        port = const EXIT_PORT,
        success = const SUCCESS,
    )
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
