//! The card's link going down and coming up: perhaps at another network.

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::time::Instant;

use super::dhcp::Dhcp;
use super::discovery::announce;
use crate::net::state::State;

/// What is known of the card's link.
#[derive(Debug, Default)]
pub(in crate::net) struct Carrier {
    is_down: bool,
    /// The addresses that the others on the link are still to be told of.
    unannounced: Vec<IpAddr>,
}

impl Carrier {
    /// Whether it is up.
    pub(in crate::net) fn is_up(&self) -> bool {
        !self.is_down
    }
}

impl State {
    /// Does what the link has brought.
    #[inline]
    pub(in crate::net) fn poll_link(&mut self, now: Instant) {
        let is_down = !self.nic.is_link_up();
        if is_down != self.link.is_down {
            self.link.is_down = is_down;
            self.link_changed(now);
        }
        if !self.link.unannounced.is_empty() {
            let nic = &mut *self.nic;
            let mut count = 0;
            self.link.unannounced.retain(|&address| {
                let announced = announce(nic, address);
                count += u64::from(announced);
                !announced
            });
            self.stats.frames_sent += count;
        }
    }

    #[cold]
    fn link_changed(&mut self, now: Instant) {
        self.link.unannounced.clear();
        if self.link.is_down {
            log::warn!("the network card's link is down");
            return;
        }
        log::info!("the network card's link is up");
        let own = self.addresses.all().map(|(address, _)| address);
        self.link.unannounced.extend(own);
        if self.dhcp.is_some() {
            self.dhcp = Some(match self.addresses.ipv4 {
                Some(_) => Dhcp::again(now),
                None => Dhcp::new(),
            });
        }
        if let Some(source) = self.addresses.link_local
            && self.addresses.slaac.is_some()
        {
            self.ask_routers(source);
        }
        // Routers may have forgotten the groups.
        self.groups.renew();
        self.table.mark_waiting_dirty();
        self.endpoints.mark_waiting_dirty();
    }
}
