//! An HTTP/1.1 server without an operating system.
//!
//! `cargo xtask run httpd` boots it. Options on the kernel's command line
//! (`--append "mode=blocking read_timeout_ms=500"`): see [`httpd::Options`].
//! Its third form, `mode=routes`, is the program `httpd-routes`, so that this
//! one stays small.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use core::convert::Infallible;
use core::error;

use firstpoll::net::Stack;
use firstpoll::runtime::Runtime;
use httpd::{Counters, Mode, Options, Session, end, listen, serve, serve_all, serve_one_by_one};

firstpoll::entry!(
    main,
    options: ["mode", "port", "max_clients", "read_timeout_ms"],
);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let options = Options::read(runtime.args(), Mode::Async);
    if options.mode == Mode::Routes {
        return Err("mode=routes is the program httpd-routes".into());
    }
    match run(runtime.network()?, options)? {}
}

/// Returns only if the network cannot be used.
fn run(stack: Stack, options: Options) -> Result<Infallible, firstpoll::net::Error> {
    let listener = listen(stack, options)?;
    let pages = Counters::new(stack);
    let patience = options.read_timeout;
    if options.mode == Mode::Blocking {
        serve_one_by_one(&listener, &pages, options);
    }
    serve_all(&listener, pages, options, |stream, place| async move {
        let served = serve(stream, Session::new(), &pages, patience).await;
        end(served, place);
    })
}
