//! Case N4: addresses from a DHCP server that changes its mind, keeps silent,
//! and lies.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use firstpoll::block_on;
use firstpoll::net::{Config, Ipv6Source, Stack};
use firstpoll::time::{Duration, Instant, sleep, timeout};
use firstpoll_peer::dhcp::{Kind, Lie, Reply, Request, Server};
use firstpoll_peer::{Host, Lease};

use crate::peer::{PEER_IP, PEER_MAC, Peer, start_with};

const SEC: Duration = Duration::from_secs(1);

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 16);

/// What a liar offers.
const FALSE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 66);

/// A lease of `ip` for 20 s.
fn lease(ip: Ipv4Addr) -> Lease {
    Lease {
        ip,
        gateway: Some(PEER_IP),
        duration: 20 * SEC,
        ..Lease::default()
    }
}

type Shared = Rc<RefCell<Server>>;

/// A stack that has asked for nothing yet, and the server that it will ask.
fn served(script: impl FnMut(&Request) -> Reply + Send + 'static) -> (Stack, Shared) {
    let (stack, server, _) = served_over(script);
    (stack, server)
}

/// The same, with the server's host.
fn served_over(script: impl FnMut(&Request) -> Reply + Send + 'static) -> (Stack, Shared, Peer) {
    let config = Config {
        ipv6: Ipv6Source::Off,
        ..Config::default()
    };
    let (stack, peer) = start_with(config);
    let server = Rc::new(RefCell::new(Server::new(script)));
    let us = Host {
        mac: PEER_MAC,
        ip: PEER_IP,
    };
    let serving = Rc::clone(&server);
    peer.serve(move |parsed, now| serving.borrow_mut().receive(us, parsed, now));
    (stack, server, peer)
}

/// The interface's address now.
fn address(stack: Stack) -> Option<Ipv4Addr> {
    match stack.config()?.address() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(ip) => panic!("{ip} came from nowhere"),
    }
}

/// The requests of a kind, by when they came.
fn times(server: &Shared, kind: Kind) -> Vec<Duration> {
    let server = server.borrow();
    let requests = server.requests().iter();
    let of_kind = requests.filter(|request| request.kind == kind);
    of_kind.map(|request| request.at).collect()
}

#[test]
fn a_short_lease_is_renewed_for_as_long_as_it_is_granted() {
    let (stack, server) = served(|_| Reply::Grant(lease(FIRST)));
    block_on(async {
        stack.wait_configured().await.unwrap();
        for _ in 0..600 {
            sleep(SEC).await;
            assert_eq!(address(stack), Some(FIRST));
        }
    });
    // Half a lease is when it is renewed (RFC 2131 §4.4.5).
    let renewals = times(&server, Kind::Renew);
    assert!((58..=62).contains(&renewals.len()), "{renewals:?}");
    assert_eq!(times(&server, Kind::Discover).len(), 1);
    assert_eq!(times(&server, Kind::Rebind), []);
}

#[test]
fn the_servers_times_are_kept_to() {
    let lease = || Lease {
        duration: 100 * SEC,
        renew_after: Some(10 * SEC),
        rebind_after: Some(40 * SEC),
        ..lease(FIRST)
    };
    let (stack, server) = served(move |request| match request.kind {
        Kind::Renew => Reply::Silence,
        _ => Reply::Grant(lease()),
    });
    block_on(async {
        stack.wait_configured().await.unwrap();
        sleep(60 * SEC).await;
    });
    let granted = times(&server, Kind::Select)[0];
    let near = |at: Duration, due: Duration| at >= granted + due && at <= granted + due + 2 * SEC;
    assert!(near(times(&server, Kind::Renew)[0], 10 * SEC));
    assert!(near(times(&server, Kind::Rebind)[0], 40 * SEC));
    assert_eq!(address(stack), Some(FIRST));
}

#[test]
fn another_address_is_taken_when_the_old_one_is_denied() {
    let mut granted = 0;
    let (stack, server) = served(move |request| {
        granted += u32::from(request.kind == Kind::Renew);
        Reply::Grant(lease(if granted < 3 { FIRST } else { SECOND }))
    });
    block_on(async {
        stack.wait_configured().await.unwrap();
        sleep(25 * SEC).await;
        assert_eq!(address(stack), Some(FIRST));
        sleep(15 * SEC).await;
        assert_eq!(address(stack), Some(SECOND));
        sleep(300 * SEC).await;
        assert_eq!(address(stack), Some(SECOND));
    });
    assert_eq!(times(&server, Kind::Discover).len(), 2);
}

