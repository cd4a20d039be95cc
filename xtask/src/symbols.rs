//! Names and lines for addresses, from the image's debug information.

use std::path::{Path, PathBuf};

use addr2line::{Loader, Location};

use crate::workspace;

/// The debug information of one image.
pub struct Symbols {
    loader: Loader,
    root: PathBuf,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").finish_non_exhaustive()
    }
}

impl Symbols {
    /// Reads the debug information of `image`, if it has any.
    pub fn load(image: &Path) -> Option<Self> {
        Some(Self {
            loader: Loader::new(image).ok()?,
            root: workspace::root(),
        })
    }

    /// Where `address` is: `function at file:line`, and where that is inlined.
    pub fn describe(&self, address: u64) -> Option<String> {
        // The last address there is has none after it, which addr2line needs.
        address.checked_add(1)?;
        let symbol = self.loader.find_symbol(address).map(demangled);
        let mut frames = self.loader.find_frames(address).ok()?;
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.demangle().ok());
            places.push((name.map(String::from), frame.location));
        }
        // The symbol table has the whole path of the function that all others
        // are inlined into, and of functions without debug information.
        match places.last_mut() {
            Some((name, _)) => *name = symbol.or(name.take()),
            None => places.push((Some(symbol?), None)),
        }
        let places = places.into_iter().map(|(name, location)| {
            let name = name.unwrap_or_else(|| "?".to_owned());
            match location.and_then(|location| self.line(&location)) {
                Some(line) => format!("{name} at {line}"),
                None => name,
            }
        });
        Some(places.collect::<Vec<_>>().join(", inlined into "))
    }

    /// `file:line`, from the workspace's root if it is below.
    fn line(&self, location: &Location<'_>) -> Option<String> {
        let file = Path::new(location.file?);
        let file = file.strip_prefix(&self.root).unwrap_or(file).display();
        Some(match location.line {
            Some(line) => format!("{file}:{line}"),
            None => file.to_string(),
        })
    }

    /// Where the frame of a backtrace is.
    ///
    /// Frame 0 is the address where it stopped. The others are return
    /// addresses, which may already belong to the next line or, after a call
    /// that never returns, to the next function: the byte before does not.
    pub fn describe_frame(&self, frame: Frame) -> Option<String> {
        match frame.number {
            0 => self.describe(frame.address),
            _ => self.describe(frame.address.checked_sub(1)?),
        }
    }
}

/// A line of a backtrace, `  #3 0x0000000000101234`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Counts from the innermost, which is 0.
    pub number: u32,
    /// The address in it.
    pub address: u64,
}

impl Frame {
    /// The frame in `line`, if it is one and nothing else.
    pub fn parse(line: &str) -> Option<Self> {
        let (number, address) = line.trim().strip_prefix('#')?.split_once(' ')?;
        let digits = address.trim_start().strip_prefix("0x")?;
        Some(Self {
            number: number.parse().ok()?,
            address: u64::from_str_radix(digits, 16).ok()?,
        })
    }
}

fn demangled(symbol: &str) -> String {
    addr2line::demangle_auto(symbol.into(), None).into()
}

/// The instruction pointer in the monitor's `info registers`.
pub fn instruction_pointer(registers: &str) -> Option<u64> {
    let mut words = registers.split_whitespace();
    let digits = words.find_map(|word| word.strip_prefix("RIP="))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lines_of_their_own() {
        let frame = Frame::parse("  #3 0x0000000000101234\r");
        assert_eq!(
            frame,
            Some(Frame {
                number: 3,
                address: 0x10_1234
            })
        );
        for other in ["", "#3", "# 0x1", "#3 1234", "see #3 0x1", "#3 0x1 main"] {
            assert_eq!(Frame::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_instruction_pointer_is_found() {
        let registers = "CPU#0\nRAX=0 RBX=1\nRIP=0000000000101234 RFL=00000046\n";
        assert_eq!(instruction_pointer(registers), Some(0x10_1234));
        assert_eq!(instruction_pointer("RAX=0"), None);
    }

    #[inline(never)]
    fn landmark() -> u32 {
        line!()
    }

    #[test]
    fn our_own_functions_are_found() {
        let own = std::env::current_exe().expect("we have an image");
        let symbols = Symbols::load(&own).expect("tests have debug information");
        let offset = landmark as *const () as u64 - image_base();
        let base = symbols.loader.relative_address_base();
        let text = symbols.describe(base + offset).expect("a known function");
        assert!(
            text.contains("tests::landmark at xtask/src/symbols.rs:"),
            "{text}"
        );
        assert_eq!(symbols.describe(u64::MAX), None);
        assert!(landmark() > 0);
    }

    /// Where this process has its image.
    fn image_base() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let own = std::env::current_exe().expect("we have an image");
        let own = own.to_string_lossy();
        let line = maps.lines().find(|line| line.ends_with(own.as_ref()));
        let start = line.and_then(|line| line.split('-').next());
        u64::from_str_radix(start.expect("the image is mapped"), 16).expect("a number")
    }
}
