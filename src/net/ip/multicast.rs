//! Groups of hosts: joining, leaving, and reporting it to routers.
//!
//! smoltcp reports in passing, whenever it is polled. Each address of IPv6 has a
//! group of its own, by which neighbours ask for it (RFC 4291 §2.7.1).

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::iface::MulticastError;
use smoltcp::time::{Duration, Instant};

use crate::net::Error;
use crate::net::datagram::endpoints::EndpointId;
use crate::net::device::Port;
use crate::net::state::State;

/// For how long a router's question can want answers (RFC 2236 §2.2: at most
/// 25.5 s), and how often smoltcp is asked meanwhile whether it is time for one:
/// it does not tell.
const REPORTS_TAKE: Duration = Duration::from_secs(26);
const REPORT_STEP: Duration = Duration::from_millis(100);

/// The groups that sockets have joined, and when there may be something to report.
#[derive(Debug, Default)]
pub(in crate::net) struct Groups {
    /// Each with the number of its members here.
    joined: Vec<(IpAddr, usize)>,
    /// Whether all are to be reported anew.
    renewed: bool,
    report_at: Option<Instant>,
    report_until: Option<Instant>,
}

impl Groups {
    /// When a report may be due.
    pub(in crate::net) fn deadline(&self) -> Option<Instant> {
        self.report_at
    }

    /// Notes that groups were joined or left: their report is due.
    pub(super) fn report_soon(&mut self) {
        self.report_at = Some(Instant::ZERO);
    }

    /// Notes that routers know of no group: the interface has another address.
    pub(super) fn renew(&mut self) {
        self.renewed = true;
        self.report_soon();
    }
}

impl State {
    /// Makes an endpoint a member of `group`.
    pub(in crate::net) fn join_group(
        &mut self,
        id: EndpointId,
        group: IpAddr,
    ) -> Result<(), Error> {
        if !group.is_multicast() {
            return Err(Error::InvalidInput);
        }
        let endpoint = self.endpoints.by_id(id).ok_or(Error::NotConnected)?;
        if endpoint.groups.contains(&group) {
            return Ok(());
        }
        endpoint
            .groups
            .try_reserve(1)
            .map_err(|_| Error::OutOfMemory)?;
        self.join(group)?;
        if let Some(endpoint) = self.endpoints.by_id(id) {
            endpoint.groups.push(group);
        }
        Ok(())
    }

    /// Ends that.
    pub(in crate::net) fn leave_group(
        &mut self,
        id: EndpointId,
        group: IpAddr,
    ) -> Result<(), Error> {
        let endpoint = self.endpoints.by_id(id).ok_or(Error::NotConnected)?;
        let place = endpoint.groups.iter().position(|&joined| joined == group);
        endpoint
            .groups
            .swap_remove(place.ok_or(Error::InvalidInput)?);
        self.leave(group);
        Ok(())
    }

    fn join(&mut self, group: IpAddr) -> Result<(), Error> {
        let joined = &mut self.groups.joined;
        if let Some((_, members)) = joined.iter_mut().find(|(known, _)| *known == group) {
            *members += 1;
            return Ok(());
        }
        joined.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        self.iface
            .join_multicast_group(group)
            .map_err(|error| match error {
                MulticastError::GroupTableFull => Error::OutOfMemory,
                MulticastError::Unaddressable => Error::InvalidInput,
            })?;
        joined.push((group, 1));
        self.groups.report_soon();
        Ok(())
    }

    /// Takes one member out of `group`.
    pub(in crate::net) fn leave(&mut self, group: IpAddr) {
        let joined = &mut self.groups.joined;
        let Some(place) = joined.iter().position(|&(known, _)| known == group) else {
            return;
        };
        joined[place].1 -= 1;
        if joined[place].1 == 0 {
            joined.swap_remove(place);
            // Only what is no group cannot be left.
            let _ = self.iface.leave_multicast_group(group);
            self.groups.report_soon();
        }
    }

    /// A router has asked which groups there are.
    pub(in crate::net) fn expect_reports(&mut self, now: Instant) {
        self.groups.report_at = Some(now);
        self.groups.report_until = Some(now + REPORTS_TAKE);
    }

    /// Sends the reports whose time has come.
    pub(in crate::net) fn poll_groups(&mut self, now: Instant) {
        let groups = &mut self.groups;
        if groups.report_at.is_some_and(|at| at <= now) {
            groups.report_until.take_if(|until| *until <= now);
            groups.report_at = groups.report_until.map(|_| now + REPORT_STEP);
            if core::mem::take(&mut groups.renewed) {
                // smoltcp reports what is joined, once it has let go of it.
                for &(group, _) in &groups.joined {
                    let _ = self.iface.leave_multicast_group(group);
                }
                self.report(now);
                for &(group, _) in &self.groups.joined {
                    // It had its place before.
                    let _ = self.iface.join_multicast_group(group);
                }
            }
            self.report(now);
        }
    }

    /// Lets smoltcp send the reports that are due.
    fn report(&mut self, now: Instant) {
        let mut port = Port::new(&mut *self.nic);
        self.iface.poll_egress(now, &mut port, &mut self.nobody);
        let unsent = port.exhausted;
        let sent = port.sent;
        self.account(sent);
        if unsent {
            self.groups.report_at = Some(now + REPORT_STEP);
        }
    }
}
