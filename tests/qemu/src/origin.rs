//! Servers on the host, for guests that are clients.

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The host, as a guest on QEMU's user-mode network sees it.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Serves each connection to a port of 127.0.0.1 on a thread of its own, until
/// the process ends; returns the port.
///
/// # Errors
///
/// If no port can be listened on.
pub fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream));
        }
    });
    Ok(port)
}

/// Reads the head of a request and returns its target.
///
/// # Errors
///
/// If there is none.
pub fn request_target(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData)?;
    let target = head.split(' ').nth(1).ok_or(io::ErrorKind::InvalidData)?;
    Ok(target.to_owned())
}

/// Ends a connection by a reset.
///
/// # Errors
///
/// If the socket cannot be told to.
pub fn reset(stream: TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    drop(stream);
    Ok(())
}
