//! The console: text out of the first serial port.
//!
//! Everything may write to it. Text goes out in pieces under a lock that masks
//! interrupts, so that a piece is never torn; the last words of the kernel go
//! around the lock, which its victim may hold.

use core::fmt::{self, Write};

use uart_16550::{Config, Uart16550};

use crate::arch::ConsolePort;
use crate::sync::InterruptMutex;

/// Text is collected up to this size before it takes the lock.
const PIECE_BYTES: usize = 160;

static CONSOLE: InterruptMutex<Console> = InterruptMutex::new(Console::closed());

/// The serial port, opened at the first use.
struct Console {
    state: State,
}

enum State {
    Closed,
    Open(Uart16550<ConsolePort>),
    /// There is no serial port: what is written is lost.
    Absent,
}

impl Console {
    const fn closed() -> Self {
        Self {
            state: State::Closed,
        }
    }

    fn write(&mut self, text: &[u8]) {
        if let State::Closed = self.state {
            // SAFETY: the first serial port is the console's alone.
            let mut uart = unsafe { Uart16550::new_with_backend(ConsolePort::new()) };
            self.state = match uart.init(Config::default()) {
                Ok(()) => State::Open(uart),
                Err(_) => State::Absent,
            };
        }
        if let State::Open(uart) = &mut self.state {
            uart.send_bytes_exact(text);
        }
    }
}

/// Writes formatted text.
///
/// # Interrupt safety
///
/// May be called from anywhere; interrupts are masked while a piece goes out.
pub fn print(text: fmt::Arguments<'_>) {
    let mut pieces = Pieces::new(|piece| CONSOLE.lock().write(piece));
    // Formatting fails only where a `Display` does; what there is goes out.
    let _ = pieces.write_fmt(text);
    pieces.flush();
}

/// Writes formatted text around the lock and whatever state its holder left:
/// for the last words of the kernel.
pub fn print_unlocked(text: fmt::Arguments<'_>) {
    let mut console = Console::closed();
    let mut pieces = Pieces::new(|piece| console.write(piece));
    let _ = pieces.write_fmt(text);
    pieces.flush();
}

/// Collects text into pieces.
struct Pieces<F: FnMut(&[u8])> {
    buffer: [u8; PIECE_BYTES],
    length: usize,
    out: F,
}

impl<F: FnMut(&[u8])> Pieces<F> {
    fn new(out: F) -> Self {
        Self {
            buffer: [0; PIECE_BYTES],
            length: 0,
            out,
        }
    }

    fn flush(&mut self) {
        if self.length > 0 {
            (self.out)(&self.buffer[..self.length]);
            self.length = 0;
        }
    }
}

impl<F: FnMut(&[u8])> Write for Pieces<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for mut bytes in text.as_bytes().chunks(PIECE_BYTES) {
            if self.length + bytes.len() > PIECE_BYTES {
                let (head, tail) = bytes.split_at(PIECE_BYTES - self.length);
                self.buffer[self.length..].copy_from_slice(head);
                self.length = PIECE_BYTES;
                self.flush();
                bytes = tail;
            }
            self.buffer[self.length..self.length + bytes.len()].copy_from_slice(bytes);
            self.length += bytes.len();
        }
        Ok(())
    }
}

/// Prints to the console.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => {
        $crate::drivers::console::print(::core::format_args!($($text)*))
    };
}

/// Prints a line to the console.
///
/// # Examples
///
/// ```
/// firstpoll::println!("{} is plenty", 640);
/// ```
#[macro_export]
macro_rules! println {
    () => {
        $crate::print!("\n")
    };
    ($($text:tt)*) => {
        $crate::print!("{}\n", ::core::format_args!($($text)*))
    };
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    fn pieces(texts: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        let mut pieces = Pieces::new(|piece: &[u8]| {
            out.push(String::from_utf8_lossy(piece).into_owned());
        });
        for text in texts {
            pieces.write_str(text).expect("it never fails");
        }
        pieces.flush();
        out
    }

    #[test]
    fn short_texts_become_one_piece() {
        assert_eq!(pieces(&["a", "", "bc"]), ["abc"]);
        assert!(pieces(&[]).is_empty());
    }

    #[test]
    fn long_texts_are_cut_and_complete() {
        for length in [
            PIECE_BYTES - 1,
            PIECE_BYTES,
            PIECE_BYTES + 1,
            5 * PIECE_BYTES,
        ] {
            let long: String = ('a'..='z').cycle().take(length).collect();
            let pieces = pieces(&["x", &long, "y"]);
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
            assert_eq!(pieces.concat(), std::format!("x{long}y"));
        }
    }
}
