//! What one would usually write: axum on tokio's `current_thread` runtime.
#![forbid(unsafe_code)]

use anyhow::Result;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use firstpoll_bench_peers::answer::BODY;
use firstpoll_bench_peers::listen;

fn main() -> Result<()> {
    let port = listen::port_argument()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(port))
}

async fn serve(port: u16) -> Result<()> {
    let root = get(async || ([(CONTENT_TYPE, "text/plain")], BODY));
    let listener = tokio::net::TcpListener::from_std(listen::listen(port)?)?;
    Ok(axum::serve(listener, Router::new().route("/", root)).await?)
}
