//! A listening socket that loses no connection of a burst.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

/// How many connections may wait to be accepted. The kernel lowers it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Listens on all addresses, on any port if `port` is 0.
///
/// Neither the socket nor the connections that it accepts wait for more bytes
/// to send (`TCP_NODELAY`); accepting does not block.
///
/// # Errors
///
/// If the port is taken, or is not ours to use.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        flags,
        Some(ipproto::TCP),
    )?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Reads a server's only argument, the port.
///
/// # Errors
///
/// If it is not the only one, or is no port.
pub fn port_argument() -> anyhow::Result<u16> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref().map(str::parse), args.next()) {
        (Some(Ok(port)), None) => Ok(port),
        _ => anyhow::bail!("the only argument is the port to listen on"),
    }
}
