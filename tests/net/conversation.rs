//! A connection in the middle of a conversation is not asked for its timers
//! after every segment; here they fire all the same.

use firstpoll::arch::host;
use firstpoll::net::{TcpListener, TcpStream};
use firstpoll::time::Duration;
use firstpoll::{block_on, yield_now};

use crate::frames::{Sent, look};
use crate::peer::start;
use crate::raw::Raw;

const MS: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_micros(10);

/// A connection on which a request has just been answered.
fn conversing() -> (Raw, TcpStream) {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let (mut raw, mut stream) = Raw::open(&peer, &listener, 4000, 1000);
    exchange(&mut raw, &mut stream);
    (raw, stream)
}

/// Lets the network task do what there is to do, and later what is due then.
fn advance(duration: Duration) {
    block_on(yield_now());
    host::advance(duration);
    block_on(yield_now());
}

/// A request, and its answer in one frame, which acknowledges the request.
fn exchange(raw: &mut Raw, stream: &mut TcpStream) {
    raw.put_next(b"request");
    advance(MS / 10);
    assert_eq!(read(stream, 64), b"request");
    assert_eq!(block_on(stream.write(b"answer")), Ok(6));
    assert_eq!(sent(raw), [(raw.theirs.0, 6, raw.seq.0)]);
    raw.theirs += 6;
}

fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let count = block_on(stream.read(&mut buffer)).unwrap();
    buffer.truncate(count);
    buffer
}

/// The sequence number, length and acknowledgement of what was sent.
fn sent(raw: &Raw) -> Vec<(i32, usize, i32)> {
    let frames = std::iter::from_fn(|| raw.receive());
    frames
        .map(|frame| match look(&frame) {
            Sent::Tcp { seq, len, ack, .. } => (seq.0, len, ack.0),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_request_without_an_answer_is_acknowledged_after_a_millisecond() {
    let (mut raw, _stream) = conversing();
    raw.put_next(b"request");
    advance(MS - TICK);
    assert_eq!(sent(&raw), []);
    advance(2 * TICK);
    assert_eq!(sent(&raw), [(raw.theirs.0, 0, raw.seq.0)]);
    advance(500 * MS);
    assert_eq!(sent(&raw), []);
}

/// Two small requests share the acknowledgement of the first.
#[test]
fn the_first_of_several_segments_decides_when_they_are_acknowledged() {
    let (mut raw, _stream) = conversing();
    raw.put_next(b"one");
    advance(MS - 2 * TICK);
    raw.put_next(b"two");
    advance(TICK);
    assert_eq!(sent(&raw), []);
    advance(2 * TICK);
    assert_eq!(sent(&raw), [(raw.theirs.0, 0, raw.seq.0)]);
}

/// RFC 9293 §3.8.6.3: at least every second full-sized segment.
#[test]
fn two_large_segments_are_acknowledged_at_once() {
    let (mut raw, _stream) = conversing();
    for _ in 0..2 {
        raw.put_next(&[7; 1460]);
    }
    advance(TICK);
    assert_eq!(sent(&raw), [(raw.theirs.0, 0, raw.seq.0)]);
}

#[test]
fn an_answer_that_is_lost_is_sent_again() {
    let (mut raw, mut stream) = conversing();
    exchange(&mut raw, &mut stream);
    let lost = (raw.theirs - 6).0;
    raw.theirs = raw.theirs - 6;
    raw.put_next(b"next"); // Acknowledges nothing new.
    advance(2 * MS);
    assert_eq!(sent(&raw), [(lost + 6, 0, raw.seq.0)]);
    let mut waited = 2 * MS;
    let again = loop {
        assert!(waited < 1100 * MS);
        advance(MS);
        waited += MS;
        if let Some(&again) = sent(&raw).first() {
            break again;
        }
    };
    assert_eq!(again.0, lost);
    assert!(again.1 >= 6);
}

/// A peer that was told of a small window waits for a larger one.
#[test]
fn reading_tells_the_peer_of_a_window_that_has_opened() {
    let (mut raw, mut stream) = conversing();
    for _ in 0..10 {
        raw.put_next(&[7; 1460]);
        advance(2 * MS);
    }
    let told = windows(&raw);
    assert!(told.iter().all(|&window| window < 16 << 10), "{told:?}");
    let low = *told.last().unwrap();
    let mut opened = Vec::new();
    for left in (0..10).rev() {
        read(&mut stream, 1460);
        // At once: nobody waits for a timer.
        opened.extend(windows(&raw));
        assert!(left > 0 || !opened.is_empty());
    }
    assert!(
        opened.iter().all(|&window| window >= 2 * low),
        "{low} {opened:?}"
    );
    // Small ones do not close it enough for that.
    exchange(&mut raw, &mut stream);
}

fn windows(raw: &Raw) -> Vec<usize> {
    let frames = std::iter::from_fn(|| raw.receive());
    frames
        .map(|frame| u16::from_be_bytes([frame[48], frame[49]]).into())
        .collect()
}

/// What does not fit in one segment leaves with the same call.
#[test]
fn a_long_answer_leaves_at_once() {
    let (mut raw, mut stream) = conversing();
    raw.put_next(b"request");
    advance(MS / 10);
    read(&mut stream, 64);
    let written = block_on(stream.write(&[7; 1500])).unwrap();
    let frames = sent(&raw);
    assert_eq!(written, 1500);
    let lengths: Vec<_> = frames.iter().map(|frame| frame.1).collect();
    assert_eq!(lengths, [536, 536, 428]);
}

/// The peer's end is told apart from silence at once.
#[test]
fn the_end_of_a_conversation_is_seen_at_once() {
    let (mut raw, mut stream) = conversing();
    raw.send(smoltcp::wire::TcpControl::Fin, b"");
    assert_eq!(read(&mut stream, 64), b"");
}

/// What is written while the card has enough to do is gathered, and leaves when
/// the program waits, or when it has computed for long.
#[test]
fn small_messages_leave_together() {
    let (mut raw, mut stream) = conversing();
    let mut write = |message| assert_eq!(block_on(stream.write(message)), Ok(message.len()));
    write(b"one");
    write(b"two");
    let lengths = |raw: &Raw| sent(raw).iter().map(|frame| frame.1).collect::<Vec<_>>();
    assert_eq!(lengths(&raw), [3, 3]);
    raw.set_slow();
    for _ in 0..10 {
        write(b"message");
    }
    assert_eq!(lengths(&raw), []);
    block_on(yield_now());
    assert_eq!(lengths(&raw), [70]);
    for _ in 0..10 {
        write(b"message");
    }
    host::advance(MS + TICK); // It computes.
    assert_eq!(lengths(&raw), [70]);
    // The first of an answer never waits.
    raw.theirs += 146;
    exchange(&mut raw, &mut stream);
}
