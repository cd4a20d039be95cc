//! The least that answers HTTP requests.
#![forbid(unsafe_code)]

use anyhow::Result;
use firstpoll_bench_peers::listen;
use firstpoll_bench_peers::responder::Responder;

fn main() -> Result<()> {
    let listener = listen::listen(listen::port_argument()?)?;
    Ok(Responder::new(listener)?.run()?)
}
