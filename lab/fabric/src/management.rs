//! Management datagrams. Subnet administration's MADs do not pass the switch of this fabric; captures see them all the same, as
//! the datagrams that they are on a wire.

use crate::wire::{Bth, Deth, Lrh, Packet};
use crate::{Direction, Fabric, Guid, Lid, PKey, QKey, Qpn, Sl};
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
