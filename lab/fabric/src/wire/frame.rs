//! A frame on its way through the fabric.

use std::borrow::Cow;
use std::sync::Arc;

use super::headers::{FrameError, Packet};
use super::{LNH_GRH, crc};
use crate::Lid;

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

    /// As [`Packet::parse`].
    pub(crate) fn parse(&self) -> Result<Packet<'_>, FrameError> {
        if self.owed { Packet::parse_trusted(&self.bytes) } else { Packet::parse(&self.bytes) }
    }

    /// The destination LID alone, for a switch that looks no further; `None` if the VCRC is wrong or the frame too short.
    pub(crate) fn route(&self) -> Option<Lid> {
        if self.owed { Packet::route_trusted(&self.bytes) } else { Packet::route(&self.bytes) }
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
    use super::Frame;
    use crate::wire::headers::tests::packet;
    use crate::wire::{FrameError, Packet};

    #[test]
    fn a_frame_that_is_looked_at_has_the_sums_that_its_sender_would_compute() {
        for grh in [false, true] {
            let packet = packet(&[1, 2, 3, 4, 5], grh, Some(7));
            let frame = Frame::of(&packet);
            assert_eq!(frame.bytes(), packet.emit());
            assert_eq!(frame.parse(), Ok(packet));
            assert_eq!(frame.route(), Packet::route(&packet.emit()));
        }
    }

    #[test]
    fn a_frame_that_was_damaged_is_checked() {
        let packet = packet(&[1, 2, 3, 4, 5], true, None);
        let frame = Frame::of(&packet).changed(|bytes| bytes[60] ^= 1);
        assert_eq!(frame.parse(), Err(FrameError::Vcrc));
        assert_eq!(frame.route(), None);
    }
}
