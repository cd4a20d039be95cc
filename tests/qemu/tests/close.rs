//! Connections for one request each, by wrk (case C2).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_qemu_tests::crowd::Counters;
use firstpoll_qemu_tests::http::Client;
use firstpoll_qemu_tests::network::{self, Served};
use xtask::qemu::Options;

/// How many wrk has open at the same time.
const CONNECTIONS: &str = "16";

const RUNS: usize = 4;

/// The least that the last of long runs keeps of the first one's rate.
const KEPT: f64 = 0.8;

/// The same of short ones, whose rates are what else the machine does.
const KEPT_IN_SHORT: f64 = 0.4;

/// How long connections that have been closed may be remembered.
const REMEMBERED: Duration = Duration::from_secs(90);

/// What the allocations of a stack and a server that have nothing to do may
/// differ by: tables keep the room that they once needed.
const ROOM_BYTES: u64 = 16 << 10;

/// What came of a run.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    /// The machine may be busy with something else; this it cannot change.
    per_processor_second: f64,
}

/// Requests for `duration`, each on its own connection.
fn run(served: &Served, duration: Duration) -> Result<Rate> {
    let (start, used) = (Instant::now(), served.guest.cpu_time()?);
    let output = Command::new("wrk")
        .args(["-t1", "-c", CONNECTIONS, "-H", "Connection: close"])
        .args(["-d", &duration.as_secs().to_string()])
        .arg(format!("http://{}/", served.address))
        .output()?;
    let (took, used) = (start.elapsed(), served.guest.cpu_time()? - used);
    let report = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{output:?}");
    for error in ["Socket errors", "Non-2xx"] {
        ensure!(!report.contains(error), "{report}");
    }
    let requests = report.lines().find_map(|line| {
        let (count, _) = line.trim().split_once(" requests in ")?;
        count.parse::<f64>().ok()
    });
    let requests = requests.with_context(|| format!("no requests in {report}"))?;
    Ok(Rate {
        per_second: requests / took.as_secs_f64(),
        per_processor_second: requests / used.as_secs_f64(),
    })
}

/// The counters once there is no connection but the one that asks, and none is
/// remembered. httpd closes by itself what wrk has left behind.
fn quiet_counters(served: &Served) -> Result<Counters> {
    let end = Instant::now() + REMEMBERED;
    let mut observer = Client::connect(served.address)?;
    loop {
        let counters = Counters::read(&observer.get("/stats")?.body);
        if counters.get("network.sockets")? == 1 && counters.get("network.closing")? == 0 {
            return Ok(counters);
        }
        ensure!(Instant::now() < end, "something is left: {counters:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn rate_is_kept(served: &Served, duration: Duration, least: f64) -> Result<()> {
    let rates = (0..RUNS).map(|_| run(served, duration));
    let rates = rates.collect::<Result<Vec<_>>>()?;
    for Rate {
        per_second,
        per_processor_second,
    } in &rates
    {
        println!(
            "{duration:?}: {per_second:.0} connections/s, {per_processor_second:.0} per second \
             of QEMU's processor time"
        );
    }
    let (first, last) = (rates[0], rates[RUNS - 1]);
    let kept = (last.per_second / first.per_second)
        .max(last.per_processor_second / first.per_processor_second);
    assert!(
        kept >= least,
        "the last run had {kept:.2} of the first's rate"
    );
    Ok(())
}

/// Runs of `duration`, after which everything is as it was before.
fn nothing_is_left(duration: Duration, least_kept: f64) -> Result<()> {
    let served = network::serve(Options::default())?;
    run(&served, Duration::from_secs(2))?;
    let before = quiet_counters(&served)?;
    rate_is_kept(&served, duration, least_kept)?;
    let after = quiet_counters(&served)?;
    for name in [
        "network.half_open",
        "network.orphans",
        "network.buffer_bytes",
        "network.send_queue_full",
    ] {
        assert_eq!(after.get(name)?, before.get(name)?, "{name}");
    }
    let allocated = |counters: &Counters| counters.get("memory.allocated_bytes");
    let (before, after) = (allocated(&before)?, allocated(&after)?);
    println!("{before} bytes allocated before, {after} after");
    assert!(after <= before + ROOM_BYTES, "{before}, then {after}");
    Ok(())
}

#[test]
fn connections_of_one_request_leave_nothing_behind() -> Result<()> {
    nothing_is_left(Duration::from_secs(2), KEPT_IN_SHORT)
}

#[test]
#[ignore = "long"]
fn connections_of_one_request_keep_their_rate() -> Result<()> {
    nothing_is_left(Duration::from_secs(30), KEPT)
}
