//! smoltcp's network card.

use std::collections::VecDeque;

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// The header of an Ethernet frame.
const ETHERNET_HEADER_BYTES: usize = 14;

/// The frames between smoltcp and the wire.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) incoming: VecDeque<Vec<u8>>,
    pub(super) outgoing: VecDeque<Vec<u8>>,
    max_frame_bytes: usize,
}

impl Queues {
    /// Empty ones, for packets of `mtu` bytes.
    pub(super) fn new(mtu: usize) -> Self {
        Self {
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
            max_frame_bytes: ETHERNET_HEADER_BYTES + mtu,
        }
    }
}

impl phy::Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sender<'_>)> {
        let frame = self.incoming.pop_front()?;
        Some((Received(frame), Sender(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.max_frame_bytes;
        capabilities
    }
}

#[derive(Debug)]
pub(super) struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

#[derive(Debug)]
pub(super) struct Sender<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}
