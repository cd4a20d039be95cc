//! QEMU's command line, from typed options.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};

use crate::packages;
use crate::usage::Usage;

/// The I/O port through which the guest ends QEMU with a status.
const EXIT_PORT: u16 = 0xf4;

/// A machine to boot an image on.
///
/// The default is what `cargo xtask run` boots, but always emulated and
/// without a forwarded port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The board.
    pub machine: Machine,
    /// QEMU's name of the processor model.
    pub cpu: String,
    /// The number of cores.
    pub cores: u32,
    /// The amount of memory in MiB.
    pub memory_mib: u32,
    /// What runs the guest's code.
    pub accel: Accel,
    /// What the network card is connected to.
    pub net: Net,
    /// The initial file system, for a kernel that has one.
    pub initrd: Option<PathBuf>,
    /// The kernel command line.
    pub append: String,
    /// Where to record the network's traffic.
    pub pcap: Option<PathBuf>,
    /// Whether to wait for a debugger before the first instruction.
    pub gdb: bool,
    /// Whether the guest's clock counts instructions.
    pub icount: bool,
    /// Further arguments, verbatim, for what has no option here: for example
    /// `-global virtio-net-pci.csum=off`.
    pub extra: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            machine: Machine::Q35,
            cpu: "max".to_owned(),
            cores: 1,
            memory_mib: 256,
            accel: Accel::Tcg,
            net: Net::User(Vec::new()),
            initrd: None,
            append: String::new(),
            pcap: None,
            gdb: false,
            icount: false,
            extra: Vec::new(),
        }
    }
}

/// The boards that PVH images boot on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    /// Intel's Q35 chip set with PCI Express.
    #[default]
    Q35,
    /// Intel's older i440FX chip set with PCI.
    Pc,
    /// QEMU's minimal machine without PCI.
    Microvm,
}

impl Machine {
    /// Its name in the figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::Pc => "pc",
            Self::Microvm => "microvm",
        }
    }

    /// The value of `-machine`.
    fn board(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::Pc => "pc",
            // Without ACPI tables, which take the larger firmware to make, the
            // devices stand on the kernel command line. The guest measures its
            // clock by the interval timer and has the date from the real-time
            // clock; the old interrupt controllers it would only mask.
            Self::Microvm => "microvm,acpi=off,pit=on,rtc=on,pic=off",
        }
    }

    /// QEMU's name of a virtio device as this board has it, of which
    /// properties are set by `-global NAME.PROPERTY=VALUE`.
    pub fn virtio(self, device: &str) -> String {
        let way = match self {
            Self::Q35 | Self::Pc => "pci",
            Self::Microvm => "device",
        };
        format!("virtio-{device}-{way}")
    }
}

/// What runs the guest's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// Hardware virtualization.
    Kvm,
    /// Software emulation.
    Tcg,
}

impl Accel {
    /// KVM if it is likely to work, else TCG.
    ///
    /// A `/dev/kvm` alone does not do: without vmx or svm it is an emulation
    /// that is far slower than TCG.
    pub fn detect() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kvm = || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/kvm")
        };
        if has_virtualization(&cpuinfo) && kvm().is_ok() {
            Self::Kvm
        } else {
            Self::Tcg
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// What the guest's network card is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Net {
    /// A network inside QEMU: the guest is 10.0.2.15, the host 10.0.2.2, and
    /// these ports of the host lead in.
    User(Vec<Forward>),
    /// An existing tap interface.
    Tap(String),
    /// A listening unix stream socket; each frame follows its length, 32 bits
    /// in network order.
    Unix(PathBuf),
    /// There is no network card.
    None,
}

/// A port of 127.0.0.1 that leads to a port of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port of 127.0.0.1.
    pub host_port: u16,
    /// The guest's port.
    pub guest_port: u16,
}

/// What is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl Forward {
    /// Forwards TCP connections.
    pub fn tcp(host_port: u16, guest_port: u16) -> Self {
        Self {
            protocol: Protocol::Tcp,
            host_port,
            guest_port,
        }
    }

    /// Forwards UDP datagrams.
    pub fn udp(host_port: u16, guest_port: u16) -> Self {
        Self {
            protocol: Protocol::Udp,
            host_port,
            guest_port,
        }
    }

    fn rule(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let Self {
            host_port,
            guest_port,
            ..
        } = self;
        format!(",hostfwd={protocol}:127.0.0.1:{host_port}-:{guest_port}")
    }
}

impl Net {
    /// The host's port that leads to a TCP port of the guest.
    pub fn host_port(&self, guest_port: u16) -> Option<u16> {
        let Self::User(forwards) = self else {
            return None;
        };
        let mut forwards = forwards.iter();
        forwards
            .find(|forward| forward.protocol == Protocol::Tcp && forward.guest_port == guest_port)
            .map(|forward| forward.host_port)
    }

