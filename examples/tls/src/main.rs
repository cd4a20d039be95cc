//! Fetches a page over TLS without an operating system.
//!
//! ```text
//! cargo xtask run tls --append "url=https://10.0.2.2:8443/ ca=$(grep -v CERT ca.pem | tr -d '\n')"
//! ```
//!
//! All options: see [`tls::Options`].

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::error;

use fetch::http::{self, Answer};
use fetch::{Failure, connect};
use firstpoll::net::Stack;
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, println};
use tls::{Options, TlsStream, config, server_name};

firstpoll::entry!(main, options: ["url", "ca", "address", "timeout_ms"]);

/// Room for the head of an answer.
const BUFFER_BYTES: usize = 8 << 10;

fn main(runtime: Runtime) -> Result<ExitStatus, Box<dyn error::Error>> {
    let options = Options::read(runtime.args())?;
    let stack = runtime.network()?;
    block_on(stack.wait_configured())?;
    let patience = options.timeout;
    let fetched = block_on(timeout(patience, fetch_page(stack, options)));
    block_on(all_sent(stack));
    fetched.unwrap_or_else(|_| Err(Failure::TimedOut.into()))
}

/// Waits until the server has what was sent to it last, such as the reason why
/// it is not trusted, but not for long: the end of the machine takes the network
/// with it.
async fn all_sent(stack: Stack) {
    let no_connections = async {
        while stack.stats().sockets > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = timeout(Duration::from_secs(1), no_connections).await;
}

/// Fetches the page and prints it.
async fn fetch_page(stack: Stack, options: Options) -> Result<ExitStatus, Box<dyn error::Error>> {
    let config = Arc::new(config(options.authority)?);
    let name = server_name(&options.url.host)?;
    let server = match options.address {
        Some(address) => &fetch::Url {
            host: alloc::format!("{address}"),
            ..options.url.clone()
        },
        None => &options.url,
    };
    let stream = connect(stack, server, options.timeout).await?;
    let mut stream = TlsStream::connect(config, name, stream).await?;

    let mut page = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let sink = |data: &[u8]| page.extend_from_slice(data);
    let answer = http::get(&mut stream, &options.url, &mut buffer, sink).await;
    let Answer { status, .. } = match answer {
        Ok(answer) => answer,
        Err(http::Error::Stream(error)) => return Err(error.into()),
        Err(http::Error::Answer(error)) => return Err(Failure::Answer(error).into()),
    };
    stream.close().await?;
    println!("status {status}, {} bytes", page.len());
    println!("{}", page.escape_ascii());
    if (200..300).contains(&status) {
        Ok(ExitStatus::SUCCESS)
    } else {
        Ok(ExitStatus::FAILURE)
    }
}
