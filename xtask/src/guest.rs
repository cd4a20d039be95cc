//! A running QEMU: its console, its state, its end.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};

use crate::backlog;
use crate::monitor::Monitor;
use crate::packages;
use crate::qemu::Options;

/// What the guest adds to its status, so that it differs from QEMU's own.
const STATUS_OFFSET: i32 = 0x10;

/// The state of the network card's cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is plugged in.
    Up,
    /// It is not.
    Down,
}

/// A guest under QEMU, which ends when this is dropped.
///
/// It also ends with the thread that booted it: QEMU must not outlive a test
/// or an xtask that is killed.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    output: Receiver<Vec<u8>>,
    monitor: Monitor,
    /// Whether the forwarded ports have their longer queue.
    queues_lengthened: bool,
    lines: Vec<String>,
    /// How many of them `wait_for_line` has looked at.
    looked_at: usize,
    partial: Vec<u8>,
}

/// What the guest's console brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// Nothing within the time given.
    Quiet,
    /// Nothing, and nothing will come: QEMU has ended.
    Ended,
}

/// How QEMU ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The guest ended with this status.
    Guest(u8),
    /// The machine ended without a status from the guest, as after a triple
    /// fault.
    NoStatus,
    /// QEMU itself failed with this status; its stderr says why.
    QemuFailed(i32),
    /// A signal ended QEMU.
    Signal(i32),
}

impl Ending {
    /// What QEMU's status says.
    ///
    /// The guest writes `0x10 + status` to the exit device, for a status up to
    /// 0x6f, and QEMU makes `2 n + 1` of what is written: 33 is the guest's 0.
    fn from_status(status: ExitStatus) -> Self {
        match status.code() {
            None => Self::Signal(status.signal().unwrap_or_default()),
            Some(0) => Self::NoStatus,
            Some(code) if code & 1 == 1 && code >> 1 >= STATUS_OFFSET => {
                match u8::try_from((code >> 1) - STATUS_OFFSET) {
                    Ok(status) => Self::Guest(status),
                    Err(_) => Self::QemuFailed(code),
                }
            }
            Some(code) => Self::QemuFailed(code),
        }
    }
}

impl Guest {
    /// Boots `image` on the machine that `options` describe.
    ///
    /// QEMU's own messages go to stderr.
    ///
    /// # Errors
    ///
    /// [`Usage`](crate::Usage) if the options contradict each other or this
    /// host lacks what they name; otherwise if QEMU cannot be started.
    pub fn boot(options: &Options, image: &Path) -> Result<Self> {
        options.check()?;
        options.check_host()?;
        packages::ensure(&[packages::QEMU])?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = options.command(image);
        attach_monitor(&mut command, theirs.into());
        end_with_us(&mut command);
        let mut qemu = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start QEMU")?;
        drop(command);
        let stdout = qemu.stdout.take().context("QEMU has no stdout")?;
        Ok(Self {
            qemu,
            output: read_in_background(stdout),
            monitor: Monitor::new(ours)?,
            queues_lengthened: false,
            lines: Vec::new(),
            looked_at: 0,
            partial: Vec::new(),
        })
    }

    /// The next console output, as raw bytes.
    pub fn next_output(&mut self, timeout: Duration) -> Output {
        match self.output.recv_timeout(timeout) {
            Ok(bytes) => {
                self.lengthen_queues();
                Output::Bytes(bytes)
            }
            Err(RecvTimeoutError::Timeout) => Output::Quiet,
            Err(RecvTimeoutError::Disconnected) => Output::Ended,
        }
    }

    /// Lengthens the forwarded ports' queues, once QEMU has opened them: it has
    /// when the guest runs.
    fn lengthen_queues(&mut self) {
        if self.queues_lengthened {
            return;
        }
        self.queues_lengthened = true;
        if let Err(error) = backlog::lengthen(&self.qemu) {
            eprintln!("note: the forwarded ports keep QEMU's queue of one connection: {error}");
        }
    }

    /// Waits for the next line that contains `wanted`, and returns it. Each call
    /// goes on behind the line that the one before returned.
    ///
    /// # Errors
    ///
    /// If it does not come in time, or QEMU ends before; the message has the
    /// last lines and, where there is one, the core's state.
    pub fn wait_for_line(&mut self, wanted: &str, timeout: Duration) -> Result<String> {
        let deadline = Instant::now() + timeout;
        loop {
            while let Some(line) = self.lines.get(self.looked_at) {
                self.looked_at += 1;
                if line.contains(wanted) {
                    return Ok(line.clone());
                }
            }
            match self.collect(deadline) {
                Output::Bytes(_) => {}
                Output::Quiet => bail!("no line with {wanted:?} in time\n{}", self.report()),
                Output::Ended => bail!("QEMU ended before {wanted:?}\n{}", self.report()),
            }
        }
    }

