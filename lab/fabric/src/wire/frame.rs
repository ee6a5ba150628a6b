//! A frame on its way through the fabric.

use std::borrow::Cow;
use std::sync::Arc;

use super::connected::{RcOpcode, RcPacket, is_connected};
use super::headers::{
    BTH_LEN, DETH_LEN, FrameError, GRH_LEN, Grh, ICRC_LEN, IMMEDIATE_LEN, LRH_LEN, Lrh, Packet, UD_SEND_ONLY,
    UD_SEND_ONLY_IMMEDIATE, VCRC_LEN, routing_headers,
};
use super::{LNH_GRH, crc};
use crate::Lid;

/// A packet of either transport.
pub(crate) enum AnyPacket<'a> {
    Datagram(Packet<'a>),
    Connected(RcPacket<'a>),
}

/// The bytes of a frame, LRH through VCRC; a clone shares them.
///
/// While nothing has happened to a frame, nobody can tell whether its check sums were computed: they are when it is captured or damaged.
/// Who forwards or receives a frame checks them if they were.
#[derive(Clone)]
pub(crate) struct Frame {
    bytes: Arc<Vec<u8>>,
    /// Zeros stand in the place of the two sums, which would be right.
    owed: bool,
}

impl Frame {
    /// What an adapter puts on its link.
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        Self { bytes: Arc::new(packet.emit_without_sums()), owed: true }
    }

    /// What an adapter puts on its link for a connection.
    pub(crate) fn of_connection(packet: &RcPacket<'_>) -> Self {
        Self { bytes: Arc::new(packet.emit_without_sums()), owed: true }
    }

    /// Bytes from somewhere, sums among them.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(bytes), owed: false }
    }

    /// All bytes, as a capture has them.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        if !self.owed {
            return Cow::Borrowed(&self.bytes);
        }
        let mut bytes = self.bytes.to_vec();
        let has_grh = bytes[1] & 3 == LNH_GRH;
        crc::renew(&mut bytes, has_grh);
        Cow::Owned(bytes)
    }

    /// The packet in it, of whatever transport.
    pub(crate) fn parse(&self) -> Result<AnyPacket<'_>, FrameError> {
        let bytes = &self.bytes;
        match (self.opcode().is_some_and(is_connected), self.owed) {
            (false, false) => Packet::parse(bytes).map(AnyPacket::Datagram),
            (false, true) => Packet::parse_trusted(bytes).map(AnyPacket::Datagram),
            (true, false) => RcPacket::parse(bytes).map(AnyPacket::Connected),
            (true, true) => RcPacket::parse_trusted(bytes).map(AnyPacket::Connected),
        }
    }

    fn transport(&self) -> Option<&[u8]> {
        let has_grh = self.bytes.get(1)? & 3 == LNH_GRH;
        self.bytes.get(if has_grh { LRH_LEN + GRH_LEN } else { LRH_LEN }..)
    }

    /// The opcode of its BTH; `None` if it has no such place.
    pub(crate) fn opcode(&self) -> Option<u8> {
        self.transport()?.first().copied()
    }

    /// Class and attribute, if it is a datagram that can be a MAD.
    pub(crate) fn management(&self) -> Option<(u8, u16)> {
        const MAD: usize = BTH_LEN + DETH_LEN;
        let transport = self.transport()?;
        if transport.first() != Some(&UD_SEND_ONLY) {
            return None;
        }
        let class = *transport.get(MAD + 1)?;
        let attribute = transport.get(MAD + 16..MAD + 18)?;
        Some((class, u16::from_be_bytes([attribute[0], attribute[1]])))
    }

    /// The destination LID alone, for a switch that looks no further; `None` if the VCRC is wrong or the frame too short.
    pub(crate) fn route(&self) -> Option<Lid> {
        if self.owed { Packet::route_trusted(&self.bytes) } else { Packet::route(&self.bytes) }
    }

    /// What a router looks at; the variant CRC is right.
    pub(crate) fn routing_headers(&self) -> Result<(Lrh, Option<Grh>), FrameError> {
        routing_headers(&self.bytes, self.owed)
    }

    /// The frame as a router passes it on. It has a GRH.
    pub(crate) fn rerouted(&self, dlid: Lid, slid: Lid, hop_limit: u8) -> Self {
        const HOP_LIMIT: usize = LRH_LEN + 7;
        let mut bytes = self.bytes.to_vec();
        bytes[2..4].copy_from_slice(&dlid.0.to_be_bytes());
        bytes[6..LRH_LEN].copy_from_slice(&slid.0.to_be_bytes());
        bytes[HOP_LIMIT] = hop_limit;
        if !self.owed {
            // The invariant one is about none of these.
            let end = bytes.len() - VCRC_LEN;
            let vcrc = crc::vcrc(&bytes[..end]);
            bytes[end..].copy_from_slice(&vcrc);
        }
        Self { bytes: Arc::new(bytes), owed: self.owed }
    }

    /// Bytes of payload and padding, which is what a link's MTU limits.
    pub(crate) fn payload_len(&self) -> usize {
        let opcode = self.opcode().unwrap_or_default();
        let (transport, immediate) = match RcOpcode::from_wire(opcode) {
            Some(opcode) => (BTH_LEN, opcode.has_immediate()),
            None => (BTH_LEN + DETH_LEN, opcode == UD_SEND_ONLY_IMMEDIATE),
        };
        let headers = transport + if immediate { IMMEDIATE_LEN } else { 0 };
        self.transport().map_or(0, |all| all.len().saturating_sub(headers + ICRC_LEN + VCRC_LEN))
    }

    /// The frame after the bit flips of `change`, which gets its bytes.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = self.bytes().into_owned();
        change(&mut bytes);
        Self::raw(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{AnyPacket, Frame};
    use crate::wire::headers::tests::packet;
    use crate::wire::{FrameError, Packet};

    #[test]
    fn a_frame_that_is_looked_at_has_the_sums_that_its_sender_would_compute() {
        for grh in [false, true] {
            let packet = packet(&[1, 2, 3, 4, 5], grh, Some(7));
            let frame = Frame::of(&packet);
            assert_eq!(frame.bytes(), packet.emit());
            let Ok(AnyPacket::Datagram(parsed)) = frame.parse() else { panic!("a datagram") };
            assert_eq!(parsed, packet);
            assert_eq!(frame.route(), Packet::route(&packet.emit()));
        }
    }

    #[test]
    fn a_frame_that_was_damaged_is_checked() {
        let packet = packet(&[1, 2, 3, 4, 5], true, None);
        let frame = Frame::of(&packet).changed(|bytes| bytes[60] ^= 1);
        assert_eq!(frame.parse().err(), Some(FrameError::Vcrc));
        assert_eq!(frame.route(), None);
    }
}
