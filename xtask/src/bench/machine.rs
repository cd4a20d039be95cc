//! What the figures were taken with.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use crate::packages;

/// The machine and the tools, a line each, as they were when this was first
/// asked: a run changes files.
pub fn description() -> &'static [(&'static str, String)] {
    static DESCRIPTION: LazyLock<Vec<(&str, String)>> = LazyLock::new(describe);
    &DESCRIPTION
}

fn describe() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = format!("{}, {cores} cores", processor_model());
    let first_line = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let unknown = || "unknown".to_owned();
    let mut lines = vec![
        ("date", jiff::Timestamp::now().strftime("%F").to_string()),
        ("processor", processor),
    ];
    let tools = [
        ("host kernel", "uname", &["-sr"][..]),
        ("emulator", packages::QEMU.program, &["--version"]),
        ("host compiler", "rustc", &["--version"]),
        ("commit", "git", &["describe", "--always", "--dirty"]),
    ];
    for (name, program, args) in tools {
        lines.push((name, first_line(program, args).unwrap_or_else(unknown)));
    }
    lines
}

fn processor_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = cpuinfo.lines();
    let model = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(
        || "unknown processor".to_owned(),
        |(_, name)| name.to_owned(),
    )
}
