//! An HTTP/1.1 client without an operating system.
//!
//! `cargo xtask run fetch --append "urls=http://10.0.2.2:8000/"` fetches from a
//! server on the host. All options: see [`fetch::Options`].

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::error;

use fetch::{Client, Failure, Fetched, Options};
use firstpoll::net::Stack;
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::{Duration, Instant};
use firstpoll::{block_on, println, spawn};

firstpoll::entry!(
    main,
    options: [
        "urls",
        "base",
        "count",
        "concurrency",
        "connect_timeout_ms",
        "timeout_ms",
        "redirects",
    ],
);

/// Room for the head of an answer.
const BUFFER_BYTES: usize = 8 << 10;

fn main(runtime: Runtime) -> Result<ExitStatus, Box<dyn error::Error>> {
    let options = Options::read(runtime.args())?;
    let stack = runtime.network()?;
    block_on(stack.wait_configured())?;
    let tally = block_on(fetch_all(stack, options));
    Ok(tally.report())
}

/// Fetches everything, by as many tasks as may fetch at the same time.
async fn fetch_all(stack: Stack, options: Options) -> Tally {
    let client = Client {
        stack,
        connect_timeout: options.connect_timeout,
        timeout: options.timeout,
        redirects: options.redirects,
    };
    let tasks = options.concurrency.min(options.urls.len());
    let urls = Rc::new(RefCell::new(options.urls.into_iter()));
    let tally = Rc::new(RefCell::new(Tally::new()));
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let (urls, tally) = (Rc::clone(&urls), Rc::clone(&tally));
            spawn(async move {
                let mut buffer = vec![0; BUFFER_BYTES];
                loop {
                    // Taken out first, so that nothing is borrowed while it waits.
                    let url = urls.borrow_mut().next();
                    let Some(url) = url else { break };
                    let start = Instant::now();
                    let result = client.fetch(&url, &mut buffer).await;
                    tally.borrow_mut().count(&url, result, start.elapsed());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await;
    }
    let tally = Rc::into_inner(tally).expect("the workers have ended");
    tally.into_inner()
}

/// What came of it all.
struct Tally {
    start: Instant,
    fetched: usize,
    body_bytes: u64,
    failed: usize,
    /// How many failed in which way.
    failures: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            fetched: 0,
            body_bytes: 0,
            failed: 0,
            failures: BTreeMap::new(),
        }
    }

    fn count(&mut self, url: &str, result: Result<Fetched, Failure>, took: Duration) {
        let ms = took.as_millis();
        match result {
            Ok(Fetched { status, body_bytes }) => {
                self.fetched += 1;
                self.body_bytes += body_bytes;
                println!("{status} {url} {body_bytes} bytes in {ms} ms");
            }
            Err(failure) => {
                self.failed += 1;
                *self.failures.entry(failure.name()).or_default() += 1;
                println!("{} {url} after {ms} ms: {failure}", failure.name());
            }
        }
    }

    /// Prints the sum; a failure is one of the whole.
    fn report(&self) -> ExitStatus {
        println!(
            "{} fetched, {} failed, {} bytes in {} ms",
            self.fetched,
            self.failed,
            self.body_bytes,
            self.start.elapsed().as_millis()
        );
        for (name, count) in &self.failures {
            println!("failed by {name}: {count}");
        }
        if self.failed == 0 {
            ExitStatus::SUCCESS
        } else {
            ExitStatus::FAILURE
        }
    }
}
