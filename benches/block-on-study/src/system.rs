//! What only the operating system can tell or do.

use std::hint::spin_loop;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
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
}

impl WarmCores {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// If a thread cannot have idle priority.
    pub fn start() -> io::Result<Self> {
        let warm = Self {
            stop: Arc::default(),
        };
        let (ids, started) = mpsc::channel();
        for _ in 0..thread::available_parallelism()?.get() {
            let (stop, ids) = (warm.stop.clone(), ids.clone());
            thread::spawn(move || {
                // SAFETY: the call takes nothing and only tells.
                let _ = ids.send(unsafe { libc::gettid() });
                drop(ids); // Or nobody learns that all have started.
                while !stop.load(Relaxed) {
                    spin_loop();
                }
            });
        }
        drop(ids);
        // Lowered from outside: once lowered, they run when nobody else wants to.
        for id in started {
            use_idle_priority(id)?;
        }
        Ok(warm)
    }
}

impl Drop for WarmCores {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Sets how late the kernel may end the sleeps of the calling thread and of those
/// that it will start.
///
/// # Errors
///
/// If the kernel refuses.
pub fn set_timer_slack(slack_ns: u32) -> io::Result<()> {
    // SAFETY: the call takes a number.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack_ns)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn use_idle_priority(thread: libc::pid_t) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live through the call.
    match unsafe { libc::sched_setscheduler(thread, libc::SCHED_IDLE, &parameters) } {
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
