//! The client of the TCP tests.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use netbench_protocol::{ACK, END, MAX_BLOCK_BYTES, REPORT_BYTES, Report, STOP, TaskFigures, Test};

use crate::distribution::Distribution;
use crate::window::{Measured, Plan, Window};

/// The size of a write of the bandwidth tests.
const BLOCK_BYTES: usize = MAX_BLOCK_BYTES as usize;

/// How long the server may stay silent, or take nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// The wait before the next attempt to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The most that is read after a source was told to stop: what lay in the
/// buffers on the way.
const MAX_REST_BYTES: u64 = 256 << 20;

/// A connection to a server, for one test after the other.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
}

/// Messages at full speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Messages {
    /// How many were received.
    pub count: u64,
    /// Their bytes, without their lengths.
    pub bytes: u64,
    /// From the first send until the server has reported them.
    pub elapsed: Duration,
}

impl Messages {
    /// So many a second.
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

/// Messages between two tasks of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskMessages {
    /// The latency of those that were sent with a [`PACE`](netbench_protocol::PACE).
    pub latency: Distribution,
    /// Those that were sent at full speed.
    pub messages: Messages,
}

impl Client {
    /// Connects to a server. A machine that was just started may not answer for
    /// its address at once.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let start = Instant::now();
        let stream = loop {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Err(error)
                    if error.kind() == ErrorKind::HostUnreachable && start.elapsed() < PATIENCE =>
                {
                    thread::sleep(CONNECT_PAUSE);
                }
                connected => break connected,
            }
        };
        let stream = stream.with_context(|| format!("cannot connect to netbench at {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Sends `content` and checks that it comes back.
    ///
    /// # Errors
    ///
    /// If it does not, or the connection broke.
    pub fn echo(&mut self, content: &[u8]) -> Result<()> {
        let bytes = content.len() as u64;
        self.begin(Test::Echo { bytes })?;
        let mut returned = vec![0; content.len()];
        let mut sender = self.stream.try_clone()?;
        thread::scope(|scope| {
            // The server does not wait for the end before it answers.
            let sending = scope.spawn(move || sender.write_all(content));
            let received = self.stream.read_exact(&mut returned);
            let sent = sending.join().expect("writing does not panic");
            sent.and(received)
        })
        .with_context(|| format!("an echo of {bytes} bytes"))?;
        ensure!(returned == content, "{bytes} bytes came back changed");
        Ok(())
    }

    /// Sends one byte and waits for it, `count` times.
    ///
    /// # Errors
    ///
    /// If the connection broke.
    pub fn round_trips(&mut self, count: usize) -> Result<Distribution> {
        let bytes = count as u64;
        self.begin(Test::Echo { bytes })?;
        let mut samples = Vec::with_capacity(count);
        for number in 0..count {
            let byte = number as u8;
            let mut returned = [0];
            let start = Instant::now();
            self.stream.write_all(&[byte])?;
            self.stream.read_exact(&mut returned)?;
            samples.push(start.elapsed());
            ensure!(returned == [byte], "a byte came back changed");
        }
        Ok(Distribution::of(samples))
    }

    /// Sends `samples` messages of `size` bytes, with a pause of `pace` before
    /// each, and measures how long it takes until each is acknowledged.
    ///
    /// # Errors
    ///
    /// If the server's count differs, or the connection broke.
    pub fn latency(&mut self, size: u32, samples: usize, pace: Duration) -> Result<Distribution> {
        self.begin(Test::Deliver {
            message_bytes: size,
            count: samples as u64,
        })?;
        let message = message(size);
        let mut latencies = Vec::with_capacity(samples);
        for _ in 0..samples {
            thread::sleep(pace);
            let mut answer = [0];
            let start = Instant::now();
            self.stream.write_all(&message)?;
            self.stream.read_exact(&mut answer)?;
            latencies.push(start.elapsed());
            ensure!(answer == [ACK], "a message was not acknowledged");
        }
        self.check(samples as u64, size)?;
        Ok(Distribution::of(latencies))
    }

    /// Sends messages of `size` bytes for so long, as fast as they go.
    ///
    /// # Errors
    ///
    /// If the server's count differs, or the connection broke.
    pub fn messages(&mut self, size: u32, duration: Duration) -> Result<Messages> {
        self.begin(Test::Stream {
            message_bytes: size,
        })?;
        let message = message(size);
        let mut count = 0;
        let start = Instant::now();
        while start.elapsed() < duration {
            self.stream.write_all(&message)?;
            count += 1;
        }
        self.stream.write_all(&END.to_be_bytes())?;
        let bytes = self.check(count, size)?;
        Ok(Messages {
            count,
            bytes,
            elapsed: start.elapsed(),
        })
    }

    /// Has the server measure messages of `size` bytes between two tasks of its
    /// own: the latency of `samples`, then as many as go.
    ///
    /// # Errors
    ///
    /// If its figures make no sense, or the connection broke.
    pub fn tasks(&mut self, size: u32, samples: usize) -> Result<TaskMessages> {
        self.begin(Test::Tasks {
            message_bytes: size,
            samples: samples as u64,
        })?;
        let mut encoded = vec![0; TaskFigures::encoded_bytes(samples)];
        self.stream
            .read_exact(&mut encoded)
            .with_context(|| format!("messages of {size} bytes between two tasks"))?;
        let figures = TaskFigures::decode(&encoded)?;
        let TaskFigures {
            messages, bytes, ..
        } = figures;
        ensure!(
            messages > 0 && bytes == messages * u64::from(size),
            "{messages} messages of {size} bytes had {bytes} bytes"
        );
        let latencies = figures.latencies_ns.into_iter().map(Duration::from_nanos);
        Ok(TaskMessages {
            latency: Distribution::of(latencies.collect()),
            messages: Messages {
                count: messages,
                bytes,
                elapsed: Duration::from_nanos(figures.elapsed_ns),
            },
        })
    }

    /// Sends as much as goes in the time of the `plan`; `server_cpu` tells the
    /// processor time that the other end has had.
    ///
    /// # Errors
    ///
    /// If the server's count differs, or the connection broke.
    pub fn send(
        mut self,
        plan: Plan,
        server_cpu: &mut dyn FnMut() -> Result<Duration>,
    ) -> Result<Measured> {
        self.begin(Test::Sink)?;
        let block = vec![0; BLOCK_BYTES];
        let mut total = 0;
        let mut window = Window::new(plan, server_cpu);
        let measured = loop {
            total += self.stream.write(&block)? as u64;
            if let Some(measured) = window.look(Instant::now(), total)? {
                break measured;
            }
        };
        self.stream.shutdown(Shutdown::Write)?;
        let report = self.report()?;
        ensure!(
            report.bytes == total,
            "{total} bytes were sent, {} received",
            report.bytes
        );
        Ok(measured)
    }

    /// Receives as much as comes in the time of the `plan`; `server_cpu` tells
    /// the processor time that the other end has had.
    ///
    /// # Errors
    ///
    /// If the server's count differs, or the connection broke.
    pub fn receive(
        mut self,
        plan: Plan,
        server_cpu: &mut dyn FnMut() -> Result<Duration>,
    ) -> Result<Measured> {
        self.begin(Test::Source {
            block_bytes: MAX_BLOCK_BYTES,
        })?;
        let mut buffer = vec![0; BLOCK_BYTES];
        let mut total = 0;
        let mut window = Window::new(plan, server_cpu);
        let measured = loop {
            match self.stream.read(&mut buffer)? {
                0 => bail!("the server stopped by itself after {total} bytes"),
                count => total += count as u64,
            }
            if let Some(measured) = window.look(Instant::now(), total)? {
                break measured;
            }
        };
        self.stream.write_all(&[STOP])?;
        let mut rest = Vec::new();
        let mut stream = self.stream.take(MAX_REST_BYTES);
        stream.read_to_end(&mut rest)?;
        let (blocks, report) = rest
            .split_last_chunk::<REPORT_BYTES>()
            .context("the server stopped without a report")?;
        let report = Report::decode(report);
        let received = total + blocks.len() as u64;
        ensure!(
            report.bytes == received && received == report.messages * u64::from(MAX_BLOCK_BYTES),
            "{} bytes in {} blocks were sent, {received} received",
            report.bytes,
            report.messages
        );
        Ok(measured)
    }

    fn begin(&mut self, test: Test) -> Result<()> {
        let sent = self.stream.write_all(&test.encode());
        sent.with_context(|| format!("cannot ask for {test:?}"))
    }

    fn report(&mut self) -> Result<Report> {
        let mut report = [0; REPORT_BYTES];
        self.stream
            .read_exact(&mut report)
            .context("the server does not report")?;
        Ok(Report::decode(&report))
    }

    /// Compares the server's report of messages; returns their bytes.
    fn check(&mut self, messages: u64, size: u32) -> Result<u64> {
        let bytes = messages * u64::from(size);
        let report = self.report()?;
        ensure!(
            report == Report { messages, bytes },
            "{messages} messages of {size} bytes were sent, {} with {} bytes received",
            report.messages,
            report.bytes
        );
        Ok(bytes)
    }
}

/// A message of `size` bytes, with its length before it.
fn message(size: u32) -> Vec<u8> {
    let mut message = size.to_be_bytes().to_vec();
    message.resize(message.len() + size as usize, 0x5a);
    message
}

#[cfg(test)]
mod tests;
