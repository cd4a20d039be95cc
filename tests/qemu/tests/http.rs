//! httpd, with real clients.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_qemu_tests::http::{Client, field};
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, STATIC, Served, guest};
use xtask::cargo::{self, Profile};
use xtask::guest::{Ending, Guest};
use xtask::qemu::{Machine, Net, Options};

const GREETING: &str = "Hello from firstpoll!\n";

/// All forms of the server have the greeting here.
const GET: &str = "GET /hello HTTP/1.1\r\nHost: guest\r\n\r\n";

/// The forms that serve connections side by side.
const PARALLEL: [&str; 2] = ["mode=async", "mode=routes"];

const SECOND: Duration = Duration::from_secs(1);

fn append(command_line: &str) -> Options {
    Options {
        append: command_line.to_owned(),
        ..Options::default()
    }
}

/// What the protocol promises, whichever form of the server answers.
fn serves_http(served: &Served) -> Result<()> {
    let mut client = Client::connect(served.address)?;
    for _ in 0..3 {
        let response = client.get("/hello")?;
        assert_eq!((response.status, &*response.body), (200, GREETING));
    }
    let stats = client.get("/stats")?;
    assert!(stats.body.contains("\nexecutor.polls "), "{}", stats.body);
    assert!(
        stats.body.contains("\nnetwork.frames_received "),
        "{}",
        stats.body
    );
    assert_eq!(client.get("/none")?.status, 404);

    client.send("HEAD /hello HTTP/1.1\r\nHost: guest\r\n\r\n")?;
    let head = client.head()?;
    assert_eq!(field(&head, "Content-Length"), Some("22"));

    client.send("POST /hello HTTP/1.1\r\nHost: guest\r\nContent-Length: 5\r\n\r\nhello")?;
    let response = client.response()?;
    assert_eq!(response.status, 405);
    assert_eq!(field(&response.head, "Allow"), Some("GET, HEAD"));

    client.send(GET.repeat(50))?;
    for _ in 0..50 {
        assert_eq!(client.response()?.body, GREETING);
    }

    client.send("GET /hello HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")?;
    assert_eq!(client.response()?.body, GREETING);
    client.expect_end()?;
    Ok(())
}

/// The answer to what is no request, or too much of one; then the end.
fn refuses(served: &Served, request: &[u8], status: u16) -> Result<()> {
    let mut client = Client::connect(served.address)?;
    client.send(request)?;
    let response = client.response()?;
    assert_eq!(response.status, status, "{}", request.escape_ascii());
    assert_eq!(field(&response.head, "Connection"), Some("close"));
    client.expect_end()?;
    Ok(())
}

fn refuses_bad_requests(served: &Served) -> Result<()> {
    refuses(served, b"\x16\x03\x01\x02\x00\x01\r\n", 400)?;
    refuses(served, b"GET / HTTP/1.1\r\n\r\n", 400)?;
    refuses(served, b"GET / HTTP/2.0\r\n\r\n", 505)?;
    let large = "x".repeat(10_000);
    let header = format!("GET / HTTP/1.1\r\nHost: guest\r\nA: {large}\r\n\r\n");
    refuses(served, header.as_bytes(), 431)?;
    let body = "x".repeat(100_000);
    let request = format!("POST / HTTP/1.1\r\nHost: guest\r\nContent-Length: 100000\r\n\r\n{body}");
    refuses(served, request.as_bytes(), 413)?;
    refuses(
        served,
        b"POST / HTTP/1.1\r\nHost: guest\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    )
}

#[test]
fn async_mode_serves() -> Result<()> {
    let served = network::serve(append("mode=async"))?;
    serves_http(&served)?;
    refuses_bad_requests(&served)?;
    Ok(())
}

#[test]
fn blocking_mode_serves() -> Result<()> {
    let served = network::serve(append("mode=blocking"))?;
    serves_http(&served)?;
    refuses_bad_requests(&served)?;
    Ok(())
}

#[test]
fn routes_mode_serves() -> Result<()> {
    let served = network::serve(append("mode=routes"))?;
    serves_http(&served)?;
    refuses_bad_requests(&served)?;
    Ok(())
}

#[test]
fn the_other_boards_serve() -> Result<()> {
    for machine in [Machine::Pc, Machine::Microvm] {
        let served = network::serve(Options {
            machine,
            ..Options::default()
        })?;
        serves_http(&served)?;
        refuses_bad_requests(&served)?;
    }
    Ok(())
}

#[test]
fn little_memory_is_enough_for_many_connections() -> Result<()> {
    PARALLEL
        .iter()
        .try_for_each(|mode| serves_in(16, mode, 512))
}

/// In so much memory so many connections are served at once. 512 is what the
/// server takes unless it is told otherwise.
fn serves_in(memory_mib: u32, mode: &str, connections: usize) -> Result<()> {
    let options = Options {
        memory_mib,
        append: format!("{STATIC} {mode}"),
        ..Options::default()
    };
    let (mut httpd, peer) = network::boot_on_peer("httpd", options)?;
    httpd.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let mut clients = Vec::new();
    for number in 0..connections {
        let stream = peer.connect(guest(80), 5 * SECOND);
        let stream = stream.with_context(|| format!("{mode}, connection {number}"))?;
        clients.push(Client::new(stream));
    }
    for client in &mut clients {
        assert_eq!(client.get("/hello")?.body, GREETING);
    }
    let stats = clients[0].get("/stats")?.body;
    let memory = stats.lines().filter(|line| line.starts_with("memory."));
    println!("{mode}: {}", memory.collect::<Vec<_>>().join(", "));
    Ok(())
}

#[test]
fn curl_is_served() -> Result<()> {
    PARALLEL.iter().try_for_each(|mode| serves_curl(mode))
}

fn serves_curl(mode: &str) -> Result<()> {
    let served = network::serve(append(mode))?;
    let url = format!("http://{}/hello", served.address);
    let body = vec![b'x'; 30_000];
    let file = std::env::temp_dir().join(format!("firstpoll-body-{}", std::process::id()));
    std::fs::write(&file, body)?;
    let data = format!("@{}", file.display());
    let curl = |args: &[&str]| -> Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--max-time", "10"]);
        let output = command.args(args).arg(&url).output()?;
        ensure!(output.status.success(), "curl {args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let result = (|| -> Result<()> {
        assert!(curl(&[])?.ends_with(GREETING));
        assert!(curl(&["--http1.0"])?.contains("Connection: close"));
        assert!(curl(&["--head"])?.starts_with("HTTP/1.1 200 "));
        assert!(curl(&["--data-binary", &data])?.contains("HTTP/1.1 405 "));
        let chunked = [
            "--data-binary",
            &data,
            "--header",
            "Transfer-Encoding: chunked",
        ];
        assert!(curl(&chunked)?.contains("HTTP/1.1 405 "));
        let expecting = ["--data-binary", &data, "--header", "Expect: 100-continue"];
        assert!(curl(&expecting)?.starts_with("HTTP/1.1 100 Continue\r\n"));
        Ok(())
    })();
    std::fs::remove_file(&file)?;
    result
}

