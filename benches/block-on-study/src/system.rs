//! What only the operating system can tell or do.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the process has used so far, all its threads together.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time.
    pub cpu: Duration,
    /// Context switches.
    pub switches: u64,
}

impl Usage {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// If that does not tell.
    pub fn now() -> io::Result<Self> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is to a whole `rusage`, which the call fills.
        let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded, so it has filled it.
        let usage = unsafe { usage.assume_init() };
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec.unsigned_abs())
                + Duration::from_micros(time.tv_usec.unsigned_abs())
        };
        Ok(Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            switches: usage.ru_nvcsw.unsigned_abs() + usage.ru_nivcsw.unsigned_abs(),
        })
    }

    /// What has been used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

/// Threads of idle priority, one per core, that spin until this is dropped.
///
/// They leave the core to any other thread at once, but keep it from halting.
#[derive(Debug)]
pub struct WarmCores {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl WarmCores {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// If a thread cannot have idle priority.
    pub fn start() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (results, ready) = std::sync::mpsc::channel();
        let threads = (0..thread::available_parallelism()?.get())
            .map(|_| {
                let (stop, results) = (stop.clone(), results.clone());
                thread::spawn(move || {
                    let lowered = use_idle_priority();
                    let spins = lowered.is_ok();
                    let _ = results.send(lowered);
                    while spins && !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        drop(results);
        let warm = Self { stop, threads };
        for result in ready {
            result?;
        }
        Ok(warm)
    }
}

impl Drop for WarmCores {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Such a thread does not panic.
            let _ = thread.join();
        }
    }
}

fn use_idle_priority() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameters live through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits while `word` is `value`; may also return for no reason.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    let no_timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives through the call. An error (`EAGAIN` if the word
    // has another value, `EINTR`) is a return for no reason.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            no_timeout,
        )
    };
}

/// Wakes a thread that waits for `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address only as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// An eventfd.
///
/// # Errors
///
/// If the process can have no more descriptors.
pub fn eventfd() -> io::Result<std::fs::File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    Ok(unsafe { std::fs::File::from_raw_fd(fd) })
}
