//! The network stack on the host, over a wire in memory, against another host.

mod frames;
mod peer;
mod tcp;
mod wire;
