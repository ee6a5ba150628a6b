//! Management datagrams. Those from port to port ([`Hca::send_management`]) pass the switch and its faults like any other. Subnet
//! administration's do not; captures see them all the same, as the datagrams that they are on a wire.

use crate::port::{Port, Route};
use crate::wire::{Bth, Deth, Frame, Lrh, Packet};
use crate::{Direction, Error, Fabric, Guid, Hca, Lid, PKey, PortNum, PortState, QKey, Qpn, Reason, Sl};
use std::sync::atomic::Ordering;

/// Who is at the other end of a port's management datagram, and how it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementPeer {
    /// Its LID.
    pub lid: Lid,
    /// Its queue pair.
    pub qpn: Qpn,
    /// Service level between the two.
    pub sl: Sl,
    /// The packet's partition.
    pub pkey: PKey,
}

/// Bytes of a MAD.
const MAD_LEN: usize = 256;

impl Hca {
    /// Sends a MAD from queue pair 1 of a port to another port's. As with any datagram, nobody says whether it arrives.
    ///
    /// # Errors
    /// [`Error::InvalidParam`] if there is no such port or the MAD has not 256 bytes.
    pub fn send_management(&self, port: PortNum, to: &ManagementPeer, mad: &[u8]) -> Result<(), Error> {
        let port = self.port(port).filter(|_| mad.len() == MAD_LEN).ok_or(Error::InvalidParam)?;
        let Some(fabric) = self.fabric() else { return Ok(()) };
        let route = port.route();
        let packet = Packet {
            lrh: Lrh { vl: 0, sl: to.sl, dlid: to.lid, slid: route.lid },
            grh: None,
            bth: Bth {
                solicited: false,
                pkey: to.pkey,
                dest: to.qpn,
                psn: port.management_sent.fetch_add(1, Ordering::Relaxed),
            },
            deth: Deth { qkey: QKey::GSI, src: Qpn::GSI },
            immediate: None,
            payload: mad,
        };
        if self.is_gone() {
            self.drop_frame(Reason::HcaGone);
        } else if route.state != PortState::Active {
            fabric.refuse_to_send(port, &Frame::of(&packet), Reason::SenderPortDown);
        } else if route.owns(to.lid) {
            // What nobody took has been counted.
            let _ = self.accept(port, &packet, true);
        } else {
            fabric.transmit(port, &Frame::of(&packet));
        }
        Ok(())
    }

    /// A datagram for queue pair 1: whoever manages the port gets it. The reason, if nobody does.
    pub(crate) fn take_management(&self, port: &Port, route: &Route, packet: &Packet<'_>) -> Option<Reason> {
        if route.state != PortState::Active {
            return Some(Reason::ReceiverPortDown);
        }
        if !route.owns(packet.lrh.dlid) {
            return Some(Reason::WrongLid);
        }
        if packet.deth.qkey != QKey::GSI {
            return Some(Reason::Qkey);
        }
        // Queue pair 1 is in every partition of its port.
        if !port.attr().pkeys.iter().any(|own| own.is_valid() && own.admits(packet.bth.pkey)) {
            return Some(Reason::Pkey);
        }
        if packet.payload.len() != MAD_LEN {
            return Some(Reason::Malformed);
        }
        let from = ManagementPeer {
            lid: packet.lrh.slid,
            qpn: packet.deth.src,
            sl: packet.lrh.sl,
            pkey: packet.bth.pkey,
        };
        let taken = self.events().management(port.num, from, packet.payload);
        (!taken).then_some(Reason::NoQp)
    }
}

impl Fabric {
    /// Shows a capture the MAD (256 bytes) that QP 1 of `port` sends to `peer` or gets from it; without a capture, or a port of
    /// this GUID, nothing happens. It is not counted as a frame of the port.
    pub fn show_management(&self, port: Guid, direction: Direction, peer: &ManagementPeer, mad: &[u8]) {
        if self.0.tap().is_none() {
            return;
        }
        let found = self.0.switch.lock().ports.get(&port).map(|(_, port)| port.clone());
        let Some(found) = found else { return };
        let own = found.route().lid;
        let sent = direction == Direction::ToSwitch;
        // What comes in is numbered by its sender: here one count for all of them.
        let numbers = if sent { &found.management_sent } else { &self.0.management_received };
        let (slid, dlid) = if sent { (own, peer.lid) } else { (peer.lid, own) };
        let (src, dest) = if sent { (Qpn::GSI, peer.qpn) } else { (peer.qpn, Qpn::GSI) };
        let psn = numbers.fetch_add(1, Ordering::Relaxed);
        let packet = Packet {
            lrh: Lrh { vl: 0, sl: peer.sl, dlid, slid },
            grh: None,
            bth: Bth { solicited: false, pkey: peer.pkey, dest, psn },
            deth: Deth { qkey: QKey::GSI, src },
            immediate: None,
            payload: mad,
        };
        self.0.show_tap(port, direction, None, &packet.emit());
    }
}
