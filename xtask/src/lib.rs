//! The front door of firstpoll: builds kernel images, boots them under QEMU,
//! tests everything.
//!
//! The binary is `cargo xtask`. The library is for tests that boot images of
//! their own: build one with [`cargo::build_image`], describe the machine with
//! [`qemu::Options`], start it with [`guest::Guest::boot`].
//!
//! ```no_run
//! use std::time::Duration;
//! use xtask::{cargo, guest::{Ending, Guest}, qemu::Options};
//!
//! # fn main() -> anyhow::Result<()> {
//! let image = cargo::build_image("hello", cargo::Profile::Release)?;
//! let mut guest = Guest::boot(&Options::default(), &image)?;
//! guest.wait_for_line("hello", Duration::from_secs(10))?;
//! assert_eq!(guest.wait(Duration::from_secs(10))?, Ending::Guest(0));
//! # Ok(())
//! # }
//! ```

mod backlog;
pub mod bench;
pub mod cargo;
pub mod ci;
pub mod cli;
pub mod console;
pub mod guest;
mod monitor;
pub mod mutants;
pub mod packages;
pub mod qemu;
pub mod run;
pub mod symbols;
pub mod test;
pub mod toolchain;
mod usage;
pub mod workspace;

pub use usage::Usage;
