//! TCP: connections, data, the ways in which they end.

use std::net::SocketAddr;

use firstpoll::arch::host;
use firstpoll::net::{Error, ListenerOptions, Stack, TcpListener, TcpOptions, TcpStream};
use firstpoll::time::{Duration, Instant, sleep, timeout};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::socket::tcp::State;

use crate::frames::{Sent, look};
use crate::peer::{PEER_IP, Peer, PeerStream, START, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn peer_at(port: u16) -> SocketAddr {
    (PEER_IP, port).into()
}

/// A connection, opened by the far host.
async fn pair(stack: Stack, peer: &Peer) -> (TcpStream, PeerStream) {
    let listener = TcpListener::bind(stack, 80).unwrap();
    let far = peer.begin(80);
    let near = listener.accept().await.unwrap();
    assert!(far.established().await);
    (near, far)
}

/// Bytes that differ at every offset that a lost or doubled block could have.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Waits until the stack has let go of all connections.
async fn all_gone(stack: Stack) {
    for _ in 0..1000 {
        if stack.stats().sockets == 0 {
            return;
        }
        sleep(SEC).await;
    }
    panic!("connections are left: {:?}", stack.stats());
}

#[test]
fn a_connection_is_accepted_and_carries_data_both_ways() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        assert_eq!(near.peer_addr().ip(), PEER_IP);
        assert_eq!(near.local_addr().port(), 80);
        far.write_all(b"ping").await;
        let mut buffer = [0; 64];
        let count = near.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"ping");
        near.write_all(b"pong").await.unwrap();
        assert_eq!(far.read_exactly(4).await, b"pong");
    });
}

#[test]
fn a_connection_to_the_far_host_carries_data_both_ways() {
    let (stack, peer) = start();
    let far = peer.listen(99);
    block_on(async {
        let mut near = TcpStream::connect(stack, peer_at(99)).await.unwrap();
        near.write_all(b"ping").await.unwrap();
        assert!(far.established().await);
        assert_eq!(far.read_exactly(4).await, b"ping");
        far.write_all(b"pong").await;
        let mut buffer = [0; 64];
        assert_eq!(near.read(&mut buffer).await, Ok(4));
        assert!(Instant::now() - START < 100 * MS);
    });
    assert_eq!(stack.stats().connected, 1);
}

#[test]
fn each_side_can_close_its_half_first() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        near.shutdown().await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(near.write(b"late").await, Err(Error::NotConnected));
        assert_eq!(far.read().await.unwrap(), b"");
        far.write_all(b"still here").await;
        let mut buffer = [0; 64];
        assert_eq!(near.read(&mut buffer).await, Ok(10));
        far.close();
        assert_eq!(near.read(&mut buffer).await, Ok(0));
        // Also when TIME-WAIT is over.
        sleep(60 * SEC).await;
        assert_eq!(near.read(&mut buffer).await, Ok(0));
        assert_eq!(near.write(b"late").await, Err(Error::NotConnected));
        drop(near);

        let (mut near, far) = pair(stack, &peer).await;
        far.close();
        assert_eq!(near.read(&mut buffer).await, Ok(0));
        near.write_all(b"still here").await.unwrap();
        assert_eq!(far.read_exactly(10).await, b"still here");
        drop(near);
        assert_eq!(far.read().await.unwrap(), b"");
        all_gone(stack).await;
    });
}

#[test]
fn data_that_came_before_the_end_can_be_read_long_after() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        near.shutdown().await.unwrap();
        far.write_all(&pattern(5000)).await;
        far.close();
        sleep(120 * SEC).await;
        let mut all = Vec::new();
        let mut buffer = [0; 999];
        while let count @ 1.. = near.read(&mut buffer).await.unwrap() {
            all.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(all, pattern(5000));
    });
}

/// Case C9.
#[test]
fn every_byte_arrives_both_ways() {
    let sizes = [
        0, 8, 0x40, 0x200, 0x800, 0x1000, 0x4000, 0xa000, 0x64000, 0x3e8000,
    ];
    for size in sizes {
        let (stack, peer) = start();
        let data = pattern(size);
        block_on(async {
            let (mut near, far) = pair(stack, &peer).await;
            let expected = data.clone();
            let reader = spawn(async move {
                let mut all = Vec::new();
                let mut buffer = vec![0; 4000];
                let (mut receive, mut send) = near.split();
                while let count @ 1.. = receive.read(&mut buffer).await.unwrap() {
                    all.extend_from_slice(&buffer[..count]);
                }
                assert!(all == expected, "{} of {size} bytes", all.len());
                send.write_all(&all).await.unwrap();
            });
            far.write_all(&data).await;
            far.close();
            let back = far.read_to_end().await.unwrap();
            assert!(back == data, "{} of {size} bytes", back.len());
            reader.await;
        });
    }
}

