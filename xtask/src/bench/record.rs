//! The figures of a run, as they are written and read.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What the runs of one measurement came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The suite.
    pub bench: String,
    /// What was measured.
    pub system: String,
    /// Under which circumstances.
    pub case: String,
    /// Which figure of it.
    pub metric: String,
    /// The unit of the three figures.
    pub unit: String,
    /// The middle one of the runs; of an even number the mean of the two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Record {
    /// Whether both are the same measurement, whatever came of it.
    pub fn same_measurement(&self, other: &Self) -> bool {
        self.bench == other.bench
            && self.system == other.system
            && self.case == other.case
            && self.metric == other.metric
    }
}

/// The median, the smallest and the largest of `values`, which are not empty.
pub fn summary(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    (median, sorted[0], sorted[sorted.len() - 1])
}

/// Writes `records` as a flat list in JSON.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(file: &Path, records: &[Record]) -> Result<()> {
    let mut json = serde_json::to_string_pretty(records)?;
    json.push('\n');
    fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}

/// Reads what [`write`] has written.
///
/// # Errors
///
/// If the file is missing or is no list of records.
pub fn read(file: &Path) -> Result<Vec<Record>> {
    let json =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&json).with_context(|| format!("{} holds no records", file.display()))
}

#[cfg(test)]
impl Record {
    /// A record for tests: five runs, all of them `median`.
    pub fn example(bench: &str, system: &str, case: &str, metric: &str, median: f64) -> Self {
        Self {
            bench: bench.to_owned(),
            system: system.to_owned(),
            case: case.to_owned(),
            metric: metric.to_owned(),
            unit: "requests/s".to_owned(),
            median,
            min: median,
            max: median,
            runs: 5,
        }
    }

    /// The same, with runs a tenth below and above.
    pub fn spread(self) -> Self {
        Self {
            min: self.median * 0.9,
            max: self.median * 1.1,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(summary(&[3.0]), (3.0, 3.0, 3.0));
        assert_eq!(summary(&[9.0, 1.0, 4.0]), (4.0, 1.0, 9.0));
        assert_eq!(summary(&[9.0, 1.0, 4.0, 2.0]), (3.0, 1.0, 9.0));
    }
}
