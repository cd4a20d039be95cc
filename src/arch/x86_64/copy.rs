//! Copying memory: the compiler's `memcpy`.
//!
//! The one that comes with `core` is made of string instructions, of which each
//! takes tens of cycles to begin, and which an emulator does word by word. This
//! one copies words: first those at the start, then the last two, which may
//! overlap them. `copies` of the bench guests compares them.

use core::arch::naked_asm;

/// Copies `len` bytes from `from` to `to`, which do not overlap; returns `to`.
///
/// # Safety
///
/// As C's function of that name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 5f",
        // The last sixteen bytes, and where they go.
        "mov r8, [rsi + rdx - 16]",
        "mov r9, [rsi + rdx - 8]",
        "lea r10, [rdi + rdx - 16]",
        "sub rdx, 80",
        "jb 3f",
        // As long as 64 bytes stand before them.
        "2:",
        "mov rcx, [rsi]",
        "mov r11, [rsi + 8]",
        "mov [rdi], rcx",
        "mov [rdi + 8], r11",
        "mov rcx, [rsi + 16]",
        "mov r11, [rsi + 24]",
        "mov [rdi + 16], rcx",
        "mov [rdi + 24], r11",
        "mov rcx, [rsi + 32]",
        "mov r11, [rsi + 40]",
        "mov [rdi + 32], rcx",
        "mov [rdi + 40], r11",
        "mov rcx, [rsi + 48]",
        "mov r11, [rsi + 56]",
        "mov [rdi + 48], rcx",
        "mov [rdi + 56], r11",
        "add rsi, 64",
        "add rdi, 64",
        "sub rdx, 64",
        "jae 2b",
        // What stands before them still.
        "3:",
        "cmp rdi, r10",
        "jae 4f",
        "mov rcx, [rsi]",
        "mov r11, [rsi + 8]",
        "mov [rdi], rcx",
        "mov [rdi + 8], r11",
        "add rsi, 16",
        "add rdi, 16",
        "jmp 3b",
        "4:",
        "mov [r10], r8",
        "mov [r10 + 8], r9",
        "ret",
        // Fewer than sixteen: from both ends.
        "5:",
        "cmp edx, 8",
        "jb 6f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "6:",
        "cmp edx, 4",
        "jb 7f",
        "mov ecx, [rsi]",
        "mov r8d, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], r8d",
        "ret",
        // At most three: the first, the one in the middle, and the last.
        "7:",
        "test edx, edx",
        "jz 8f",
        "mov r9d, edx",
        "shr r9d",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + r9]",
        "movzx r11d, byte ptr [rsi + rdx - 1]",
        "mov [rdi], cl",
        "mov [rdi + r9], r8b",
        "mov [rdi + rdx - 1], r11b",
        "8:",
        "ret",
    )
}
