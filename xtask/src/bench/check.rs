//! `cargo xtask bench --check`: the instruction counts beside those committed.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::guest::{BENCH, Programs};
use super::probe::Sample;
use super::record::{self, Record};
use crate::workspace;

/// A change beyond this is one.
const TOLERANCE: f64 = 0.03;

const RECORD_ANEW: &str = "`cargo xtask bench guest --record` records the counts anew";

/// Counts once and compares.
///
/// # Errors
///
/// If there is no baseline, or the counts cannot be taken.
pub fn run() -> Result<ExitCode> {
    Ok(if passes()? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// As [`run`]; whether all is well.
///
/// # Errors
///
/// As there.
pub fn passes() -> Result<bool> {
    let baseline = record::read(&file()).context(RECORD_ANEW)?;
    let programs = Programs::build()?;
    let samples = programs.count()?;
    let report = compare(&baseline, &programs.system(), &samples);
    print!("{report}");
    Ok(report.passed())
}

/// Makes the guest's counts among `records` the baseline, if there are any.
///
/// # Errors
///
/// If the file cannot be written.
pub fn record_baseline(records: &[Record]) -> Result<()> {
    let records = records.iter().filter(|record| record.bench == BENCH);
    let records: Vec<_> = records.cloned().collect();
    if records.is_empty() {
        return Ok(());
    }
    record::write(&file(), &records)
}

fn file() -> PathBuf {
    workspace::root().join("benches/baseline.json")
}

/// What became of the counts.
///
/// It displays as a table, then a line for each thing to know.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
    /// What was counted then, if that is not what is counted now.
    other_system: Option<String>,
    system: String,
}

#[derive(Debug)]
struct Row {
    name: String,
    baseline: Option<f64>,
    now: Option<f64>,
}

/// What a count did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It stayed within the tolerance.
    Stayed,
    Rose,
    Fell,
    /// It was not counted.
    Missing,
    /// The baseline does not have it.
    Unknown,
}

/// Compares the counts of `system` with `baseline`.
pub fn compare(baseline: &[Record], system: &str, now: &[Sample]) -> Report {
    let mut rows: Vec<_> = baseline
        .iter()
        .map(|record| Row {
            name: record.case.clone(),
            baseline: Some(record.median),
            now: now
                .iter()
                .find(|sample| sample.case == record.case)
                .map(|sample| sample.value),
        })
        .collect();
    let known: BTreeSet<_> = baseline.iter().map(|record| &record.case).collect();
    let unknown = now.iter().filter(|sample| !known.contains(&sample.case));
    rows.extend(unknown.map(|sample| Row {
        name: sample.case.clone(),
        baseline: None,
        now: Some(sample.value),
    }));
    let other = baseline.iter().find(|record| record.system != system);
    Report {
        rows,
        other_system: other.map(|record| record.system.clone()),
        system: system.to_owned(),
    }
}

impl Row {
    fn verdict(&self) -> Verdict {
        match (self.baseline, self.now) {
            (Some(baseline), Some(now)) if now > baseline * (1.0 + TOLERANCE) => Verdict::Rose,
            (Some(baseline), Some(now)) if now < baseline * (1.0 - TOLERANCE) => Verdict::Fell,
            (Some(_), Some(_)) => Verdict::Stayed,
            (_, None) => Verdict::Missing,
            (None, Some(_)) => Verdict::Unknown,
        }
    }

    /// The change in percent.
    fn change(&self) -> Option<f64> {
        Some((self.now? / self.baseline? - 1.0) * 100.0)
    }
}

impl Report {
    /// Whether nothing rose, is missing or is unknown.
    pub fn passed(&self) -> bool {
        let mut rows = self.rows.iter().map(Row::verdict);
        !self.rows.is_empty()
            && rows.all(|verdict| matches!(verdict, Verdict::Stayed | Verdict::Fell))
    }

