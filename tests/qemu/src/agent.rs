//! The guest program `agent`, which does on the network what it is told.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use firstpoll_peer::{Peer, Stream};

use crate::network;

/// The agent, commanded over a connection from the peer.
#[derive(Debug)]
pub struct Agent {
    stream: BufReader<Stream>,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the agent told, or the name of the error.
    pub result: Result<String, String>,
    /// How long it took.
    pub took: Duration,
}

impl Agent {
    /// Connects to the agent, which must be ready.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn connect(peer: &Peer) -> Result<Self> {
        Ok(Self::on(network::connect(peer, 2)?))
    }

    /// The agent at the other end of a connection.
    pub fn on(mut stream: Stream) -> Self {
        stream.set_timeout(Duration::from_secs(40));
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Gives a command, and waits until it is done.
    ///
    /// # Errors
    ///
    /// If the agent does not answer.
    pub fn tell(&mut self, command: &str) -> Result<Outcome> {
        self.begin(command)?;
        self.finish()
    }

    /// Gives a command.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub fn begin(&mut self, command: &str) -> Result<()> {
        let stream = self.stream.get_mut();
        Ok(stream.write_all(format!("{command}\n").as_bytes())?)
    }

    /// Waits until a command is done.
    ///
    /// # Errors
    ///
    /// If the agent does not answer.
    pub fn finish(&mut self) -> Result<Outcome> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let parts = line.trim_end().strip_suffix(" ms");
        let parts = parts.and_then(|line| line.rsplit_once(" after "));
        let (told, ms) = parts.with_context(|| format!("the agent said {line:?}"))?;
        let result = match told.strip_prefix("ok ") {
            Some(told) => Ok(told.to_owned()),
            None => Err(told.to_owned()),
        };
        Ok(Outcome {
            result,
            took: Duration::from_millis(ms.parse()?),
        })
    }

    /// Gives a command that must succeed; what the agent told.
    ///
    /// # Errors
    ///
    /// If it did not.
    pub fn order(&mut self, command: &str) -> Result<String> {
        let Outcome { result, took } = self.tell(command)?;
        ensure!(result.is_ok(), "{command}: {result:?} after {took:?}");
        Ok(result.unwrap_or_default())
    }
}
