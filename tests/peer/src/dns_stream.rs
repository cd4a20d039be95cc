//! DNS over TCP: each message follows its length (RFC 7766 §8).

use std::net::IpAddr;
use std::time::Duration;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::Socket;

use crate::dns::Server;

/// Connections to the DNS server.
#[derive(Debug, Default)]
pub(crate) struct DnsStreams {
    streams: Vec<DnsStream>,
}

/// A connection, and what was received over it and not understood yet.
#[derive(Debug)]
struct DnsStream {
    handle: SocketHandle,
    received: Vec<u8>,
}

impl DnsStreams {
    pub(crate) fn add(&mut self, handle: SocketHandle) {
        self.streams.push(DnsStream {
            handle,
            received: Vec::new(),
        });
    }

    /// Answers what has come; returns the connections that are over.
    pub(crate) fn serve(
        &mut self,
        sockets: &mut SocketSet<'static>,
        server: &mut Server,
        now: Duration,
    ) -> Vec<SocketHandle> {
        let over = self.streams.extract_if(.., |stream| {
            let socket = sockets.get_mut::<Socket<'_>>(stream.handle);
            stream.serve(socket, server, now);
            if socket.may_recv() {
                return false;
            }
            socket.close();
            true
        });
        over.map(|stream| stream.handle).collect()
    }
}

impl DnsStream {
    fn serve(&mut self, socket: &mut Socket<'_>, server: &mut Server, now: Duration) {
        // An error is the end of the stream, which the caller sees.
        let _ = socket.recv(|bytes| {
            self.received.extend_from_slice(bytes);
            (bytes.len(), ())
        });
        let ends = socket.local_endpoint().zip(socket.remote_endpoint());
        let Some((local, remote)) = ends else {
            return;
        };
        while let Some(query) = self.take_message() {
            let us = IpAddr::from(local.addr);
            for answer in server.answer_stream(&query, now, us, remote.port) {
                let length = u16::try_from(answer.len()).expect("answers are small");
                let message = [&length.to_be_bytes()[..], &answer].concat();
                // What does not fit into the buffer is lost with its client.
                let _ = socket.send_slice(&message);
            }
        }
    }

    fn take_message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.received.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let message = rest.get(..length)?.to_vec();
        self.received.drain(..2 + length);
        Some(message)
    }
}
