//! The test bed: the networks that guests are measured on, and processors and
//! priorities that keep the measurement's parts out of each other's way.
//!
//! The guest's processor has a core of the host to itself; the rest of QEMU and
//! the client share another. All run before anything else on the machine, with
//! short time slices.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_getaffinity,
    sched_setaffinity,
};

use crate::packages;
use crate::usage::Usage;

/// The tap interface, in its namespace.
pub const TAP: &str = "tap0";

/// The host's end of the tap network, and the guest's.
const TAP_HOST: &str = "10.77.0.1/24";
const TAP_GUEST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// The guest's hardware address, which is the one that QEMU gives.
const GUEST_MAC: &str = "52:54:00:12:34:56";

/// The time slice of all that is measured; the machine's default is some
/// milliseconds, which a client's answer may have to wait.
const SLICE_NS: u64 = 100_000;

/// The kind of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WireKind {
    /// QEMU's user-mode network.
    User,
    /// A tap interface in a network namespace of its own; needs root.
    Tap,
}

/// What the measurements run on.
#[derive(Debug)]
pub struct Bed {
    wires: Vec<Wire>,
}

/// A network to boot guests on.
#[derive(Debug)]
pub struct Wire {
    kind: WireKind,
    /// The namespace that the tap interface is in.
    namespace: Option<OwnedFd>,
}

impl WireKind {
    /// The kinds to measure on if none is asked for. Without root there is no
    /// tap, and a line says so.
    pub fn possible() -> Vec<Self> {
        if rustix::process::geteuid().is_root() {
            return vec![Self::User, Self::Tap];
        }
        eprintln!("note: nothing is measured over a tap, which needs root");
        vec![Self::User]
    }
}

impl Bed {
    /// Sets the networks of these kinds up, each once. They go when the bed is
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`Usage`] if a tap is asked for without root; otherwise what the
    /// operating system says.
    pub fn open(kinds: &[WireKind]) -> Result<Self> {
        let first = |&(index, kind): &(usize, &WireKind)| !kinds[..index].contains(kind);
        let kinds = kinds.iter().enumerate().filter(first);
        let wire = |(_, &kind): (usize, &WireKind)| {
            let namespace = match kind {
                WireKind::User => None,
                WireKind::Tap => Some(make_namespace()?),
            };
            Ok(Wire { kind, namespace })
        };
        let wires = kinds.map(wire).collect::<Result<_>>()?;
        Ok(Self { wires })
    }

    /// The networks.
    pub fn wires(&self) -> &[Wire] {
        &self.wires
    }
}

impl Wire {
    /// Its kind.
    pub fn kind(&self) -> WireKind {
        self.kind
    }

    /// Its name in the figures.
    pub fn name(&self) -> &'static str {
        match self.kind {
            WireKind::User => "user",
            WireKind::Tap => "tap",
        }
    }

    /// Where the host reaches the guest.
    pub fn guest(&self) -> IpAddr {
        match self.kind {
            WireKind::User => Ipv4Addr::LOCALHOST.into(),
            WireKind::Tap => TAP_GUEST.into(),
        }
    }

    /// The guest's part of the kernel command line.
    pub fn guest_config(&self) -> String {
        match self.kind {
            WireKind::User => "ip=10.0.2.15/24 gateway=10.0.2.2".to_owned(),
            WireKind::Tap => format!("ip={TAP_GUEST}/24"),
        }
    }

    /// Calls `measure` with the calling thread on this network, on the client's
    /// processor and ahead of all others; what it starts inherits that.
    ///
    /// # Errors
    ///
    /// Those of `measure`; or if the operating system refuses the namespace.
    pub fn measure<R>(&self, measure: impl FnOnce() -> Result<R>) -> Result<R> {
        let _inside = match &self.namespace {
            Some(namespace) => Some(Inside::enter(namespace)?),
            None => None,
        };
        let _ahead = Ahead::on_clients_core()?;
        measure()
    }

    /// As [`measure`](Self::measure), but on any core: QEMU's start, which comes
    /// before its threads can be placed, has work for two.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn measure_start<R>(&self, measure: impl FnOnce() -> Result<R>) -> Result<R> {
        let _inside = match &self.namespace {
            Some(namespace) => Some(Inside::enter(namespace)?),
            None => None,
        };
        ahead(measure)
    }
}

/// Calls `measure` with the calling thread ahead of all others, on any core;
/// what it starts inherits that.
///
/// # Errors
///
/// Those of `measure`; or if the operating system refuses the priority.
pub fn ahead<R>(measure: impl FnOnce() -> Result<R>) -> Result<R> {
    let _ahead = Ahead::get()?;
    measure()
}

