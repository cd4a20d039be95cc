//! The images themselves: their segments and their size.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use firstpoll_qemu_tests::http::Client;
use firstpoll_qemu_tests::network::BOOT_TIMEOUT;
use xtask::cargo::{self, Profile};
use xtask::guest::Guest;
use xtask::qemu::{self, Options};

/// An image of the server that answers side by side, without symbols, is
/// smaller than this.
const LIMIT_BYTES: u64 = 400 << 10;

#[test]
fn no_segment_is_writable_and_executable() -> Result<()> {
    let image = cargo::build_image("hello", Profile::Release)?;
    let elf = std::fs::read(image)?;
    let read = |offset: usize, bytes: usize| -> Result<u64> {
        let bytes = elf.get(offset..offset + bytes).context("a short file")?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (table, size, count) = (read(32, 8)? as usize, read(54, 2)?, read(56, 2)?);
    let mut kinds = Vec::new();
    for header in 0..count {
        let header = table + (header * size) as usize;
        let (kind, flags) = (read(header, 4)?, read(header + 4, 4)?);
        const EXECUTE_WRITE: u64 = 0b11;
        assert_ne!(flags & EXECUTE_WRITE, EXECUTE_WRITE);
        kinds.push((kind, flags));
    }
    // Loaded for reading and executing, reading, reading and writing; the note.
    assert_eq!(kinds, [(1, 0b101), (1, 0b100), (1, 0b110), (4, 0b100)]);
    Ok(())
}

/// The program `name` without its symbols.
fn stripped(name: &str) -> Result<PathBuf> {
    let image = cargo::build_image(name, Profile::Release)?;
    let stripped = image.with_file_name(format!("{name}-stripped"));
    let mut strip = Command::new("strip");
    let status = strip.arg("-o").arg(&stripped).arg(&image).status();
    let status = status.context("cannot start strip, of binutils")?;
    ensure!(status.success(), "strip: {status}");
    Ok(stripped)
}

#[test]
fn the_server_is_small() -> Result<()> {
    let image = stripped("httpd")?;
    let bytes = image.metadata()?.len();
    println!("{bytes} bytes");
    assert!(bytes < LIMIT_BYTES, "the image has {bytes} bytes");

    let port = qemu::free_port(0)?;
    let mut guest = Guest::boot(&Options::default().forward_http(port), &image)?;
    guest.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let response = Client::connect(([127, 0, 0, 1], port).into())?.get("/")?;
    assert_eq!(response.status, 200);
    Ok(())
}
