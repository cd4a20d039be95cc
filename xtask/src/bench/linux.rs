//! The Linux guest that firstpoll is compared with.
//!
//! Debian's kernel for virtual machines, with an initial file system that holds
//! nothing but the modules of the machine's devices and the static programs of
//! `benches/peers` and `benches/netbench`. It boots with the same QEMU flags as
//! firstpoll.
//!
//! # How it is tuned
//!
//! The card's offloads are on, as virtio-net has them unless told otherwise. The
//! kernel reads the time-stamp counter instead of a device, and the first process
//! says so if it does not. Nothing is logged but errors. Backlogs and descriptors
//! suffice for every connection; no server delays a small segment (`TCP_NODELAY`).
//! Every HTTP server is measured with and without mitigations; netbench without.
//!
//! What was tried, with Linux 6.1.192, the server `epoll` and 128 connections over
//! a tap, in instructions per request: QEMU counted them (`-icount shift=0`), and
//! the guest's TCP timestamps gave the sum for every 1,000 requests, which
//! resolves 1,000 instructions. The least of 4 to 28 such windows, since in the
//! others the guest also waited:
//!
//! | command line | instructions |
//! |---|---|
//! | as here | 20,000 |
//! | `mitigations=off` | 19,000 |
//! | and `lsm=capability apparmor=0 audit=0` | 19,000 |
//! | and `preempt=none` | 19,000 |
//! | and `virtio_net.napi_tx=0` | 19,000 |
//! | and `sysctl.net.core.busy_poll=50 sysctl.net.core.busy_read=50` | 19,000 |
//! | and `nohz=off highres=off` | 20,000 |
//! | and `nokaslr` | 20,000 |
//! | and `sysctl.net.ipv4.tcp_autocorking=0` | 20,000 |
//!
//! `mitigations=off` is measured in any case. Nothing else is kept: no setting
//! differs from it by more than that resolution, and at one connection the rates
//! differed by less than the machine's own drift.

mod initramfs;
mod modules;
mod package;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::initramfs::Initramfs;
use self::modules::Modules;
use self::package::Package;
use super::system::System;
use crate::cargo;
use crate::qemu::{Machine, Options};
use crate::workspace::Workspace;

/// The packages of the static programs.
const PROGRAMS: [&str; 2] = ["firstpoll-bench-peers", "netbench-host"];

/// The modules of the machine's devices.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_net", "virtio_rng"];

/// The kernel command line; the module's description says what else was tried.
const APPEND: &str = "console=ttyS0 quiet panic=-1 clocksource=tsc tsc=reliable";

/// A kernel and an initial file system, to boot any of the servers.
#[derive(Debug, Clone)]
pub struct Linux {
    image: PathBuf,
    initrd: PathBuf,
}

/// What the guest serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// HTTP, by axum on tokio's `current_thread` runtime.
    Axum,
    /// HTTP, by the leanest responder.
    Epoll,
    /// The TCP tests, by blocking threads.
    Netbench,
}

/// Whether the kernel guards against the processor's known weaknesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mitigations {
    /// As it sees fit, which is what it does unless it is told otherwise.
    Auto,
    /// Not at all.
    Off,
}

impl Linux {
    /// Fetches the kernel, builds the programs and packs the file system; what
    /// is there already is not made again.
    ///
    /// # Errors
    ///
    /// [`Usage`](crate::Usage) if this is not Debian; otherwise if something
    /// cannot be fetched or does not build.
    pub fn prepare() -> Result<Self> {
        let workspace = Workspace::load()?;
        let directory = workspace.target_dir().join("linux");
        let package = Package::fetch(&directory)?;
        let programs = cargo::build_static(&workspace, &PROGRAMS)?;
        let archive = pack(&package, &programs)?;
        let initrd = directory.join("initramfs.cpio");
        write_if_changed(&initrd, &archive)?;
        Ok(Self {
            image: package.image()?,
            initrd,
        })
    }

    /// The guest with each HTTP server, with and without mitigations.
    pub fn http_systems(&self) -> Vec<System> {
        let mitigations = [Mitigations::Auto, Mitigations::Off];
        let servers = |mitigations| {
            [Server::Axum, Server::Epoll].map(|server| self.system(server, mitigations))
        };
        mitigations.into_iter().flat_map(servers).collect()
    }

    /// The guest with one of its servers.
    pub fn system(&self, server: Server, mitigations: Mitigations) -> System {
        let server = match server {
            Server::Axum => "axum",
            Server::Epoll => "epoll",
            Server::Netbench => "netbench",
        };
        let (suffix, word) = match mitigations {
            Mitigations::Auto => ("", ""),
            Mitigations::Off => (", mitigations off", " mitigations=off"),
        };
        System {
            name: format!("linux {server}{suffix}"),
            image: self.image.clone(),
            initrd: Some(self.initrd.clone()),
            append: format!("{APPEND}{word} server={server}"),
            machine: Machine::default(),
            memory_mib: Options::default().memory_mib,
        }
    }
}

fn pack(package: &Package, programs: &[PathBuf]) -> Result<Vec<u8>> {
    let mut files = Initramfs::default();
    for directory in ["bin", "dev", "modules", "proc", "sys"] {
        files.directory(directory)?;
    }
    files.console("dev/console")?;
    for program in programs {
        let content = fs::read(program).with_context(|| program.display().to_string())?;
        match program.file_name().unwrap_or_default().to_string_lossy() {
            name if name == "init" => files.file("init", &content)?,
            name => files.file(&format!("bin/{name}"), &content)?,
        }
    }
    let modules = Modules::find(&package.modules()?)?.resolve(&MODULES)?;
    for (index, module) in modules.iter().enumerate() {
        // They are loaded in the order of their names.
        let path = format!("modules/{index:02}-{}.ko", module.name);
        files.file(&path, &module.content)?;
    }
    files.finish()
}

/// Leaves a file alone that has the content already: a guest may be reading it.
fn write_if_changed(file: &Path, content: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|found| found == content) {
        return Ok(());
    }
    let partial = file.with_extension(std::process::id().to_string());
    fs::write(&partial, content).with_context(|| partial.display().to_string())?;
    Ok(fs::rename(&partial, file)?)
}
