//! Walking the stack by frame pointers.
//!
//! The image is built with them. Interrupt entries keep the chain, so that a
//! backtrace goes through an interrupt, and through the switch to the bottom
//! half's stack, to the code that was interrupted.

use core::arch::asm;
use core::fmt;
use core::ptr;

use super::paging::Image;
use super::stacks;

/// Longer backtraces are cut.
const MAX_FRAMES: u32 = 48;

/// The return addresses on the stack, from the inside out.
///
/// It displays as lines `  #3 0x0000000000101234`, which `cargo xtask` adds the
/// names to. Frame 0 is the instruction itself, where that is known; all others
/// are return addresses.
#[derive(Clone, Copy, Debug)]
pub struct Backtrace {
    instruction: Option<u64>,
    frame_pointer: u64,
}

impl Backtrace {
    /// From the caller of this function outwards.
    #[inline(always)]
    pub fn here() -> Self {
        let frame_pointer;
        // SAFETY: only reads a register.
        unsafe { asm!("mov {}, rbp", out(reg) frame_pointer, options(nomem, nostack)) };
        Self {
            instruction: None,
            frame_pointer,
        }
    }

    /// From the instruction that an exception interrupted outwards.
    pub(super) fn interrupted(instruction: u64, frame_pointer: u64) -> Self {
        Self {
            instruction: Some(instruction),
            frame_pointer,
        }
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stacks = stacks::all();
        let image = Image::get();
        if let Some(instruction) = self.instruction {
            writeln!(f, "  #0 {instruction:#018x}")?;
        }
        let mut frame = self.frame_pointer;
        for number in 1..=MAX_FRAMES {
            // A frame holds the outer frame pointer and the return address.
            let is_frame = |address: u64| {
                let mut stacks = stacks.iter();
                address.is_multiple_of(8)
                    && stacks.any(|stack| {
                        stack.area.contains(&address)
                            && stack.area.end - address >= 2 * size_of::<u64>() as u64
                    })
            };
            if !is_frame(frame) {
                break;
            }
            let words = ptr::with_exposed_provenance::<[u64; 2]>(frame as usize);
            // SAFETY: both words lie in one of our stacks, which are mapped and
            // always readable, and the address is aligned.
            let [outer, return_address] = unsafe { words.read_volatile() };
            if !(image.start..image.text_end).contains(&return_address) {
                break;
            }
            writeln!(f, "  #{number} {return_address:#018x}")?;
            if outer == frame {
                break;
            }
            frame = outer;
        }
        Ok(())
    }
}
