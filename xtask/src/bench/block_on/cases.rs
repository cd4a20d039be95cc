//! Which configurations of the host's program are measured, beside which.

use std::time::Duration;

pub const STEPS: &str = "block_on: steps";
pub const TIMERS: &str = "block_on: timers";
pub const WAKES: &str = "block_on: wakes";
pub const EXECUTORS: &str = "block_on: executors";
pub const LOOPS: &str = "block_on: loops";
pub const PAIRS: &str = "block_on: timers in the loop";
pub const CHANNELS: &str = "block_on: channels";
pub const AROUND: &str = "block_on: surroundings";

/// A call of the program.
#[derive(Debug)]
pub struct Case {
    /// Its name in the figures; the program adds to it.
    pub name: String,
    /// The arguments.
    pub args: String,
    /// About how long it takes.
    pub takes: Duration,
}

/// A group on the host.
#[derive(Debug)]
pub struct Host {
    /// The name in the figures.
    pub bench: &'static str,
    /// What is compared, with the calls for each.
    pub systems: Vec<(String, Vec<Case>)>,
}

/// The sender is never asleep, and the receiver only for a moment.
const WARM: &str = "--period 50 --between spin";

/// The `block_on`s, by their options and names.
const EXECUTOR_NAMES: [(&str, &str); 8] = [
    ("firstpoll", "firstpoll (host)"),
    ("futures", "futures"),
    ("futures-lite", "futures-lite"),
    ("pollster", "pollster"),
    ("async-io", "async-io"),
    ("tokio-current", "tokio current_thread"),
    ("tokio-multi", "tokio multi-thread"),
    ("tokio-handle", "tokio Handle"),
];

/// All groups, with `samples` paced messages per call.
pub fn all(samples: usize) -> Vec<Host> {
    let calls = Calls { samples };
    vec![
        calls.steps(),
        calls.timers(),
        calls.wakes(),
        calls.executors(),
        calls.loops(),
        calls.pairs(),
        calls.channels(),
        calls.surroundings(),
    ]
}

struct Calls {
    samples: usize,
}

impl Calls {
    /// A call of `receive`; unless `args` say so, its messages are 5 ms apart.
    fn receive(&self, name: &str, args: &str) -> Case {
        self.paced("receive", name, args)
    }

    fn paced(&self, study: &str, name: &str, args: &str) -> Case {
        // Many more where they cost nothing.
        let (samples, period_us) = match args.contains(WARM) {
            true => (self.samples * 20, 50),
            false => (self.samples, 5000),
        };
        Case {
            name: name.to_owned(),
            args: format!("{study} --samples {samples} {args}"),
            takes: Duration::from_micros(period_us * (samples as u64 + 10) + 110_000),
        }
    }

    fn steps(&self) -> Host {
        let system = |option: &str, name: &str| {
            let case = Case {
                name: String::new(),
                args: format!("steps --executor {option}"),
                takes: Duration::from_millis(200),
            };
            (name.to_owned(), vec![case])
        };
        let executors = EXECUTOR_NAMES.map(|(option, name)| system(option, name));
        let mut systems = Vec::from(executors);
        systems.push(system("none", "a loop that polls"));
        Host {
            bench: STEPS,
            systems,
        }
    }

    fn timers(&self) -> Host {
        let names = [
            ("firstpoll", "firstpoll (host)"),
            ("futures-timer", "futures-timer"),
            ("async-io", "async-io"),
            ("tokio", "tokio current_thread"),
        ];
        let systems = names.map(|(option, name)| {
            let case = Case {
                name: String::new(),
                args: format!("timers --timer {option}"),
                takes: Duration::from_millis(100),
            };
            (name.to_owned(), vec![case])
        });
        Host {
            bench: TIMERS,
            systems: systems.into(),
        }
    }

    fn wakes(&self) -> Host {
        let systems = ["park", "condvar", "futex", "eventfd", "spin"].map(|mechanism| {
            let call = |name, args| {
                let args = format!("--mechanism {mechanism} {args}");
                self.paced("wakes", name, &args)
            };
            let cases = vec![
                call("every 5 ms", ""),
                call("every 5 ms, cores kept warm", "--warm-cores"),
                call("every 50 µs, sender spins", WARM),
            ];
            (mechanism.to_owned(), cases)
        });
        Host {
            bench: WAKES,
            systems: systems.into(),
        }
    }

