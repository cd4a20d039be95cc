//! httpd's routes, with a plain client and with a browser.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_qemu_tests::http::{Client, field};
use firstpoll_qemu_tests::network::{self, Served};
use xtask::packages::{self, CHROMIUM};
use xtask::qemu::Options;

fn serve() -> Result<Served> {
    network::serve(Options {
        append: "mode=routes".to_owned(),
        ..Options::default()
    })
}

/// The requests that the page makes, which a browser makes in the test below.
#[test]
fn a_page_and_all_that_it_asks_for_are_served() -> Result<()> {
    let served = serve()?;
    let mut client = Client::connect(served.address)?;
    for (path, start) in [
        ("/", "<!DOCTYPE html>"),
        ("/page.js", "//"),
        ("/page.css", "body"),
    ] {
        let response = client.get(path)?;
        assert_eq!(response.status, 200);
        assert!(response.body.starts_with(start), "{}", response.body);
    }
    let facts = client.get("/json")?.body;
    assert!(facts.starts_with(r#"{"name":"firstpoll","#), "{facts}");
    let body = r#"{"name":"primes","values":[2,3,5,7]}"#;
    let length = body.len();
    client.send(format!(
        "POST /json HTTP/1.1\r\nHost: guest\r\nContent-Length: {length}\r\n\r\n{body}"
    ))?;
    let sum = client.response()?.body;
    assert_eq!(sum, r#"{"name":"primes","count":4,"sum":17}"#);
    let query = client.get("/query?name=Gr%C3%BC%C3%9Fe%20%26%20co")?;
    assert_eq!(query.body, "Hello, Grüße & co!\n");

    client.send("GET /stream HTTP/1.1\r\nHost: guest\r\n\r\n")?;
    let head = client.head()?;
    assert_eq!(field(&head, "Transfer-Encoding"), Some("chunked"));
    let start = Instant::now();
    let mut chunks = 0;
    while client.chunk()?.is_some() {
        chunks += 1;
    }
    assert_eq!(chunks, 8);
    // Each is followed by a pause of 50 ms.
    assert!(start.elapsed() > Duration::from_millis(200), "all at once");

    let start = Instant::now();
    client.send("GET /events HTTP/1.1\r\nHost: guest\r\n\r\n")?;
    let head = client.head()?;
    assert_eq!(field(&head, "Content-Type"), Some("text/event-stream"));
    for count in 1..=4 {
        let event = [client.line()?, client.line()?, client.line()?].concat();
        assert_eq!(event, format!("event:count\ndata:{count}\n\n"));
    }
    assert!(start.elapsed() > Duration::from_millis(500), "all at once");
    Ok(())
}

/// Events end with their client, and give its place back.
#[test]
fn events_leave_nothing_behind() -> Result<()> {
    let served = network::serve(Options {
        append: "mode=routes max_clients=2".to_owned(),
        ..Options::default()
    })?;
    for _ in 0..2 {
        let mut listeners = Vec::new();
        for _ in 0..2 {
            let mut client = Client::connect(served.address)?;
            client.send("GET /events HTTP/1.1\r\nHost: guest\r\n\r\n")?;
            client.head()?;
            listeners.push(client);
        }
        drop(listeners);
        let deadline = Instant::now() + Duration::from_secs(10);
        let ask = || Client::connect(served.address)?.get("/hello");
        while ask().map(|response| response.status).ok() != Some(200) {
            ensure!(Instant::now() < deadline, "the places were not given back");
        }
    }
    Ok(())
}

#[test]
fn a_web_socket_is_served() -> Result<()> {
    let served = serve()?;
    let mut client = Client::connect(served.address)?;
    client.send(
        "GET /echo HTTP/1.1\r\nHost: guest\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )?;
    let head = client.head()?;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // The example of RFC 6455 §1.3.
    let accept = field(&head, "Sec-WebSocket-Accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    // A mask of zeroes changes nothing.
    client.send(b"\x81\x84\0\0\0\0over")?;
    assert_eq!(client.bytes(6)?, b"\x81\x04over");
    client.send(b"\x88\x80\0\0\0\0")?;
    assert_eq!(client.bytes(2)?, b"\x88\x00");
    client.expect_end()?;
    Ok(())
}

/// What a browser makes of the page, whose script asks all other routes.
#[test]
#[ignore = "long"]
fn a_browser_is_served() -> Result<()> {
    packages::ensure(&[CHROMIUM])?;
    let served = serve()?;
    let profile = std::env::temp_dir().join(format!("firstpoll-browser-{}", std::process::id()));
    let page = page_when_done(&format!("http://{}/", served.address), &profile);
    // Chromium may still be writing there, and a temporary directory may stay.
    let _ = std::fs::remove_dir_all(&profile);
    let page = page?;
    for line in [
        r#"<dd id="facts">firstpoll 0."#,
        r#"<dd id="sum">4 primes make 17</dd>"#,
        r#"<dd id="query">Hello, Grüße &amp; co!"#,
        r#"<dd id="stream">8 lines in pieces</dd>"#,
        r#"<dd id="events">counts 1, 2, 3</dd>"#,
        r#"<dd id="echo">heard over and out</dd>"#,
        r#"<p id="outcome">all answered</p>"#,
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    Ok(())
}

/// The document at `url` when its script has got all answers, or should have.
fn page_when_done(url: &str, profile: &Path) -> Result<String> {
    let mut page = String::new();
    // The browser's clock does not wait for the network, but skips ahead while
    // nothing else happens; how much of it passes depends on the machine.
    for budget_s in [600, 6_000, 60_000, 600_000] {
        page = browse(url, profile, budget_s)?;
        if !page.contains(r#"<p id="outcome">asking</p>"#) {
            break;
        }
    }
    Ok(page)
}

/// The document at `url` when the browser's own clock has come to `budget_s`.
fn browse(url: &str, profile: &Path, budget_s: u32) -> Result<String> {
    // It ends by itself; `timeout` is for the case that it does not.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", CHROMIUM.program])
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .arg("--disable-background-networking")
        .arg(format!("--virtual-time-budget={budget_s}000"))
        .arg("--dump-dom")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .output()
        .context("cannot start chromium")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    ensure!(status.success(), "chromium: {status}\n{errors}");
    Ok(String::from_utf8(output.stdout)?)
}
