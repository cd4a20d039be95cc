//! Boots to the end: programs, options, failures and their reports.

use anyhow::{Context, Result};
use firstpoll_qemu_tests::{FAILURE, MACHINES, Run, icount, options, run, run_image};
use xtask::cargo::{self, Profile};
use xtask::guest::Ending;
use xtask::qemu::{Net, Options};

#[test]
fn hello_boots_on_every_machine_and_processor() -> Result<()> {
    for machine in MACHINES {
        for cpu in ["max", "qemu64", "Skylake-Client"] {
            for memory_mib in [32, 64, 6000] {
                let options = Options {
                    machine,
                    cpu: cpu.to_owned(),
                    memory_mib,
                    ..options("")
                };
                let run = run("hello", &options)?;
                let what = format!("{machine:?} {cpu} {memory_mib} MiB");
                assert_eq!(run.ending, Ending::Guest(0), "{what}: {}", run.text());
                assert_eq!(run.lines, ["hello from firstpoll"], "{what}");
            }
        }
    }
    Ok(())
}

#[test]
fn hello_boots_with_a_network_card_that_it_does_not_use() -> Result<()> {
    for machine in MACHINES {
        let net = Net::User(Vec::new());
        let run = run(
            "hello",
            &Options {
                machine,
                net,
                ..options("")
            },
        )?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    }
    Ok(())
}

#[test]
fn a_processor_that_lacks_what_is_needed_is_told_so() -> Result<()> {
    for cpu in ["qemu32", "qemu64,-nx"] {
        let options = Options {
            cpu: cpu.to_owned(),
            ..options("")
        };
        let run = run("hello", &options)?;
        assert_eq!(run.ending, FAILURE, "{cpu}");
        assert!(
            run.has("firstpoll needs a 64-bit processor"),
            "{cpu}: {}",
            run.text()
        );
    }
    Ok(())
}

