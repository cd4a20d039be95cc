//! The table: which case runs on which system. What has no entry is "–": the
//! system has no such notion, or its module says why.

use crate::Run;
use crate::cases::{block_on, ping_pong, spawn, timers, wake};
use crate::systems::{
    async_executor::AsyncExecutor,
    async_io::AsyncIo,
    async_task::AsyncTask,
    embassy::Embassy,
    firstpoll::Firstpoll,
    futures::{Futures, Pool},
    futures_lite::FuturesLite,
    futures_timer::FuturesTimer,
    pollster::Pollster,
    tokio::{CurrentThread, CurrentThreadWithTime, MultiThread},
};

/// One case on one system.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The case, such as `block_on/ready`.
    pub case: &'static str,
    /// The system, such as `firstpoll`.
    pub system: &'static str,
    /// The threads that take part.
    pub threads: Threads,
    /// Sets the system up for the calling thread.
    pub prepare: fn() -> Run,
}

/// How many threads take part in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread alone: its instructions can be counted.
    One,
    /// Others as well, so that counts would depend on how they meet.
    Several,
}

/// The whole table, the systems of a case next to each other.
pub fn entries() -> Vec<Entry> {
    use Threads::{One, Several};

    let mut table = Table::default();
    table
        .case("block_on/ready")
        .add("firstpoll", One, block_on::ready::<Firstpoll>)
        .add("pollster", One, block_on::ready::<Pollster>)
        .add("futures", One, block_on::ready::<Futures>)
        .add("futures LocalPool", One, block_on::ready::<Pool>)
        .add("futures-lite", One, block_on::ready::<FuturesLite>)
        .add(
            "tokio current_thread",
            One,
            block_on::ready::<CurrentThread>,
        )
        .add(
            "tokio multi_thread",
            Several,
            block_on::ready::<MultiThread>,
        )
        .add("async-executor", One, block_on::ready::<AsyncExecutor>);
    table
        .case("block_on/yields_once")
        .add("firstpoll", One, block_on::yields_once::<Firstpoll>)
        .add("pollster", One, block_on::yields_once::<Pollster>)
        .add("futures", One, block_on::yields_once::<Futures>)
        .add("futures LocalPool", One, block_on::yields_once::<Pool>)
        .add("futures-lite", One, block_on::yields_once::<FuturesLite>)
        .add(
            "tokio current_thread",
            One,
            block_on::yields_once::<CurrentThread>,
        )
        .add(
            "tokio multi_thread",
            Several,
            block_on::yields_once::<MultiThread>,
        )
        .add(
            "async-executor",
            One,
            block_on::yields_once::<AsyncExecutor>,
        );
    table
        .case("block_on/woken_by_thread")
        .add("firstpoll", Several, block_on::other_thread::<Firstpoll>)
        .add("pollster", Several, block_on::other_thread::<Pollster>)
        .add("futures", Several, block_on::other_thread::<Futures>)
        .add("futures LocalPool", Several, block_on::other_thread::<Pool>)
        .add(
            "futures-lite",
            Several,
            block_on::other_thread::<FuturesLite>,
        )
        .add(
            "tokio current_thread",
            Several,
            block_on::other_thread::<CurrentThread>,
        )
        .add(
            "tokio multi_thread",
            Several,
            block_on::other_thread::<MultiThread>,
        )
        .add(
            "async-executor",
            Several,
            block_on::other_thread::<AsyncExecutor>,
        );
    table
        .case("spawn/run_and_join")
        .add("firstpoll", One, spawn::run_and_join::<Firstpoll>)
        .add("futures LocalPool", One, spawn::run_and_join::<Pool>)
        .add(
            "tokio current_thread",
            One,
            spawn::run_and_join::<CurrentThread>,
        )
        .add(
            "tokio multi_thread",
            Several,
            spawn::run_and_join::<MultiThread>,
        )
        .add("async-executor", One, spawn::run_and_join::<AsyncExecutor>)
        .add("async-task", One, spawn::run_and_join::<AsyncTask>);
    // Not on tokio's multi_thread, whose workers would run the task.
    table
        .case("wake/queued")
        .add("firstpoll", One, wake::queued::<Firstpoll>)
        .add("futures LocalPool", One, wake::queued::<Pool>)
        .add("tokio current_thread", One, wake::queued::<CurrentThread>)
        .add("async-executor", One, wake::queued::<AsyncExecutor>)
        .add("async-task", One, wake::queued::<AsyncTask>)
        .add("embassy-executor", One, wake::queued::<Embassy>);
    table
        .case("ping_pong/1000_tasks")
        .add("firstpoll", One, ping_pong::thousand_tasks::<Firstpoll>)
        .add("futures LocalPool", One, ping_pong::thousand_tasks::<Pool>)
        .add(
            "tokio current_thread",
            One,
            ping_pong::thousand_tasks::<CurrentThread>,
        )
        .add(
            "tokio multi_thread",
            Several,
            ping_pong::thousand_tasks::<MultiThread>,
        )
        .add(
            "async-executor",
            One,
            ping_pong::thousand_tasks::<AsyncExecutor>,
        )
        .add("async-task", One, ping_pong::thousand_tasks::<AsyncTask>)
        .add(
            "embassy-executor",
            One,
            ping_pong::thousand_tasks::<Embassy>,
        );
    table
        .case("timer/arm_and_cancel")
        .add("firstpoll", One, timers::arm_and_cancel::<Firstpoll>)
        .add(
            "tokio current_thread",
            One,
            timers::arm_and_cancel::<CurrentThreadWithTime>,
        )
        .add("async-io", Several, timers::arm_and_cancel::<AsyncIo>)
        .add(
            "futures-timer",
            Several,
            timers::arm_and_cancel::<FuturesTimer>,
        );
    table
        .case("timer/100000_cancelled")
        .add("firstpoll", One, timers::many_cancelled::<Firstpoll>)
        .add(
            "tokio current_thread",
            One,
            timers::many_cancelled::<CurrentThreadWithTime>,
        )
        .add("async-io", Several, timers::many_cancelled::<AsyncIo>)
        .add(
            "futures-timer",
            Several,
            timers::many_cancelled::<FuturesTimer>,
        );
    // Not on those that expire timers in another thread: it is this thread's
    // time that is taken. And not counted: how often the clock finds a
    // timer due depends on the machine's speed.
    table
        .case("timer/100000_expired")
        .add("firstpoll", Several, timers::many_expired::<Firstpoll>)
        .add(
            "tokio current_thread",
            Several,
            timers::many_expired::<CurrentThreadWithTime>,
        );
    table.entries
}

#[derive(Default)]
struct Table {
    case: &'static str,
    entries: Vec<Entry>,
}

impl Table {
    /// What is added from now on belongs to `case`.
    fn case(&mut self, case: &'static str) -> &mut Self {
        self.case = case;
        self
    }

    fn add(&mut self, system: &'static str, threads: Threads, prepare: fn() -> Run) -> &mut Self {
        self.entries.push(Entry {
            case: self.case,
            system,
            threads,
            prepare,
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that no case waits for ever, or stops working on one system.
    #[test]
    fn every_entry_runs() {
        for entry in entries() {
            // On a thread of its own: a core without leftovers.
            let run = std::thread::spawn(move || (entry.prepare)()(3));
            let took = run.join();
            assert!(took.is_ok(), "{} on {}", entry.case, entry.system);
        }
    }

    #[test]
    fn firstpoll_has_every_case() {
        let entries = entries();
        for entry in &entries {
            let of_case = entries.iter().filter(|other| other.case == entry.case);
            let firstpolls = of_case.filter(|other| other.system == "firstpoll");
            assert_eq!(firstpolls.count(), 1, "{}", entry.case);
        }
    }
}
