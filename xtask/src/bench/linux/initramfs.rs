//! The initial file system of the Linux guest, as a cpio archive.
//!
//! The format is `newc`, which the kernel unpacks
//! (Documentation/driver-api/early-userspace/buffer-format.rst). The same files
//! give the same bytes.

use std::io;

use anyhow::{Context, Result};
use cpio::newc::{self, Builder, ModeFileType};

const CONSOLE_MAJOR: u32 = 5;
const CONSOLE_MINOR: u32 = 1;

/// An archive that is being written.
#[derive(Debug, Default)]
pub struct Initramfs {
    archive: Vec<u8>,
    entries: u32,
}

impl Initramfs {
    /// Adds a directory, in which others can then be put.
    ///
    /// # Errors
    ///
    /// If the archive becomes too large.
    pub fn directory(&mut self, path: &str) -> Result<()> {
        let entry = self.entry(path, 0o755, ModeFileType::Directory);
        self.add(entry, path, &[])
    }

    /// Adds a program or another file.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory).
    pub fn file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let entry = self.entry(path, 0o755, ModeFileType::Regular);
        self.add(entry, path, content)
    }

    /// Adds the device that the first process has as stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory).
    pub fn console(&mut self, path: &str) -> Result<()> {
        let entry = self
            .entry(path, 0o600, ModeFileType::Char)
            .rdev_major(CONSOLE_MAJOR)
            .rdev_minor(CONSOLE_MINOR);
        self.add(entry, path, &[])
    }

    /// The complete archive.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory).
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(newc::trailer(self.archive)?)
    }

    fn entry(&mut self, path: &str, permissions: u32, file_type: ModeFileType) -> Builder {
        // Entries of one number would be links to one file.
        self.entries += 1;
        Builder::new(path)
            .ino(self.entries)
            .mode(permissions)
            .set_mode_file_type(file_type)
    }

    fn add(&mut self, entry: Builder, path: &str, mut content: &[u8]) -> Result<()> {
        let add = || -> Result<()> {
            let mut writer = entry.write(&mut self.archive, content.len().try_into()?);
            io::copy(&mut content, &mut writer)?;
            writer.finish()?;
            Ok(())
        };
        add().with_context(|| format!("cannot pack {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn archive() -> Vec<u8> {
        let mut files = Initramfs::default();
        files.directory("dev").expect("it fits");
        files.console("dev/console").expect("it fits");
        files.file("init", b"#!").expect("it fits");
        files.file("empty", b"").expect("it fits");
        files.finish().expect("it fits")
    }

    #[test]
    fn what_is_put_in_comes_out() {
        let bytes = archive();
        let mut rest = &bytes[..];
        let mut entries = Vec::new();
        loop {
            let mut reader = newc::Reader::new(rest).expect("an entry follows");
            if reader.entry().is_trailer() {
                break;
            }
            let mut content = Vec::new();
            reader.read_to_end(&mut content).expect("it is whole");
            let entry = reader.entry();
            let device = (entry.rdev_major(), entry.rdev_minor());
            entries.push((entry.name().to_owned(), entry.mode(), device, content));
            rest = reader.finish().expect("it is whole");
        }
        let entry = |name: &str, mode, device, content: &[u8]| {
            (name.to_owned(), mode, device, content.to_owned())
        };
        assert_eq!(
            entries,
            [
                entry("dev", 0o040755, (0, 0), b""),
                entry("dev/console", 0o020600, (5, 1), b""),
                entry("init", 0o100755, (0, 0), b"#!"),
                entry("empty", 0o100755, (0, 0), b""),
            ]
        );
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(archive(), archive());
    }

    /// buffer-format.rst: a header of 110 ASCII digits, then name and content,
    /// each filled up to a multiple of four bytes.
    #[test]
    fn the_layout_is_the_kernels() {
        let bytes = archive();
        assert!(bytes.starts_with(b"070701"));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[110..114], b"dev\0");
        // "dev" ends at 114; filled up, the next entry begins at 116.
        assert_eq!(&bytes[116..122], b"070701");
    }
}
