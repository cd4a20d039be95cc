//! The order and the fairness of passes, against a model that is plain to see.

use std::collections::VecDeque;
use std::sync::Arc;

use firstpoll::arch::host::advance;
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, Work, pass};
use proptest::prelude::*;

use crate::trace::{D, Trace, on_core};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    InterruptSafe,
    Ordinary,
}

#[derive(Clone, Debug)]
enum Step {
    /// Spawns a task that is polled that often.
    Spawn(Kind, usize),
    /// Runs a pass of that budget.
    Pass(usize),
}

/// A task of the model: its name, and its polls left.
type Task = (String, usize);

/// A pass takes a snapshot — what the last one left, in its order, then what
/// came since, the interrupt-safe tasks first — and polls the first `budget`.
#[derive(Debug, Default)]
struct Model {
    left: VecDeque<(Kind, Task)>,
    woken: Vec<(Kind, Task)>,
}

impl Model {
    fn wake(&mut self, kind: Kind, name: String, polls: usize) {
        self.woken.push((kind, (name, polls)));
    }

    fn ready(&self) -> usize {
        self.left.len() + self.woken.len()
    }

    /// Runs a pass; returns the names of those polled, in order.
    fn pass(&mut self, budget: usize) -> Vec<String> {
        let mut woken = std::mem::take(&mut self.woken);
        woken.sort_by_key(|(kind, _)| *kind == Kind::Ordinary);
        self.left.extend(woken);
        let count = budget.min(self.left.len());
        let mut polled = Vec::new();
        for (kind, (name, polls)) in self.left.drain(..count) {
            polled.push(name.clone());
            if polls > 1 {
                self.woken.push((kind, (name, polls - 1)));
            }
        }
        polled
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::InterruptSafe), Just(Kind::Ordinary)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (kind(), 1..5usize).prop_map(|(kind, polls)| Step::Spawn(kind, polls)),
        1 => (0..6usize).prop_map(Step::Pass),
    ]
}

fn spawn(trace: &Trace, kind: Kind, name: &str, polls: usize) {
    match kind {
        Kind::InterruptSafe => trace.spawn_safe(name, polls),
        Kind::Ordinary => trace.spawn(name, polls),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn passes_poll_in_the_order_of_the_model(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        on_core(move || {
            let trace = Trace::new();
            let mut model = Model::default();
            for (index, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Spawn(kind, polls) => {
                        let name = format!("{kind:?} {index}");
                        spawn(&trace, kind, &name, polls);
                        model.wake(kind, name, polls);
                    }
                    Step::Pass(budget) => {
                        let ready = model.ready();
                        let polled = model.pass(budget);
                        let pass = pass(budget);
                        assert_eq!(trace.take(), polled);
                        assert_eq!(pass.polled, polled.len());
                        assert_eq!(pass.left, ready - polled.len());
                        assert_eq!(pass.work == Work::Ready, model.ready() > 0);
                    }
                }
            }
        });
    }

    #[test]
    fn the_nth_ready_task_is_polled_by_the_nth_over_budget_pass(
        tasks in prop::collection::vec((kind(), 1..100usize), 1..40),
        budget in 1..10usize,
    ) {
        on_core(move || {
            let trace = Trace::new();
            // One queue after the other, which is the order of the ready tasks.
            let mut ready: Vec<_> = tasks.into_iter().enumerate().collect();
            ready.sort_by_key(|(_, (kind, _))| *kind == Kind::Ordinary);
            for (index, (kind, polls)) in &ready {
                spawn(&trace, *kind, &format!("task {index}"), *polls);
            }
            let mut polled = Vec::new();
            for n in 1..=ready.len() {
                while polled.len() < n.div_ceil(budget) {
                    let _ = pass(budget);
                    polled.push(trace.take());
                }
                let name = format!("task {}", ready[n - 1].0);
                assert!(polled.iter().flatten().any(|event| *event == name));
            }
        });
    }

    #[test]
    fn the_nth_overdue_task_is_polled_by_the_nth_over_budget_call(
        count in 1..5 * DEFAULT_BUDGET,
        self_waking in 0..5 * DEFAULT_BUDGET,
        interrupt_safe in 0..5usize,
    ) {
        on_core(move || {
            let trace = Trace::new();
            for index in 0..count {
                let polls = if index < self_waking { 1000 } else { 1 };
                trace.spawn(&format!("task {index}"), polls);
            }
            advance(D);
            // They come first, so the n-th ready task is `interrupt_safe` later.
            for _ in 0..interrupt_safe {
                trace.spawn_safe("interrupt-safe", 1000);
            }
            let mut polled = Vec::<Arc<[String]>>::new();
            for n in 1..=count {
                while polled.len() < (interrupt_safe + n).div_ceil(DEFAULT_BUDGET) {
                    block_on(async {});
                    polled.push(trace.take().into());
                }
                let name = format!("task {}", n - 1);
                let found = polled.iter().any(|events| events.contains(&name));
                assert!(found, "{name} was not polled in {} calls", polled.len());
            }
        });
    }
}
