//! The receive loop: one `block_on` per message, as dora's nodes did it.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::channel::{self, Message, Receiver, Sender};
use crate::executor::{self, Executor};
use crate::options::{ChannelKind, ExecutorKind, Producer, ReceiveOptions, Shape, TimerKind};
use crate::produce::{BURST, Plan, Source};
use crate::report::{figure, median, micros, percentiles};
use crate::system::{self, Usage, WarmCores};
use crate::timer;

/// Paced messages before those that are measured.
pub const WARM_UP: usize = 10;

/// How long bursts go on; there is at least one.
const BURSTS: Duration = Duration::from_millis(100);

/// Measures what `options` describe and prints it.
///
/// # Errors
///
/// If the options do not fit together, or a message is lost.
pub fn run(options: &ReceiveOptions) -> Result<()> {
    check(options)?;
    if let Some(slack_ns) = options.pace.timer_slack {
        system::set_timer_slack(slack_ns).context("cannot set the timer slack")?;
    }
    // tokio's timers need a runtime. With another crate's `block_on` they run
    // on the threads of this one.
    let runtime = needs_runtime(options)
        .then(|| executor::multi_thread(options.workers))
        .transpose()?;
    let _context = runtime.as_ref().map(|runtime| runtime.enter());
    let executor = match options.executor {
        ExecutorKind::None => None,
        kind => Some(Executor::new(kind, options.workers)?),
    };
    let _warm = options
        .pace
        .warm_cores
        .then(WarmCores::start)
        .transpose()
        .context("cannot keep the cores warm")?;

    let (sender, mut receiver) = channel::channel(options.channel);
    for _ in 0..options.hops {
        let (onward, next) = channel::channel(options.channel);
        thread::spawn(move || hand_on(receiver, &onward));
        receiver = next;
    }
    let plan = Plan {
        paced: WARM_UP + options.samples,
        pace: options.pace,
        size: options.size,
    };
    let source = Source::start(plan, sender, options, executor.as_ref())?;
    let mut inbox = Inbox {
        executor: executor.as_ref(),
        receiver,
        queue: VecDeque::new(),
        options,
    };
    inbox.receive_paced()?;
    inbox.receive_bursts(&source)
}

fn check(options: &ReceiveOptions) -> Result<()> {
    let is_std = options.channel == ChannelKind::Std;
    let is_none = options.executor == ExecutorKind::None;
    ensure!(
        is_std == is_none,
        "the channel `std` and the executor `none` go together"
    );
    ensure!(
        !is_none || (options.shape == Shape::Wait && options.hops == 0),
        "the executor `none` has only the loop `wait`, without hops"
    );
    let has_timer = matches!(options.shape, Shape::Timeout | Shape::Race | Shape::Hold);
    ensure!(
        !has_timer
            || options.timer != TimerKind::Firstpoll
            || options.executor == ExecutorKind::Firstpoll,
        "firstpoll's timers need its `block_on`"
    );
    ensure!(
        options.producer == Producer::Thread || options.hops == 0,
        "a producer that is a task has no hops"
    );
    ensure!(options.samples > 0, "there is nothing to measure");
    Ok(())
}

fn needs_runtime(options: &ReceiveOptions) -> bool {
    let has_one = matches!(
        options.executor,
        ExecutorKind::TokioCurrent | ExecutorKind::TokioMulti
    );
    options.timer == TimerKind::Tokio && !has_one
}

/// Hands messages on, as dora's thread for incoming events did.
fn hand_on(mut receiver: Receiver, onward: &Sender) {
    while let Some(message) = futures::executor::block_on(receiver.recv()) {
        onward.send(message);
    }
}

/// The receiving side.
struct Inbox<'a> {
    executor: Option<&'a Executor>,
    receiver: Receiver,
    /// Messages that were taken and not returned yet: dora's scheduler.
    queue: VecDeque<Message>,
    options: &'a ReceiveOptions,
}

impl Inbox<'_> {
    fn receive_paced(&mut self) -> Result<()> {
        let samples = self.options.samples;
        for _ in 0..WARM_UP {
            self.receive()?;
        }
        let before = Usage::now()?;
        let mut latencies = Vec::with_capacity(samples);
        for _ in 0..samples {
            let message = self.receive()?;
            latencies.push(message.sent.elapsed());
        }
        let used = Usage::now()?.since(before);
        percentiles("paced", &mut latencies);
        self.print_usage("paced", used, samples);
        Ok(())
    }

    fn receive_bursts(&mut self, source: &Source<'_>) -> Result<()> {
        let mut rates = Vec::new();
        let before = Usage::now()?;
        let start = Instant::now();
        while rates.is_empty() || start.elapsed() < BURSTS {
            source.start_burst()?;
            let first = self.receive()?.sent;
            for _ in 1..BURST {
                self.receive()?;
            }
            rates.push(BURST as f64 / first.elapsed().as_secs_f64());
        }
        let used = Usage::now()?.since(before);
        figure("burst", "throughput", "messages/s", median(&mut rates));
        self.print_usage("burst", used, rates.len() * BURST);
        Ok(())
    }

    /// What a message cost; not told if threads of ours kept the cores busy.
    fn print_usage(&self, case: &str, used: Usage, messages: usize) {
        if self.options.pace.warm_cores {
            return;
        }
        let messages = messages as f64;
        figure(case, "cpu", "µs/message", micros(used.cpu) / messages);
        let switches = used.switches as f64 / messages;
        figure(case, "switches", "1/message", switches);
    }

    fn receive(&mut self) -> Result<Message> {
        let message = match self.executor {
            Some(executor) => {
                executor.block_on(next(&mut self.receiver, &mut self.queue, self.options))
            }
            None => self.receiver.recv_blocking(),
        };
        let message = message.context("the producer has ended, or the timeout has come")?;
        ensure!(
            message.payload.len() == self.options.size,
            "a message has lost bytes"
        );
        Ok(message)
    }
}

/// The next message, awaited as the options say; `None` if the sender is gone
/// or the timeout has come.
async fn next(
    receiver: &mut Receiver,
    queue: &mut VecDeque<Message>,
    options: &ReceiveOptions,
) -> Option<Message> {
    let timer = |duration| timer::sleep(options.timer, duration);
    match options.shape {
        Shape::Wait => receiver.recv().await,
        Shape::Timeout => timer::timeout(timer(options.timeout), receiver.recv()).await?,
        Shape::Race => timer::race(timer(options.timeout), receiver.recv()).await?,
        Shape::Drain => {
            if queue.is_empty() {
                queue.push_back(receiver.recv().await?);
            }
            while let Some(message) = receiver.try_recv() {
                queue.push_back(message);
            }
            queue.pop_front()
        }
        Shape::Hold => {
            if queue.is_empty() {
                queue.push_back(receiver.recv().await?);
            }
            while let Some(message) = timer::race(timer(options.hold), receiver.recv()).await {
                queue.push_back(message?);
            }
            queue.pop_front()
        }
    }
}
