//! The counters of the machine, as the page `/stats`.

use core::fmt::{self, Display};

use firstpoll::arch::{Instant, Memory, memory, now};
use firstpoll::executor;
use firstpoll::net::Stack;
use firstpoll::time::Duration;

use crate::answer::Pages;

/// What `/stats` tells of a running machine.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    stack: Stack,
    start: Instant,
}

impl Counters {
    /// The executor's counters and those of `stack`; the time up counts from
    /// here.
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            start: now(),
        }
    }
}

impl Pages for Counters {
    fn stats(&self) -> impl Display {
        Snapshot {
            uptime: now() - self.start,
            memory: memory(),
            executor: executor::stats(),
            network: self.stack.stats(),
        }
    }
}

struct Snapshot {
    uptime: Duration,
    memory: Memory,
    executor: executor::Stats,
    network: firstpoll::net::Stats,
}

/// Displays fields of a structure, one `group.field value` per line.
macro_rules! lines {
    ($f:ident, $group:literal, $counters:expr, [$($field:ident)*]) => {
        $(writeln!($f, concat!($group, ".", stringify!($field), " {}"), $counters.$field)?;)*
    };
}

impl Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "uptime_ms {}", self.uptime.as_millis() as u64)?;
        lines!(f, "memory", self.memory, [heap_bytes allocated_bytes]);
        let executor = &self.executor;
        lines!(f, "executor", executor, [
            polls wakes passes bottom_halves overdue_passes halts idle_timer_interrupts
        ]);
        for (kind, lateness) in [
            ("interrupt_safe", executor.interrupt_safe_lateness),
            ("ordinary", executor.ordinary_lateness),
        ] {
            let longest = lateness.longest.as_micros() as u64;
            writeln!(f, "executor.{kind}_lateness_us {longest}")?;
        }
        lines!(f, "network", self.network, [
            frames_received frames_sent malformed fragments martians unsupported
            resets_limited backlog_full out_of_memory refused_connections refused_buffers
            unreceived unsent half_open_evicted half_open_expired half_open_reset
            half_open_restarted orphans_evicted closing_evicted challenges_limited
            send_queue_full unannounced card_faults accepted connected sockets half_open
            orphans closing time_wait socket_bytes buffer_bytes buffer_bytes_most table_bytes
        ]);
        Ok(())
    }
}
