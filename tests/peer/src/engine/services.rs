//! What the host does beside what smoltcp does.

use std::net::SocketAddr;
use std::time::Duration;

use super::Engine;
use crate::datagrams::Datagram;
use crate::frame::ndp::{self, Advertisement};
use crate::frame::{self, Parsed};
use crate::{dhcp, dns};

impl Engine {
    /// Does by hand what smoltcp does not; `None` for all that is left to it.
    pub(super) fn answer(&mut self, parsed: &Parsed<'_>, now: Duration) -> Option<Vec<Vec<u8>>> {
        if let Some(answer) = self.probes.receive(parsed, now) {
            return Some(answer.into_iter().collect());
        }
        if let (Parsed::RouterSolicitation { .. }, Some(advertisement)) =
            (parsed, self.advertisement)
        {
            let from = self.host6(true);
            return Some(vec![ndp::router_advertisement(from, advertisement)]);
        }
        let us = self.config.host;
        let dhcp = self.dhcp.as_mut();
        if let Some(answers) = dhcp.and_then(|dhcp| dhcp.receive(us, parsed, now)) {
            return Some(answers);
        }
        if let Some(answers) = self.dns.as_mut().and_then(|dns| dns.receive(parsed, now)) {
            return Some(answers);
        }
        self.datagrams.receive(parsed).then(Vec::new)
    }

    /// Tells the hosts of the link about ourselves as a router, now and when
    /// they ask.
    pub fn advertise(&mut self, advertisement: Advertisement) {
        self.advertisement = Some(advertisement);
        let frame = ndp::router_advertisement(self.host6(true), advertisement);
        self.send_frame(frame);
    }

    /// Serves DHCP from now on.
    pub fn serve_dhcp(&mut self, server: dhcp::Server) {
        self.dhcp = Some(server);
    }

    /// The DHCP server, if there is one.
    pub fn dhcp(&self) -> Option<&dhcp::Server> {
        self.dhcp.as_ref()
    }

    /// Serves DNS from now on, over UDP and TCP, at all addresses of ours.
    pub fn serve_dns(&mut self, server: dns::Server) {
        if self.dns.replace(server).is_none() {
            self.listen(dns::PORT);
        }
    }

    /// The DNS server, if there is one.
    pub fn dns(&self) -> Option<&dns::Server> {
        self.dns.as_ref()
    }

    pub(super) fn serve_dns_streams(&mut self, now: Duration) {
        while let Some(handle) = self.accept(dns::PORT) {
            self.dns_streams.add(handle);
        }
        if let Some(server) = &mut self.dns {
            let ended = self.dns_streams.serve(&mut self.sockets, server, now);
            self.leaving.extend(ended);
        }
    }

    /// Takes the datagrams to `port` from now on.
    pub fn bind(&mut self, port: u16) {
        self.datagrams.bind(port);
    }

    /// Takes the datagrams to `port` no more.
    pub fn unbind(&mut self, port: u16) {
        self.datagrams.unbind(port);
    }

    /// The oldest datagram that came to `port`.
    pub fn take_datagram(&mut self, port: u16) -> Option<Datagram> {
        self.datagrams.take(port)
    }

    /// Sends a datagram to a neighbour that was heard of; whether it was.
    pub fn send_datagram(&mut self, from_port: u16, to: SocketAddr, data: &[u8]) -> bool {
        let Some(host) = self.neighbour(to.ip()) else {
            return false;
        };
        let from = self.host_for(to.ip());
        self.send_frame(frame::udp(from, host, from_port, to.port(), data));
        true
    }
}