    /// Waits until QEMU ends.
    ///
    /// # Errors
    ///
    /// If it does not end in time; the message has the last lines and the
    /// core's state.
    pub fn wait(&mut self, timeout: Duration) -> Result<Ending> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.collect(deadline) {
                Output::Bytes(_) => {}
                Output::Quiet => bail!("the guest did not end in time\n{}", self.report()),
                Output::Ended => return self.ending(),
            }
        }
    }

    /// How QEMU ended; waits for it.
    ///
    /// # Errors
    ///
    /// If the operating system does not tell.
    pub fn ending(&mut self) -> Result<Ending> {
        Ok(Ending::from_status(self.qemu.wait()?))
    }

    /// The lines that [`wait_for_line`](Self::wait_for_line) and
    /// [`wait`](Self::wait) have seen.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// QEMU's process id.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// The threads of QEMU that run the guest's processors.
    ///
    /// # Errors
    ///
    /// If QEMU has ended or does not answer.
    pub fn processor_threads(&mut self) -> Result<Vec<Pid>> {
        let processors = self.monitor.query("query-cpus-fast")?;
        let processors = processors.as_array().context("QEMU lists no processors")?;
        let threads = processors.iter().filter_map(|processor| {
            let id = processor.get("thread-id")?.as_i64()?;
            Pid::from_raw(i32::try_from(id).ok()?)
        });
        Ok(threads.collect())
    }

    /// The processor time that QEMU has used.
    ///
    /// # Errors
    ///
    /// If the operating system does not tell.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The name, in parentheses, may contain anything.
        let (_, fields) = stat.rsplit_once(')').context("a process without a name")?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        // Linux reports hundredths of a second, whatever the kernel's own tick is.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// The core's registers, as QEMU's monitor shows them, but for those of
    /// the floating-point unit.
    ///
    /// # Errors
    ///
    /// If QEMU has ended or does not answer.
    pub fn registers(&mut self) -> Result<String> {
        let registers = self.monitor.human("info registers")?;
        let integer = registers.split("FCW=").next().unwrap_or(&registers);
        Ok(integer.trim().to_owned())
    }

    /// Plugs the network card's cable in or pulls it.
    ///
    /// # Errors
    ///
    /// If QEMU has ended, does not answer, or has no network.
    pub fn set_link(&mut self, link: Link) -> Result<()> {
        let state = match link {
            Link::Up => "on",
            Link::Down => "off",
        };
        let answer = self.monitor.human(&format!("set_link net0 {state}"))?;
        ensure!(answer.is_empty(), "the link is not {state}: {answer}");
        Ok(())
    }

    /// Takes the next output into `lines`.
    fn collect(&mut self, deadline: Instant) -> Output {
        let output = self.next_output(deadline.saturating_duration_since(Instant::now()));
        if let Output::Bytes(bytes) = &output {
            for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
                self.partial.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    self.end_line();
                }
            }
        } else if output == Output::Ended && !self.partial.is_empty() {
            self.end_line();
        }
        output
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial);
        self.lines.push(line.trim_end().to_owned());
        self.partial.clear();
    }

    /// The last lines and the core's state.
    fn report(&mut self) -> String {
        let first = self.lines.len().saturating_sub(20);
        let lines = self.lines[first..].join("\n");
        let partial = String::from_utf8_lossy(&self.partial).into_owned();
        match self.registers() {
            Ok(registers) => format!("{lines}\n{partial}\n{registers}"),
            Err(_) => format!("{lines}\n{partial}"),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only if QEMU has ended and has been waited for.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Hands QEMU the other end of the monitor's socket.
fn attach_monitor(command: &mut Command, socket: OwnedFd) {
    let fd = socket.as_raw_fd();
    command
        .args(["-chardev", &format!("socket,id=monitor,fd={fd}")])
        .args(["-mon", "chardev=monitor,mode=control"]);
    let inherit = move || Ok(rustix::io::fcntl_setfd(&socket, FdFlags::empty())?);
    // SAFETY: between fork and exec, `inherit` makes one system call on a
    // descriptor that it owns; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(inherit) };
}

/// Makes the kernel end the command with the thread that spawns it.
pub fn end_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    let bind = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before that took effect.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(rustix::io::Errno::SRCH.into())
        }
    };
    // SAFETY: between fork and exec, `bind` makes two system calls; it neither
    // allocates nor takes a lock.
    unsafe { command.pre_exec(bind) };
}

/// Reads all the time, so that a guest never waits for a reader.
fn read_in_background(mut stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(code: i32) -> Ending {
        Ending::from_status(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn the_guests_status_survives_qemu() {
        for status in 0..=0x6f {
            let code = ((0x10 + i32::from(status)) << 1) | 1;
            assert_eq!(ending(code), Ending::Guest(status));
        }
        assert_eq!(ending(33), Ending::Guest(0));
    }

    #[test]
    fn other_statuses_are_not_the_guests() {
        assert_eq!(ending(0), Ending::NoStatus);
        for code in [1, 2, 31, 32, 34, 254] {
            assert_eq!(ending(code), Ending::QemuFailed(code));
        }
        let killed = ExitStatus::from_raw(9);
        assert_eq!(Ending::from_status(killed), Ending::Signal(9));
    }
}
