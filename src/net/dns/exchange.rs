//! Asking servers until one answers.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::task::{Context, Poll};

use super::MAX_SERVERS;
use super::message::{Answer, MAX_UDP_BYTES, Question, answer, query};
use crate::net::datagram::queue::zeroes;
use crate::net::{Buffers, Error, Stack, TcpOptions, TcpStream, UdpOptions, UdpSocket};
use crate::time::{Elapsed, Instant, timeout_at};

const PORT: u16 = 53;

/// How often is asked at least, in all: an answer can get lost.
const MIN_TRIES: usize = 3;

/// How many datagrams of one socket are looked at before others get their turn:
/// a forger can send many.
const LOOKS: usize = 16;

/// A question to one server, which has a port and an identifier of its own: who
/// wants to forge the answer has to guess both (RFC 5452).
struct Try {
    server: usize,
    socket: UdpSocket,
    id: u16,
}

/// Asks `servers` in turn, each of them again if there is time, until one gives
/// an answer or the deadline comes. A server that is slow may still answer while
/// the next one is asked.
pub(super) async fn ask(
    stack: Stack,
    servers: &[IpAddr],
    question: &Question,
    deadline: Instant,
) -> Result<Answer, Error> {
    let most = servers.len().max(MIN_TRIES);
    let mut tries: Vec<Try> = Vec::new();
    let mut useless = [false; MAX_SERVERS];
    let mut failure = Error::NoNameServer;
    let mut begun = 0;
    loop {
        let mut until = deadline;
        if begun < most {
            let server = begun % servers.len();
            begun += 1;
            // The time that is left is for all that are left.
            let now = Instant::now();
            let left = (most - begun + 1) as u32;
            until = now + deadline.saturating_duration_since(now) / left;
            if useless[server] {
                continue;
            }
            match Try::begin(stack, server, servers[server], question).await {
                Ok(begun) => tries.push(begun),
                Err(error) => {
                    (failure, useless[server]) = (error, true);
                    continue;
                }
            }
        }
        if tries.is_empty() {
            return Err(failure);
        }
        let (server, told) = match timeout_at(until, any(&tries, question)).await {
            Ok(told) => told,
            Err(Elapsed) if begun < most => continue,
            Err(Elapsed) => return Err(Error::TimedOut),
        };
        let told = match told {
            Answer::Truncated => {
                let at_length = over_tcp(stack, servers[server], question);
                match timeout_at(deadline, at_length).await {
                    Ok(told) => told.unwrap_or(Answer::Failed),
                    Err(Elapsed) => return Err(Error::TimedOut),
                }
            }
            told => told,
        };
        if told != Answer::Failed {
            return Ok(told);
        }
        (failure, useless[server]) = (Error::NameServerFailed, true);
        tries.retain(|other| other.server != server);
    }
}

impl Try {
    async fn begin(
        stack: Stack,
        server: usize,
        address: IpAddr,
        question: &Question,
    ) -> Result<Self, Error> {
        let local = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let options = UdpOptions {
            receive_datagrams: LOOKS,
            receive_bytes: LOOKS * MAX_UDP_BYTES,
            ..UdpOptions::default()
        };
        let socket = UdpSocket::bind_with(stack, SocketAddr::new(local, 0), options)?;
        socket.connect(SocketAddr::new(address, PORT))?;
        let id = stack.shared.visit(|state, _| state.random.draw()) as u16;
        let (message, len) = query(id, question);
        socket.send(&message[..len]).await?;
        Ok(Self { server, socket, id })
    }

    /// Waits for the server's answer, and overlooks everything else.
    fn poll(&self, context: &mut Context<'_>, question: &Question) -> Poll<Answer> {
        let mut message = [0; MAX_UDP_BYTES];
        for _ in 0..LOOKS {
            let Poll::Ready(received) = self.socket.poll_recv_from(context, &mut message) else {
                return Poll::Pending;
            };
            let Ok(received) = received else {
                return Poll::Ready(Answer::Failed); // Nobody listens there.
            };
            match answer(&message[..received.bytes], self.id, question) {
                Some(_) if received.is_truncated() => return Poll::Ready(Answer::Truncated),
                Some(told) => return Poll::Ready(told),
                None => {}
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Waits for the first answer; returns the server beside it.
async fn any(tries: &[Try], question: &Question) -> (usize, Answer) {
    poll_fn(|context| {
        for attempt in tries {
            if let Poll::Ready(told) = attempt.poll(context, question) {
                return Poll::Ready((attempt.server, told));
            }
        }
        Poll::Pending
    })
    .await
}

/// Asks a server for an answer that is too long for a datagram (RFC 7766).
async fn over_tcp(stack: Stack, server: IpAddr, question: &Question) -> Result<Answer, Error> {
    let options = TcpOptions {
        buffers: Buffers {
            receive_bytes: 4 << 10,
            send_bytes: 1 << 10,
        },
        ..TcpOptions::default()
    };
    let mut stream = TcpStream::connect_with(stack, (server, PORT).into(), options).await?;
    let id = stack.shared.visit(|state, _| state.random.draw()) as u16;
    let (message, len) = query(id, question);
    let mut framed = [0; 2 + MAX_UDP_BYTES];
    framed[..2].copy_from_slice(&(len as u16).to_be_bytes());
    framed[2..2 + len].copy_from_slice(&message[..len]);
    stream.write_all(&framed[..2 + len]).await?;

    let mut length = [0; 2];
    read_exactly(&mut stream, &mut length).await?;
    let length = u16::from_be_bytes(length).into();
    let mut message = zeroes(length).ok_or(Error::OutOfMemory)?;
    read_exactly(&mut stream, &mut message).await?;
    Ok(match answer(&message, id, question) {
        None | Some(Answer::Truncated) => Answer::Failed,
        Some(told) => told,
    })
}

async fn read_exactly(stream: &mut TcpStream, mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let count = stream.read(buffer).await?;
        if count == 0 {
            return Err(Error::ConnectionReset);
        }
        buffer = &mut buffer[count..];
    }
    Ok(())
}