/// Case C11: no flush, no timer, no other call.
#[test]
fn written_data_leaves_at_once() {
    let (stack, peer) = start();
    let (mut near, _far) = block_on(pair(stack, &peer));
    host::advance(SEC);
    peer.take_seen();
    let timers = host::timer_interrupts();
    assert_eq!(block_on(near.write(b"now")), Ok(3));
    let frame = peer.wire.receive().expect("nothing was sent");
    assert!(matches!(look(&frame), Sent::Tcp { len: 3, .. }));
    assert_eq!(block_on(near.shutdown()), Ok(()));
    let frame = peer.wire.receive().expect("nothing was sent");
    assert!(matches!(look(&frame), Sent::Tcp { fin: true, .. }));
    assert_eq!(host::timer_interrupts(), timers);
}

/// Case C12.
#[test]
fn the_errors_are_told_apart() {
    let (stack, peer) = start();
    block_on(async {
        let listener = TcpListener::bind(stack, 80).unwrap();
        assert_eq!(TcpListener::bind(stack, 80).err(), Some(Error::AddrInUse));
        assert_eq!(TcpListener::bind(stack, 0).err(), Some(Error::InvalidInput));
        drop(listener);

        let refused = TcpStream::connect(stack, peer_at(1)).await;
        assert_eq!(refused.err(), Some(Error::ConnectionRefused));

        let (mut near, far) = pair(stack, &peer).await;
        let reset = spawn(async move {
            sleep(10 * MS).await;
            far.abort();
        });
        let read = near.read(&mut [0; 8]).await;
        assert_eq!(read, Err(Error::ConnectionReset));
        reset.await;
        assert_eq!(near.write(b"x").await, Err(Error::ConnectionReset));
    });
}

#[test]
fn addresses_that_cannot_work_are_refused() {
    let (stack, _peer) = start();
    let cases = [
        ("10.0.2.2:0", Error::InvalidInput),
        ("0.0.0.0:80", Error::InvalidInput),
        ("255.255.255.255:80", Error::InvalidInput),
        ("10.0.2.255:80", Error::InvalidInput),
        ("224.0.0.1:80", Error::InvalidInput),
        ("127.255.255.255:80", Error::InvalidInput),
        ("[::]:80", Error::InvalidInput),
        ("[2001:db8::1]:80", Error::NetworkUnreachable),
        // Nobody listens here.
        ("127.0.0.1:80", Error::ConnectionRefused),
        ("[::1]:80", Error::ConnectionRefused),
        ("10.0.2.15:80", Error::ConnectionRefused),
    ];
    for (address, error) in cases {
        let result = block_on(TcpStream::connect(stack, address.parse().unwrap()));
        assert_eq!(result.err(), Some(error), "{address}");
    }
    assert_eq!(stack.stats().sockets, 0);
}

/// Case C10.
#[test]
fn connecting_to_nobody_times_out_on_time() {
    let (stack, _peer) = start();
    for (options, limit) in [
        (TcpOptions::default(), 30 * SEC),
        (
            TcpOptions {
                connect_timeout: 3 * SEC,
                ..TcpOptions::default()
            },
            3 * SEC,
        ),
    ] {
        let began = Instant::now();
        let nobody = "10.0.2.77:80".parse().unwrap();
        let result = block_on(TcpStream::connect_with(stack, nobody, options));
        assert_eq!(result.err(), Some(Error::TimedOut));
        assert_eq!(Instant::now() - began, limit);
        block_on(all_gone(stack));
    }
}

/// Case X1.
#[test]
fn polling_with_a_timeout_of_zero_sees_the_data() {
    let (stack, peer) = start();
    let (mut near, far) = block_on(pair(stack, &peer));
    let began = Instant::now();
    let mut sent = false;
    let mut buffer = [0; 8];
    loop {
        match block_on(timeout(Duration::ZERO, near.read(&mut buffer))) {
            Ok(result) => break assert_eq!(result, Ok(4)),
            Err(_) => host::advance(MS / 10),
        }
        let elapsed = Instant::now() - began;
        if elapsed >= 100 * MS && !sent {
            block_on(far.write_all(b"data"));
            sent = true;
        }
        peer.poll();
        assert!(elapsed < 101 * MS + MS, "not seen after {elapsed:?}");
    }
}

