//! smoltcp's view of the link: two queues of IP packets.

use std::collections::VecDeque;

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Packets that smoltcp may have waiting to go out before it is told to stop.
const TX_ROOM: usize = 64;

#[derive(Debug)]
pub struct Device {
    /// Largest IP packet: the link's SDU (IB MTU less the 4-byte IPoIB header).
    pub sdu: usize,
    pub rx: VecDeque<Vec<u8>>,
    pub tx: VecDeque<Vec<u8>>,
}

impl Device {
    pub fn new(sdu: usize) -> Self {
        Self { sdu, rx: VecDeque::new(), tx: VecDeque::new() }
    }
}

impl phy::Device for Device {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(RxToken, TxToken<'_>)> {
        if self.tx.len() >= TX_ROOM {
            return None;
        }
        let packet = self.rx.pop_front()?;
        Some((RxToken(packet), TxToken(&mut self.tx)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_>> {
        (self.tx.len() < TX_ROOM).then_some(TxToken(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = self.sdu;
        caps
    }
}

#[derive(Debug)]
pub struct RxToken(Vec<u8>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

#[derive(Debug)]
pub struct TxToken<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}