    /// The value of `-netdev`, without its name.
    fn backend(&self) -> Option<OsString> {
        match self {
            Self::User(forwards) => {
                let rules: String = forwards.iter().map(Forward::rule).collect();
                Some(format!("user,id=net0{rules}").into())
            }
            Self::Tap(interface) => {
                let interface = escape_commas(interface.as_ref());
                let mut backend = OsString::from("tap,id=net0,script=no,downscript=no,ifname=");
                backend.push(interface);
                Some(backend)
            }
            Self::Unix(path) => {
                let mut backend =
                    OsString::from("stream,id=net0,server=off,addr.type=unix,addr.path=");
                backend.push(escape_commas(path.as_os_str()));
                Some(backend)
            }
            Self::None => None,
        }
    }
}

impl Options {
    /// The same machine on a user-mode network that forwards `host_port` to
    /// the guest's port 80.
    pub fn forward_http(self, host_port: u16) -> Self {
        Self {
            net: Net::User(vec![Forward::tcp(host_port, 80)]),
            ..self
        }
    }

    /// Whether these options go together.
    ///
    /// # Errors
    ///
    /// [`Usage`], if not.
    pub fn check(&self) -> Result<(), Usage> {
        if self.icount && self.accel == Accel::Kvm {
            return Err(Usage::new("--icount needs --accel tcg"));
        }
        if self.pcap.is_some() && self.net == Net::None {
            return Err(Usage::new("--pcap needs a network"));
        }
        Ok(())
    }

    /// Whether this host has what the network card is connected to.
    ///
    /// # Errors
    ///
    /// [`Usage`], if not.
    pub fn check_host(&self) -> Result<(), Usage> {
        match &self.net {
            // QEMU as root would make one, which nobody has set up.
            Net::Tap(interface) if !has_interface(interface) => {
                Err(Usage::new(format!("there is no interface {interface}")))
            }
            Net::Unix(path) if !path.exists() => {
                let path = path.display();
                Err(Usage::new(format!("there is no socket {path}")))
            }
            _ => Ok(()),
        }
    }

    /// The command that boots `image`.
    ///
    /// The guest's console is QEMU's stdin and stdout.
    pub fn command(&self, image: &Path) -> Command {
        let mut command = Command::new(packages::QEMU.program);
        let mut pair = |flag: &str, value: OsString| {
            command.arg(flag).arg(value);
        };
        pair("-machine", self.machine.board().into());
        pair("-cpu", self.cpu.clone().into());
        // With one possible core, QEMU 7.2 leaves memory barriers out of the
        // code it makes, and notifications get lost.
        let (cores, possible) = (self.cores, self.cores + 1);
        pair("-smp", format!("{cores},maxcpus={possible}").into());
        pair("-m", self.memory_mib.to_string().into());
        pair("-accel", self.accel.name().into());
        if self.icount {
            pair("-icount", "shift=0,sleep=off".into());
        }
        pair("-kernel", image.into());
        if let Some(initrd) = &self.initrd {
            pair("-initrd", initrd.into());
        }
        pair("-append", self.append.clone().into());
        pair("-chardev", "stdio,id=console,signal=off".into());
        pair("-serial", "chardev:console".into());
        pair("-device", exit_device().into());
        if self.machine == Machine::Microvm {
            pair("-global", "virtio-mmio.force-legacy=false".into());
        }
        pair("-device", self.machine.virtio("rng").into());
        if let Some(backend) = self.net.backend() {
            pair("-netdev", backend);
            let mut card = self.machine.virtio("net") + ",netdev=net0";
            if self.machine != Machine::Microvm {
                // Without its boot ROM, which costs start-up time.
                card += ",romfile=";
            }
            pair("-device", card.into());
        }
        if let Some(file) = &self.pcap {
            let mut dump = OsString::from("filter-dump,id=dump0,netdev=net0,file=");
            dump.push(escape_commas(file.as_os_str()));
            pair("-object", dump);
        }
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none"]);
        if self.gdb {
            command.args(["-s", "-S"]);
        }
        command.args(&self.extra);
        command
    }
}

/// The command as one line for a shell.
pub fn shell_quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let words = words.iter().map(AsRef::as_ref);
    // An argument of a process never contains the NUL that cannot be quoted.
    shlex::try_join(words).unwrap_or_default()
}

/// A free TCP port of 127.0.0.1: `port`, or any if it is 0.
///
/// It is free when this returns, and nothing keeps it so.
///
/// # Errors
///
/// [`Usage`] if the port is taken.
pub fn free_port(port: u16) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        Usage::new(format!(
            "port {port} of 127.0.0.1 cannot be used ({error}); choose another with --host-port"
        ))
    })?;
    Ok(listener.local_addr()?.port())
}

