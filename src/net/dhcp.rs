//! The DHCP client.

use alloc::vec::Vec;

use smoltcp::iface::{self, SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4;
use smoltcp::time::{Duration, Instant};

use super::config::Ipv4Config;
use super::device::Port;
use super::frame::is_host;
use super::ingress;
use super::state::State;

/// How long the client waits for a server's answer before it asks again.
const RETRY: Duration = Duration::from_secs(2);

/// The client's socket, in a set of its own, and when it wants to act.
pub(super) struct Dhcp {
    set: SocketSet<'static>,
    handle: SocketHandle,
    at: Option<Instant>,
}

impl Dhcp {
    pub(super) fn new() -> Self {
        let mut socket = dhcpv4::Socket::new();
        let mut retry = socket.get_retry_config();
        retry.discover_timeout = RETRY;
        retry.initial_request_timeout = RETRY;
        socket.set_retry_config(retry);
        let mut set = SocketSet::new(Vec::new());
        let handle = set.add(socket);
        Self {
            set,
            handle,
            at: Some(Instant::ZERO),
        }
    }

    /// When the client wants to act.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }
}

impl State {
    /// Shows the client the server's answer that has arrived.
    pub(super) fn dhcp_answer(&mut self, now: Instant) {
        let Some(mut dhcp) = self.dhcp.take() else {
            self.stats.unsupported += 1;
            return;
        };
        ingress::poll_set(self, now, &mut dhcp.set);
        self.apply_lease(&mut dhcp);
        dhcp.at = Some(now);
        self.dhcp = Some(dhcp);
    }

    /// Lets the client act, if it is time.
    pub(super) fn poll_dhcp(&mut self, now: Instant) {
        let Some(mut dhcp) = self
            .dhcp
            .take_if(|dhcp| dhcp.at.is_some_and(|at| at <= now))
        else {
            return;
        };
        let mut port = Port::new(&mut *self.nic);
        while self.iface.poll_egress(now, &mut port, &mut dhcp.set)
            == iface::PollResult::SocketStateChanged
        {}
        let sent = port.sent;
        self.account(sent);
        self.apply_lease(&mut dhcp);
        dhcp.at = self
            .iface
            .poll_at(now, &dhcp.set)
            // A server's address may have to be resolved first: not in a loop.
            .map(|at| at.max(now + Duration::from_millis(100)));
        self.dhcp = Some(dhcp);
    }

    fn apply_lease(&mut self, dhcp: &mut Dhcp) {
        let socket = dhcp.set.get_mut::<dhcpv4::Socket<'_>>(dhcp.handle);
        let config = match socket.poll() {
            None => return,
            Some(dhcpv4::Event::Deconfigured) => None,
            Some(dhcpv4::Event::Configured(lease)) => Some(Ipv4Config {
                address: lease.address.address(),
                prefix_len: lease.address.prefix_len(),
                gateway: lease.router.filter(|&router| is_host(router)),
            }),
        };
        self.configure(config);
    }
}
