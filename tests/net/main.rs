//! The network stack on the host, over a wire in memory, against another host.

mod backlog;
mod cancel;
mod closing;
mod dhcp;
mod fake_card;
mod frames;
mod frames6;
mod garbage;
mod impaired;
mod ip;
mod ip6;
mod leases;
mod limits;
mod many;
mod options;
mod peer;
mod ports;
mod raw;
mod routes;
mod scale;
mod tcp;
mod wire;
