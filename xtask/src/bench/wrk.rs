//! wrk, a load of HTTP requests, and what it reports.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::probe::{Effort, Sample};
use crate::{guest, packages, workspace};

/// The script that makes wrk report in numbers.
const SCRIPT: &str = "xtask/src/bench/wrk.lua";

/// How long wrk runs.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    warm_up: Duration,
    measured: Duration,
}

/// What wrk reports of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// The answers.
    pub requests: u64,
    /// The time that they took.
    pub duration: Duration,
    /// Connections, reads and writes that failed, and statuses above 399.
    pub errors: u64,
    /// Answers that took longer than wrk's two seconds.
    pub timeouts: u64,
    /// The middle latency in microseconds.
    pub p50_us: u64,
    /// The latency that one of a hundred exceeds, in microseconds.
    pub p99_us: u64,
    /// The longest latency in microseconds.
    pub max_us: u64,
}

impl Load {
    /// The load for an effort.
    pub fn of(effort: Effort) -> Self {
        Self {
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(effort.pick(3, 1)),
        }
    }

    /// How long [`run`](Self::run) takes.
    pub fn takes(self) -> Duration {
        self.warm_up + self.measured
    }

    /// Warms the server up and measures how it serves `/`.
    ///
    /// # Errors
    ///
    /// If wrk does not run, requests failed, or none was answered.
    pub fn run(self, case: &str, server: SocketAddr, connections: u32) -> Result<Vec<Sample>> {
        self.run_on(case, server, "/", connections)
    }

    /// As [`run`](Self::run), with another `path`.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn run_on(
        self,
        case: &str,
        server: SocketAddr,
        path: &str,
        connections: u32,
    ) -> Result<Vec<Sample>> {
        packages::ensure(&[packages::WRK])?;
        let url = format!("http://{server}{path}");
        run_wrk(&url, connections, self.warm_up)?;
        let report = run_wrk(&url, connections, self.measured)?;
        ensure!(
            report.errors == 0,
            "{case}: {} requests failed",
            report.errors
        );
        ensure!(report.requests > 0, "{case}: no request was answered");
        let rate = report.requests as f64 / report.duration.as_secs_f64();
        Ok(vec![
            Sample::new(case, "requests", "requests/s", rate),
            Sample::new(case, "p50", "µs", report.p50_us as f64),
            Sample::new(case, "p99", "µs", report.p99_us as f64),
            Sample::new(case, "max", "µs", report.max_us as f64),
            Sample::new(case, "timeouts", "requests", report.timeouts as f64),
        ])
    }
}

fn run_wrk(url: &str, connections: u32, duration: Duration) -> Result<Report> {
    let mut command = Command::new(packages::WRK.program);
    command
        .args(["--threads", "1"])
        .args(["--connections", &connections.to_string()])
        .args(["--duration", &format!("{}s", duration.as_secs())])
        .arg("--latency")
        .arg("--script")
        .arg(workspace::root().join(SCRIPT))
        .arg(url);
    guest::end_with_us(&mut command);
    let output = command.output().context("cannot start wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "wrk: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Report::parse(&text).with_context(|| format!("wrk reports nothing:\n{text}"))
}

impl Report {
    fn parse(text: &str) -> Option<Self> {
        let numbers = |name: &str| -> Option<Vec<u64>> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace()
                .map(|word| word.parse().ok())
                .collect()
        };
        let (head, tail) = (numbers("report ")?, numbers("tail ")?);
        let (&[requests, micros, errors, timeouts, p50_us], &[p99_us, max_us]) =
            (head.as_slice(), tail.as_slice())
        else {
            return None;
        };
        Some(Self {
            requests,
            duration: Duration::from_micros(micros),
            errors,
            timeouts,
            p50_us,
            p99_us,
            max_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        let text = "Running 1s test\nreport 1000 2000000 3 4 55\ntail 66 77\n";
        let report = Report::parse(text).expect("it is complete");
        assert_eq!(report.requests, 1000);
        assert_eq!(report.duration, Duration::from_secs(2));
        assert_eq!((report.errors, report.timeouts), (3, 4));
        assert_eq!((report.p50_us, report.p99_us, report.max_us), (55, 66, 77));
        assert_eq!(Report::parse("report 1 2 3\n"), None);
    }
}
