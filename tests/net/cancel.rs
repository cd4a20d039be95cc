//! Case C13 for futures: each is dropped at every point where it can wait, and
//! nothing is lost, leaked or stuck.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use embedded_io_async::{Read, Write};
use embedded_nal_async::TcpConnect;
use firstpoll::arch::host;
use firstpoll::net::{
    Buffers, Config, Ipv6Source, ListenerOptions, PingOptions, Stack, TcpListener, TcpStream,
    UdpOptions, UdpSocket, ping,
};
use firstpoll::time::{Duration, interval, sleep, timeout};
use firstpoll::{block_on, yield_now};
use firstpoll_peer::{Host, Lease, dhcp};
use futures_core::Stream;
use smoltcp::socket::tcp::State;

use crate::peer::{PEER_IP, PEER_MAC, Peer, PeerStream, STACK_IP, start, start_with};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// More steps than any of the futures here takes.
const MAX_STEPS: usize = 40;

/// What came of a future that had so many steps to go.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It was dropped before it had a result.
    Dropped,
    Finished(T),
}

/// Polls `future` `steps` times and drops it. Between polls a millisecond
/// passes, and every frame that is under way goes one hop further, so that the
/// number of steps decides what the network has come to when the future is
/// dropped.
pub async fn take_steps<F: Future>(peer: &Peer, steps: usize, future: F) -> Outcome<F::Output> {
    let mut future = pin!(future);
    for _ in 0..steps {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = polled {
            return Outcome::Finished(output);
        }
        host::advance(MS);
        peer.poll();
        yield_now().await;
    }
    Outcome::Dropped
}

/// Runs `scenario` with 0, 1, 2 … steps until the future in it finishes, which
/// it says by `true`.
pub fn at_every_step(scenario: impl AsyncFn(Stack, Peer, usize) -> bool) {
    at_every_step_from(start, scenario);
}

/// The same, each time from a beginning of one's own choice.
fn at_every_step_from(
    start: impl Fn() -> (Stack, Peer),
    scenario: impl AsyncFn(Stack, Peer, usize) -> bool,
) {
    for steps in 0..MAX_STEPS {
        let (stack, peer) = start();
        if block_on(scenario(stack, peer, steps)) {
            assert!(steps > 1, "it never waited");
            return;
        }
    }
    panic!("it did not finish in {MAX_STEPS} steps");
}

fn peer_at(port: u16) -> SocketAddr {
    (PEER_IP, port).into()
}

async fn pair_with(stack: Stack, peer: &Peer, options: ListenerOptions) -> (TcpStream, PeerStream) {
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    let far = peer.begin(80);
    let near = listener.accept().await.unwrap();
    assert!(far.established().await);
    (near, far)
}

async fn pair(stack: Stack, peer: &Peer) -> (TcpStream, PeerStream) {
    pair_with(stack, peer, ListenerOptions::default()).await
}

async fn all_gone(stack: Stack) {
    for _ in 0..1000 {
        if stack.stats().sockets == 0 {
            return;
        }
        sleep(SEC).await;
    }
    panic!("connections are left: {:?}", stack.stats());
}

async fn next<S: Stream>(stream: &mut Pin<&mut S>) -> Option<S::Item> {
    poll_fn(|context| stream.as_mut().poll_next(context)).await
}

#[test]
fn a_connect_leaves_no_connection() {
    at_every_step(async |stack, peer, steps| {
        let far = peer.listen(99);
        let outcome = take_steps(&peer, steps, TcpConnect::connect(&stack, peer_at(99))).await;
        let finished = matches!(&outcome, Outcome::Finished(Ok(_)));
        drop(outcome);
        all_gone(stack).await;
        // A far end that has heard of it is told that it is over.
        sleep(60 * SEC).await;
        far.close();
        sleep(60 * SEC).await;
        let state = far.state();
        assert!(
            matches!(state, State::Listen | State::Closed | State::TimeWait),
            "after {steps} steps the far end is left {state:?}"
        );
        // The next attempt finds nothing in its way.
        let again = peer.listen(98);
        let mut near = TcpStream::connect(stack, peer_at(98)).await.unwrap();
        assert!(again.established().await);
        near.write_all(b"x").await.unwrap();
        assert_eq!(again.read_exactly(1).await, b"x");
        finished
    });
}