/// Gives a guest's processor, a thread of QEMU, a core of the host to itself.
///
/// # Errors
///
/// If the operating system refuses.
pub fn place_processor(thread: Pid) -> Result<()> {
    let Some((first, _)) = cores()? else {
        return Ok(());
    };
    let mut set = CpuSet::new();
    set.set(first);
    sched_setaffinity(Some(thread), &set).context("cannot place the guest's processor")
}

/// The two cores of the host that are used; none if there is but one.
fn cores() -> Result<Option<(usize, usize)>> {
    // The whole machine's, not those that the calling thread was put on.
    let all = sched_getaffinity(Some(Pid::INIT)).or_else(|_| sched_getaffinity(None))?;
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
    Ok(usable.next().zip(usable.next()))
}

/// A thread inside a namespace, which it leaves when this is dropped.
struct Inside {
    outside: OwnedFd,
}

impl Inside {
    fn enter(namespace: &OwnedFd) -> Result<Self> {
        let outside = current_namespace()?;
        enter(namespace)?;
        Ok(Self { outside })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // It came from there, so the way back is open.
        let _ = enter(&self.outside);
    }
}

fn enter(namespace: &OwnedFd) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("cannot enter the network namespace")
}

fn current_namespace() -> Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// A namespace with a tap interface, which goes with the last descriptor.
fn make_namespace() -> Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        let message = "a tap interface needs root; --net user measures without";
        return Err(Usage::new(message).into());
    }
    packages::ensure(&[packages::IP])?;
    // On a thread of its own, whose end leaves no other thread inside.
    let made = std::thread::spawn(|| {
        // SAFETY: only this thread moves, into a network of its own; it shares
        // neither descriptors nor memory less than before.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .context("cannot make a network namespace")?;
        ip(&["link", "set", "lo", "up"])?;
        ip(&["tuntap", "add", TAP, "mode", "tap"])?;
        ip(&["address", "add", TAP_HOST, "dev", TAP])?;
        ip(&["link", "set", TAP, "up"])?;
        // What is still sent to a guest that has ended makes the host ask for
        // its address in vain; a guest that begins to listen meanwhile would
        // be unreachable ("no route to host") when the host gives up.
        let guest = TAP_GUEST.to_string();
        let neighbour = [&guest, "lladdr", GUEST_MAC, "nud", "permanent", "dev", TAP];
        ip(&[&["neighbour", "add"], &neighbour[..]].concat())?;
        current_namespace()
    });
    made.join().expect("nothing above panics")
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new(packages::IP.program).args(args).output()?;
    ensure!(
        output.status.success(),
        "ip {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The calling thread on some cores and, as root, ahead of all others, until this
/// is dropped.
struct Ahead {
    before: CpuSet,
    niceness: i32,
}

impl Ahead {
    fn on_clients_core() -> Result<Self> {
        let ahead = Self::get()?;
        if let Some((_, second)) = cores()? {
            let mut set = CpuSet::new();
            set.set(second);
            sched_setaffinity(None, &set)?;
        }
        Ok(ahead)
    }

    fn get() -> Result<Self> {
        let thread = rustix::thread::gettid();
        let ahead = Self {
            before: sched_getaffinity(None)?,
            niceness: getpriority_process(Some(thread))?,
        };
        if rustix::process::geteuid().is_root() {
            set_niceness(-20)?;
            set_slice(SLICE_NS)?;
        }
        Ok(ahead)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Nothing that fails here harms more than the next figures' noise.
        let _ = sched_setaffinity(None, &self.before);
        if rustix::process::geteuid().is_root() {
            let _ = set_niceness(self.niceness);
        }
    }
}

fn set_niceness(niceness: i32) -> Result<()> {
    // On Linux it is the thread's.
    setpriority_process(Some(rustix::thread::gettid()), niceness).context("cannot set priority")
}

/// Sets the time slice of the calling thread and of those that it will make.
fn set_slice(slice_ns: u64) -> Result<()> {
    /// `struct sched_attr`, see sched_setattr(2).
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: 0,
        flags: 0,
        nice: -20,
        priority: 0,
        runtime: slice_ns,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until
    // the call returns; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    // Kernels before 6.12 take the call and keep their own slice.
    ensure!(
        result == 0,
        "cannot set the time slice: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_named_twice_is_there_once() -> Result<()> {
        let bed = Bed::open(&[WireKind::User, WireKind::User])?;
        assert_eq!(bed.wires().len(), 1);
        Ok(())
    }

    #[test]
    fn the_thread_is_put_back() -> Result<()> {
        let before = sched_getaffinity(None)?;
        let bed = Bed::open(&[WireKind::User])?;
        bed.wires()[0].measure(|| Ok(()))?;
        let after = sched_getaffinity(None)?;
        assert!((0..CpuSet::MAX_CPU).all(|cpu| before.is_set(cpu) == after.is_set(cpu)));
        Ok(())
    }
}
