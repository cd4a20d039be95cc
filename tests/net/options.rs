//! What a program can choose for its streams.

use firstpoll::arch::host;
use firstpoll::net::{Buffers, CongestionControl, StreamOptions, TcpOptions, TcpStream};
use firstpoll::time::{Duration, Instant, sleep};
use firstpoll::{block_on, spawn};
use smoltcp::wire::TcpControl::None as Plain;

use crate::frames::{Sent, look};
use crate::peer::{PEER_IP, Peer, PeerStream, start};
use crate::raw::Raw;

const SEC: Duration = Duration::from_secs(1);

/// The end of a connection whose stream was dropped with this linger time and
/// two bytes that the far end has not acknowledged.
fn dropped_with(linger: Option<Duration>) -> (firstpoll::net::Stack, Raw) {
    let (stack, peer) = start();
    let listener = firstpoll::net::TcpListener::bind(stack, 80).unwrap();
    let (raw, mut stream) = Raw::open(&peer, &listener, 4000, 1);
    stream.set_linger(linger);
    assert_eq!(stream.options().linger, linger);
    assert_eq!(block_on(stream.write(b"hi")), Ok(2));
    drop(stream);
    (stack, raw)
}

fn has_reset(answers: &[Sent]) -> bool {
    answers
        .iter()
        .any(|answer| matches!(answer, Sent::Tcp { rst: true, .. }))
}

#[test]
fn no_linger_time_resets_at_once() {
    let (stack, raw) = dropped_with(Some(Duration::ZERO));
    assert!(has_reset(&raw.answers()));
    assert_eq!((stack.stats().sockets, stack.stats().closing), (0, 0));
}

#[test]
fn a_linger_time_resets_when_it_is_over() {
    let (stack, raw) = dropped_with(Some(5 * SEC));
    host::advance(5 * SEC - Duration::from_millis(20));
    assert!(!has_reset(&raw.answers()));
    assert_eq!(stack.stats().sockets, 1);
    host::advance(Duration::from_millis(20));
    assert!(has_reset(&raw.answers()));
    assert_eq!((stack.stats().sockets, stack.stats().closing), (0, 0));
}

#[test]
fn what_is_acknowledged_within_the_linger_time_is_not_reset() {
    let (stack, mut raw) = dropped_with(Some(5 * SEC));
    raw.answers();
    raw.theirs += 3;
    assert_eq!(raw.send(Plain, b""), []);
    host::advance(20 * SEC);
    assert_eq!(raw.answers(), []);
    assert_eq!((stack.stats().sockets, stack.stats().closing), (0, 1));
}

#[test]
fn without_a_linger_time_it_closes_in_the_background_for_a_minute() {
    let (stack, raw) = dropped_with(None);
    host::advance(59 * SEC);
    assert!(!has_reset(&raw.answers()));
    assert_eq!(stack.stats().sockets, 1);
    host::advance(2 * SEC);
    assert_eq!((stack.stats().sockets, stack.stats().closing), (0, 0));
}

/// A stream to the far host, which has 256 KiB of room and, once it is
/// connected, does not get a turn to answer.
fn to_silent_peer(control: CongestionControl) -> (Peer, TcpStream, PeerStream) {
    let (stack, peer) = start();
    let far = peer.listen_with(99, 256 << 10);
    let options = TcpOptions {
        buffers: Buffers {
            receive_bytes: 256 << 10,
            send_bytes: 256 << 10,
        },
        stream: StreamOptions {
            congestion_control: control,
            ..StreamOptions::default()
        },
        ..TcpOptions::default()
    };
    let near = block_on(async {
        let near = TcpStream::connect_with(stack, (PEER_IP, 99).into(), options).await;
        let mut near = near.unwrap();
        assert!(far.established().await);
        // Only what follows the handshake carries the whole window.
        far.write_all(b"go").await;
        assert_eq!(near.read(&mut [0; 8]).await, Ok(2));
        sleep(SEC).await;
        near
    });
    peer.take_seen();
    (peer, near, far)
}

/// How many bytes are on their way, as nobody has acknowledged any; looked at
/// before the silence makes the stack send some again.
fn in_flight(peer: &Peer) -> usize {
    host::advance(Duration::from_millis(8));
    std::iter::from_fn(|| peer.wire.receive())
        .map(|frame| match look(&frame) {
            Sent::Tcp { len, .. } => len,
            _ => 0,
        })
        .sum()
}

#[test]
fn a_large_buffer_carries_more_than_an_unscaled_window() {
    let (peer, mut near, _far) = to_silent_peer(CongestionControl::Off);
    assert_eq!(block_on(near.write(&[7; 200_000])), Ok(200_000));
    assert_eq!(in_flight(&peer), 200_000);
}

/// The other way round: what the stack advertises is scaled as well.
#[test]
fn a_large_buffer_takes_more_than_an_unscaled_window() {
    let (stack, peer) = start();
    let options = firstpoll::net::ListenerOptions {
        buffers: Buffers {
            receive_bytes: 256 << 10,
            send_bytes: 4096,
        },
        ..firstpoll::net::ListenerOptions::default()
    };
    let listener = firstpoll::net::TcpListener::bind_with(stack, 80, options).unwrap();
    block_on(async {
        let far = peer.begin_with(80, 256 << 10);
        let mut near = listener.accept().await.unwrap();
        far.write_all(&[7; 200_000]).await;
        far.close();
        sleep(10 * SEC).await;
        // Everything has come although nothing was read.
        assert_eq!(far.send_queue(), 0);
        let mut all = 0;
        while let count @ 1.. = near.read(&mut [0; 4096]).await.unwrap() {
            all += count;
        }
        assert_eq!(all, 200_000);
    });
}

#[test]
fn congestion_control_begins_with_little_and_can_be_turned_off() {
    let (peer, mut near, _far) = to_silent_peer(CongestionControl::Reno);
    assert_eq!(block_on(near.write(&[7; 200_000])), Ok(200_000));
    let begun = in_flight(&peer);
    assert!((1000..=4500).contains(&begun), "{begun}");
    near.set_congestion_control(CongestionControl::Off);
    assert_eq!(in_flight(&peer), 200_000 - begun);
}

#[test]
fn congestion_control_grows_with_each_acknowledgement() {
    let (stack, peer) = start();
    let far = peer.listen_with(99, 256 << 10);
    block_on(async {
        let mut near = TcpStream::connect(stack, (PEER_IP, 99).into())
            .await
            .unwrap();
        assert!(far.established().await);
        let began = Instant::now();
        let writer = spawn(async move {
            near.write_all(&[7; 1 << 20]).await.unwrap();
            near
        });
        assert_eq!(far.read_exactly(1 << 20).await.len(), 1 << 20);
        // Nothing was lost, so nothing waited for a timer.
        assert!(Instant::now() - began < SEC);
        drop(writer.await);
    });
}