#[test]
fn a_lease_that_nobody_renews_ends_on_time_and_is_asked_for_again() {
    let mut silent = false;
    let (stack, server) = served(move |request| {
        // From the first renewal on, nobody is there for two minutes.
        silent |= request.kind == Kind::Renew;
        if silent && request.at < 120 * SEC {
            Reply::Silence
        } else {
            Reply::Grant(lease(SECOND))
        }
    });
    block_on(async {
        stack.wait_configured().await.unwrap();
        let began = Instant::now();
        assert_eq!(address(stack), Some(SECOND));
        sleep(19 * SEC).await;
        assert_eq!(address(stack), Some(SECOND));
        sleep(2 * SEC).await;
        assert_eq!(address(stack), None, "the lease is over");
        let wait = timeout(200 * SEC, stack.wait_configured()).await;
        assert!(wait.is_ok(), "nobody asked again");
        assert!(Instant::now() - began < 180 * SEC);
    });
    assert!(!times(&server, Kind::Renew).is_empty());
    assert!(!times(&server, Kind::Rebind).is_empty());
}

/// Each lie comes first, and the truth much later.
#[test]
fn lies_are_not_believed() {
    let lies = [
        Lie::TransactionId,
        Lie::Client,
        Lie::Cookie,
        Lie::Cut(20),
        Lie::Cut(239),
        Lie::Cut(242),
        Lie::OptionLength(53, 200),
        Lie::Garbage(Vec::new()),
        Lie::Garbage(vec![0xff; 300]),
        Lie::Garbage(vec![2; 1000]),
    ];
    for lie in lies {
        let told = lie.clone();
        let (stack, server) = served(move |request| {
            if request.at < 60 * SEC {
                Reply::Lie(lease(FALSE), told.clone())
            } else {
                Reply::Grant(lease(FIRST))
            }
        });
        block_on(async {
            let wait = timeout(200 * SEC, stack.wait_configured()).await;
            assert!(wait.is_ok(), "{lie:?}: nobody asked again");
        });
        assert_eq!(address(stack), Some(FIRST), "{lie:?}");
        assert!(times(&server, Kind::Discover).len() >= 2, "{lie:?}");
    }
}

/// Grants that are cut short, or of another exchange, change nothing.
#[test]
fn lies_about_a_grant_are_not_believed() {
    for lie in [Lie::TransactionId, Lie::Client, Lie::Cut(242)] {
        let told = lie.clone();
        let (stack, _server) = served(move |request| match request.kind {
            Kind::Discover if request.at < 60 * SEC => Reply::Grant(lease(FALSE)),
            _ if request.at < 60 * SEC => Reply::Lie(lease(FALSE), told.clone()),
            _ => Reply::Grant(lease(FIRST)),
        });
        block_on(async {
            let wait = timeout(300 * SEC, stack.wait_configured()).await;
            assert!(wait.is_ok(), "{lie:?}: nobody asked again");
        });
        assert_eq!(address(stack), Some(FIRST), "{lie:?}");
    }
}

/// Offers of addresses that no host can have.
#[test]
fn addresses_that_cannot_be_used_are_not_taken() {
    for ip in [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::LOCALHOST,
    ] {
        let (stack, _server) = served(move |request| match request.kind {
            Kind::Discover => Reply::Grant(lease(ip)),
            _ => Reply::Insist(lease(ip)),
        });
        block_on(async {
            let wait = timeout(50 * SEC, stack.wait_configured()).await;
            assert!(wait.is_err(), "{ip} was taken: {:?}", stack.config());
        });
    }
}

/// Stops the link for a second.
async fn interrupt_link(stack: Stack, peer: &Peer) {
    assert!(stack.is_link_up());
    peer.wire.set_link(false);
    sleep(SEC).await;
    assert!(!stack.is_link_up());
    peer.wire.set_link(true);
    sleep(SEC).await;
    assert!(stack.is_link_up());
}

#[test]
fn once_the_link_is_up_again_the_lease_is_asked_for_and_kept_meanwhile() {
    let (stack, server, peer) = served_over(|_| Reply::Grant(lease(FIRST)));
    block_on(async {
        stack.wait_configured().await.unwrap();
        interrupt_link(stack, &peer).await;
        for _ in 0..100 {
            assert_eq!(address(stack), Some(FIRST));
            sleep(SEC).await;
        }
    });
    assert_eq!(times(&server, Kind::Discover).len(), 2);
}

#[test]
fn the_link_may_come_up_at_another_network() {
    let mut asked = 0;
    let (stack, _server, peer) = served_over(move |request| {
        asked += u32::from(request.kind == Kind::Discover);
        Reply::Grant(lease(if asked < 2 { FIRST } else { SECOND }))
    });
    block_on(async {
        stack.wait_configured().await.unwrap();
        interrupt_link(stack, &peer).await;
        sleep(SEC).await;
        assert_eq!(address(stack), Some(SECOND));
    });
}

#[test]
fn without_an_answer_the_address_ends_a_minute_after_the_link_is_up() {
    let mut asked = 0;
    let (stack, _server, peer) = served_over(move |request| {
        asked += u32::from(request.kind == Kind::Discover);
        if asked < 2 {
            Reply::Grant(lease(FIRST))
        } else {
            Reply::Silence
        }
    });
    block_on(async {
        stack.wait_configured().await.unwrap();
        interrupt_link(stack, &peer).await;
        sleep(50 * SEC).await;
        assert_eq!(address(stack), Some(FIRST));
        sleep(12 * SEC).await;
        assert_eq!(address(stack), None);
    });
}
