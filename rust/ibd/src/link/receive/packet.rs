//! From a received frame to a packet for the MAC layer: a copy, or the adapter's own buffer.

use ibtf::{Buffer, Completion, CompletionStatus, ReceiveQueue, Received, Target};
use ipoib::header::{self, IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::neighbours::{self, Direction, News};
use ipoib::{EtherType, Gid, LinkAddr, Qpn, nd};
use kernel::mblk::{Mblk, Offload};
use kernel::sync::Monitor;

use super::{Pass, ReceiveSide, Receiver};
use crate::counters::RxDrop;
use crate::link::control::Control;
use crate::now;

impl Receiver {
    #[inline(always)]
    pub(super) fn take(&self, open: &mut ReceiveSide, completion: Completion<'_>, pass: &mut Pass) {
        let Some(received) = open.queue.complete(completion) else {
            // Of nothing that is out: whatever it tells of is lost.
            return self.counters.rx.dropped(RxDrop::Completion);
        };
        if !received.status.is_success() {
            // Flushed: the queue pair is in error and every buffer would come back the same way. Not posted again.
            pass.broken |= received.status == CompletionStatus::FLUSHED;
            if received.status != CompletionStatus::FLUSHED {
                self.counters.rx.dropped(RxDrop::Completion);
            }
            return;
        }
        match self.packet(open, received, pass) {
            Ok(packet) => pass.packets.push_back(packet),
            Err(reason) => self.counters.rx.dropped(reason),
        }
    }

    /// Makes the packet for the MAC layer out of a frame. A buffer that is not lent goes home and is posted again.
    #[inline(always)]
    fn packet(&self, open: &mut ReceiveSide, received: Received, pass: &mut Pass) -> Result<Mblk, RxDrop> {
        let Received { mut buffer, has_grh, checksum_ok, source_qpn, .. } = received;
        let bytes = buffer.bytes_mut();
        let sender = Qpn::from_low_bits(source_qpn);
        let frame = header::receive(bytes, has_grh, sender, &open.own, &open.senders)?;
        if frame.ethertype != EtherType::IPV4 {
            look_closer(&self.control, &open.own, frame.ethertype, bytes)?;
        }
        let verified = checksum_ok && has_plain_ipv4_header(bytes);
        let len = bytes.len() as u32;
        let mut packet = if len <= self.config.copy_up_to {
            let packet = Mblk::from_bytes(0, bytes);
            open.queue.give_back(buffer);
            let packet = packet.map_err(|_| RxDrop::NoMemory)?;
            pass.copied += 1;
            packet
        } else {
            lend(&mut open.queue, buffer, &mut pass.copied)?
        };
        if verified {
            packet.set_offload(Offload::VERIFIED);
        }
        pass.counts.add_received(frame.cast, len);
        Ok(packet)
    }
}

/// Neighbour discovery has spare bytes elsewhere on the wire, and says, as ARP does, who has which address; messages of routers do not.
/// What says that a neighbour is at a group is not for IP, nor what says it in a form that is not looked at here.
#[inline(never)]
pub(in crate::link) fn look_closer(
    control: &Monitor<Control>,
    own: &LinkAddr,
    ethertype: EtherType,
    frame: &mut [u8],
) -> Result<(), RxDrop> {
    // Zeros unless there was a route header: the sender's adapter has written that.
    let sender = LinkAddr::from_slice(frame).map(|sender| sender.gid());
    let payload = frame.get_mut(PSEUDO_HEADER_LEN..).unwrap_or_default();
    let is_discovery = ethertype == EtherType::IPV6 && nd::may_have_link_addresses(payload);
    if is_discovery {
        nd::pad_for_ip(payload, own);
    }
    if let Some(refusal) = neighbours::refuse(ethertype, payload) {
        return Err(refusal.into());
    }
    if (is_discovery || ethertype == EtherType::ARP)
        && let Some(news) = neighbours::read(ethertype, payload, Direction::In)
    {
        let is_question = neighbours::asked_for(ethertype, payload).is_some();
        learn(&mut control.lock(), news, sender, is_question);
    }
    Ok(())
}

/// Takes what a frame says of a neighbour. The address has spoken for itself if the `sender` of the route header has its GID, or, without that
/// header, if it answers.
fn learn(control: &mut Control, news: News, sender: Option<Gid>, is_question: bool) {
    let now = now();
    control.neighbours.learn(now, news);
    let Some(neighbour) = news.neighbour() else { return };
    match sender.filter(|sender| sender.guid != 0) {
        Some(sender) if sender != neighbour.link.gid() => {}
        Some(_) => control.acquaintances.hear(now, neighbour.ip, &neighbour.link, true),
        None if is_question => {}
        None => control.acquaintances.hear(now, neighbour.ip, &neighbour.link, false),
    }
}

/// A packet in the buffer that it was received into, if that may be lent, and otherwise in a copy.
#[inline(never)]
pub(in crate::link) fn lend<T: Target>(
    queue: &mut ReceiveQueue<T>,
    buffer: Buffer,
    copied: &mut u64,
) -> Result<Mblk, RxDrop> {
    let buffer = match if queue.may_lend() { buffer.lend(0) } else { Err(buffer) } {
        Ok(packet) => return Ok(packet),
        Err(buffer) => buffer,
    };
    let packet = Mblk::from_bytes(0, buffer.bytes());
    queue.give_back(buffer);
    let packet = packet.map_err(|_| RxDrop::NoMemory)?;
    *copied += 1;
    Ok(packet)
}

/// Whether the checksum the adapter verified is one that it looked at whole: IPv4 without options.
fn has_plain_ipv4_header(frame: &[u8]) -> bool {
    const VERSION_4_LENGTH_5: u8 = 0x45;
    let ethertype = frame.get(PSEUDO_HEADER_LEN - IPOIB_HEADER_LEN..).and_then(|rest| rest.first_chunk());
    ethertype.map(|bytes| EtherType(u16::from_be_bytes(*bytes))) == Some(EtherType::IPV4)
        && frame.get(PSEUDO_HEADER_LEN) == Some(&VERSION_4_LENGTH_5)
}
