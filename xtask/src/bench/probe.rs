//! What a suite hands to the harness: what to measure, beside what.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

/// One figure of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Under which circumstances it was measured.
    pub case: String,
    /// What it is.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

impl Sample {
    /// A figure.
    pub fn new(
        case: impl Into<String>,
        metric: &'static str,
        unit: &'static str,
        value: f64,
    ) -> Self {
        Self {
            case: case.into(),
            metric,
            unit,
            value,
        }
    }
}

/// One system's part of a [`Group`].
pub struct Probe<'a> {
    /// What is measured.
    pub system: String,
    /// About how long that takes.
    pub takes: Duration,
    /// Measures once.
    pub measure: Box<dyn FnMut() -> Result<Vec<Sample>> + 'a>,
}

impl fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("system", &self.system)
            .finish_non_exhaustive()
    }
}

/// Probes that are compared with each other: every round measures each of them
/// once, in turn, since the machine's speed drifts.
#[derive(Debug)]
pub struct Group<'a> {
    /// The suite.
    pub bench: &'static str,
    /// What the group is about, for the progress bar.
    pub name: String,
    /// The systems.
    pub probes: Vec<Probe<'a>>,
    /// Whether every run gives the same, so that two do.
    pub repeatable: bool,
}

/// How much time a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For figures to be quoted.
    Full,
    /// To see that all works, and about where the figures are.
    Quick,
}

impl Effort {
    /// The rounds of every group.
    pub fn rounds(self) -> usize {
        match self {
            Self::Full => 5,
            Self::Quick => 1,
        }
    }

    /// What it is, for readers of the figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "Five rounds",
            Self::Quick => "One short round",
        }
    }

    /// One of two, for a suite's own durations.
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}
