//! What is left of a connection whose stream is gone: a record without a
//! socket, that answers as RFC 9293 has it.

use firstpoll::arch::host;
use firstpoll::block_on;
use firstpoll::net::{Stack, TcpListener, TcpStream};
use firstpoll::time::Duration;
use smoltcp::wire::TcpControl::{self, Fin, None as Plain, Psh, Rst};
use smoltcp::wire::TcpSeqNumber;

use crate::frames::{Sent, segment};
use crate::peer::{PEER_IP, Peer, start};
use crate::raw::Raw;

const SEC: Duration = Duration::from_secs(1);

struct Setup {
    stack: Stack,
    peer: Peer,
    listener: TcpListener,
    raw: Raw,
}

/// What the far end's stream takes of the sequence: its two ends.
const STREAM_LEN: usize = 2;

/// A connection whose stream was dropped; the end of the stream has arrived.
fn dropped() -> Setup {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let (mut raw, stream) = Raw::open(&peer, &listener, 4000, i32::MAX - 1);
    drop(stream);
    assert_eq!(raw.answers(), [raw.end()]);
    raw.theirs += 1;
    Setup {
        stack,
        peer,
        listener,
        raw,
    }
}

/// One of which the end has been acknowledged as well.
fn in_fin_wait() -> Setup {
    let mut setup = dropped();
    assert_eq!(setup.raw.send(Plain, b""), []);
    assert_eq!(counts(setup.stack), (0, 1, 0));
    setup
}

/// One whose peer has closed its side, too.
fn in_time_wait() -> Setup {
    let mut setup = in_fin_wait();
    let answers = setup.raw.send(Fin, b"");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    assert_eq!(counts(setup.stack), (0, 1, 1));
    setup
}

/// Sockets, records, and those in TIME-WAIT.
fn counts(stack: Stack) -> (usize, usize, usize) {
    let stats = stack.stats();
    assert_eq!(stats.socket_bytes > 0, stats.sockets > 0);
    assert!(stats.buffer_bytes == 0 || stats.sockets > 0);
    (stats.sockets, stats.closing, stats.time_wait)
}

/// Sends a segment whose checksum is wrong.
fn send_damaged(setup: &Setup, seq: TcpSeqNumber, control: TcpControl) {
    let theirs = Some(setup.raw.theirs);
    let mut frame = segment(PEER_IP, (4000, 80), control, seq.0, theirs);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    setup.peer.wire.send(frame);
}

#[test]
fn until_its_end_is_acknowledged_a_socket_remains_to_repeat_it() {
    let setup = dropped();
    assert_eq!(counts(setup.stack), (1, 0, 0));
    host::advance(3 * SEC);
    assert!(!setup.raw.answers().is_empty());
}

#[test]
fn an_end_that_was_not_acknowledged_in_time_is_acknowledged_again() {
    let setup = in_time_wait();
    for _ in 0..3 {
        let last = setup.raw.seq - 1;
        let answers = setup.raw.send_at(last, Fin, b"");
        assert_eq!(answers, [setup.raw.acknowledgement()]);
    }
    // So is data that comes once more, with the end of the stream or without.
    let answers = setup.raw.send_at(setup.raw.seq - 5, Fin, b"late");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    let answers = setup.raw.send_at(setup.raw.seq - 5, Psh, b"late");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    assert_eq!(setup.raw.send_at(setup.raw.seq, Plain, b""), []);
    assert_eq!(counts(setup.stack), (0, 1, 1));
}

#[test]
fn time_wait_begins_anew_with_each_repeated_end_and_is_over_after_ten_seconds() {
    let setup = in_time_wait();
    let last = setup.raw.seq - 1;
    for _ in 0..5 {
        host::advance(9 * SEC);
        let answers = setup.raw.send_at(last, Fin, b"");
        assert_eq!(answers, [setup.raw.acknowledgement()]);
    }
    host::advance(10 * SEC);
    // Nothing is known of it any more.
    let answers = setup.raw.send_at(last, Fin, b"");
    assert!(matches!(answers[..], [Sent::Tcp { rst: true, .. }]));
    host::advance(2 * SEC);
    assert_eq!(counts(setup.stack), (0, 0, 0));
}

#[test]
fn the_peers_end_is_awaited_for_a_minute() {
    let mut setup = in_fin_wait();
    host::advance(59 * SEC);
    let answers = setup.raw.send(Fin, b"");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
}

#[test]
fn the_peers_end_is_not_awaited_for_longer() {
    let mut setup = in_fin_wait();
    host::advance(60 * SEC);
    let answers = setup.raw.send(Fin, b"");
    assert!(matches!(answers[..], [Sent::Tcp { rst: true, .. }]));
    host::advance(2 * SEC);
    assert_eq!(counts(setup.stack), (0, 0, 0));
}

