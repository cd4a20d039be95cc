//! The HTTP client against servers that answer well, badly or not at all.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use firstpoll_qemu_tests::origin::{HOST, request_target, reset, serve};
use firstpoll_qemu_tests::{Run, run};
use xtask::guest::Ending;
use xtask::qemu::Options;

const MS: Duration = Duration::from_millis(1);

fn fetch(append: &str) -> Result<Run> {
    let options = Options {
        append: append.to_owned(),
        ..Options::default()
    };
    run("fetch", &options)
}

/// Answers as the target asks.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    let target = request_target(&mut stream)?;
    let head = "HTTP/1.1 200 OK\r\n";
    match target.as_str() {
        "/ok" => write!(stream, "{head}Content-Length: 5\r\n\r\nhello"),
        "/chunked" => {
            write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n")?;
            for size in [1, 1000, 70_000] {
                let data = "x".repeat(size);
                write!(stream, "{size:x};note=\"y\"\r\n{data}\r\n")?;
            }
            write!(stream, "0\r\nTrailer: z\r\n\r\n")
        }
        "/to-end" => write!(stream, "{head}\r\n{}", "x".repeat(30_000)),
        "/slow" => {
            for byte in format!("{head}Content-Length: 5\r\n\r\nhello").bytes() {
                stream.write_all(&[byte])?;
                sleep(20 * MS);
            }
            Ok(())
        }
        "/redirect" => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: ok\r\nContent-Length: 0\r\n\r\n"
        ),
        "/loop" => write!(
            stream,
            "HTTP/1.1 307 Again\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n"
        ),
        "/reset" => {
            write!(stream, "{head}Content-Length: 5000\r\n\r\nhel")?;
            sleep(200 * MS);
            reset(stream)
        }
        "/short" => write!(stream, "{head}Content-Length: 5000\r\n\r\nhel"),
        "/garbage" => write!(stream, "220 mail.example ready\r\n"),
        "/closed" => Ok(()),
        "/never" => stream.read(&mut [0]).map(drop), // Until the guest gives up.
        _ => write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        ),
    }
}

#[test]
fn answers_are_read_and_failures_are_told_apart() -> Result<()> {
    let port = serve(|stream| {
        // The guest may go away in the middle.
        let _ = answer(stream);
    })?;
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let closed_port = unused.local_addr()?.port();
    drop(unused);

    let server = format!("http://{HOST}:{port}");
    let cases = [
        (format!("{server}/ok"), "200", "5 bytes"),
        (format!("{server}/chunked"), "200", "71001 bytes"),
        (format!("{server}/to-end"), "200", "30000 bytes"),
        (format!("{server}/slow"), "200", "5 bytes"),
        (format!("{server}/redirect"), "200", "5 bytes"),
        (format!("{server}/loop"), "redirected", "too often"),
        (format!("{server}/missing"), "status", "404"),
        (format!("{server}/reset"), "reset", "was reset"),
        (format!("{server}/short"), "answer", "was cut short"),
        (format!("{server}/garbage"), "answer", "is not HTTP/1"),
        (format!("{server}/closed"), "answer", "without one"),
        (format!("{server}/never"), "timeout", "time was up"),
        (
            format!("http://{HOST}:{closed_port}/"),
            "refused",
            "was refused",
        ),
        // Nobody answers for the one; to the other there is no way.
        ("http://10.0.2.77/".into(), "timeout", "time was up"),
        ("http://192.0.2.1/".into(), "unreachable", "be reached"),
        ("http://nowhere.example/".into(), "unresolved", "not found"),
        ("https://10.0.2.2/".into(), "url", "not spoken"),
        ("http:/10.0.2.2/".into(), "url", "cannot be used"),
    ];
    let urls: Vec<_> = cases.iter().map(|(url, ..)| url.as_str()).collect();
    let run = fetch(&format!(
        "ip=10.0.2.15/24 redirects=3 connect_timeout_ms=2000 timeout_ms=8000 urls={}",
        urls.join(",")
    ))?;
    assert_eq!(run.ending, Ending::Guest(1), "{}", run.text());
    for (url, outcome, detail) in &cases {
        let found = run.lines.iter().any(|line| {
            let rest = line.strip_prefix(&format!("{outcome} {url} "));
            rest.is_some_and(|rest| rest.contains(detail))
        });
        assert!(found, "no {outcome} for {url} in\n{}", run.text());
    }
    assert!(run.has("5 fetched, 13 failed"), "{}", run.text());
    Ok(())
}

#[test]
fn a_thousand_urls_are_fetched_by_sixty_four() -> Result<()> {
    const CONCURRENCY: usize = 64;
    let live = AtomicUsize::new(0);
    let most = Arc::new(AtomicUsize::new(0));
    let highest = Arc::clone(&most);
    let port = serve(move |mut stream| {
        let now = live.fetch_add(1, Ordering::SeqCst) + 1;
        highest.fetch_max(now, Ordering::SeqCst);
        let target = request_target(&mut stream);
        // Long enough for others to come in.
        sleep(20 * MS);
        // Before the guest can know and begin another.
        live.fetch_sub(1, Ordering::SeqCst);
        if let Ok(target) = target {
            let length = target.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{target}").as_bytes());
        }
    })?;
    let run = fetch(&format!(
        "base=http://{HOST}:{port}/ count=1000 concurrency={CONCURRENCY} timeout_ms=30000"
    ))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    // 10 targets of two bytes, 90 of three, 900 of four.
    assert!(
        run.has("1000 fetched, 0 failed, 3890 bytes"),
        "{}",
        run.text()
    );
    let most = most.load(Ordering::SeqCst);
    assert!((8..=CONCURRENCY).contains(&most), "{most} at once");
    Ok(())
}

#[test]
fn nothing_to_fetch_is_said() -> Result<()> {
    let run = fetch("count=3")?;
    assert_eq!(run.ending, Ending::Guest(1));
    assert!(
        run.has("error: base= and count= go together"),
        "{}",
        run.text()
    );
    Ok(())
}
