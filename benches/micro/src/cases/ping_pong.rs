//! 1,000 tasks, in pairs that hand a ball to and fro.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use atomic_waker::AtomicWaker;

use super::Gate;
use crate::run::{Run, timed};
use crate::system::Tasks;

const TASKS: usize = 1_000;

/// So many that the spawns hardly count.
const THROWS_PER_TASK: usize = 100;

pub(crate) fn thousand_tasks<S: Tasks + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        timed(times, || {
            let gate = Arc::new(Gate::new(TASKS));
            for _ in 0..TASKS / 2 {
                let ball = Arc::new(Ball::default());
                for side in [0, 1] {
                    system.spawn_detached(player(Arc::clone(&ball), side, Arc::clone(&gate)));
                }
            }
            system.run_until(&gate);
        })
    })
}

#[derive(Default)]
struct Ball {
    /// The side that has it.
    side: AtomicUsize,
    players: [AtomicWaker; 2],
}

async fn player(ball: Arc<Ball>, side: usize, gate: Arc<Gate>) {
    for _ in 0..THROWS_PER_TASK {
        poll_fn(|context| {
            if ball.side.load(SeqCst) == side {
                return Poll::Ready(());
            }
            ball.players[side].register(context.waker());
            match ball.side.load(SeqCst) == side {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        ball.side.store(1 - side, SeqCst);
        ball.players[1 - side].wake();
    }
    gate.arrive();
}