/// Case C7: the peer's second small write must not wait for a late
/// acknowledgement of the first.
#[test]
fn a_request_in_two_parts_is_answered_without_a_pause() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        for _ in 0..100 {
            let began = Instant::now();
            far.write_all(&[1; 40]).await;
            far.write_all(&[2; 40]).await;
            let mut buffer = [0; 80];
            let mut have = 0;
            while have < 80 {
                have += near.read(&mut buffer[have..]).await.unwrap();
            }
            near.write_all(&buffer[..40]).await.unwrap();
            near.write_all(&buffer[40..]).await.unwrap();
            far.read_exactly(80).await;
            assert!(Instant::now() - began < 2 * MS);
        }
    });
}

#[test]
fn without_nodelay_small_writes_wait_for_the_acknowledgement() {
    let (stack, peer) = start();
    let (mut near, _far) = block_on(pair(stack, &peer));
    near.set_nodelay(false);
    peer.take_seen();
    assert_eq!(block_on(near.write(b"one")), Ok(3));
    assert!(peer.wire.receive().is_some());
    assert_eq!(block_on(near.write(b"two")), Ok(3));
    assert_eq!(peer.wire.receive(), None);
    near.set_nodelay(true);
    assert!(peer.wire.receive().is_some());
}

/// Case C13.
#[test]
fn dropped_things_leave_nothing_behind() {
    let (stack, peer) = start();
    block_on(async {
        // A stream: the peer reads what was written, and then the end.
        let (mut near, far) = pair(stack, &peer).await;
        near.write_all(&pattern(9000)).await.unwrap();
        drop(near);
        assert_eq!(far.read_to_end().await.unwrap(), pattern(9000));
        far.close();
        all_gone(stack).await;

        // With unread data: the peer is reset.
        let (near, far) = pair(stack, &peer).await;
        far.write_all(b"nobody reads this").await;
        sleep(MS).await;
        drop(near);
        assert!(far.read().await.is_err());
        all_gone(stack).await;

        // Data that arrives after the drop resets too.
        let (near, far) = pair(stack, &peer).await;
        drop(near);
        assert_eq!(far.read().await.unwrap(), b"");
        far.write_all(b"nobody reads this").await;
        far.closed().await;
        all_gone(stack).await;

        // A pending read.
        let (mut near, far) = pair(stack, &peer).await;
        assert!(timeout(MS, near.read(&mut [0; 8])).await.is_err());
        drop(near);
        assert_eq!(far.read().await.unwrap(), b"");
        far.close();
        all_gone(stack).await;

        // A listener with connections that wait, and one whose handshake is
        // under way.
        let listener = TcpListener::bind(stack, 80).unwrap();
        let clients: Vec<_> = (0..5).map(|_| peer.begin(80)).collect();
        for client in &clients {
            assert!(client.established().await);
        }
        sleep(MS).await;
        drop(listener);
        for client in &clients {
            assert!(client.read().await.is_err());
            assert_eq!(client.state(), State::Closed);
        }
        all_gone(stack).await;
        TcpListener::bind(stack, 80).unwrap();

        // A pending accept.
        let listener = TcpListener::bind(stack, 80).unwrap();
        assert!(timeout(MS, listener.accept()).await.is_err());
        let client = peer.begin(80);
        assert!(listener.accept().await.is_ok());
        drop(client);

        // A connect that is given up.
        let nobody = "10.0.2.77:80".parse().unwrap();
        assert!(
            timeout(MS, TcpStream::connect(stack, nobody))
                .await
                .is_err()
        );
        drop(listener);
        all_gone(stack).await;
    });
}

#[test]
fn a_silent_peer_is_given_up_with_a_time_out() {
    let (stack, peer) = start();
    block_on(async {
        // Data that nobody acknowledges.
        let (mut near, far) = pair(stack, &peer).await;
        near.set_user_timeout(Some(20 * SEC));
        let mute = |peer: &Peer| {
            host::on_halt({
                let wire = peer.wire.clone();
                move |_| {
                    while wire.receive().is_some() {}
                    false
                }
            })
        };
        mute(&peer);
        near.write_all(b"hello?").await.unwrap();
        let began = Instant::now();
        assert_eq!(near.read(&mut [0; 8]).await, Err(Error::TimedOut));
        assert_eq!(Instant::now() - began, 20 * SEC);
        drop(far);

        // Nothing to say, but kept alive.
        drop(near);
        all_gone(stack).await;
    });
    let (stack, peer) = start();
    block_on(async {
        let (mut near, _far) = pair(stack, &peer).await;
        near.set_keep_alive(Some(5 * SEC));
        // While the peer answers, that goes on.
        assert!(timeout(600 * SEC, near.read(&mut [0; 8])).await.is_err());
        host::on_halt({
            let wire = peer.wire.clone();
            move |_| {
                while wire.receive().is_some() {}
                false
            }
        });
        let result = timeout(60 * SEC, near.read(&mut [0; 8])).await;
        assert_eq!(result, Ok(Err(Error::TimedOut)));
    });
}

