//! Connections that end in every way, in numbers.

use firstpoll::block_on;
use firstpoll::net::{TcpListener, TcpStream};
use firstpoll::time::{Duration, sleep};
use firstpoll_peer::{Direction, Impairment};

use crate::peer::{PeerStream, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Who ends a connection, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    PeerFirst,
    StackFirst,
    BothAtOnce,
    PeerResets,
    StackResets,
    HalfByHalf,
}

const ENDINGS: [Ending; 6] = [
    Ending::PeerFirst,
    Ending::StackFirst,
    Ending::BothAtOnce,
    Ending::PeerResets,
    Ending::StackResets,
    Ending::HalfByHalf,
];

/// Ends a connection. Those with a delay see frames cross.
async fn end(ending: Ending, mut near: TcpStream, far: &PeerStream) {
    let mut buffer = [0; 8];
    match ending {
        Ending::PeerFirst => {
            far.close();
            assert_eq!(near.read(&mut buffer).await, Ok(0));
            drop(near);
            far.closed().await;
        }
        Ending::StackFirst => {
            drop(near);
            assert_eq!(far.read().await.unwrap(), b"");
            far.close();
            far.closed().await;
        }
        Ending::BothAtOnce => {
            far.close();
            drop(near);
            far.closed().await;
        }
        Ending::PeerResets => {
            far.abort();
            assert!(near.read(&mut buffer).await.is_err());
        }
        Ending::StackResets => {
            far.write_all(b"unread").await;
            sleep(5 * MS).await;
            drop(near);
            far.closed().await;
        }
        Ending::HalfByHalf => {
            near.shutdown().await.unwrap();
            assert_eq!(far.read().await.unwrap(), b"");
            far.write_all(b"late").await;
            far.close();
            assert_eq!(near.read(&mut buffer).await, Ok(4));
            assert_eq!(near.read(&mut buffer).await, Ok(0));
        }
    }
}

/// Case C3: `count` connections that end in mixed ways leave nothing behind.
fn connections_end_in_mixed_ways(count: usize) {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    // So that what both sides send at once crosses.
    let delay = Impairment {
        delay: MS,
        ..Impairment::default()
    };
    peer.impair(Direction::Incoming, delay, 0);
    peer.impair(Direction::Outgoing, delay, 0);
    block_on(async {
        for round in 0..count.div_ceil(ENDINGS.len()) {
            let mut open = Vec::new();
            for ending in ENDINGS {
                let far = peer.begin_with(80, 1024);
                open.push((ending, listener.accept().await.unwrap(), far));
            }
            for (ending, near, far) in open {
                end(ending, near, &far).await;
            }
            if round % 16 == 0 {
                sleep(10 * MS).await;
                peer.forget_closed();
            }
            let stats = stack.stats();
            assert!(stats.sockets <= 130, "round {round}: {stats:?}");
        }
        sleep(120 * SEC).await;
    });
    let stats = stack.stats();
    assert!(stats.accepted >= count as u64);
    assert_eq!(
        (stats.sockets, stats.half_open, stats.time_wait),
        (0, 0, 0),
        "{stats:?}"
    );
}

#[test]
fn connections_end_in_every_way_and_leave_nothing_behind() {
    connections_end_in_mixed_ways(2000);
}

/// Case C3 in full.
#[test]
#[ignore = "long"]
fn connections_end_in_every_way_and_leave_nothing_behind_in_full() {
    connections_end_in_mixed_ways(100_000);
}
