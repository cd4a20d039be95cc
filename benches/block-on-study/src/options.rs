//! The command line: one value per suspect.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Why is one `block_on` faster than another?
#[derive(Debug, Parser)]
pub struct Options {
    /// What to measure.
    #[command(subcommand)]
    pub study: Study,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Study {
    /// A receive loop: messages at a pace for the latency, then in bursts for
    /// the throughput
    Receive(ReceiveOptions),
    /// What a `block_on` costs without another thread
    Steps(StepsOptions),
    /// What a timer costs that is raced against a ready future
    Timers(TimersOptions),
    /// What a wake across threads costs without a future
    Wakes(WakesOptions),
}

/// The options of `receive`.
#[derive(Clone, Debug, Args)]
pub struct ReceiveOptions {
    /// Whose `block_on` waits, once per message
    #[arg(long, value_enum, default_value = "futures")]
    pub executor: ExecutorKind,
    /// What the messages come through
    #[arg(long, value_enum, default_value = "flume")]
    pub channel: ChannelKind,
    /// How a message is awaited
    #[arg(long = "loop", value_enum, default_value = "wait")]
    pub shape: Shape,
    /// Whose timer the loop uses
    #[arg(long, value_enum, default_value = "futures-timer")]
    pub timer: TimerKind,
    /// The timeout of a receive in µs, which never comes
    #[arg(long, default_value = "1000000", value_parser = micros)]
    pub timeout: Duration,
    /// How long in µs the loop `hold` waits for more
    #[arg(long, default_value = "300", value_parser = micros)]
    pub hold: Duration,
    /// Messages whose latency is measured; 10 more come before them
    #[arg(long, default_value_t = 100)]
    pub samples: usize,
    /// Time between two of them
    #[command(flatten)]
    pub pace: Pace,
    /// Bytes per message
    #[arg(long, default_value_t = 8)]
    pub size: usize,
    /// Threads between producer and receiver that only hand messages on
    #[arg(long, default_value_t = 0)]
    pub hops: usize,
    /// Where the producer runs
    #[arg(long, value_enum, default_value = "thread")]
    pub producer: Producer,
    /// Worker threads of tokio's multi-thread runtime
    #[arg(long, default_value_t = 2)]
    pub workers: usize,
}

/// How the producer paces.
#[derive(Clone, Copy, Debug, Args)]
pub struct Pace {
    /// Time between two messages in µs
    #[arg(long, default_value = "5000", value_parser = micros)]
    pub period: Duration,
    /// What the producer does meanwhile
    #[arg(long, value_enum, default_value = "sleep")]
    pub between: Between,
    /// Keep every core out of its idle state with a thread of idle priority
    #[arg(long)]
    pub warm_cores: bool,
    /// How late in ns the kernel may end a sleep, to end several at once;
    /// Linux allows itself 50,000
    #[arg(long, value_name = "NS")]
    pub timer_slack: Option<u32>,
}

/// The options of `steps`.
#[derive(Clone, Debug, Args)]
pub struct StepsOptions {
    /// Whose `block_on`
    #[arg(long, value_enum)]
    pub executor: ExecutorKind,
}

/// The options of `timers`.
#[derive(Clone, Debug, Args)]
pub struct TimersOptions {
    /// Whose timer
    #[arg(long, value_enum)]
    pub timer: TimerKind,
}

/// The options of `wakes`.
#[derive(Clone, Debug, Args)]
pub struct WakesOptions {
    /// What the waiting thread waits with
    #[arg(long, value_enum)]
    pub mechanism: Mechanism,
    /// Wakes that are measured; 10 more come before them
    #[arg(long, default_value_t = 100)]
    pub samples: usize,
    /// Time between two of them
    #[command(flatten)]
    pub pace: Pace,
}

/// The `block_on`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExecutorKind {
    /// None: the channel's own blocking receive (channel `std` only)
    None,
    /// `futures::executor::block_on`
    Futures,
    /// `futures_lite::future::block_on`
    FuturesLite,
    /// `pollster::block_on`
    Pollster,
    /// `async_io::block_on`, which runs its reactor
    AsyncIo,
    /// `Runtime::block_on` of tokio's current_thread runtime, which runs its driver
    TokioCurrent,
    /// `Runtime::block_on` of tokio's multi-thread runtime
    TokioMulti,
    /// `Handle::block_on` of tokio's multi-thread runtime, off its threads
    TokioHandle,
    /// `firstpoll::block_on` on the host stand-in
    Firstpoll,
}

/// The channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChannelKind {
    /// `flume`, which wakes a receiver under its lock
    Flume,
    /// `tokio::sync::mpsc`
    Tokio,
    /// `async-channel`
    AsyncChannel,
    /// A queue behind a mutex, woken while the mutex is locked
    WakeLocked,
    /// The same queue, woken after the mutex is unlocked
    WakeUnlocked,
    /// `std::sync::mpsc`, without futures
    Std,
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimerKind {
    /// `futures_timer::Delay`, which has a thread of its own
    FuturesTimer,
    /// `tokio::time::sleep`
    Tokio,
    /// `async_io::Timer`
    AsyncIo,
    /// `firstpoll::time::sleep`
    Firstpoll,
}

/// How a message is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// The receive alone
    Wait,
    /// A timeout around it: the receive is polled first, then the timer
    Timeout,
    /// A race of both: the timer is polled first, then the receive
    Race,
    /// Wait, then take what else is there, without waiting
    Drain,
    /// Wait, then race for more until nothing comes for the hold time
    Hold,
}

/// What a producer does between two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Between {
    /// Sleep
    Sleep,
    /// Spin
    Spin,
}

/// Where a producer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Producer {
    /// On a thread of its own
    Thread,
    /// As a task of the receiver's executor (`tokio-current`, `firstpoll`)
    Task,
}

/// What a thread can wait with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mechanism {
    /// `thread::park`
    Park,
    /// A mutex and a condition variable
    Condvar,
    /// A bare futex
    Futex,
    /// An eventfd that is read
    Eventfd,
    /// A loop that looks at a flag
    Spin,
}

fn micros(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_micros)
}
