//! Connections that the guest opens, and small writes.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use firstpoll_peer::{Config, Stream};
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, STATIC, connect};
use xtask::guest::Ending;
use xtask::qemu::Options;

const SECOND: Duration = Duration::from_secs(1);

/// Case C4: the guest connects `count` times while `hold` connections stay.
fn ports_are_free(count: usize, hold: usize) -> Result<()> {
    let append = format!("{STATIC} peer=10.0.2.2 count={count} hold={hold}");
    let (mut guest, peer) = network::boot_with_peer("connects", &append)?;
    let listener = peer.accept_on(80);
    let mut held: HashMap<u16, Stream> = HashMap::new();
    for number in 0..count {
        let stream = listener.accept(if number == 0 {
            BOOT_TIMEOUT
        } else {
            5 * SECOND
        });
        let mut stream = stream.with_context(|| format!("connection {number}"))?;
        let port = stream.peer_addr().map_or(0, |address| address.port());
        // Port 0 also stands for a connection that is over already.
        ensure!(!held.contains_key(&port), "port {port} is in use");
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => {
                ensure!(port != 0);
                held.insert(port, stream);
            }
            Ok(_) => {}
            Err(error) => ensure!(error.kind() == ErrorKind::ConnectionReset, "{error}"),
        }
    }
    guest.wait_for_line(&format!("connected {count}"), 10 * SECOND)?;
    for stream in held.values_mut() {
        stream.write_all(b"y")?;
    }
    ensure!(guest.wait(10 * SECOND)? == Ending::Guest(0));
    let lines = guest.lines().join("\n");
    ensure!(lines.contains(&format!("held {}", held.len())), "{lines}");
    ensure!(!lines.contains("lost"), "{lines}");
    ensure!(held.len() >= hold, "{} were held", held.len());
    Ok(())
}

#[test]
fn outgoing_connections_have_ports_of_their_own() -> Result<()> {
    ports_are_free(2000, 20)
}

/// Case C4 in full.
#[test]
#[ignore = "long"]
fn outgoing_connections_have_ports_of_their_own_in_full() -> Result<()> {
    ports_are_free(70_000, 50)
}

/// Case C7: two small writes, then a read, with Nagle's algorithm off and on.
#[test]
fn small_writes_do_not_wait() -> Result<()> {
    let options = Options {
        append: STATIC.to_owned(),
        ..Options::default()
    };
    let (_guest, peer) = network::boot_services(options, Config::default())?;
    let rounds = |port, count: usize| -> Result<Vec<Duration>> {
        let mut stream = connect(&peer, port)?;
        // What a kernel does that hopes to answer together with the data.
        stream.set_ack_delay(Some(SECOND / 25));
        stream.write_all(format!("{count}\n").as_bytes())?;
        let mut times = Vec::new();
        for _ in 0..count {
            let start = std::time::Instant::now();
            stream.read_exact(&mut [0; 80])?;
            times.push(start.elapsed());
            stream.write_all(b".")?;
        }
        times.sort_unstable();
        Ok(times)
    };
    let nodelay = rounds(22, 1000)?;
    let nagle = rounds(23, 20)?;
    println!(
        "two writes arrive after {:?} at the median, {:?} at p99; with Nagle's algorithm {:?}",
        nodelay[500], nodelay[990], nagle[10]
    );
    ensure!(nodelay[900] < SECOND / 100, "{:?}", nodelay[900]);
    ensure!(nagle[2] > SECOND / 50, "{nagle:?}");
    Ok(())
}
