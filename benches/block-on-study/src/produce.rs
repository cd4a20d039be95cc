//! The producer: at a pace, then in bursts.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::channel::{Message, Sender};
use crate::executor::Executor;
use crate::options::{Between, Pace, Producer, ReceiveOptions, TimerKind};
use crate::timer;

/// Messages in a burst.
pub const BURST: usize = 100;

/// What to produce.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Messages at a pace.
    pub paced: usize,
    /// That pace.
    pub pace: Pace,
    /// Bytes per message.
    pub size: usize,
}

/// A producer under way.
#[derive(Debug)]
pub enum Source<'a> {
    /// It has a thread, which produces a burst for every message in here.
    Thread(mpsc::Sender<()>),
    /// It is a task of this executor.
    Task {
        executor: &'a Executor,
        plan: Plan,
        sender: Arc<Sender>,
    },
}

impl<'a> Source<'a> {
    /// Starts the paced messages.
    ///
    /// # Errors
    ///
    /// If the options want a task and the executor has none.
    pub fn start(
        plan: Plan,
        sender: Sender,
        options: &ReceiveOptions,
        executor: Option<&'a Executor>,
    ) -> Result<Self> {
        match (options.producer, executor) {
            (Producer::Thread, _) => {
                let (go, gone) = mpsc::channel();
                thread::spawn(move || plan.produce(&sender, &gone));
                Ok(Self::Thread(go))
            }
            (Producer::Task, Some(executor)) => {
                let sender = Arc::new(sender);
                let paced = plan.produce_paced(sender.clone(), options.timer);
                spawn(executor, paced)?;
                Ok(Self::Task {
                    executor,
                    plan,
                    sender,
                })
            }
            (Producer::Task, None) => bail!("the executor `none` has no tasks"),
        }
    }

    /// Starts a burst.
    ///
    /// # Errors
    ///
    /// If the producer is gone.
    pub fn start_burst(&self) -> Result<()> {
        match self {
            Self::Thread(go) => Ok(go.send(())?),
            Self::Task {
                executor,
                plan,
                sender,
            } => spawn(executor, plan.produce_burst(sender.clone())),
        }
    }
}

fn spawn(executor: &Executor, task: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    match executor {
        Executor::TokioCurrent(runtime) => drop(runtime.spawn(task)),
        Executor::Firstpoll => firstpoll::spawn(task).detach(),
        _ => bail!("only `tokio-current` and `firstpoll` run tasks on the receiver's thread"),
    }
    Ok(())
}

impl Plan {
    fn send(&self, sender: &Sender) {
        // Written, not only reserved: a message has content.
        let payload = vec![1; self.size];
        sender.send(Message {
            sent: Instant::now(),
            payload,
        });
    }

    fn produce(self, sender: &Sender, go: &mpsc::Receiver<()>) {
        for _ in 0..self.paced {
            wait(self.pace);
            self.send(sender);
        }
        while go.recv().is_ok() {
            for _ in 0..BURST {
                self.send(sender);
            }
        }
    }

    async fn produce_paced(self, sender: Arc<Sender>, timer: TimerKind) {
        for _ in 0..self.paced {
            timer::sleep(timer, self.pace.period).wait().await;
            self.send(&sender);
        }
    }

    /// Yields after each message, so that each is one switch between tasks.
    async fn produce_burst(self, sender: Arc<Sender>) {
        for _ in 0..BURST {
            self.send(&sender);
            futures_lite::future::yield_now().await;
        }
    }
}

/// Waits as `pace` says.
pub fn wait(pace: Pace) {
    match pace.between {
        Between::Sleep => thread::sleep(pace.period),
        Between::Spin => spin(pace.period),
    }
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}
