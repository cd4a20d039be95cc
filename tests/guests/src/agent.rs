//! Does on the network what the test says, a line for each command, and tells
//! what came of it.
//!
//! It listens on TCP port 2. Each answer is a line: `ok` and what there is to
//! tell, or the error; then ` after N ms`.
//!
//! | command | what it does |
//! |---|---|
//! | `ping HOST` | asks for one echo |
//! | `resolve NAME v4`, `v6` or `any` | looks a name up; tells its addresses |
//! | `connect HOST:PORT` | opens and closes a connection |
//! | `bind PORT DATAGRAMS` | takes datagrams, at most so many until they are read |
//! | `send HOST:PORT COUNT BYTES` | sends datagrams from the port that was bound; the first four bytes of each are its number |
//! | `drain` | reads what has come; tells how many datagrams of how many bytes, and how many were dropped |
//! | `config` | tells the addresses and the name servers |
//! | `stats` | tells the counters of the stack |

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::error;
use core::fmt::Display;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::{FromStr, SplitWhitespace};

use firstpoll::arch::{memory, now};
use firstpoll::net::dns::Family;
use firstpoll::net::{
    Error, PingOptions, Stack, TcpListener, TcpStream, UdpOptions, UdpSocket, ping,
};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, println};

firstpoll::entry!(main);

/// How long there must be silence before all datagrams were read.
const SILENCE: Duration = Duration::from_millis(300);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    Ok(block_on(run(runtime.network()?))?)
}

async fn run(stack: Stack) -> Result<(), Error> {
    stack.wait_configured().await?;
    let listener = TcpListener::bind(stack, 2)?;
    println!("ready");
    loop {
        let stream = listener.accept().await?;
        if let Err(error) = serve(stack, stream).await {
            println!("broken: {error:?}");
        }
    }
}

async fn serve(stack: Stack, mut stream: TcpStream) -> Result<(), Error> {
    let mut agent = Agent {
        stack,
        socket: None,
    };
    let mut received = Vec::new();
    let mut buffer = [0; 256];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        received.extend_from_slice(&buffer[..count]);
        while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let began = now();
            let answer = match agent.obey(line.trim()).await {
                Ok(told) => format!("ok {told}"),
                Err(error) => error,
            };
            let took = (now() - began).as_millis();
            let answer = format!("{answer} after {took} ms\n");
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

struct Agent {
    stack: Stack,
    socket: Option<UdpSocket>,
}

impl Agent {
    async fn obey(&mut self, command: &str) -> Result<String, String> {
        let mut words = command.split_whitespace();
        match words.next() {
            Some("ping") => {
                let host = argument::<IpAddr>(&mut words)?;
                let answered = ping(self.stack, host, PingOptions::default()).await;
                answered.map(|_| String::new()).map_err(name)
            }
            Some("resolve") => {
                let host = argument::<String>(&mut words)?;
                let family = match words.next() {
                    Some("v4") => Family::V4,
                    Some("v6") => Family::V6,
                    _ => Family::Any,
                };
                let addresses = self.stack.resolve(&host, family).await.map_err(name)?;
                Ok(joined(addresses.iter()))
            }
            Some("connect") => {
                let to = argument::<SocketAddr>(&mut words)?;
                let stream = TcpStream::connect(self.stack, to).await.map_err(name)?;
                Ok(stream.local_addr().to_string())
            }
            Some("bind") => {
                let (port, datagrams) = (argument(&mut words)?, argument(&mut words)?);
                let options = UdpOptions {
                    receive_datagrams: datagrams,
                    broadcast: true,
                    ..UdpOptions::default()
                };
                let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
                let socket = UdpSocket::bind_with(self.stack, any, options).map_err(name)?;
                let local = socket.local_addr();
                self.socket = Some(socket);
                Ok(local.to_string())
            }
            Some("send") => {
                let to = argument::<SocketAddr>(&mut words)?;
                let (count, bytes) = (argument::<u32>(&mut words)?, argument(&mut words)?);
                let mut datagram = vec![b's'; usize::max(bytes, 4)];
                for number in 0..count {
                    datagram[..4].copy_from_slice(&number.to_be_bytes());
                    self.socket()?.send_to(&datagram, to).await.map_err(name)?;
                }
                Ok(String::new())
            }
            Some("drain") => self.drain().await,
            Some("config") => {
                let servers = self.stack.dns_servers();
                let addresses = self.stack.addresses();
                Ok(format!(
                    "{} dns {}",
                    joined(addresses.iter()),
                    joined(servers.iter())
                ))
            }
            Some("stats") => {
                let allocated_bytes = memory().allocated_bytes;
                let stats = self.stack.stats();
                Ok(format!("allocated_bytes: {allocated_bytes}, {stats:?}"))
            }
            _ => Err(format!("unknown: {command}")),
        }
    }

    async fn drain(&mut self) -> Result<String, String> {
        let socket = self.socket()?;
        let mut buffer = vec![0; 2048];
        let (mut count, mut bytes) = (0, 0);
        while let Ok(received) = timeout(SILENCE, socket.recv_from(&mut buffer)).await {
            count += 1;
            bytes += received.map_err(name)?.datagram_bytes;
        }
        let dropped = socket.dropped();
        Ok(format!("{count} datagrams {bytes} bytes {dropped} dropped"))
    }

    fn socket(&self) -> Result<&UdpSocket, String> {
        self.socket.as_ref().ok_or_else(|| "unbound".to_string())
    }
}

/// The next word, as what it stands for.
fn argument<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T, String> {
    let word = words.next().unwrap_or_default();
    word.parse().map_err(|_| format!("malformed: {word:?}"))
}

fn name(error: Error) -> String {
    format!("{error:?}")
}

fn joined(items: impl Iterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(",")
}