/// Whether the calling thread's network has `interface`.
fn has_interface(interface: &str) -> bool {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    socket.is_ok_and(|socket| name_to_index(socket, interface).is_ok())
}

fn exit_device() -> String {
    format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=0x4")
}

/// QEMU splits option values at commas, unless they are doubled.
fn escape_commas(value: &std::ffi::OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    let mut escaped = Vec::with_capacity(value.len());
    for &byte in value.as_bytes() {
        escaped.push(byte);
        if byte == b',' {
            escaped.push(byte);
        }
    }
    OsString::from_vec(escaped)
}

fn has_virtualization(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .flat_map(str::split_whitespace);
    flags.any(|flag| flag == "vmx" || flag == "svm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(options: &Options) -> String {
        shell_quoted(&options.command(Path::new("/images/my kernel")))
    }

    #[test]
    fn the_default_machine() {
        assert_eq!(
            line(&Options::default().forward_http(9975)),
            "qemu-system-x86_64 -machine q35 -cpu max -smp '1,maxcpus=2' -m 256 -accel tcg \
             -kernel '/images/my kernel' -append '' \
             -chardev 'stdio,id=console,signal=off' -serial chardev:console \
             -device 'isa-debug-exit,iobase=0xf4,iosize=0x4' -device virtio-rng-pci \
             -netdev 'user,id=net0,hostfwd=tcp:127.0.0.1:9975-:80' \
             -device 'virtio-net-pci,netdev=net0,romfile=' \
             -nodefaults -no-user-config -no-reboot -display none"
        );
    }

    #[test]
    fn every_option_reaches_qemu() {
        let line = line(&Options {
            machine: Machine::Pc,
            cores: 2,
            net: Net::Unix("/run/a,b".into()),
            append: "log=info ip=10.0.2.15/24".into(),
            pcap: Some("/tmp/net.pcap".into()),
            gdb: true,
            icount: true,
            extra: vec!["-global".into(), "virtio-net-pci.csum=off".into()],
            ..Options::default()
        });
        for part in [
            "-machine pc ",
            "-smp '2,maxcpus=3'",
            "-icount 'shift=0,sleep=off'",
            "'stream,id=net0,server=off,addr.type=unix,addr.path=/run/a,,b'",
            "-append 'log=info ip=10.0.2.15/24'",
            "'filter-dump,id=dump0,netdev=net0,file=/tmp/net.pcap'",
            " -s -S",
            "-global 'virtio-net-pci.csum=off'",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn microvm_has_virtio_without_pci() {
        let line = line(&Options {
            machine: Machine::Microvm,
            ..Options::default().forward_http(9975)
        });
        for part in [
            "-machine 'microvm,acpi=off,",
            "-global 'virtio-mmio.force-legacy=false' -device virtio-rng-device ",
            "-device 'virtio-net-device,netdev=net0' ",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains("pci"), "{line}");
    }

    #[test]
    fn no_network_means_no_card() {
        let options = Options {
            net: Net::None,
            ..Options::default()
        };
        assert!(!line(&options).contains("net"));
    }

    #[test]
    fn only_user_networks_forward_ports() {
        let options = Options::default().forward_http(8080);
        assert_eq!(options.net.host_port(80), Some(8080));
        assert_eq!(options.net.host_port(81), None);
        assert_eq!(Net::Tap("tap0".into()).host_port(80), None);
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(Options::default().check().is_ok());
        for bad in [
            Options {
                icount: true,
                accel: Accel::Kvm,
                ..Options::default()
            },
            Options {
                pcap: Some("f".into()),
                net: Net::None,
                ..Options::default()
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_missing_interface_or_socket_is_named() {
        let connected_to = |net| Options {
            net,
            ..Options::default()
        };
        assert!(connected_to(Net::Tap("lo".into())).check_host().is_ok());
        for missing in [Net::Tap("no-such".into()), Net::Unix("/no-such".into())] {
            let error = connected_to(missing)
                .check_host()
                .expect_err("it is missing");
            assert!(error.to_string().contains("no-such"), "{error}");
        }
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let error = free_port(port).expect_err("the port is taken");
        assert!(error.is::<Usage>());
        assert!(error.to_string().contains(&port.to_string()), "{error}");
        assert_ne!(free_port(0).expect("some port is free"), 0);
    }

    #[test]
    fn virtualization_is_a_whole_word_of_the_flags() {
        assert!(has_virtualization("model : x\nflags\t\t: fpu vmx sse\n"));
        assert!(has_virtualization("flags : svm\n"));
        assert!(!has_virtualization("flags : fpu svm_lock\nbugs : vmx\n"));
    }
}
