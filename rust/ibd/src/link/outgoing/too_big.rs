//! What IP is told of a packet that is longer than what goes to a neighbour. It cannot be told by whoever sends, who may be called from IP's
//! own receive side; the control thread writes the answer, and the backlog thread hands it up.

use core::time::Duration;

use ipoib::connections::too_big::{self, LONGEST_ANSWER};
use ipoib::header::{self, PSEUDO_HEADER_LEN};
use ipoib::{EtherType, Instant, LinkAddr};
use kernel::mblk::Mblk;
use kernel::{KBox, MayBlock};

use crate::cache::AddressCache;
use crate::ring::Ring;

/// Packets whose senders wait to be told, at most.
const WAITING: usize = 32;
/// Senders to one neighbour are told so often in [`WITHIN`].
const TOLD: u8 = 10;
const WITHIN: Duration = Duration::from_secs(1);
/// Neighbours that this is known of.
const NEIGHBOURS: usize = 64;

/// A packet, and what would go: octets without the IPoIB header.
pub(crate) struct TooBigReport {
    pub(crate) packet: Mblk,
    mtu: u32,
}

pub(super) struct TooBigReports {
    waiting: Ring<TooBigReport>,
    told: AddressCache<(u8, Instant)>,
}

impl TooBigReports {
    pub(super) fn new(seed: u64, may_block: &MayBlock) -> Self {
        let told = AddressCache::new(NEIGHBOURS, seed, may_block);
        Self { waiting: Ring::new(WAITING, may_block), told }
    }

    pub(super) fn push(&mut self, to: &LinkAddr, packet: Mblk, mtu: u32, now: Instant) -> Result<(), Mblk> {
        let known = self.told.get(to.words()).copied().filter(|(_, since)| now - *since < WITHIN);
        let (told, since) = known.unwrap_or((0, now));
        if told >= TOLD {
            return Err(packet);
        }
        self.waiting.push(TooBigReport { packet, mtu }).map_err(|report| report.packet)?;
        self.told.insert(*to, (told + 1, since));
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<TooBigReport> {
        self.waiting.pop()
    }

    pub(super) fn clear(&mut self) {
        self.told.clear();
    }
}

/// The message for IP, as one that came to the link with this address; `None` if nobody is to be told, or there is no memory.
#[inline(never)]
pub(crate) fn answer(report: &TooBigReport, own: &LinkAddr) -> Option<Mblk> {
    let mut packet = KBox::new([0; LONGEST_ANSWER]).ok()?;
    let mut room = KBox::new([0; LONGEST_ANSWER]).ok()?;
    let len = report.packet.copy_to(PSEUDO_HEADER_LEN, &mut packet[..]);
    let packet = packet.get(..len)?;
    let len = too_big::answer(packet, report.mtu, &mut room).ok()?;
    let ethertype = match packet.first()? >> 4 {
        4 => EtherType::IPV4,
        _ => EtherType::IPV6,
    };
    let mut message = Mblk::new(PSEUDO_HEADER_LEN + len).ok()?;
    let mut front = [0; PSEUDO_HEADER_LEN];
    front[PSEUDO_HEADER_LEN - 4..PSEUDO_HEADER_LEN - 2].copy_from_slice(&ethertype.0.to_be_bytes());
    header::receive_connected(&mut front, own).ok()?;
    message.append(&front).ok()?;
    message.append(room.get(..len)?).ok()?;
    Some(message)
}
