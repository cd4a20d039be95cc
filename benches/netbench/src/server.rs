//! The server on an operating system.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use netbench_protocol::{Session, Step};

use crate::tasks::measure;

/// The wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves every connection in a thread of its own, for ever.
pub fn serve(listener: &TcpListener) -> ! {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                thread::spawn(move || {
                    if let Err(error) = serve_one(stream) {
                        eprintln!("a connection broke: {error}");
                    }
                });
            }
            Err(error) => {
                eprintln!("cannot accept: {error}");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut session = Session::new().map_err(|_| ErrorKind::OutOfMemory)?;
    loop {
        match session.step() {
            Step::Read(buffer) => {
                let count = stream.read(buffer)?;
                session.received(count);
            }
            Step::Write(bytes) => {
                stream.write_all(bytes)?;
                session.written();
            }
            Step::WriteUnlessStopped(bytes) => {
                stream.write_all(bytes)?;
                if is_readable(&mut stream)? {
                    session.stopped();
                } else {
                    session.written();
                }
            }
            Step::Measure {
                message_bytes,
                samples,
            } => {
                let figures = measure(message_bytes as usize, samples);
                session.measured(figures.as_ref());
            }
            Step::Close => return stream.shutdown(Shutdown::Write),
        }
    }
}

/// Reads one byte or the end of the stream, if either is there already.
fn is_readable(stream: &mut TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use anyhow::Result;
    use netbench_protocol::MESSAGE_SIZES;

    use super::*;
    use crate::{Client, Plan};

    fn start() -> Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || serve(&listener));
        Ok(address)
    }

    #[test]
    fn all_tests_of_one_connection() -> Result<()> {
        let mut client = Client::connect(start()?)?;
        for size in MESSAGE_SIZES {
            let content: Vec<_> = (0..size).map(|index| (index % 251) as u8).collect();
            client.echo(&content)?;
            assert_eq!(client.latency(size, 3, Duration::ZERO)?.samples, 3);
            let messages = client.messages(size, Duration::from_millis(10))?;
            assert!(messages.count > 0);
        }
        assert_eq!(client.round_trips(10)?.samples, 10);
        let tasks = client.tasks(0x200, 3)?;
        assert_eq!(tasks.latency.samples, 3);
        Ok(())
    }

    #[test]
    fn bandwidth_both_ways() -> Result<()> {
        let address = start()?;
        let plan = Plan {
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(100),
        };
        let mut no_cpu = || Ok(Duration::ZERO);
        let to = Client::connect(address)?.send(plan, &mut no_cpu)?;
        let from = Client::connect(address)?.receive(plan, &mut no_cpu)?;
        for measured in [to, from] {
            assert!(measured.count > 0);
            assert!(measured.elapsed >= plan.measured);
            assert!(measured.client_cpu > Duration::ZERO);
        }
        Ok(())
    }

    #[test]
    fn a_stranger_is_closed() -> Result<()> {
        let mut stream = TcpStream::connect(start()?)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: netbench\r\n\r\n")?;
        let mut answer = Vec::new();
        // Closed, or reset since bytes were left unread.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
        Ok(())
    }
}
