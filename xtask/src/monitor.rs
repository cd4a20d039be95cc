//! QEMU's machine protocol (QMP), as far as it is needed here.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long QEMU may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The line to a running QEMU.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: BufReader<UnixStream>,
    ready: bool,
}

impl Monitor {
    /// Speaks QMP over `stream`, whose other end QEMU holds.
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self {
            stream: BufReader::new(stream),
            ready: false,
        })
    }

    /// What the human monitor says to `command`.
    pub(crate) fn human(&mut self, command: &str) -> Result<String> {
        self.get_ready()?;
        let answer = self.execute(json!({
            "execute": "human-monitor-command",
            "arguments": { "command-line": command },
        }))?;
        let text = answer.as_str().context("QEMU's answer is no text")?;
        Ok(text.replace('\r', ""))
    }

    /// What `command`, which has no arguments, returns.
    pub(crate) fn query(&mut self, command: &str) -> Result<Value> {
        self.get_ready()?;
        self.execute(json!({ "execute": command }))
    }

    fn get_ready(&mut self) -> Result<()> {
        if !self.ready {
            self.execute(json!({ "execute": "qmp_capabilities" }))?;
            self.ready = true;
        }
        Ok(())
    }

    /// Sends one command and waits for its result.
    fn execute(&mut self, command: Value) -> Result<Value> {
        writeln!(self.stream.get_mut(), "{command}").context("QEMU does not listen")?;
        loop {
            let mut line = String::new();
            let length = self.stream.read_line(&mut line);
            if length.context("QEMU does not answer")? == 0 {
                bail!("QEMU has ended");
            }
            if let Some(result) = result_of(&serde_json::from_str(&line)?) {
                return result;
            }
        }
    }
}

/// The result in a message; none if it is a greeting or an event.
fn result_of(message: &Value) -> Option<Result<Value>> {
    if let Some(value) = message.get("return") {
        return Some(Ok(value.clone()));
    }
    let error = message.get("error")?;
    Some(Err(anyhow::anyhow!("QEMU refuses: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that greets, reports an event and answers each command.
    fn answer(stream: UnixStream, answers: &[Value]) -> Result<()> {
        let mut stream = BufReader::new(stream);
        writeln!(stream.get_mut(), "{}", json!({ "QMP": {} }))?;
        for answer in answers {
            stream.read_line(&mut String::new())?;
            writeln!(stream.get_mut(), "{}", json!({ "event": "STOP" }))?;
            writeln!(stream.get_mut(), "{answer}")?;
        }
        Ok(())
    }

    #[test]
    fn greetings_and_events_are_passed_over() -> Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let answers = [json!({ "return": {} }), json!({ "return": "RIP=1\r\n" })];
        let qemu = std::thread::spawn(move || answer(theirs, &answers));
        assert_eq!(Monitor::new(ours)?.human("info registers")?, "RIP=1\n");
        qemu.join().expect("the other end does not panic")
    }

    #[test]
    fn a_refusal_and_an_end_are_errors() -> Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let answers = [json!({ "return": {} }), json!({ "error": "no" })];
        let qemu = std::thread::spawn(move || answer(theirs, &answers));
        let mut monitor = Monitor::new(ours)?;
        assert!(monitor.human("x").is_err());
        qemu.join().expect("the other end does not panic")?;
        assert!(monitor.human("x").is_err());
        Ok(())
    }
}
