//! smoltcp's view of the link: two queues of IP packets.

use std::collections::VecDeque;

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::Ipv4Packet;

/// Packets that smoltcp may have waiting to go out before it is told to stop.
const TX_ROOM: usize = 64;

/// One packet at a time is cut into fragments: smoltcp 0.14 has one buffer for what it cuts, and puts the next packet that is too
/// long over the one that it has begun. So once a first fragment has gone out, nothing is given to smoltcp and nothing is taken
/// from it but the fragments behind it, one a round.
#[derive(Debug)]
pub struct Device {
    /// Largest IP packet: the link's SDU (IB MTU less the 4-byte IPoIB header).
    pub sdu: usize,
    pub rx: VecDeque<Vec<u8>>,
    pub tx: VecDeque<Vec<u8>>,
    /// More fragments follow what was sent last.
    is_cutting: bool,
    /// In this round smoltcp has been given the place for a packet.
    is_round_used: bool,
}

impl Device {
    pub fn new(sdu: usize) -> Self {
        Self { sdu, rx: VecDeque::new(), tx: VecDeque::new(), is_cutting: false, is_round_used: false }
    }

    /// smoltcp is polled for what it wants to send: it asks for the place for a fragment before any other.
    pub fn begin_round(&mut self) {
        self.is_round_used = false;
    }

    /// The link changes its size, and smoltcp starts anew.
    pub fn restart(&mut self, sdu: usize) {
        self.sdu = sdu;
        self.is_cutting = false;
    }
}

impl phy::Device for Device {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(RxToken, TxToken<'_>)> {
        if self.is_cutting || self.tx.len() >= TX_ROOM {
            return None;
        }
        let packet = self.rx.pop_front()?;
        Some((RxToken(packet), TxToken(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_>> {
        if self.tx.len() >= TX_ROOM || self.is_cutting && self.is_round_used {
            return None;
        }
        self.is_round_used = true;
        Some(TxToken(self))
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
pub struct TxToken<'a>(&'a mut Device);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.is_cutting = more_follow(&packet);
        self.0.tx.push_back(packet);
        result
    }
}

/// Whether it is a fragment and not the last.
fn more_follow(packet: &[u8]) -> bool {
    Ipv4Packet::new_checked(packet).is_ok_and(|ip| ip.version() == 4 && ip.more_frags())
}
