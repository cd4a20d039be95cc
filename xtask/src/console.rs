//! What becomes of the guest's console output on its way to the terminal.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::qemu::Net;
use crate::symbols::{Frame, Symbols};

/// How many lines are kept for the report of a hang.
const KEPT_LINES: usize = 10;

/// How the guest says that it accepts connections.
const LISTENING: &str = "listening on port ";

/// Passes console output on, line by line.
///
/// Lines go through unchanged but for two kinds: `listening on port 80` turns
/// into the address that leads there, and backtrace frames gain function, file
/// and line. A line that stays incomplete is passed on by [`flush`](Self::flush).
#[derive(Debug)]
pub struct Console<W> {
    out: W,
    net: Net,
    image: PathBuf,
    symbols: Option<Option<Symbols>>,
    line: Vec<u8>,
    /// How much of `line` has been passed on already.
    shown: usize,
    last_lines: VecDeque<String>,
}

impl<W: Write> Console<W> {
    /// A console of a guest that runs `image` on `net`.
    pub fn new(out: W, net: Net, image: &Path) -> Self {
        Self {
            out,
            net,
            image: image.to_owned(),
            symbols: None,
            line: Vec::new(),
            shown: 0,
            last_lines: VecDeque::new(),
        }
    }

    /// Takes output from the guest, in pieces of any size, and passes complete
    /// lines on at once.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        self.out.flush()
    }

    /// Passes on what there is of an incomplete line.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line[self.shown..])?;
        self.shown = self.line.len();
        self.out.flush()
    }

    /// The last lines of the guest, an incomplete one included.
    pub fn last_lines(&self) -> impl Iterator<Item = String> {
        let partial = (!self.line.is_empty()).then(|| text(&self.line));
        self.last_lines.iter().cloned().chain(partial)
    }

    /// The debug information of the image.
    pub fn symbols(&mut self) -> Option<&Symbols> {
        let image = &self.image;
        let symbols = self.symbols.get_or_insert_with(|| Symbols::load(image));
        symbols.as_ref()
    }

    fn end_line(&mut self) -> io::Result<()> {
        let text = text(&self.line);
        if let Some(address) = self.address(&text) {
            // What has been shown cannot be taken back: end it first.
            if self.shown > 0 {
                self.out.write_all(&self.line[self.shown..])?;
            }
            writeln!(self.out, "listening on {address}")?;
        } else if let Some(place) = self.place(&text) {
            let rest = &self.line[self.shown..];
            self.out.write_all(rest.trim_ascii_end())?;
            writeln!(self.out, " {place}")?;
        } else {
            self.out.write_all(&self.line[self.shown..])?;
        }
        if self.last_lines.len() == KEPT_LINES {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(text);
        self.line.clear();
        self.shown = 0;
        Ok(())
    }

    /// The address for `line`, if that says that the guest listens.
    fn address(&self, line: &str) -> Option<String> {
        let guest_port = line.strip_prefix(LISTENING)?.parse().ok()?;
        let host_port = self.net.host_port(guest_port)?;
        Some(format!("http://127.0.0.1:{host_port}"))
    }

    /// The place in the program for `line`, if that is a backtrace frame.
    fn place(&mut self, line: &str) -> Option<String> {
        let frame = Frame::parse(line)?;
        self.symbols()?.describe_frame(frame)
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::Forward;

    fn console() -> Console<Vec<u8>> {
        let net = Net::User(vec![Forward::tcp(8080, 80)]);
        Console::new(Vec::new(), net, Path::new("/no/such/image"))
    }

    fn output(console: &Console<Vec<u8>>) -> &str {
        std::str::from_utf8(&console.out).expect("what went in is text")
    }

    #[test]
    fn lines_pass_unchanged_whatever_the_pieces() {
        let input = "one\r\n\ntwo\n  #1 0x10 \nlistening on port 81\n";
        for size in 1..=input.len() {
            let mut console = console();
            for piece in input.as_bytes().chunks(size) {
                console.feed(piece).expect("a Vec takes everything");
            }
            assert_eq!(output(&console), input, "in pieces of {size}");
        }
    }

    #[test]
    fn listening_becomes_an_address() -> io::Result<()> {
        let mut console = console();
        console.feed(b"up\nlistening on po")?;
        assert_eq!(output(&console), "up\n");
        console.feed(b"rt 80\r\n")?;
        assert_eq!(output(&console), "up\nlistening on http://127.0.0.1:8080\n");
        Ok(())
    }

    #[test]
    fn other_networks_have_no_address() -> io::Result<()> {
        let mut console = Console::new(Vec::new(), Net::None, Path::new("/none"));
        console.feed(b"listening on port 80\n")?;
        assert_eq!(output(&console), "listening on port 80\n");
        Ok(())
    }

    #[test]
    fn an_incomplete_line_is_shown_once() -> io::Result<()> {
        let mut console = console();
        console.feed(b"half")?;
        assert_eq!(output(&console), "");
        console.flush()?;
        console.flush()?;
        assert_eq!(output(&console), "half");
        console.feed(b" a line\n")?;
        assert_eq!(output(&console), "half a line\n");
        Ok(())
    }

    #[test]
    fn an_address_follows_even_if_the_line_was_shown() -> io::Result<()> {
        let mut console = console();
        console.feed(b"listening on ")?;
        console.flush()?;
        console.feed(b"port 80\n")?;
        let expected = "listening on port 80\nlistening on http://127.0.0.1:8080\n";
        assert_eq!(output(&console), expected);
        Ok(())
    }

    #[test]
    fn the_last_lines_are_kept() -> io::Result<()> {
        let mut console = console();
        for number in 0..20 {
            console.feed(format!("{number}\n").as_bytes())?;
        }
        console.feed(b"part")?;
        let lines: Vec<_> = console.last_lines().collect();
        assert_eq!(lines.len(), KEPT_LINES + 1);
        assert_eq!(lines.first().map(String::as_str), Some("10"));
        assert_eq!(lines.last().map(String::as_str), Some("part"));
        Ok(())
    }
}