#[test]
fn options_reach_the_program() -> Result<()> {
    let run = run(
        "options",
        &options("mode=async status=42 log=error mode=blocking"),
    )?;
    assert_eq!(run.ending, Ending::Guest(42), "{}", run.text());
    assert!(run.has("option mode=async") && run.has("option status=42"));
    assert!(run.has(r#"mode Some("blocking")"#), "{}", run.text());
    Ok(())
}

#[test]
fn every_status_comes_out() -> Result<()> {
    for (status, expected) in [
        (0, 0),
        (1, 1),
        (101, 101),
        (0x6f, 0x6f),
        (0x70, 0x6f),
        (255, 0x6f),
    ] {
        let run = run("options", &options(&format!("status={status} log=off")))?;
        assert_eq!(run.ending, Ending::Guest(expected));
    }
    Ok(())
}

#[test]
fn an_error_is_printed_and_is_a_failure() -> Result<()> {
    let run = run("options", &options("error=lost"))?;
    assert_eq!(run.ending, Ending::Guest(1));
    assert!(run.has("error: lost"), "{}", run.text());
    Ok(())
}

#[test]
fn garbage_on_the_command_line_is_warned_about() -> Result<()> {
    let garbage = "garbage =x colour=red log=loud \u{1}\u{7f} \u{fc}=1 status=5";
    let run = run("options", &options(garbage))?;
    assert_eq!(run.ending, Ending::Guest(5), "{}", run.text());
    for warning in [
        "`garbage` on the command line is no option",
        "`=x` on the command line is no option",
        "the unknown option `colour=red` is ignored",
        "the option `log=loud` is ignored",
        r"`\x01\x7f` on the command line is no option",
    ] {
        assert!(run.has(warning), "{warning} is not in\n{}", run.text());
    }
    Ok(())
}

#[test]
fn the_level_of_the_log_is_chosen_at_boot() -> Result<()> {
    for (level, expected) in [("off", 0), ("error", 1), ("info", 3), ("trace", 5)] {
        let run = run("options", &options(&format!("log={level}")))?;
        let logged = |line: &&String| line.ends_with(" options] logged");
        assert_eq!(
            run.lines.iter().filter(logged).count(),
            expected,
            "{}",
            run.text()
        );
    }
    let run = run("options", &icount("log=info"))?;
    let line = run
        .lines
        .iter()
        .find(|line| line.contains("INFO ") && line.ends_with("logged"));
    let line = line.context("no line")?;
    // [   0.012345 INFO  options] logged
    let (time, _) = line[1..].trim_start().split_once(' ').context("no time")?;
    let time: f64 = time.parse()?;
    assert!(time > 0.0 && time < 1.0, "{line}");
    Ok(())
}

/// Asserts that a run panicked.
fn assert_panicked(run: &Run, message: &str) {
    assert_eq!(run.ending, FAILURE, "{}", run.text());
    assert!(run.has("panicked at "), "{}", run.text());
    assert!(run.has(message), "{}", run.text());
    assert!(run.has("backtrace:"), "{}", run.text());
}

#[test]
fn a_panic_is_reported_with_a_backtrace() -> Result<()> {
    for machine in MACHINES {
        let run = run(
            "panics",
            &Options {
                machine,
                ..options("")
            },
        )?;
        assert_panicked(&run, "in the program");
        assert!(
            run.has("panicked at tests/guests/src/panics.rs:"),
            "{}",
            run.text()
        );
        assert!(run.has("used of the program's stack"), "{}", run.text());
        let backtrace = run.backtrace()?.join("\n");
        for function in ["panics::inner", "panics::outer", "main at tests/guests"] {
            assert!(
                backtrace.contains(function),
                "{function} is not in\n{backtrace}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_panic_names_the_task() -> Result<()> {
    let run = run("panics", &options("where=task"))?;
    assert_panicked(&run, "in a task");
    assert!(
        run.has("in the task spawned at tests/guests/src/panics.rs:"),
        "{}",
        run.text()
    );
    Ok(())
}

#[test]
fn a_panic_in_the_bottom_half_goes_back_to_what_it_interrupted() -> Result<()> {
    let run = run("panics", &options("where=bottom-half"))?;
    assert_panicked(&run, "in the bottom half");
    assert!(run.has("in the task spawned at "), "{}", run.text());
    assert!(run.has("used of the bottom half's stack"), "{}", run.text());
    let backtrace = run.backtrace()?.join("\n");
    for function in ["bottom_half", "main at tests/guests", "runtime::boot"] {
        assert!(
            backtrace.contains(function),
            "{function} is not in\n{backtrace}"
        );
    }
    Ok(())
}

#[test]
fn a_panic_within_a_panic_still_ends() -> Result<()> {
    let run = run("panics", &options("where=panic"))?;
    assert_eq!(run.ending, FAILURE, "{}", run.text());
    assert!(
        run.has("failed again while reporting that"),
        "{}",
        run.text()
    );
    Ok(())
}

#[test]
fn a_panic_while_printing_is_reported() -> Result<()> {
    let run = run("panics", &options("where=log"))?;
    assert_panicked(&run, "while printing");
    Ok(())
}

#[test]
fn running_out_of_memory_is_reported() -> Result<()> {
    let run = run("panics", &options("where=memory"))?;
    assert_panicked(&run, "memory");
    Ok(())
}

/// A loader that is none: the magic number that the first Rust code looks for
/// is another one. That is the earliest point where a panic can be.
#[test]
fn the_earliest_panic_is_reported() -> Result<()> {
    const MAGIC: [u8; 4] = 0x336e_c578u32.to_le_bytes();
    let image = cargo::build_image("hello", Profile::Release)?;
    let mut elf = std::fs::read(&image)?;
    let places: Vec<_> = (0..elf.len() - 4)
        .filter(|&at| elf[at..at + 4] == MAGIC)
        .collect();
    assert!(!places.is_empty(), "the image looks for no magic number");
    for place in places {
        elf[place] ^= 1;
    }
    let patched = image.with_file_name("hello-without-start-info");
    std::fs::write(&patched, elf)?;
    let run = run_image(patched, &options(""))?;
    assert_panicked(&run, "the loader passed no PVH start info");
    Ok(())
}

#[test]
fn the_heap_is_all_of_the_memory() -> Result<()> {
    for machine in MACHINES {
        let run = run(
            "heap",
            &Options {
                machine,
                memory_mib: 64,
                ..options("")
            },
        )?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
        let (heap, filled): (u64, u64) = (run.value("heap_bytes")?, run.value("filled_bytes")?);
        assert!(heap > 61 << 20, "only {heap} bytes of 64 MiB are free");
        assert!(
            filled > heap - (1 << 20),
            "only {filled} of {heap} bytes can be used"
        );
        let committed: u64 = run.value("committed_bytes")?;
        assert!(
            committed > heap / 16 * 15 && committed < heap / 64 * 63,
            "{committed} of {heap} bytes were had page by page"
        );
        assert!(run.value::<u64>("bottom_halves")? > 10, "{}", run.text());
        assert!(run.has("all memory is back"));
    }
    Ok(())
}
