//! The network stack on the host, over a wire in memory, against another host.

mod cancel;
mod dhcp;
mod fake_card;
mod frames;
mod frames6;
mod garbage;
mod ip;
mod ip6;
mod loopback;
mod peer;
mod routes;
mod scale;
mod tcp;
mod wire;
