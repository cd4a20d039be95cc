//! The third form of httpd: routes, JSON, streams, events and a WebSocket.
//!
//! `cargo xtask run httpd --append mode=routes` boots it. The other options are
//! those of httpd; see [`httpd::Options`], and [`httpd::routes`] for what it
//! answers.

#![no_std]
#![no_main]
// The routes are one type, as deep as there are many.
#![recursion_limit = "256"]

extern crate alloc;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::convert::Infallible;
use core::error;

use firstpoll::net::Stack;
use firstpoll::runtime::Runtime;
use httpd::{Counters, Mode, Options, end, listen, routes, serve_all, serve_routes};

firstpoll::entry!(
    main,
    options: ["mode", "port", "max_clients", "read_timeout_ms"],
);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let options = Options::read(runtime.args(), Mode::Routes);
    if options.mode != Mode::Routes {
        return Err("the other modes are those of the program httpd".into());
    }
    match run(runtime.network()?, options)? {}
}

/// Returns only if the network cannot be used.
fn run(stack: Stack, options: Options) -> Result<Infallible, firstpoll::net::Error> {
    let listener = listen(stack, options)?;
    let pages = Counters::new(stack);
    let routes = Rc::new(routes(pages));
    let patience = options.read_timeout;
    serve_all(&listener, pages, options, |stream, place| {
        let routes = Rc::clone(&routes);
        async move {
            let served = serve_routes(stream, &routes, &pages, patience).await;
            end(served, place);
        }
    })
}
