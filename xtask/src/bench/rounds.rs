//! Runs the groups, round by round, and sums up.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::probe::{Effort, Group, Sample};
use super::record::{Record, summary};

/// The runs of a group whose every run gives the same.
const REPEATABLE_RUNS: usize = 2;

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures, in the order in which they first came.
    pub records: Vec<Record>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

/// Something that could not be measured.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Its suite.
    pub bench: &'static str,
    /// What it was, and why.
    pub line: String,
}

/// Measures all of `groups`.
///
/// A probe that fails is tried once more; if it fails again, the outcome says
/// so, and the run goes on without it.
pub fn run(groups: &mut [Group<'_>], effort: Effort) -> Outcome {
    let progress = Progress::start(groups, effort);
    let mut outcome = Outcome::default();
    for group in groups {
        let mut series = Series::default();
        for _ in 0..rounds(group, effort) {
            // One that has failed twice would, most likely, again.
            group.probes.retain_mut(|probe| {
                progress.begin(&format!("{} {}: {}", group.bench, group.name, probe.system));
                let samples = (probe.measure)().or_else(|error| {
                    progress.note(&format!("{error:#}; once more"));
                    (probe.measure)()
                });
                progress.end(probe.takes);
                match samples {
                    Ok(samples) => {
                        series.add(&probe.system, samples);
                        true
                    }
                    Err(error) => {
                        outcome.failures.push(Failure {
                            bench: group.bench,
                            line: format!(
                                "{} {}: {}: {error:#}",
                                group.bench, group.name, probe.system
                            ),
                        });
                        false
                    }
                }
            });
        }
        outcome.records.extend(series.records(group.bench));
    }
    progress.finish();
    outcome
}

fn rounds(group: &Group<'_>, effort: Effort) -> usize {
    if group.repeatable {
        REPEATABLE_RUNS
    } else {
        effort.rounds()
    }
}

/// How long all groups take, by their own estimates.
pub fn estimate(groups: &[Group<'_>], effort: Effort) -> Duration {
    let of_group = |group: &Group<'_>| {
        let round: Duration = group.probes.iter().map(|probe| probe.takes).sum();
        round * rounds(group, effort) as u32
    };
    groups.iter().map(of_group).sum()
}

/// Values that belong together.
#[derive(Default)]
struct Series {
    order: Vec<(String, String, &'static str, &'static str)>,
    values: HashMap<(String, String, &'static str, &'static str), Vec<f64>>,
}

impl Series {
    fn add(&mut self, system: &str, samples: Vec<Sample>) {
        for sample in samples {
            let key = (system.to_owned(), sample.case, sample.metric, sample.unit);
            let values = self.values.entry(key.clone()).or_insert_with(|| {
                self.order.push(key);
                Vec::new()
            });
            values.push(sample.value);
        }
    }

    fn records(&self, bench: &str) -> Vec<Record> {
        let record = |key: &(String, String, &'static str, &'static str)| {
            let values = &self.values[key];
            let (median, min, max) = summary(values);
            Record {
                bench: bench.to_owned(),
                system: key.0.clone(),
                case: key.1.clone(),
                metric: key.2.to_owned(),
                unit: key.3.to_owned(),
                median,
                min,
                max,
                runs: values.len(),
            }
        };
        self.order.iter().map(record).collect()
    }
}

/// A bar with the time left, by the probes' estimates; on something else than a
/// terminal a line per probe.
struct Progress(ProgressBar);

impl Progress {
    fn start(groups: &[Group<'_>], effort: Effort) -> Self {
        let total = estimate(groups, effort);
        let bar = ProgressBar::new(total.as_millis() as u64);
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3}% {eta:>4} left  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        if bar.is_hidden() {
            eprintln!("about {} s to measure", total.as_secs());
        }
        Self(bar)
    }

    fn begin(&self, what: &str) {
        if self.0.is_hidden() {
            let percent = 100 * self.0.position() / self.0.length().unwrap_or(1).max(1);
            eprintln!("{percent:>3}% {what}");
        }
        self.0.set_message(what.to_owned());
    }

    fn note(&self, text: &str) {
        if self.0.is_hidden() {
            eprintln!("{text}");
        }
        self.0.println(text);
    }

    fn end(&self, took: Duration) {
        self.0.inc(took.as_millis() as u64);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::bail;

    use super::*;
    use crate::bench::probe::Probe;

    fn group<'a>(probes: Vec<Probe<'a>>) -> Group<'a> {
        Group {
            bench: "b",
            name: "g".to_owned(),
            probes,
            repeatable: false,
        }
    }

    #[test]
    fn systems_alternate() {
        let order = RefCell::new(String::new());
        let probe = |name: &'static str| Probe {
            system: name.to_owned(),
            takes: Duration::ZERO,
            measure: Box::new(|| {
                order.borrow_mut().push_str(name);
                let value = order.borrow().len() as f64;
                Ok(vec![Sample::new("c", "m", "u", value)])
            }),
        };
        let mut groups = [group(vec![probe("A"), probe("B")])];
        let outcome = run(&mut groups, Effort::Full);
        drop(groups);
        assert_eq!(order.into_inner(), "ABABABABAB");
        assert_eq!(outcome.failures, []);
        let b = &outcome.records[1];
        assert_eq!((b.system.as_str(), b.runs), ("B", 5));
        assert_eq!((b.min, b.median, b.max), (2.0, 6.0, 10.0));
    }

    #[test]
    fn one_failure_is_forgiven_and_two_are_told() {
        let mut calls = 0;
        let flaky = Probe {
            system: "flaky".to_owned(),
            takes: Duration::ZERO,
            measure: Box::new(|| {
                calls += 1;
                if calls == 1 {
                    bail!("a stall");
                }
                Ok(vec![Sample::new("c", "m", "u", 1.0)])
            }),
        };
        let broken = Probe {
            system: "broken".to_owned(),
            takes: Duration::ZERO,
            measure: Box::new(|| bail!("no")),
        };
        let outcome = run(&mut [group(vec![flaky, broken])], Effort::Full);
        assert_eq!(outcome.records.len(), 1);
        let failure = Failure {
            bench: "b",
            line: "b g: broken: no".to_owned(),
        };
        assert_eq!(outcome.failures, [failure]);
    }
}
