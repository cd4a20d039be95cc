//! Every mistake ends in a report, not in a reset.

use anyhow::Result;
use firstpoll_qemu_tests::{FAILURE, MACHINES, Run, options, run};
use xtask::qemu::Options;

fn fault(name: &str) -> Result<Run> {
    let run = run("faults", &options(&format!("fault={name}")))?;
    assert_eq!(run.ending, FAILURE, "{name}: {}", run.text());
    assert!(!run.has("survived"), "{name}");
    assert!(run.has("  rip "), "{name}: {}", run.text());
    Ok(run)
}

fn assert_reports(name: &str, report: &str) -> Result<()> {
    let run = fault(name)?;
    assert!(run.has(report), "{name}: no {report:?} in\n{}", run.text());
    let backtrace = run.backtrace()?.join("\n");
    assert!(backtrace.contains("faults::main"), "{name}:\n{backtrace}");
    Ok(())
}

#[test]
fn null_is_not_mapped() -> Result<()> {
    assert_reports(
        "read-null",
        "exception 14: page fault, error code 0x0 (read: not mapped), address 0x0000000000000000",
    )?;
    let run = fault("call-null")?;
    assert!(run.has("execution: not mapped"), "{}", run.text());
    assert!(run.has("  #0 0x0000000000000000"), "{}", run.text());
    Ok(())
}

#[test]
fn text_and_constants_are_not_writable() -> Result<()> {
    for name in ["write-text", "write-constant"] {
        assert_reports(
            name,
            "exception 14: page fault, error code 0x3 (write: not allowed)",
        )?;
    }
    Ok(())
}

#[test]
fn data_and_stacks_are_not_executable() -> Result<()> {
    for name in ["execute-data", "execute-stack"] {
        let run = fault(name)?;
        assert!(
            run.has("error code 0x11 (execution: not allowed)"),
            "{}",
            run.text()
        );
    }
    Ok(())
}

#[test]
fn reserved_addresses_without_memory_are_not_mapped() -> Result<()> {
    let run = fault("uncommitted")?;
    assert!(run.has("wrote where memory is"), "{}", run.text());
    let report = ": reserved, but no memory was asked for there";
    assert!(
        run.has("error code 0x2 (write: not mapped)"),
        "{}",
        run.text()
    );
    assert!(run.has(report), "{}", run.text());
    Ok(())
}

#[test]
fn other_exceptions_have_their_names() -> Result<()> {
    assert_reports("divide", "exception 0: divide error")?;
    assert_reports("opcode", "exception 6: invalid opcode")?;
    assert_reports("breakpoint", "exception 3: breakpoint")?;
    assert_reports("nmi", "exception 2: non-maskable interrupt")?;
    assert_reports(
        "address",
        "exception 13: general protection fault, error code 0x0",
    )
}

#[test]
fn an_overflow_of_the_stack_is_a_double_fault_that_says_so() -> Result<()> {
    for machine in MACHINES {
        for name in ["stack", "masked-stack"] {
            let options = Options {
                machine,
                ..options(&format!("fault={name}"))
            };
            let run = run("faults", &options)?;
            assert_eq!(run.ending, FAILURE, "{}", run.text());
            assert!(run.has("exception 8: double fault"), "{}", run.text());
            assert!(run.has("the program's stack overflowed"), "{}", run.text());
            assert!(
                run.has("used of the double fault's stack"),
                "{}",
                run.text()
            );
            assert!(run.backtrace()?.join("\n").contains("faults::dig"));
        }
    }
    Ok(())
}

#[test]
fn an_overflow_of_the_bottom_halfs_stack_is_one_too() -> Result<()> {
    let run = fault("bottom-half-stack")?;
    assert!(run.has("exception 8: double fault"), "{}", run.text());
    assert!(
        run.has("the bottom half's stack overflowed"),
        "{}",
        run.text()
    );
    Ok(())
}