#[test]
fn data_that_nobody_will_read_is_reset() {
    let setup = in_fin_wait();
    // A part that something lost precedes is asked for first.
    let answers = setup.raw.send_at(setup.raw.seq + 10, Psh, b"second");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    let answers = setup.raw.send_at(setup.raw.seq, Psh, b"first part");
    assert_eq!(answers, [setup.raw.reset()]);
    assert_eq!(counts(setup.stack), (0, 0, 0));
}

#[test]
fn a_reset_ends_the_wait_for_the_peers_end() {
    let setup = in_fin_wait();
    // Not by guessing: only with the number that is awaited (RFC 5961).
    let answers = setup.raw.send_at(setup.raw.seq + 1000, Rst, b"");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    assert_eq!(setup.raw.send_at(setup.raw.seq - 1, Rst, b""), []);
    assert_eq!(counts(setup.stack), (0, 1, 0));
    assert_eq!(setup.raw.send_at(setup.raw.seq, Rst, b""), []);
    assert_eq!(counts(setup.stack), (0, 0, 0));
}

/// RFC 1337.
#[test]
fn a_reset_does_not_end_time_wait() {
    let setup = in_time_wait();
    assert_eq!(setup.raw.send_at(setup.raw.seq, Rst, b""), []);
    assert_eq!(counts(setup.stack), (0, 1, 1));
}

#[test]
fn both_ends_may_close_at_the_same_time() {
    let mut setup = dropped();
    // The peer's end does not acknowledge ours.
    setup.raw.theirs = setup.raw.theirs - 1;
    let answers = setup.raw.send(Fin, b"");
    setup.raw.theirs += 1;
    assert_eq!(answers, [setup.raw.acknowledgement()]);
    assert_eq!(setup.raw.send(Plain, b""), []);
    assert_eq!(counts(setup.stack), (0, 1, 1));
    let answers = setup.raw.send_at(setup.raw.seq - 1, Fin, b"");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
}

/// Stacks of BSD's descent acknowledge our end with theirs once more.
#[test]
fn an_end_that_comes_again_may_acknowledge_ours() {
    let mut setup = dropped();
    setup.raw.theirs = setup.raw.theirs - 1;
    setup.raw.send(Fin, b"");
    setup.raw.theirs += 1;
    let last = setup.raw.seq - 1;
    send_damaged(&setup, last, Fin);
    assert_eq!(setup.raw.answers(), []);
    assert_eq!(counts(setup.stack), (1, 0, 0));
    setup.raw.send_at(last, Fin, b"");
    assert_eq!(counts(setup.stack), (0, 1, 1));
}

#[test]
fn so_it_may_where_the_peer_has_closed_first() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let (mut raw, stream) = Raw::open(&peer, &listener, 4000, 7);
    raw.send(Fin, b"");
    drop(stream);
    assert_eq!(raw.answers(), [raw.end()]);
    raw.theirs += 1;
    raw.send_at(raw.seq - 1, Fin, b"");
    assert_eq!(counts(stack), (0, 0, 0));
}

/// A stream that is dropped late leaves a record as well, with what has been
/// sent and received until then.
#[test]
fn a_stream_that_was_shut_down_before_leaves_the_same_record() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let (mut raw, mut stream) = Raw::open(&peer, &listener, 4000, 7);
    block_on(stream.write_all(b"all of it")).unwrap();
    block_on(stream.shutdown()).unwrap();
    raw.answers();
    raw.theirs += 10;
    assert_eq!(raw.send(Plain, b""), []);
    let answers = raw.send(Psh, b"thanks");
    assert_eq!(answers, [raw.acknowledgement()]);
    assert_eq!(block_on(stream.read(&mut [0; 8])), Ok(6));
    assert_eq!(counts(stack), (1, 0, 0));
    drop(stream);
    raw.answers();
    assert_eq!(counts(stack), (0, 1, 0));
    let answers = raw.send(Fin, b"");
    assert_eq!(answers, [raw.acknowledgement()]);

    // The peer's end came before the drop.
    let (mut raw, mut stream) = Raw::open(&peer, &listener, 4001, 7);
    block_on(stream.shutdown()).unwrap();
    raw.answers();
    raw.theirs += 1;
    let answers = raw.send(Fin, b"");
    assert_eq!(answers, [raw.acknowledgement()]);
    assert_eq!(block_on(stream.read(&mut [0; 8])), Ok(0));
    drop(stream);
    assert_eq!(raw.answers(), []);
    assert_eq!(counts(stack), (0, 2, 2));
    let answers = raw.send_at(raw.seq - 1, Fin, b"");
    assert_eq!(answers, [raw.acknowledgement()]);
}