#[test]
fn an_idle_connection_lasts_without_a_timer() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        sleep(SEC).await;
        let before = host::timer_interrupts();
        sleep(24 * 3600 * SEC).await;
        assert!(host::timer_interrupts() - before < 5);
        far.write_all(b"good morning").await;
        assert_eq!(near.read(&mut [0; 64]).await, Ok(12));
    });
}

/// Silence counts against a peer only from when it has something to answer.
#[test]
fn the_silence_before_a_limit_was_set_does_not_count() {
    let (stack, peer) = start();
    block_on(async {
        // Dropped after an idle hour: an orderly end, no reset.
        let (near, far) = pair(stack, &peer).await;
        sleep(3600 * SEC).await;
        drop(near);
        assert_eq!(far.read().await, Ok(Vec::new()));
        far.close();
        all_gone(stack).await;

        // Shut down after an idle hour.
        let (mut near, far) = pair(stack, &peer).await;
        sleep(3600 * SEC).await;
        near.shutdown().await.unwrap();
        assert_eq!(far.read().await, Ok(Vec::new()));
        far.write_all(b"still here").await;
        assert_eq!(near.read(&mut [0; 64]).await, Ok(10));
        far.close();
        drop(near);
        all_gone(stack).await;

        // Kept alive from now on.
        let (mut near, _far) = pair(stack, &peer).await;
        sleep(3600 * SEC).await;
        near.set_keep_alive(Some(5 * SEC));
        assert!(timeout(60 * SEC, near.read(&mut [0; 8])).await.is_err());

        // Data after an idle hour: the limit counts from there, no longer.
        near.set_keep_alive(None);
        near.set_user_timeout(Some(20 * SEC));
        sleep(3600 * SEC).await;
        host::on_halt({
            let wire = peer.wire.clone();
            move |_| {
                while wire.receive().is_some() {}
                false
            }
        });
        let began = Instant::now();
        near.write_all(b"hello?").await.unwrap();
        assert_eq!(near.read(&mut [0; 8]).await, Err(Error::TimedOut));
        assert_eq!(Instant::now() - began, 20 * SEC);
    });
}

/// Case C6, the part that the stack has a say in: the reader's window opens.
#[test]
fn a_reader_that_pauses_gets_everything() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        let data = pattern(200_000);
        let writer = {
            let data = data.clone();
            spawn(async move {
                far.write_all(&data).await;
                far.close();
                far.closed().await;
            })
        };
        sleep(20 * SEC).await;
        let mut all = Vec::new();
        let mut buffer = [0; 1000];
        while let count @ 1.. = near.read(&mut buffer).await.unwrap() {
            all.extend_from_slice(&buffer[..count]);
            if all.len() % 50_000 == 0 {
                sleep(SEC).await;
            }
        }
        assert!(all == data);
        drop(near);
        writer.await;
    });
}

#[test]
fn accept_order_is_the_order_of_arrival() {
    let (stack, peer) = start();
    let options = ListenerOptions {
        backlog: 8,
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    block_on(async {
        let mut clients = Vec::new();
        for number in 0..8_u8 {
            let client = peer.connect(80).await.unwrap();
            client.write_all(&[number]).await;
            clients.push(client);
        }
        for number in 0..8 {
            let mut stream = listener.accept().await.unwrap();
            let mut buffer = [0];
            assert_eq!(stream.read(&mut buffer).await, Ok(1));
            assert_eq!(buffer, [number]);
        }
    });
}

#[test]
fn two_tasks_may_accept_at_the_same_listener() {
    let (stack, peer) = start();
    let listener = std::rc::Rc::new(TcpListener::bind(stack, 80).unwrap());
    let acceptors: Vec<_> = (0..2)
        .map(|_| {
            let listener = listener.clone();
            spawn(async move { listener.accept().await.unwrap() })
        })
        .collect();
    block_on(async {
        yield_now().await;
        let _clients = [
            peer.connect(80).await.unwrap(),
            peer.connect(80).await.unwrap(),
        ];
        for acceptor in acceptors {
            acceptor.await;
        }
    });
}

#[test]
fn a_send_queue_without_room_delays_and_loses_nothing() {
    let (stack, peer) = start();
    peer.wire.set_send_room(3);
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        let data = pattern(300_000);
        let expected = data.clone();
        let writer = spawn(async move {
            near.write_all(&data).await.unwrap();
        });
        let mut all = Vec::new();
        while all.len() < expected.len() {
            all.extend(far.read().await.unwrap());
        }
        assert!(all == expected);
        writer.await;
    });
    // No retransmission was needed.
    assert!(Instant::now() - START < SEC);
}
