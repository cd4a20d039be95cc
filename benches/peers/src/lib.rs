//! What runs in the Linux guest that firstpoll is measured with.
//!
//! Three static programs make up the guest's whole user space: `init`, which
//! brings the machine up and starts the one server that the kernel command line
//! names, and two HTTP servers with the same answer as the example httpd:
//! `axum-server`, what one would usually write, and `epoll-server`, the least
//! that does it. The library is what they are made of, so that it can be tested
//! on any Linux host.
#![forbid(unsafe_code)]

pub mod answer;
pub mod boot;
pub mod command_line;
mod heads;
pub mod listen;
pub mod netlink;
pub mod responder;