#[test]
fn a_connect_that_nobody_answers_leaves_nothing() {
    let (stack, peer) = start();
    block_on(async {
        let nobody = SocketAddr::from(([10, 0, 2, 77], 80));
        let result = timeout(SEC, TcpStream::connect(stack, nobody)).await;
        assert!(result.is_err());
        assert_eq!(stack.stats().sockets, 0);
        let again = peer.listen(98);
        let near = TcpStream::connect(stack, peer_at(98)).await;
        assert!(near.is_ok());
        assert!(again.established().await);
    });
}

#[test]
fn an_accept_loses_no_connection() {
    at_every_step(async |stack, peer, steps| {
        let listener = TcpListener::bind(stack, 80).unwrap();
        let far = peer.begin(80);
        let outcome = take_steps(&peer, steps, listener.accept()).await;
        let (mut near, finished) = match outcome {
            Outcome::Finished(near) => (near.unwrap(), true),
            Outcome::Dropped => (listener.accept().await.unwrap(), false),
        };
        far.write_all(b"hello").await;
        let mut buffer = [0; 8];
        assert_eq!(near.read(&mut buffer).await, Ok(5));
        drop((near, listener));
        far.close();
        all_gone(stack).await;
        finished
    });
}

/// The stream of a listener holds no connection of its own.
#[test]
fn incoming_loses_no_connection() {
    at_every_step(async |stack, peer, steps| {
        let listener = TcpListener::bind(stack, 80).unwrap();
        let first = peer.begin(80);
        let outcome = {
            let mut incoming = pin!(listener.incoming());
            take_steps(&peer, steps, next(&mut incoming)).await
        };
        let (mut near, finished) = match outcome {
            Outcome::Finished(near) => (near.unwrap().unwrap(), true),
            Outcome::Dropped => {
                let mut incoming = pin!(listener.incoming());
                (next(&mut incoming).await.unwrap().unwrap(), false)
            }
        };
        first.write_all(b"hello").await;
        assert_eq!(near.read(&mut [0; 8]).await, Ok(5));
        finished
    });
}

