//! A background task as kernels have it whose network stack keeps all sockets
//! in one set: each poll walks over all of them, and it is ready at once again.

use alloc::vec;
use alloc::vec::Vec;

use firstpoll::arch::now;
use firstpoll::yield_now;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

/// Each has both its ends in the set.
const CONNECTIONS: usize = 64;

const FIRST_PORT: u16 = 10_000;
const ADDRESS: IpAddress = IpAddress::v4(127, 0, 0, 1);

/// Polls a stack with 128 idle sockets for ever.
pub async fn poll() {
    let mut device = Loopback::new(Medium::Ethernet);
    let config = Config::new(EthernetAddress([0x02, 0, 0, 0, 0, 1]).into());
    let mut interface = Interface::new(config, &mut device, time());
    interface.update_ip_addrs(|addresses| {
        // There is room for more than one.
        let _ = addresses.push(IpCidr::new(ADDRESS, 8));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let ports = (FIRST_PORT..).take(CONNECTIONS);
    for port in ports {
        let mut server = socket();
        server.listen(port).expect("the port is free");
        sockets.add(server);
        let mut client = socket();
        client
            .connect(interface.context(), (ADDRESS, port), port + 10_000)
            .expect("there is an address");
        sockets.add(client);
    }
    while !sockets.iter().all(|(_, socket)| is_established(socket)) {
        interface.poll(time(), &mut device, &mut sockets);
    }
    loop {
        interface.poll(time(), &mut device, &mut sockets);
        yield_now().await;
    }
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; 1024]);
    tcp::Socket::new(buffer(), buffer())
}

fn is_established(socket: &smoltcp::socket::Socket<'_>) -> bool {
    match socket {
        smoltcp::socket::Socket::Tcp(socket) => socket.state() == tcp::State::Established,
        _ => false,
    }
}

fn time() -> Instant {
    Instant::from_micros((now().as_nanos() / 1_000) as i64)
}
