//! The client of the reflector.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv, sockopt};

use crate::distribution::Distribution;
use crate::window::{Measured, Plan, Window};

/// How long nothing may come before all that is under way counts as lost.
const SILENCE: Duration = Duration::from_millis(100);

/// How many silences in a row mean that nobody is there.
const MAX_SILENCES: u32 = 30;

/// The bytes of the number that each datagram begins with.
const NUMBER_BYTES: usize = 8;

/// What the kernel is asked to hold for us.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Datagrams to be sent round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flight {
    /// How many are under way at a time.
    pub in_flight: u64,
    /// The size of each, without headers; at least 8.
    pub datagram_bytes: usize,
    /// For how long.
    pub plan: Plan,
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflected {
    /// The datagrams that came back in the time that counts.
    pub measured: Measured,
    /// Those that did not.
    pub lost: u64,
    /// How long each took, if one was in flight at a time.
    pub round_trips: Distribution,
}

/// Sends datagrams to a reflector and counts those that come back, unchanged.
///
/// The way is one queue, so a datagram that is overtaken is lost.
///
/// # Errors
///
/// If none comes back for 3 s or in the time that counts, or one comes back
/// changed.
pub fn reflect(
    address: SocketAddr,
    flight: Flight,
    server_cpu: &mut dyn FnMut() -> Result<Duration>,
) -> Result<Reflected> {
    ensure!(
        flight.in_flight > 0 && flight.datagram_bytes >= NUMBER_BYTES,
        "a datagram that is under way has at least {NUMBER_BYTES} bytes"
    );
    let mut socket = Socket::connect(address, flight.datagram_bytes)?;
    let mut window = Window::new(flight.plan, server_cpu);
    // Those from `oldest` to `next` are under way.
    let (mut oldest, mut next) = (0, 0);
    let (mut returned, mut lost, mut silences) = (0, 0, 0);
    let mut round_trips = Vec::new();
    loop {
        let start = Instant::now();
        while next < oldest + flight.in_flight {
            socket.send(next)?;
            next += 1;
        }
        let mut wait = Wait::Silence;
        loop {
            let number = match socket.receive(wait)? {
                Received::Number(number) => number,
                Received::Nothing if wait == Wait::Not => break,
                Received::Nothing => {
                    silences += 1;
                    ensure!(silences < MAX_SILENCES, "{address} reflects nothing");
                    lost += next - oldest;
                    oldest = next;
                    break;
                }
            };
            // Others were given up before.
            if (oldest..next).contains(&number) {
                lost += number - oldest;
                oldest = number + 1;
                returned += 1;
                silences = 0;
                if flight.in_flight == 1 && window.is_open() {
                    round_trips.push(start.elapsed());
                }
            }
            if oldest == next {
                break;
            }
            wait = Wait::Not;
        }
        let was_open = window.is_open();
        if let Some(measured) = window.look(Instant::now(), returned)? {
            ensure!(measured.count > 0, "{address} reflects nothing");
            return Ok(Reflected {
                measured,
                lost,
                round_trips: Distribution::of(round_trips),
            });
        }
        if !was_open && window.is_open() {
            lost = 0;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Not at all.
    Not,
    /// Until nothing has come for some time.
    Silence,
}

enum Received {
    /// The datagram with this number.
    Number(u64),
    Nothing,
}

/// A socket, and a datagram of each direction.
struct Socket {
    socket: UdpSocket,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Socket {
    fn connect(address: SocketAddr, datagram_bytes: usize) -> Result<Self> {
        let any = SocketAddr::new(
            match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            },
            0,
        );
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(SILENCE))?;
        // Beyond the system's limit only with privileges; losses are counted.
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES))?;
        let content = (0..datagram_bytes).map(|index| (index % 251) as u8);
        Ok(Self {
            socket,
            sent: content.collect(),
            received: vec![0; datagram_bytes + 1],
        })
    }

    fn send(&mut self, number: u64) -> Result<()> {
        self.sent[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        match self.socket.send(&self.sent) {
            Ok(_) => Ok(()),
            // An earlier one found nobody: this one counts as lost too.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error).context("cannot send a datagram"),
        }
    }

    fn receive(&mut self, wait: Wait) -> Result<Received> {
        let flags = match wait {
            Wait::Not => RecvFlags::DONTWAIT,
            Wait::Silence => RecvFlags::empty(),
        };
        let receive = || recv(&self.socket, self.received.as_mut_slice(), flags);
        let count = match retry_on_intr(receive) {
            Ok((_, count)) => count,
            Err(Errno::AGAIN | Errno::CONNREFUSED) => return Ok(Received::Nothing),
            Err(error) => return Err(error).context("cannot receive a datagram"),
        };
        let received = &self.received[..count];
        match received.split_first_chunk::<NUMBER_BYTES>() {
            Some((number, content)) if content == &self.sent[NUMBER_BYTES..] => {
                Ok(Received::Number(u64::from_be_bytes(*number)))
            }
            _ => bail!("a datagram of {} bytes came back changed", self.sent.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::thread;

    use super::*;

    const PLAN: Plan = Plan {
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(100),
    };

    /// Sends `count` datagrams back, but for every `drop`-th; changes the last
    /// byte if `change` says so.
    fn start(drop: Option<u64>, change: u8) -> Result<SocketAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = socket.local_addr()?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        thread::spawn(move || {
            let mut buffer = [0; 2000];
            let mut number = 0;
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                number += 1;
                buffer[count - 1] ^= change;
                if drop.is_none_or(|drop| number % drop != 0) {
                    let _ = socket.send_to(&buffer[..count], from);
                }
            }
        });
        Ok(address)
    }

    fn fly(address: SocketAddr, in_flight: u64) -> Result<Reflected> {
        let flight = Flight {
            in_flight,
            datagram_bytes: 100,
            plan: PLAN,
        };
        reflect(address, flight, &mut || Ok(Duration::ZERO))
    }

    #[test]
    fn datagrams_are_counted() -> Result<()> {
        let address = start(None, 0)?;
        let one = fly(address, 1)?;
        assert!(one.measured.count > 0);
        assert_eq!(one.lost, 0);
        assert!(one.round_trips.samples as u64 <= one.measured.count + 1);
        assert!(one.round_trips.p50 > Duration::ZERO);
        let many = fly(address, 64)?;
        assert!(many.measured.count > 0);
        assert_eq!(many.round_trips.samples, 0);
        Ok(())
    }

    #[test]
    fn lost_ones_are_counted_and_hold_nothing_up() -> Result<()> {
        let reflected = fly(start(Some(10), 0)?, 16)?;
        let Reflected { measured, lost, .. } = reflected;
        assert!(lost * 15 > measured.count, "{reflected:?}");
        assert!(measured.count > 5 * lost, "{reflected:?}");
        Ok(())
    }

    #[test]
    fn a_changed_datagram_is_an_error() -> Result<()> {
        assert!(fly(start(None, 1)?, 1).is_err());
        Ok(())
    }

    #[test]
    fn nobody_there_is_an_error() -> Result<()> {
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let error = fly(address, 16).expect_err("nobody is there");
        assert!(error.to_string().contains("reflects nothing"), "{error}");
        Ok(())
    }
}
