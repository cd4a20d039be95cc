//! The network stack on the host, over a wire in memory, against another host.

mod dhcp;
mod fake_card;
mod frames;
mod garbage;
mod ip;
mod many;
mod peer;
mod scale;
mod tcp;
mod wire;