#[test]
fn a_read_loses_no_byte() {
    at_every_step(async |stack, peer, steps| {
        let (mut near, far) = pair(stack, &peer).await;
        far.write_all(b"hello").await;
        let mut buffer = [0; 64];
        let outcome = take_steps(&peer, steps, Read::read(&mut near, &mut buffer)).await;
        let mut received = match &outcome {
            Outcome::Finished(count) => buffer[..count.unwrap()].to_vec(),
            Outcome::Dropped => Vec::new(),
        };
        far.write_all(b" again").await;
        far.close();
        while let count @ 1.. = Read::read(&mut near, &mut buffer).await.unwrap() {
            received.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(received, b"hello again");
        drop(near);
        all_gone(stack).await;
        outcome != Outcome::Dropped
    });
}

/// What `write` said that it took arrives, and nothing else.
#[test]
fn a_write_takes_nothing_that_it_does_not_say() {
    let options = ListenerOptions {
        buffers: Buffers {
            receive_bytes: 1024,
            send_bytes: 1024,
        },
        ..ListenerOptions::default()
    };
    at_every_step(async |stack, peer, steps| {
        let (mut near, far) = pair_with(stack, &peer, options).await;
        let mut sent = Vec::new();
        // Until there is no room, so that the next one has to wait.
        loop {
            let data = [sent.len() as u8; 700];
            match timeout(Duration::ZERO, Write::write(&mut near, &data)).await {
                Ok(count) => sent.extend_from_slice(&data[..count.unwrap()]),
                Err(_) => break,
            }
        }
        let data = [b'w'; 700];
        let outcome = take_steps(&peer, steps, Write::write(&mut near, &data)).await;
        if let Outcome::Finished(count) = &outcome {
            sent.extend_from_slice(&data[..count.unwrap()]);
        }
        near.write_all(b"the rest").await.unwrap();
        sent.extend_from_slice(b"the rest");
        Write::flush(&mut near).await.unwrap();
        drop(near);
        assert!(far.read_to_end().await.unwrap() == sent);
        far.close();
        all_gone(stack).await;
        outcome != Outcome::Dropped
    });
}

/// The first datagram waits until its neighbour is known, and the next one for
/// the place of the first.
#[test]
fn a_datagram_is_sent_if_the_call_says_so_and_else_is_not() {
    let options = UdpOptions {
        send_datagrams: 1,
        ..UdpOptions::default()
    };
    at_every_step(async |stack, peer, steps| {
        let far = peer.udp(None, 2000);
        let any = SocketAddr::from(([0, 0, 0, 0], 7));
        let near = UdpSocket::bind_with(stack, any, options).unwrap();
        near.connect(peer_at(2000)).unwrap();
        near.send(b"first").await.unwrap();
        let mut sent = vec![b"first".to_vec()];
        let outcome = take_steps(&peer, steps, near.send(b"perhaps")).await;
        if outcome == Outcome::Finished(Ok(())) {
            sent.push(b"perhaps".to_vec());
        }
        near.send(b"last").await.unwrap();
        sent.push(b"last".to_vec());
        for data in sent {
            assert_eq!(far.receive().await.0, data);
        }
        drop(near);
        assert_eq!(stack.stats().datagram_sockets, 0);
        assert_eq!(stack.stats().buffer_bytes, 0);
        outcome != Outcome::Dropped
    });
}

#[test]
fn a_ping_leaves_nothing_and_is_not_taken_for_the_next() {
    at_every_step(async |stack, peer, steps| {
        let asked = ping(stack, PEER_IP.into(), PingOptions::default());
        let outcome = take_steps(&peer, steps, asked).await;
        assert_eq!(stack.stats().datagram_sockets, 0);
        assert_eq!(stack.stats().buffer_bytes, 0);
        // An answer may still be under way.
        let again = ping(stack, PEER_IP.into(), PingOptions::default()).await;
        assert!(again.is_ok(), "{again:?}");
        assert_eq!(stack.stats().datagram_sockets, 0);
        match outcome {
            Outcome::Dropped => false,
            Outcome::Finished(result) => result.is_ok(),
        }
    });
}

/// A stack that asks for an address, and gets it from the far host.
fn start_with_dhcp() -> (Stack, Peer) {
    let (stack, peer) = start_with(Config {
        ipv6: Ipv6Source::Off,
        ..Config::default()
    });
    let mut server = dhcp::Server::granting(Lease::default());
    let us = Host {
        mac: PEER_MAC,
        ip: PEER_IP,
    };
    peer.serve(move |parsed, now| server.receive(us, parsed, now));
    (stack, peer)
}

#[test]
fn a_wait_for_an_address_does_not_hold_up_the_next() {
    at_every_step_from(start_with_dhcp, async |stack, peer, steps| {
        let outcome = take_steps(&peer, steps, stack.wait_configured()).await;
        let other = firstpoll::spawn(stack.wait_configured());
        let config = timeout(SEC, stack.wait_configured()).await.unwrap();
        assert_eq!(config.unwrap().address(), STACK_IP);
        assert_eq!(other.await, config);
        match outcome {
            Outcome::Dropped => false,
            Outcome::Finished(earlier) => earlier == config,
        }
    });
}

/// A task that has gone away is not the one that is woken.
#[test]
fn the_next_reader_is_woken_in_place_of_one_that_was_dropped() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        let mut buffer = [0; 8];
        assert!(timeout(MS, near.read(&mut buffer)).await.is_err());
        let reader = firstpoll::spawn(async move {
            let mut buffer = [0; 8];
            near.read(&mut buffer).await
        });
        sleep(MS).await;
        far.write_all(b"hello").await;
        assert_eq!(reader.await, Ok(5));
    });
}

