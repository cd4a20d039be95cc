//! The network stack on the host, over a wire in memory, against another host.

mod backlog;
mod closing;
mod dhcp;
mod fake_card;
mod frames;
mod garbage;
mod ip;
mod options;
mod peer;
mod ports;
mod raw;
mod scale;
mod tcp;
mod wire;
