//! A longer queue for connections to QEMU's forwarded ports.
//!
//! QEMU's user-mode network listens with a backlog of one. With a dozen clients
//! that connect at once, the host drops most handshakes and repeats them after
//! one, three and seven seconds, whatever the guest does. A second `listen` on a
//! socket that already listens changes its backlog, so that is what is done,
//! through a duplicate of QEMU's own descriptor.

use std::fs;
use std::io;
use std::process::Child;

use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_domain};
use rustix::net::{AddressFamily, listen};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// As many connections as may wait; the host may bound it further.
const BACKLOG: i32 = 1024;

/// Lengthens the queue of every port that `qemu` listens on.
///
/// # Errors
///
/// If the operating system does not let a parent have its child's descriptors.
pub(crate) fn lengthen(qemu: &Child) -> io::Result<()> {
    let process = pidfd_open(Pid::from_child(qemu), PidfdFlags::empty())?;
    for entry in fs::read_dir(format!("/proc/{}/fd", qemu.id()))? {
        let name = entry?.file_name();
        let Some(descriptor) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let socket = match pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // One that was closed meanwhile is none of those that listen.
            Err(Errno::BADF) => continue,
            Err(error) => return Err(error.into()),
        };
        let listens = socket_acceptconn(&socket) == Ok(true)
            && socket_domain(&socket) == Ok(AddressFamily::INET);
        if listens {
            listen(&socket, BACKLOG)?;
        }
    }
    Ok(())
}
