//! The instruction counts that `cargo xtask bench --check` compares.

use anyhow::Result;
use firstpoll_qemu_tests::{icount, run};
use xtask::guest::Ending;

/// How far two runs may be apart.
const REPEATABLE: f64 = 0.005;

#[test]
fn two_runs_count_the_same() -> Result<()> {
    for program in ["ready", "counts"] {
        let (one, other) = (run(program, &icount(""))?, run(program, &icount(""))?);
        assert_eq!(one.ending, Ending::Guest(0), "{}", one.text());
        assert_eq!(one.lines.len(), other.lines.len());
        for line in &one.lines {
            let (name, count) = line.split_once(' ').expect("a name and a count");
            let (count, again): (f64, f64) = (count.parse()?, other.value(name)?);
            let apart = (count - again).abs() / count;
            assert!(apart <= REPEATABLE, "{name}: {count}, then {again}");
        }
    }
    Ok(())
}
