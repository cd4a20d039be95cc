//! A flood of SYNs from addresses that do not answer, while others talk.

use std::time::{Duration, Instant};

use anyhow::Result;
use firstpoll_peer::Connection;
use firstpoll_qemu_tests::crowd::{Audience, Counters, is_answered, take_page};

/// The clients that talk all the time.
const CLIENTS: usize = 32;

/// The SYNs between their requests, and so within a newcomer's round trip. The
/// oldest half-open connection gives way, so that a newcomer gets in if fewer
/// than there may be (1,024) come before its answer.
const SYNS_AT_ONCE: usize = 256;

/// How long a client that comes during the flood may take.
const ENTRY: Duration = Duration::from_secs(2);

/// What the flood may make the guest keep: as many half-open connections as
/// there may be, each with its buffers.
const FLOOD_BYTES: u64 = 1_024 * (40 << 10);

/// The longest that a half-open connection stays.
const HALF_OPEN: Duration = Duration::from_secs(10);

fn is_survived(syns: usize) -> Result<()> {
    let mut audience = Audience::of_httpd("read_timeout_ms=3600000", 128)?;
    let observer = audience.connect(1)?[0];
    let clients = audience.connect(CLIENTS)?;
    audience.greet(&clients)?;
    let before = audience.counters(observer)?;

    let start = Instant::now();
    let (mut requests, mut entries, mut slowest) = (0, Vec::new(), Duration::ZERO);
    let mut most_allocated = 0;
    for batch in 0..syns.div_ceil(SYNS_AT_ONCE) {
        let newcomer = audience.crowd.open(80);
        let asked = Instant::now();
        for _ in 0..SYNS_AT_ONCE {
            audience.crowd.open_as_stranger(80);
        }
        audience.request(&clients, "/");
        audience.run_until_all(&clients, is_answered)?;
        slowest = slowest.max(asked.elapsed());
        for &client in &clients {
            take_page(audience.crowd.received(client))?;
            requests += 1;
        }
        audience.run_until_all(&[newcomer], |crowd, newcomer| {
            crowd.connection(newcomer) != Connection::Opening
        })?;
        assert_eq!(audience.crowd.connection(newcomer), Connection::Open);
        entries.push(asked.elapsed());
        audience.crowd.reset(newcomer);
        if batch % 16 == 0 {
            let counters = audience.counters(observer)?;
            most_allocated = most_allocated.max(counters.get("memory.allocated_bytes")?);
        }
    }
    let took = start.elapsed();
    let after = audience.counters(observer)?;

    entries.sort_unstable();
    let slowest_entry = entries[entries.len() - 1];
    let middle = entries[entries.len() / 2];
    let kept = most_allocated.saturating_sub(before.get("memory.allocated_bytes")?);
    println!(
        "{syns} SYNs in {took:?}; {requests} requests, the slowest batch in {slowest:?}; \
         {} newcomers in {middle:?} (median), {slowest_entry:?} at most; {} segments repeated; \
         {} strangers answered; {kept} bytes more in use at most",
        entries.len(),
        audience.crowd.repeated(),
        audience.crowd.strangers_answered(),
    );
    let since = |name: &str| -> Result<u64> { Ok(after.get(name)? - before.get(name)?) };
    let evicted = since("network.half_open_evicted")?;
    println!("{evicted} half-open connections gave way");
    assert_eq!(audience.crowd.repeated(), 0, "a segment was lost");
    assert!(slowest_entry < ENTRY, "{slowest_entry:?}");
    assert!(kept < FLOOD_BYTES, "{kept} bytes");
    if syns > 2_048 {
        assert!(evicted > 0, "nothing has given way");
    }

    audience.pass(HALF_OPEN + Duration::from_secs(2))?;
    let quiet = audience.counters(observer)?;
    let half_open = |counters: &Counters| counters.get("network.half_open");
    assert_eq!(half_open(&quiet)?, 0, "half-open connections are left");
    assert_eq!(
        quiet.get("network.sockets")?,
        before.get("network.sockets")?
    );
    audience.greet(&clients)?;
    Ok(())
}

#[test]
fn a_flood_of_syns_is_survived() -> Result<()> {
    is_survived(10_000)
}

#[test]
#[ignore = "long"]
fn a_long_flood_of_syns_is_survived() -> Result<()> {
    is_survived(100_000)
}
