//! The card's link going down and coming up: perhaps at another network.

use smoltcp::time::Instant;

use super::discovery::announce;
use crate::net::state::State;

/// What is known of the card's link.
#[derive(Debug, Default)]
pub(in crate::net) struct Carrier {
    is_down: bool,
    /// The others on the link are to be told of the addresses.
    is_unannounced: bool,
}

impl Carrier {
    /// Whether it is up.
    pub(in crate::net) fn is_up(&self) -> bool {
        !self.is_down
    }
}

impl State {
    /// Does what the link has brought.
    pub(in crate::net) fn poll_link(&mut self, now: Instant) {
        let is_down = !self.nic.is_link_up();
        if is_down != self.link.is_down {
            self.link.is_down = is_down;
            self.link_changed(now);
        }
        if self.link.is_unannounced {
            self.announce_all();
        }
    }

    /// Tells of all addresses, or tries again in the next step.
    #[cold]
    fn announce_all(&mut self) {
        self.link.is_unannounced = false;
        for (address, _) in self.addresses.all() {
            if announce(&mut *self.nic, address) {
                self.stats.frames_sent += 1;
            } else {
                self.link.is_unannounced = true;
            }
        }
    }

    #[cold]
    fn link_changed(&mut self, now: Instant) {
        self.link.is_unannounced = !self.link.is_down;
        if self.link.is_down {
            log::warn!("the network card's link is down");
            return;
        }
        log::info!("the network card's link is up");
        let has_address = self.addresses.ipv4.is_some();
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.ask_again(now, has_address);
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
