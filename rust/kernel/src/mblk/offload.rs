//! The checksum and segmentation metadata beside a packet (`sys/pattr.h`).
//!
//! It sits in the first data block; on transmit that is the block with the link header, whose bytes the offsets do
//! not count.

use core::num::NonZeroU16;

use illumos_sys_hdrs as sys;

use super::{Mblk, block};

/// What is asked of the adapter (transmit) or was done by it (receive).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// `HCK_*` of `sys/pattr.h`: [`Offload::IPV4_HEADER`] and so on.
    pub flags: u16,
    /// Meaningful with [`Offload::PARTIAL`].
    pub partial: PartialChecksum,
    /// The checksum itself, on receive.
    pub value: u16,
    /// A large send with this maximum segment size (`HW_LSO`); `None` for an ordinary packet.
    pub lso_mss: Option<NonZeroU16>,
}

/// Where a partial checksum is computed; bytes from the start of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First byte summed.
    pub start: u32,
    /// Where the sum is stored.
    pub stuff: u32,
    /// Behind the last byte summed.
    pub end: u32,
}

impl Offload {
    /// Transmit: compute the IPv4 header's checksum. Receive: it was verified.
    pub const IPV4_HEADER: u16 = sys::HCK_IPV4_HDRCKSUM as u16;
    /// Transmit: sum from `start` to `end`, store at `stuff`. Receive: `value` is such a sum.
    pub const PARTIAL: u16 = sys::HCK_PARTIALCKSUM as u16;
    /// Transmit: compute the TCP or UDP checksum. Receive: `value` is the full sum.
    pub const FULL: u16 = sys::HCK_FULLCKSUM as u16;
    /// Receive: the TCP or UDP checksum was verified.
    pub const FULL_OK: u16 = sys::HCK_FULLCKSUM_OK as u16;

    /// Transmit: a large send. In an [`Offload`] it is [`Offload::lso_mss`] that says so.
    pub const LARGE_SEND: u16 = sys::HW_LSO as u16;

    /// What a receiver says whose adapter has verified the TCP or UDP checksum (`HCK_FULLCKSUM_OK`).
    pub const VERIFIED: Self = Self {
        flags: Self::FULL_OK,
        partial: PartialChecksum { start: 0, stuff: 0, end: 0 },
        value: 0,
        lso_mss: None,
    };

    /// Whether any of `flags` is set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

impl Mblk {
    /// What is asked of the adapter for this packet, as far as flags say it: those of [`Offload`].
    #[inline]
    pub fn offload_flags(&self) -> u16 {
        // SAFETY: the message is alive.
        let data = unsafe { block::data_block(self.0) };
        // SAFETY: the metadata is written by the message's owner only, and this is a view of its packet.
        let union = unsafe { (*data).db_struioun };
        // SAFETY: every member of the union is made of integers.
        unsafe { union.cksum }.flags & (sys::HCK_FLAGS as u16 | Offload::LARGE_SEND)
    }

    /// What is asked of the adapter for this packet.
    pub fn offload(&self) -> Offload {
        // SAFETY: the message is alive.
        let data = unsafe { block::data_block(self.0) };
        // SAFETY: the metadata is written by the message's owner only, and this is a view of its packet.
        let union = unsafe { (*data).db_struioun };
        // SAFETY: every member of the union is made of integers.
        let checksum = unsafe { union.cksum };
        let mut offload = Offload { flags: checksum.flags & sys::HCK_FLAGS as u16, ..Offload::default() };
        if offload.has(Offload::PARTIAL) {
            // The other fields are stale unless the flag is set.
            // SAFETY: as above.
            offload.partial.start = unsafe { (*data).db_cksumstart } as u32;
            // SAFETY: as above.
            offload.partial.stuff = unsafe { (*data).db_cksumstuff } as u32;
            // SAFETY: as above.
            offload.partial.end = unsafe { (*data).db_cksumend } as u32;
        }
        if offload.has(Offload::PARTIAL | Offload::FULL) {
            // SAFETY: both members of the union are integers of which 16 bits are initialised.
            offload.value = unsafe { checksum.cksum_val.u16_ };
        }
        if checksum.flags & Offload::LARGE_SEND != 0 {
            offload.lso_mss = NonZeroU16::new(checksum.pad);
        }
        offload
    }

    /// Replaces the metadata. In a buffer that is shared with another message it stays as it is: whoever has that one may be
    /// reading it.
    pub fn set_offload(&mut self, offload: Offload) {
        if self.is_shared() {
            return;
        }
        // SAFETY: the message is alive.
        let data = unsafe { block::data_block(self.0) };
        let lso = if offload.lso_mss.is_some() { Offload::LARGE_SEND } else { 0 };
        let mut checksum = sys::datab__bindgen_ty_1__bindgen_ty_1::default();
        checksum.cksum_val.u32_ = u32::from(offload.value);
        checksum.flags = (offload.flags & sys::HCK_FLAGS as u16) | lso;
        checksum.pad = offload.lso_mss.map_or(0, NonZeroU16::get);
        let union = sys::datab__bindgen_ty_1 { cksum: checksum };
        // SAFETY: the buffer and its metadata are this message's alone, and `&mut self` makes this the only reference.
        unsafe { (*data).db_struioun = union };
        // SAFETY: as above.
        unsafe { (*data).db_cksumstart = offload.partial.start as isize };
        // SAFETY: as above.
        unsafe { (*data).db_cksumstuff = offload.partial.stuff as isize };
        // SAFETY: as above.
        unsafe { (*data).db_cksumend = offload.partial.end as isize };
    }
}
