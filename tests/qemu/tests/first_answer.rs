//! The boot of httpd: how long it takes, and what it does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use firstpoll_qemu_tests::http::Client;
use firstpoll_qemu_tests::network::{BOOT_TIMEOUT, STATIC};
use firstpoll_qemu_tests::{LIMIT, options};
use xtask::cargo::{self, Profile};
use xtask::guest::{Ending, Guest};
use xtask::qemu::{self, Options};

/// What a boot may take beyond a kernel that only exits, on a machine that is
/// busy with other things, too. 25 ms is what it shall take on one that is not.
const ABOVE_EXIT: Duration = Duration::from_millis(50);

/// The instructions of all stages but the clock's.
const MAX_INSTRUCTIONS: u64 = 160_000;
/// The clock's, most of which are spent waiting.
const MAX_CLOCK_INSTRUCTIONS: u64 = 600_000;

/// From the start of QEMU to the first answer, and to the end of a kernel that
/// only exits, in turn.
#[test]
fn the_first_answer_comes_soon() -> Result<()> {
    let httpd = cargo::build_image("httpd", Profile::Release)?;
    let exit = cargo::build_image("exit", Profile::Release)?;
    let (mut answers, mut exits) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let start = Instant::now();
        let ending = Guest::boot(&options(""), &exit)?.wait(LIMIT)?;
        exits.push(start.elapsed());
        assert_eq!(ending, Ending::Guest(0));

        let port = qemu::free_port(0)?;
        let net = Options {
            append: STATIC.to_owned(),
            ..Options::default().forward_http(port)
        };
        let start = Instant::now();
        let mut guest = Guest::boot(&net, &httpd)?;
        guest.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
        let response = Client::connect(([127, 0, 0, 1], port).into())?.get("/")?;
        answers.push(start.elapsed());
        assert_eq!(response.status, 200);
    }
    answers.sort_unstable();
    exits.sort_unstable();
    println!("boot to first answer: {answers:?}; to exit: {exits:?}");
    // The others are what the machine was busy with.
    let above = answers[0].saturating_sub(exits[0]);
    assert!(above < ABOVE_EXIT, "{above:?}");
    Ok(())
}

/// The lines of `log=debug` about the boot's stages: each one's name and time.
fn stages(lines: &[String]) -> Result<Vec<(&str, u64)>> {
    let stages = lines.iter().filter_map(|line| line.split_once("boot: "));
    stages
        .map(|(_, stage)| {
            let (name, rest) = stage.split_once(": ").context("a stage without a time")?;
            let (time, _) = rest.split_once(" ns").context("a time without a unit")?;
            Ok((name, time.parse()?))
        })
        .collect()
}

#[test]
fn the_boot_takes_few_instructions() -> Result<()> {
    let image = cargo::build_image("httpd", Profile::Release)?;
    let counting = Options {
        append: format!("{STATIC} log=debug"),
        icount: true,
        ..Options::default()
    };
    let mut guest = Guest::boot(&counting, &image)?;
    guest.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let stages = stages(guest.lines())?;
    println!("{stages:?}");
    let count = |wanted: &str| {
        let mut stages = stages.iter();
        stages.find_map(|&(name, count)| (name == wanted).then_some(count))
    };
    let clock = count("clock").context("the clock is a stage")?;
    assert!(count("network").is_some(), "the last stage");
    let all: u64 = stages.iter().map(|(_, count)| count).sum();
    assert!(all - clock < MAX_INSTRUCTIONS, "{stages:?}");
    assert!(clock < MAX_CLOCK_INSTRUCTIONS, "{stages:?}");
    Ok(())
}

/// An emulator works its address space out anew each time that a device is
/// switched on or off.
#[test]
fn the_card_is_switched_off_once() -> Result<()> {
    const COMMAND: &str = "@0x4 <- ";
    const MEMORY_ENABLE: u32 = 1 << 1;
    let image = cargo::build_image("httpd", Profile::Release)?;
    let file = std::env::temp_dir().join(format!("firstpoll-trace-{}", std::process::id()));
    let tracing = Options {
        append: STATIC.to_owned(),
        extra: vec![
            "-trace".to_owned(),
            "pci_cfg_write".to_owned(),
            "-D".to_owned(),
            file.display().to_string(),
        ],
        ..Options::default()
    };
    let mut guest = Guest::boot(&tracing, &image)?;
    guest.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let trace = std::fs::read_to_string(&file)?;
    std::fs::remove_file(file)?;
    let (mut is_on, mut switched_off) = (false, 0);
    for line in trace.lines().filter(|line| line.contains("virtio-net")) {
        let Some((_, value)) = line.split_once(COMMAND) else {
            continue;
        };
        let value = u32::from_str_radix(value.trim().trim_start_matches("0x"), 16)?;
        let turns_on = value & MEMORY_ENABLE != 0;
        switched_off += u32::from(is_on && !turns_on);
        is_on = turns_on;
    }
    assert!(is_on, "the card is on in the end:\n{trace}");
    assert_eq!(switched_off, 1, "{trace}");
    Ok(())
}