#[test]
fn connections_beyond_the_limit_are_told_so() -> Result<()> {
    PARALLEL.iter().try_for_each(|mode| keeps_its_limit(mode))
}

fn keeps_its_limit(mode: &str) -> Result<()> {
    let served = network::serve(append(&format!("max_clients=3 {mode}")))?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(served.address)?;
        assert_eq!(client.get("/")?.status, 200);
        clients.push(client);
    }
    let mut refused = Client::connect(served.address)?;
    assert_eq!(refused.response()?.status, 503);
    refused.expect_end()?;
    clients.pop();
    // The end of the connection reaches the guest when it does.
    let deadline = Instant::now() + 5 * SECOND;
    while Client::connect(served.address)?
        .get("/")
        .map(|r| r.status)
        .ok()
        != Some(200)
    {
        assert!(Instant::now() < deadline, "the place was not given back");
    }
    assert_eq!(clients[0].get("/")?.status, 200);
    Ok(())
}

#[test]
fn slow_clients_are_given_up() -> Result<()> {
    for mode in PARALLEL {
        let served = network::serve(append(&format!("read_timeout_ms=300 {mode}")))?;
        let mut idle = Client::connect(served.address)?;
        let mut slow = Client::connect(served.address)?;
        slow.send("GET / HTTP")?;
        assert_eq!(slow.response()?.status, 408);
        slow.expect_end()?;
        idle.expect_end()?;
    }
    Ok(())
}

/// Case B3: cards and command lines that nobody planned for.
#[test]
fn odd_machines_are_survived() -> Result<()> {
    let image = cargo::build_image("httpd", Profile::Release)?;
    let mut without_card = Guest::boot(
        &Options {
            net: Net::None,
            ..Options::default()
        },
        &image,
    )?;
    let ending = without_card.wait(BOOT_TIMEOUT)?;
    assert!(matches!(ending, Ending::Guest(1..)), "{ending:?}");
    let lines = without_card.lines().join("\n");
    assert!(lines.contains("no network: "), "{lines}");

    let second_card = [
        "-netdev",
        "user,id=net1",
        "-device",
        "virtio-net-pci,netdev=net1,romfile=",
    ];
    let with_two = network::serve(Options {
        extra: second_card.map(String::from).to_vec(),
        ..Options::default()
    })?;
    serves_http(&with_two)?;

    let garbage = "mode=sideways port=x = == \u{1f980} max_clients=-1 ip= -- \"";
    let served = network::serve(append(&format!("{garbage} {STATIC}")))?;
    serves_http(&served)?;
    let warned = served
        .guest
        .lines()
        .iter()
        .any(|line| line.contains("mode=sideways"));
    assert!(warned, "{:?}", served.guest.lines());
    Ok(())
}

#[test]
fn an_idle_server_lets_the_host_rest() -> Result<()> {
    let served = network::serve(Options::default())?;
    assert_eq!(Client::connect(served.address)?.get("/")?.status, 200);
    std::thread::sleep(SECOND);
    let before = served.guest.cpu_time()?;
    std::thread::sleep(10 * SECOND);
    let used = served.guest.cpu_time()? - before;
    println!("processor time of 10 idle seconds: {used:?}");
    assert!(used < Duration::from_millis(300), "{used:?}");
    Ok(())
}