#[test]
fn a_tick_is_not_lost() {
    let (_stack, _peer) = start();
    block_on(async {
        let mut ticks = pin!(interval(10 * MS));
        let first = next(&mut ticks).await.unwrap();
        assert!(timeout(4 * MS, next(&mut ticks)).await.is_err());
        // The stream that waited must not answer for a tick that was taken
        // otherwise.
        assert_eq!(ticks.tick().await, first + 10 * MS);
        assert!(timeout(4 * MS, next(&mut ticks)).await.is_err());
        assert_eq!(next(&mut ticks).await, Some(first + 20 * MS));
        assert_eq!(firstpoll::time::Instant::now(), first + 20 * MS);
    });
}

#[test]
fn owned_halves_close_one_side_after_the_other() {
    let (stack, peer) = start();
    block_on(async {
        let (near, far) = pair(stack, &peer).await;
        let (mut reader, mut writer) = near.into_split();
        assert_eq!(reader.as_stream().peer_addr().ip(), PEER_IP);
        let echo = firstpoll::spawn(async move {
            let mut buffer = [0; 64];
            let count = Read::read(&mut reader, &mut buffer).await.unwrap();
            (reader, buffer[..count].to_vec())
        });
        Write::write_all(&mut writer, b"ping").await.unwrap();
        drop(writer);
        assert_eq!(far.read_to_end().await.unwrap(), b"ping");
        far.write_all(b"pong").await;
        let (mut reader, answer) = echo.await;
        assert_eq!(answer, b"pong");
        far.close();
        assert_eq!(reader.read(&mut [0; 8]).await, Ok(0));
        drop(reader);
        all_gone(stack).await;
    });
}

#[test]
fn readiness_tells_whether_a_call_would_wait() {
    use embedded_io_async::{ReadReady, WriteReady};

    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer).await;
        assert_eq!(near.read_ready(), Ok(false));
        assert_eq!(near.write_ready(), Ok(true));
        far.write_all(b"hello").await;
        sleep(10 * MS).await;
        assert_eq!(near.read_ready(), Ok(true));
        assert_eq!(near.read(&mut [0; 8]).await, Ok(5));
        assert_eq!(near.read_ready(), Ok(false));
        far.close();
        sleep(10 * MS).await;
        // The end can be read.
        assert_eq!(near.read_ready(), Ok(true));
        assert_eq!(near.read(&mut [0; 8]).await, Ok(0));
        near.shutdown().await.unwrap();
        // An error comes at once.
        assert_eq!(near.write_ready(), Ok(true));
    });
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Polls `future` once and drops it; nothing may keep its waker.
fn leaves_no_waker<F: Future>(future: F) {
    let nobody = Arc::new(Nobody);
    let waker = Waker::from(Arc::clone(&nobody));
    {
        let future = pin!(future);
        let polled = future.poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        assert!(Arc::strong_count(&nobody) > 2, "it waits for nothing");
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&nobody), 1);
}

/// A program that waits with a timeout again and again must not grow.
#[test]
fn what_waits_in_numbers_leaves_nothing_behind() {
    let (stack, _peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    leaves_no_waker(listener.accept());
    leaves_no_waker(async {
        let mut incoming = pin!(listener.incoming());
        poll_fn(|context| incoming.as_mut().poll_next(context)).await
    });
    let (stack, _peer) = start_with_dhcp();
    leaves_no_waker(stack.wait_configured());
}
