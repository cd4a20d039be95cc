//! Groups of hosts: reporting to routers which ones are listened to.
//!
//! smoltcp does it in passing, whenever it is polled. Each address of IPv6 has a
//! group of its own, by which neighbours ask for it (RFC 4291 §2.7.1).

use smoltcp::time::{Duration, Instant};

use super::device::Port;
use super::state::State;

/// For how long a router's question can want answers (RFC 2236 §2.2: at most
/// 25.5 s), and how often smoltcp is asked meanwhile whether it is time for one:
/// it does not tell.
const REPORTS_TAKE: Duration = Duration::from_secs(26);
const REPORT_STEP: Duration = Duration::from_millis(100);

/// When there may be something to report.
#[derive(Debug, Default)]
pub(super) struct Groups {
    report_at: Option<Instant>,
    report_until: Option<Instant>,
}

impl Groups {
    /// When a report may be due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.report_at
    }

    /// Notes that groups were joined or left: their report is due.
    pub(super) fn report_soon(&mut self) {
        self.report_at = Some(Instant::ZERO);
    }
}

impl State {
    /// A router has asked which groups there are.
    pub(super) fn expect_reports(&mut self, now: Instant) {
        self.groups.report_at = Some(now);
        self.groups.report_until = Some(now + REPORTS_TAKE);
    }

    /// Sends the reports whose time has come.
    pub(super) fn poll_groups(&mut self, now: Instant) {
        let groups = &mut self.groups;
        if groups.report_at.is_some_and(|at| at <= now) {
            groups.report_until.take_if(|until| *until <= now);
            groups.report_at = groups.report_until.map(|_| now + REPORT_STEP);
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
