//! Systems that boot and serve on the guest's port 80.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::bed::{self, Wire, WireKind};
use crate::cargo::{self, Profile};
use crate::guest::Guest;
use crate::qemu::{self, Forward, Machine, Net, Options, Protocol};

/// How long a boot may take.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// The guest's port that everything serves on, TCP and UDP.
pub const PORT: u16 = 80;

/// A guest to be measured.
#[derive(Debug, Clone)]
pub struct System {
    /// Its name in the figures.
    pub name: String,
    /// The kernel.
    pub image: PathBuf,
    /// The initial file system, for a kernel that has one.
    pub initrd: Option<PathBuf>,
    /// Its part of the kernel command line.
    pub append: String,
    /// What it boots on.
    pub machine: Machine,
    /// The amount of memory in MiB.
    pub memory_mib: u32,
}

/// A system that is up and listens.
#[derive(Debug)]
pub struct Booted {
    /// The guest.
    pub guest: Guest,
    /// Where the host reaches its port 80.
    pub address: SocketAddr,
}

impl System {
    /// The program `program` of this workspace, built.
    ///
    /// # Errors
    ///
    /// If it does not build.
    pub fn program(name: &str, program: &str, append: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            image: cargo::build_image_for(program, append, Profile::Release)?,
            initrd: None,
            append: append.to_owned(),
            machine: Machine::default(),
            memory_mib: Options::default().memory_mib,
        })
    }

    /// About how long a boot takes.
    pub fn boot_takes(&self) -> Duration {
        match self.initrd {
            None => Duration::from_millis(300),
            Some(_) => Duration::from_secs(4),
        }
    }

    /// Boots the system on `wire`, waits until it listens, and gives its
    /// processor a core of the host. To be called within [`Wire::measure`].
    ///
    /// # Errors
    ///
    /// If it does not listen in time.
    pub fn boot(&self, wire: &Wire) -> Result<Booted> {
        let mut booted = self.start(wire)?;
        for thread in booted.guest.processor_threads()? {
            bed::place_processor(thread)?;
        }
        Ok(booted)
    }

    /// As [`boot`](Self::boot), but leaves the processor where the host puts it:
    /// to ask QEMU for it takes the emulator away from the guest for a while. To
    /// be called within [`Wire::measure_start`] if the boot is what is measured.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start(&self, wire: &Wire) -> Result<Booted> {
        let (net, port) = match wire.kind() {
            WireKind::Tap => (Net::Tap(bed::TAP.to_owned()), PORT),
            WireKind::User => {
                let port = qemu::free_port(0)?;
                let udp = Forward {
                    protocol: Protocol::Udp,
                    ..Forward::tcp(port, PORT)
                };
                (Net::User(vec![Forward::tcp(port, PORT), udp]), port)
            }
        };
        let options = Options {
            net,
            initrd: self.initrd.clone(),
            machine: self.machine,
            memory_mib: self.memory_mib,
            append: format!("{} {}", wire.guest_config(), self.append),
            ..Options::default()
        };
        let mut guest = Guest::boot(&options, &self.image)?;
        guest.wait_for_line(&format!("listening on port {PORT}"), BOOT_TIMEOUT)?;
        let address = SocketAddr::new(wire.guest(), port);
        Ok(Booted { guest, address })
    }
}
