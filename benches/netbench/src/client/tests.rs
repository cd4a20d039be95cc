//! Servers whose counts are wrong.

use std::net::{Ipv4Addr, TcpListener};

use netbench_protocol::HEADER_BYTES;

use super::*;

/// A server that takes one header and so many bytes, then answers `answer`;
/// takes one byte more, then answers `last` and ends.
fn lie_twice(bytes: usize, answer: Vec<u8>, last: Vec<u8>) -> Result<Client> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut vec![0; HEADER_BYTES + bytes])?;
        stream.write_all(&answer)?;
        if !last.is_empty() {
            stream.read_exact(&mut [0])?;
            stream.write_all(&last)?;
        }
        stream.shutdown(Shutdown::Write)?;
        // Whatever else comes, so that no reset overtakes the answer.
        stream.read_to_end(&mut Vec::new())
    });
    Client::connect(address)
}

fn lie(bytes: usize, answer: Vec<u8>) -> Result<Client> {
    lie_twice(bytes, answer, Vec::new())
}

fn report(messages: u64, bytes: u64) -> Vec<u8> {
    Report { messages, bytes }.encode().to_vec()
}

fn no_time() -> Plan {
    Plan {
        warm_up: Duration::ZERO,
        measured: Duration::ZERO,
    }
}

#[track_caller]
fn assert_differs<T>(result: Result<T>, words: &str) {
    let error = result.err().expect("the counts differ");
    assert!(error.to_string().contains(words), "{error:#}");
}

#[test]
fn a_byte_too_few_is_an_error() -> Result<()> {
    let mut no_cpu = || Ok(Duration::ZERO);
    // At least one block is written, and never one byte alone.
    let sent = lie(0, report(0, 1))?.send(no_time(), &mut no_cpu);
    assert_differs(sent, "bytes were sent, 1 received");

    // More than one read takes: the first opens the window, the second
    // closes it.
    let bytes = 2 * BLOCK_BYTES - 1;
    for (blocks, counted) in [(2, bytes + 1), (2, bytes)] {
        let last = report(blocks, counted as u64);
        let received = lie_twice(0, vec![0; bytes], last)?.receive(no_time(), &mut no_cpu);
        let words = format!("{counted} bytes in 2 blocks were sent, {bytes} received");
        assert_differs(received, &words);
    }
    Ok(())
}

#[test]
fn a_message_too_few_is_an_error() -> Result<()> {
    let answer = [vec![ACK; 2], report(1, 8)].concat();
    let latency = lie(12, answer)?.latency(8, 2, Duration::ZERO);
    assert_differs(latency, "2 messages of 8 bytes were sent, 1 with 8 bytes");
    let messages = lie(4, report(9, 0))?.messages(0, Duration::ZERO);
    assert_differs(messages, "0 messages of 0 bytes were sent, 9");
    let figures = TaskFigures {
        messages: 3,
        bytes: 23,
        ..TaskFigures::default()
    };
    let tasks = lie(0, figures.encode())?.tasks(8, 0);
    assert_differs(tasks, "3 messages of 8 bytes had 23 bytes");
    Ok(())
}

#[test]
fn changed_bytes_are_an_error() -> Result<()> {
    assert_differs(lie(3, b"abd".to_vec())?.echo(b"abc"), "changed");
    assert_differs(lie(1, vec![1])?.round_trips(1), "changed");
    assert_differs(
        lie(12, vec![0])?.latency(8, 1, Duration::ZERO),
        "not acknowledged",
    );
    Ok(())
}