    fn any(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| row.verdict() == verdict)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26} baseline       now  change", "instructions")?;
        for row in &self.rows {
            let count = |count: Option<f64>| count.map_or("-".to_owned(), |it| format!("{it:.0}"));
            let change = row
                .change()
                .map_or("-".to_owned(), |it| format!("{it:+.1} %"));
            let note = match row.verdict() {
                Verdict::Stayed => "",
                Verdict::Rose => "  ROSE",
                Verdict::Fell => "  fell",
                Verdict::Missing => "  MISSING",
                Verdict::Unknown => "  UNKNOWN",
            };
            let (baseline, now) = (count(row.baseline), count(row.now));
            writeln!(
                f,
                "{:<26} {baseline:>8}  {now:>8}  {change:>7}{note}",
                row.name
            )?;
        }
        if self.any(Verdict::Rose) {
            let percent = TOLERANCE * 100.0;
            writeln!(f, "error: counts rose by more than {percent} %")?;
        }
        if self.any(Verdict::Missing) || self.any(Verdict::Unknown) || self.rows.is_empty() {
            writeln!(f, "error: other counts than the baseline's; {RECORD_ANEW}")?;
        }
        if self.any(Verdict::Fell) {
            writeln!(f, "note: counts fell; {RECORD_ANEW}")?;
        }
        if let Some(other) = &self.other_system {
            // Whoever reads of a failure must not look for it in vain.
            writeln!(
                f,
                "note: the baseline is of {other}, this is {}: compilers differ by more than \
                 the tolerance",
                self.system
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(counts: &[(&str, f64)]) -> Vec<Record> {
        let record = |&(name, count): &(&str, f64)| Record {
            bench: BENCH.to_owned(),
            system: "a".to_owned(),
            case: name.to_owned(),
            metric: "instructions".to_owned(),
            unit: "instructions".to_owned(),
            median: count,
            min: count,
            max: count,
            runs: 2,
        };
        counts.iter().map(record).collect()
    }

    fn compared(before: &[(&str, f64)], now: &[(&str, f64)]) -> Report {
        let sample =
            |&(name, count): &(&str, f64)| Sample::new(name, "instructions", "instructions", count);
        let now: Vec<_> = now.iter().map(sample).collect();
        compare(&baseline(before), "a", &now)
    }

    #[test]
    fn only_a_rise_beyond_the_tolerance_fails() {
        for (now, passes) in [(100.0, true), (103.0, true), (103.1, false), (50.0, true)] {
            let report = compared(&[("x", 100.0), ("y", 7.0)], &[("x", now), ("y", 7.0)]);
            assert_eq!(report.passed(), passes, "{report}");
        }
        let report = compared(&[("x", 100.0)], &[("x", 104.0)]);
        assert!(report.to_string().contains("+4.0 %  ROSE"), "{report}");
    }

    #[test]
    fn a_fall_hints_at_a_new_record() {
        let report = compared(&[("x", 100.0)], &[("x", 96.9)]);
        assert!(report.to_string().contains(RECORD_ANEW), "{report}");
        let report = compared(&[("x", 100.0)], &[("x", 97.1)]);
        assert!(!report.to_string().contains(RECORD_ANEW), "{report}");
    }

    #[test]
    fn other_names_fail() {
        let missing = compared(&[("x", 1.0), ("y", 1.0)], &[("x", 1.0)]);
        let unknown = compared(&[("x", 1.0)], &[("x", 1.0), ("y", 1.0)]);
        let nothing = compared(&[], &[]);
        for report in [missing, unknown, nothing] {
            assert!(!report.passed(), "{report}");
            assert!(report.to_string().contains(RECORD_ANEW), "{report}");
        }
    }

    #[test]
    fn another_compiler_is_named() {
        let now = [Sample::new("x", "instructions", "instructions", 1.0)];
        let report = compare(&baseline(&[("x", 1.0)]), "b", &now);
        assert!(report.passed());
        assert!(report.to_string().contains("is of a, this is b"));
    }
}