/// An acknowledgement that is still to leave holds the socket back.
#[test]
fn what_was_read_just_before_the_drop_is_acknowledged() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let (mut raw, mut stream) = Raw::open(&peer, &listener, 4000, 7);
    block_on(stream.shutdown()).unwrap();
    raw.answers();
    raw.theirs += 1;
    raw.send(Plain, b"");
    // Read and dropped at once, before the late acknowledgement.
    raw.put_next(b"thanks");
    assert_eq!(block_on(stream.read(&mut [0; 8])), Ok(6));
    drop(stream);
    assert_eq!(raw.answers(), [raw.acknowledgement()]);
    assert_eq!(counts(stack), (0, 1, 0));
    let answers = raw.send(Fin, b"");
    assert_eq!(answers, [raw.acknowledgement()]);
}

/// RFC 6191.
#[test]
fn a_newer_opening_segment_takes_the_port_from_time_wait() {
    let mut setup = in_time_wait();
    setup.raw.seq += 1000;
    setup.raw.handshake();
    assert_eq!(counts(setup.stack), (1, 0, 0));
    let stream: TcpStream = block_on(setup.listener.accept()).unwrap();
    assert_eq!(stream.peer_addr().port(), 4000);
}

#[test]
fn a_late_opening_segment_is_acknowledged_and_no_more() {
    let setup = in_time_wait();
    setup.raw.opening(setup.raw.seq - STREAM_LEN);
    assert_eq!(setup.raw.answers(), [setup.raw.acknowledgement()]);
    assert_eq!(counts(setup.stack), (0, 1, 1));
}

#[test]
fn an_opening_segment_from_before_the_connection_takes_the_port() {
    let mut setup = in_time_wait();
    setup.raw.seq = setup.raw.seq - STREAM_LEN - 1;
    setup.raw.handshake();
    assert_eq!(counts(setup.stack), (1, 0, 0));
}

/// It answers the challenge with a reset, and tries once more.
#[test]
fn a_peer_that_has_forgotten_the_connection_gets_the_port() {
    let mut setup = in_time_wait();
    let awaited = setup.raw.seq;
    setup.raw.seq = awaited - STREAM_LEN;
    setup.raw.opening(setup.raw.seq);
    assert_eq!(setup.raw.answers().len(), 1);
    setup.raw.send_at(awaited + 1, Rst, b"");
    assert_eq!(counts(setup.stack), (0, 1, 1));
    assert_eq!(setup.raw.send_at(awaited, Rst, b""), []);
    assert_eq!(counts(setup.stack), (0, 0, 0));
    setup.raw.handshake();
    assert_eq!(counts(setup.stack), (1, 0, 0));
}

/// A peer that has forgotten the connection resets it by that.
#[test]
fn an_opening_segment_is_acknowledged_while_the_peers_end_is_awaited() {
    let setup = in_fin_wait();
    setup.raw.opening(setup.raw.seq + 1000);
    assert_eq!(setup.raw.answers(), [setup.raw.acknowledgement()]);
    assert_eq!(counts(setup.stack), (0, 1, 0));
}

#[test]
fn an_opening_segment_that_nobody_listens_for_leaves_the_record() {
    let setup = in_time_wait();
    drop(setup.listener);
    setup.raw.opening(setup.raw.seq + 1000);
    let answers = setup.raw.answers();
    assert!(matches!(answers[..], [Sent::Tcp { rst: true, .. }]));
    assert_eq!(counts(setup.stack), (0, 1, 1));
}

#[test]
fn a_segment_with_a_wrong_checksum_has_no_effect() {
    let setup = in_fin_wait();
    send_damaged(&setup, setup.raw.seq, Rst);
    assert_eq!(setup.raw.answers(), []);
    assert_eq!(counts(setup.stack), (0, 1, 0));
}

#[test]
fn confused_segments_are_not_answered_without_end() {
    let setup = in_time_wait();
    let mut answers = 0;
    for _ in 0..10 {
        for _ in 0..40 {
            setup.raw.put_at(setup.raw.seq - 5, b"late");
        }
        answers += setup.raw.answers().len();
    }
    assert!((1..=100).contains(&answers), "{answers}");
    assert_eq!(setup.stack.stats().challenges_limited, 400 - answers as u64);
    host::advance(SEC);
    let answers = setup.raw.send_at(setup.raw.seq - 1, Fin, b"");
    assert_eq!(answers, [setup.raw.acknowledgement()]);
}