/// Connections that have been busy and are kept cost next to nothing.
#[test]
fn after_a_load_idle_connections_let_the_host_rest() -> Result<()> {
    const CONNECTIONS: usize = 100;
    const ROUNDS: usize = 20;

    let served = network::serve(Options {
        append: "read_timeout_ms=60000".to_owned(),
        ..Options::default()
    })?;
    let mut clients = (0..CONNECTIONS)
        .map(|_| Client::connect(served.address))
        .collect::<Result<Vec<_>, _>>()?;
    for _ in 0..ROUNDS {
        for client in &mut clients {
            assert_eq!(client.get("/")?.status, 200);
        }
    }
    // What was received is acknowledged, and memory is given back.
    std::thread::sleep(3 * SECOND);
    // Each interrupt of an idle core ends a halt.
    let mut halts = || -> Result<u64> {
        let stats = clients[0].get("/stats")?.body;
        let mut lines = stats.lines();
        let line = lines.find_map(|line| line.strip_prefix("executor.halts "));
        Ok(line.context("no halts are counted")?.parse()?)
    };
    let (halts_before, before) = (halts()?, served.guest.cpu_time()?);
    std::thread::sleep(10 * SECOND);
    let (used, halted) = (served.guest.cpu_time()? - before, halts()? - halts_before);
    println!("{used:?} of processor time and {halted} interrupts in 10 s");
    assert!(used < Duration::from_millis(100), "{used:?}");
    assert!(halted < 50, "{halted}");
    Ok(())
}

/// Case C1: connections one after another, each for one request.
#[test]
fn many_connections_one_after_the_other() -> Result<()> {
    const PARTS: usize = 20;
    const CONNECTIONS_OF_A_PART: usize = 1000;

    let (mut httpd, peer) = network::boot_with_peer("httpd", STATIC)?;
    httpd.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let part = || -> Result<Duration> {
        let start = Instant::now();
        for number in 0..CONNECTIONS_OF_A_PART {
            let stream = peer.connect(guest(80), 5 * SECOND);
            let stream = stream.with_context(|| format!("connection {number}"))?;
            let response = Client::new(stream).get("/");
            let response = response.with_context(|| format!("request {number}"))?;
            assert_eq!(response.status, 200);
        }
        Ok(start.elapsed())
    };
    let half = || -> Result<Vec<Duration>> {
        let mut times = (0..PARTS).map(|_| part()).collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        println!("{CONNECTIONS_OF_A_PART} connections took {times:?}");
        Ok(times)
    };
    let (first, second) = (half()?, half()?);
    // The quick parts show the guest's own speed, the slow ones the machine's.
    let slower = second[2].as_secs_f64() / first[2].as_secs_f64();
    assert!(slower < 1.2, "the second half took {slower:.2} as long");
    Ok(())
}

#[test]
fn wrk_meets_no_error() -> Result<()> {
    meets_no_error("mode=async", &[("1", "3"), ("16", "3"), ("128", "10")])?;
    meets_no_error("mode=routes", &[("1", "2"), ("128", "3")])
}

fn meets_no_error(mode: &str, loads: &[(&str, &str)]) -> Result<()> {
    let served = network::serve(append(mode))?;
    for (connections, seconds) in loads {
        let output = Command::new("wrk")
            .args(["-t1", "-c", connections, "-d", seconds])
            .arg(format!("http://{}/hello", served.address))
            .output()?;
        let report = String::from_utf8_lossy(&output.stdout);
        println!("{report}");
        assert!(output.status.success(), "{output:?}");
        for error in ["Socket errors", "Non-2xx"] {
            assert!(!report.contains(error), "{report}");
        }
    }
    Ok(())
}

/// Clients that go away in the middle, one way or the other, leave nothing
/// behind.
#[test]
fn rude_clients_do_no_harm() -> Result<()> {
    PARALLEL.iter().try_for_each(|mode| survives_rudeness(mode))
}

fn survives_rudeness(mode: &str) -> Result<()> {
    let (mut httpd, peer) = network::boot_with_peer("httpd", &format!("{STATIC} {mode}"))?;
    httpd.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    for round in 0..200 {
        let mut stream = peer.connect(guest(80), 5 * SECOND)?;
        stream.write_all(&GET.as_bytes()[..round % GET.len()])?;
        if round % 2 == 0 {
            stream.reset();
        }
    }
    let mut client = Client::new(peer.connect(guest(80), 5 * SECOND)?);
    let deadline = Instant::now() + 5 * SECOND;
    loop {
        let stats = client.get("/stats")?.body;
        let count = |name: &str| -> Result<u32> {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.context("no such counter")?.trim().parse()?)
        };
        // A connection may be reset before it is accepted.
        assert!(count("network.accepted")? > 100);
        let live = count("network.sockets")? - count("network.time_wait")?;
        if live == 1 {
            return Ok(());
        }
        assert!(Instant::now() < deadline, "{live} connections are left");
    }
}
