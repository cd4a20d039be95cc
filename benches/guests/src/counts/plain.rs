//! smoltcp as it comes: one interface, and one set with the sockets of all
//! connections, under the same executor and the same server.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use firstpoll::net::device::{Nic, ReceiveQueue, SendQueue};
use firstpoll::net::{Device, Error};
use firstpoll::sync::WakerSlot;
use firstpoll::time::{Duration, timeout_at};
use firstpoll::{arch, spawn};
use httpd::ByteStream;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};

use crate::client::{CLIENT_IP, STACK_IP, STACK_PORT};
use crate::http::{Accept, BUFFERS, CONNECTIONS};
use crate::wire::{Sums, Wire};

/// Long enough for an answer to carry the acknowledgement also where one poll
/// of all sockets takes longer than our delay of 1 ms.
const ACK_DELAY: Duration = Duration::from_secs(1);

const ETHERNET_HEADER_BYTES: usize = 14;

/// The stack, and its listener.
pub struct Plain {
    shared: Shared,
}

/// A connection.
pub struct Stream {
    shared: Shared,
    handle: SocketHandle,
}

#[derive(Clone)]
struct Shared {
    state: Rc<RefCell<State>>,
    /// What wakes the network task.
    interrupt: &'static WakerSlot,
}

struct State {
    nic: Box<dyn Nic>,
    iface: Interface,
    sockets: SocketSet<'static>,
    /// A connection during its handshake is alone, or to make many of them
    /// would take longer than all that is measured.
    entrance: SocketSet<'static>,
    entering: Option<SocketHandle>,
    /// The reader that has come last, the only one that ever gets something.
    /// smoltcp's own wakers would be in the kernel's sockets, too.
    reader: Option<Waker>,
}

impl Plain {
    /// A stack at the near end of a wire.
    pub fn start() -> (Wire, Self) {
        let (wire, Device { mut nic, interrupt }) = Wire::new(CONNECTIONS, Sums::Stack);
        let config = Config::new(EthernetAddress(nic.mac()).into());
        let mut iface = Interface::new(config, &mut Port::new(&mut *nic), now());
        iface.update_ip_addrs(|addresses| {
            let address = IpCidr::new(STACK_IP.into(), 24);
            addresses.push(address).expect("it is the first address");
        });
        let routes = iface.routes_mut();
        routes
            .add_default_ipv4_route(CLIENT_IP)
            .expect("it is the first route");
        let state = State {
            nic,
            iface,
            sockets: SocketSet::new(Vec::new()),
            entrance: SocketSet::new(Vec::new()),
            entering: None,
            reader: None,
        };
        let shared = Shared {
            state: Rc::new(RefCell::new(state)),
            interrupt,
        };
        spawn(run(shared.clone())).detach();
        (wire, Self { shared })
    }

    /// Adds a socket without use.
    pub fn keep_a_place(&mut self) -> SocketHandle {
        self.shared.state.borrow_mut().sockets.add(socket())
    }

    /// Gives its place to the next one.
    pub fn give_up(&mut self, place: SocketHandle) {
        self.shared.state.borrow_mut().sockets.remove(place);
    }
}

impl Accept for Plain {
    type Stream = Stream;

    fn listen(&mut self) {
        let mut socket = socket();
        socket.listen(STACK_PORT).expect("it is new");
        let mut state = self.shared.state.borrow_mut();
        state.entering = Some(state.entrance.add(socket));
    }

    fn accept(&mut self) -> Stream {
        let mut state = self.shared.state.borrow_mut();
        let handle = state.entering.take().expect("somebody has listened");
        let smoltcp::socket::Socket::Tcp(socket) = state.entrance.remove(handle) else {
            unreachable!("all sockets are TCP's");
        };
        assert_eq!(socket.state(), tcp::State::Established);
        let handle = state.sockets.add(socket);
        Stream {
            shared: self.shared.clone(),
            handle,
        }
    }
}

impl ByteStream for Stream {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            let socket = state.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
            match socket.recv_slice(buffer) {
                Ok(0) => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
                Ok(count) => Poll::Ready(Ok(count)),
                Err(_) => Poll::Ready(Err(Error::ConnectionReset)),
            }
        })
        .await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.shared.state.borrow_mut();
        let socket = state.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        let written = socket.send_slice(bytes);
        drop(state);
        self.shared.interrupt.wake();
        // Each answer is acknowledged before the next one.
        if written == Ok(bytes.len()) {
            Ok(())
        } else {
            Err(Error::ConnectionReset)
        }
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        let mut state = self.shared.state.borrow_mut();
        let socket = state.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        socket.close();
        drop(state);
        self.shared.interrupt.wake();
        Ok(())
    }
}

/// The network task: polls smoltcp when something has happened or is due.
async fn run(shared: Shared) {
    loop {
        let deadline = shared.state.borrow_mut().poll();
        let mut is_woken = false;
        let woken = poll_fn(|context| {
            if core::mem::replace(&mut is_woken, true) {
                return Poll::Ready(());
            }
            shared.interrupt.register(context.waker());
            Poll::Pending
        });
        // Whichever of the two it was.
        let _ = timeout_at(deadline, woken).await;
    }
}

impl State {
    /// Does what there is to do; when there is more.
    fn poll(&mut self) -> arch::Instant {
        let sockets = match self.entering {
            Some(_) => &mut self.entrance,
            None => &mut self.sockets,
        };
        let mut port = Port::new(&mut *self.nic);
        self.iface.poll(now(), &mut port, sockets);
        let has_received = port.has_received;
        let at = self.iface.poll_at(now(), sockets);
        if let Some(reader) = self.reader.take_if(|_| has_received) {
            reader.wake();
        }
        at.map_or(arch::Instant::MAX, |at| {
            arch::Instant::from_nanos(at.total_micros() as u64 * 1_000)
        })
    }
}

fn socket() -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(BUFFERS.receive_bytes), buffer(BUFFERS.send_bytes));
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(Some(ACK_DELAY.into()));
    socket
}

fn now() -> Instant {
    Instant::from_micros((arch::now().as_nanos() / 1_000) as i64)
}

/// The card, as smoltcp sees it.
struct Port<'a> {
    nic: &'a mut dyn Nic,
    has_received: bool,
}

impl<'a> Port<'a> {
    fn new(nic: &'a mut dyn Nic) -> Self {
        Self {
            nic,
            has_received: false,
        }
    }
}

struct Received<'a>(&'a mut dyn ReceiveQueue);

struct Sender<'a>(&'a mut dyn SendQueue);

impl phy::Device for Port<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Sender<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sender<'_>)> {
        let (receive, send) = self.nic.split();
        receive.front()?;
        self.has_received = true;
        Some((Received(receive), Sender(send)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(self.nic.split().1))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.nic.mtu() + ETHERNET_HEADER_BYTES;
        capabilities
    }
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.0.front().expect("it was there"));
        self.0.release();
        result
    }
}

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let result = f(self.0.buffer(len));
        self.0.commit();
        result
    }
}
