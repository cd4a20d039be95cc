//! From the kernel's first process to a server that listens.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit};

use crate::command_line::{Options, module_parameters};
use crate::netlink::Netlink;

/// The kernel modules, which are loaded in the order of their names.
const MODULES: &str = "/modules";
const INTERFACES: &str = "/sys/class/net";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Descriptors for every connection that 256 MiB have room for.
const MAX_FILES: u64 = 65_536;

/// How many connections may wait for the server; the HTTP servers ask for as
/// many.
const MAX_WAITING: u32 = 4096;

/// How long a server may take to listen.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often we look whether it does.
const SERVER_POLL: Duration = Duration::from_millis(1);

/// Brings the machine up, starts the server and waits for its end.
///
/// # Errors
///
/// Always: the first step that failed, or that the server ended.
pub fn run() -> Result<()> {
    mount_all()?;
    let command_line = fs::read_to_string("/proc/cmdline").context("no command line")?;
    let options = Options::read(&command_line)?;
    load_modules(Path::new(MODULES), &command_line)?;
    configure_network(&options)?;
    set_limits()?;
    let mut server = start(&options)?;
    check_clock();
    println!("listening on port {}", options.port);
    bail!("the server ended: {}", server.wait()?)
}

fn mount_all() -> Result<()> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        rustix::mount::mount(kind, target, kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {target}"))?;
    }
    Ok(())
}

fn load_modules(directory: &Path, command_line: &str) -> Result<()> {
    for path in sorted_files(directory)? {
        let load = || -> Result<()> {
            let file = File::open(&path)?;
            let parameters = module_parameters(command_line, module_name(&path));
            let parameters = CString::new(parameters)?;
            Ok(rustix::system::finit_module(&file, &parameters, 0)?)
        };
        load().with_context(|| format!("cannot load {}", path.display()))?;
    }
    Ok(())
}

/// `virtio_net` for `/modules/06-virtio_net.ko`.
fn module_name(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.unwrap_or_default();
    stem.split_once('-').map_or(stem, |(_, name)| name)
}

fn configure_network(options: &Options) -> Result<()> {
    let netlink = Netlink::open()?;
    netlink.set_up(interface_index("lo")?)?;
    let card = network_card()?;
    let index = interface_index(&card)?;
    netlink.add_address(index, options.address, options.prefix_length)?;
    netlink.set_up(index)?;
    match options.gateway {
        Some(gateway) => netlink.add_default_route(gateway),
        None => Ok(()),
    }
}

/// The name of the only interface beside the loopback.
fn network_card() -> Result<String> {
    let mut cards = Vec::new();
    for path in sorted_files(Path::new(INTERFACES))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != "lo" {
            cards.push(name.into_owned());
        }
    }
    match <[_; 1]>::try_from(cards) {
        Ok([card]) => Ok(card),
        Err(cards) => bail!("there are {} network cards, not one", cards.len()),
    }
}

fn interface_index(name: &str) -> Result<u32> {
    let path = Path::new(INTERFACES).join(name).join("ifindex");
    let text = fs::read_to_string(&path).with_context(|| format!("no interface {name}"))?;
    Ok(text.trim().parse()?)
}

fn set_limits() -> Result<()> {
    let files = Rlimit {
        current: Some(MAX_FILES),
        maximum: Some(MAX_FILES),
    };
    rustix::process::setrlimit(Resource::Nofile, files).context("cannot raise RLIMIT_NOFILE")?;
    for setting in ["core/somaxconn", "ipv4/tcp_max_syn_backlog"] {
        let path = Path::new("/proc/sys/net").join(setting);
        fs::write(&path, MAX_WAITING.to_string())
            .with_context(|| format!("cannot set {}", path.display()))?;
    }
    Ok(())
}

/// Starts the server and waits until it listens.
///
/// What it says on stdout is dropped, so that the console has the one line of
/// ours in any case.
fn start(options: &Options) -> Result<Child> {
    let (program, args) = options.server.command(options.port);
    let mut server = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let deadline = Instant::now() + SERVER_TIMEOUT;
    while !is_listening(options.port)? {
        if let Some(status) = server.try_wait()? {
            bail!("{program} ended before it listened: {status}");
        }
        if Instant::now() > deadline {
            bail!("{program} does not listen on port {}", options.port);
        }
        thread::sleep(SERVER_POLL);
    }
    Ok(server)
}

/// Other clocks cost an exit to the emulator per reading.
fn check_clock() {
    let clock = fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
    let clock = clock.trim();
    if !clock.starts_with("tsc") {
        println!("note: the clock source is `{clock}`, not tsc");
    }
}

fn is_listening(port: u16) -> Result<bool> {
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(table) if has_listener(&table, port) => return Ok(true),
            Ok(_) => {}
            // A kernel without IPv6.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(table),
        }
    }
    Ok(false)
}

/// Whether a table of the kernel's sockets has a listener (state 0A) on `port`.
fn has_listener(table: &str, port: u16) -> bool {
    let port = format!("{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let state = fields.nth(1);
        local.is_some_and(|(_, found)| found == port) && state == Some("0A")
    })
}

fn sorted_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let name = || format!("cannot read {}", directory.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).with_context(name)? {
        paths.push(entry.with_context(name)?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::listen;

    #[test]
    fn only_a_listener_on_the_port_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n\
            \x20  0: 0100007F:0050 00000000:0000 01 00000000:00000000 00:00000000\n\
            \x20  1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
            \x20  2: 00000000:0000 00000000:0051 0A 00000000:00000000 00:00000000\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 80), "it is connected");
        assert!(!has_listener(table, 81), "it is the other side's port");
        assert!(!has_listener("", 0));
    }

    #[test]
    fn the_kernels_tables_have_a_real_listener() {
        let listener = listen(0).expect("some port is free");
        let port = listener.local_addr().expect("it is bound").port();
        assert!(is_listening(port).expect("Linux has the tables"));
        drop(listener);
        assert!(!is_listening(port).expect("Linux has the tables"));
    }

    #[test]
    fn the_number_of_a_module_is_not_its_name() {
        for file in ["06-virtio_net.ko", "virtio_net.ko"] {
            assert_eq!(module_name(&Path::new("/modules").join(file)), "virtio_net");
        }
    }

    #[test]
    fn the_loopback_has_an_index() {
        assert!(interface_index("lo").expect("there is one") > 0);
        let error = interface_index("no-such").expect_err("there is none");
        assert!(error.to_string().contains("no-such"));
    }
}