    fn executors(&self) -> Host {
        let cases = |args: &str| {
            vec![
                self.receive("every 5 ms", args),
                self.receive("every 50 µs, sender spins", &format!("{args} {WARM}")),
            ]
        };
        let mut systems: Vec<_> = EXECUTOR_NAMES
            .iter()
            .map(|(option, name)| {
                let args = format!("--executor {option} --channel tokio");
                ((*name).to_owned(), cases(&args))
            })
            .collect();
        let std = cases("--executor none --channel std");
        systems.push(("std::sync::mpsc, no future".to_owned(), std));
        Host {
            bench: EXECUTORS,
            systems,
        }
    }

    fn loops(&self) -> Host {
        let loops = [
            ("wait", "wait"),
            ("wait, then drain", "drain"),
            ("wait, then hold 1 µs", "hold --hold 1"),
            ("wait, then hold 300 µs", "hold"),
            ("the same, no timer slack", "hold --timer-slack 1"),
        ];
        let systems = loops.map(|(name, shape)| {
            let executors = EXECUTOR_NAMES.iter().filter(|(option, _)| {
                ["firstpoll", "futures", "tokio-current", "tokio-multi"].contains(option)
            });
            let cases = executors.map(|(option, executor)| {
                self.receive(executor, &format!("--executor {option} --loop {shape}"))
            });
            (name.to_owned(), cases.collect())
        });
        Host {
            bench: LOOPS,
            systems: systems.into(),
        }
    }

    fn pairs(&self) -> Host {
        let pairs = [
            ("firstpoll", "firstpoll"),
            ("firstpoll", "futures-timer"),
            ("futures", "futures-timer"),
            ("futures", "async-io"),
            ("futures", "tokio"),
            ("async-io", "async-io"),
            ("tokio-current", "tokio"),
            ("tokio-multi", "tokio"),
        ];
        let systems = pairs.map(|(executor, timer)| {
            let call = |name, args| {
                let args = format!("--executor {executor} --timer {timer} {args}");
                self.receive(name, &args)
            };
            let cases = vec![
                call("no timer", "--loop wait"),
                call("timeout", "--loop timeout"),
                call("race, timer first", "--loop race"),
                call("hold 300 µs", "--loop hold"),
            ];
            (format!("{executor} with {timer}"), cases)
        });
        Host {
            bench: PAIRS,
            systems: systems.into(),
        }
    }

    fn channels(&self) -> Host {
        let channels = [
            ("flume", "flume"),
            ("tokio", "tokio::sync::mpsc"),
            ("async-channel", "async-channel"),
            ("wake-locked", "mutex and queue, wakes locked"),
            ("wake-unlocked", "mutex and queue, wakes unlocked"),
        ];
        let systems = channels.map(|(option, name)| {
            let args = format!("--channel {option}");
            let cases = vec![
                self.receive("every 5 ms", &args),
                self.receive("every 50 µs, sender spins", &format!("{args} {WARM}")),
            ];
            (name.to_owned(), cases)
        });
        Host {
            bench: CHANNELS,
            systems: systems.into(),
        }
    }

    /// One thing changed at a time around the same loop.
    fn surroundings(&self) -> Host {
        let around = [
            ("as it is", ""),
            ("sender spins 5 ms", "--between spin"),
            ("cores kept warm", "--warm-cores"),
            ("one more thread", "--hops 1"),
            ("two more threads", "--hops 2"),
            ("4 KiB", "--size 4096"),
            ("400 KiB", "--size 409600"),
        ];
        let executors = [
            ("firstpoll (host)", "firstpoll", "firstpoll"),
            ("futures", "futures", ""),
            ("tokio current_thread", "tokio-current", "tokio"),
            ("tokio multi-thread", "tokio-multi", ""),
        ];
        let systems = executors.map(|(name, option, own_timer)| {
            let executor = format!("--executor {option} --channel tokio");
            let mut cases: Vec<_> = around
                .iter()
                .map(|(name, args)| self.receive(name, &format!("{executor} {args}")))
                .collect();
            if !own_timer.is_empty() {
                let args = format!("{executor} --producer task --timer {own_timer}");
                cases.push(self.receive("sender is a task", &args));
            }
            if option == "tokio-multi" {
                let args = format!("{executor} --workers 8");
                cases.push(self.receive("8 worker threads", &args));
            }
            (name.to_owned(), cases)
        });
        Host {
            bench: AROUND,
            systems: systems.into(),
        }
    }
}
