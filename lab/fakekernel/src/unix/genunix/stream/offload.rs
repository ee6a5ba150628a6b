//! Checksums over messages, and what a message says about those the hardware makes.

use std::ffi::{c_int, c_void};

use illumos_sys_hdrs::{
    HCK_FLAGS, HCK_FULLCKSUM, HCK_PARTIALCKSUM, STRUIO_IP, ip6_t, ipha_t, mblk_t, multidata_s, pdesc_s,
    uint_t,
};
use sim::Rule;

use super::block::{Db, Mb};
use super::sum::Sum;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::mem::Mem;
use crate::unix::genunix::Genunix;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: hcksum_assoc, hcksum_retrieve, ip_cksum, ip_csum_hdr; }
}

pub(super) fn ip() -> Vec<Export> {
    export! { UKS: ip_hdr_length_v6; }
}

/// Checksum and large-send information of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// Byte offsets from the IP header; meaningful with a partial checksum only.
    pub start: u32,
    /// See `start`.
    pub stuff: u32,
    /// See `start`.
    pub end: u32,
    /// The sum, with a partial or full checksum.
    pub value: u32,
    /// `HCK_*` and `HW_LSO`.
    pub flags: u32,
    /// Segment size of a large send.
    pub mss: u32,
}

impl Genunix {
    /// `mac_hcksum_get` and `mac_lso_get`: what the flags call valid, zero elsewhere.
    pub fn checksums(&self, cx: &Cx, mp: *mut mblk_t) -> Checksums {
        let Some(db) = self.data_message(cx, mp, "mac_hcksum_get") else { return Checksums::default() };
        let flags = u32::from(db.cksum_flags());
        let partial = flags & HCK_PARTIALCKSUM != 0;
        let summed = flags & (HCK_PARTIALCKSUM | HCK_FULLCKSUM) != 0;
        Checksums {
            start: if partial { db.cksum_start() as u32 } else { 0 },
            stuff: if partial { db.cksum_stuff() as u32 } else { 0 },
            end: if partial { db.cksum_end() as u32 } else { 0 },
            value: if summed { db.cksum_value() & 0xffff } else { 0 },
            flags,
            mss: u32::from(db.mss()),
        }
    }

    /// `mac_hcksum_set`: overwrites everything, the large-send flag included.
    pub fn set_checksums(&self, cx: &Cx, mp: *mut mblk_t, sums: Checksums) {
        if let Some(db) = self.data_message(cx, mp, "mac_hcksum_set") {
            db.set_cksum_start(sums.start as isize);
            db.set_cksum_stuff(sums.stuff as isize);
            db.set_cksum_end(sums.end as isize);
            db.set_cksum(sums.value & 0xffff, sums.flags as u16, sums.mss as u16);
        }
    }

    fn data_message(&self, cx: &Cx, mp: *mut mblk_t, doing: &str) -> Option<Db> {
        let mb = self.live_message(cx, mp, doing)?;
        let db = self.live_data(cx, mb, doing)?;
        cx.check(db.kind() == 0, Rule::AbsurdArgument, || {
            format!("{doing} of a message of type {:#x}", db.kind())
        });
        Some(db)
    }
}

unsafe extern "C" fn hcksum_assoc(
    mp: *mut mblk_t,
    _multidata: *mut multidata_s,
    _packet: *mut pdesc_s,
    start: u32,
    stuff: u32,
    end: u32,
    value: u32,
    flags: u32,
    _km_flags: c_int,
) -> c_int {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let Some(db) = genunix.data_message(&cx, mp, "hcksum_assoc") else { return -1 };
    let mss = u32::from(db.mss());
    genunix.set_checksums(&cx, mp, Checksums { start, stuff, end, value, flags, mss });
    0
}

unsafe extern "C" fn hcksum_retrieve(
    mp: *mut mblk_t,
    _multidata: *mut multidata_s,
    _packet: *mut pdesc_s,
    start: *mut u32,
    stuff: *mut u32,
    end: *mut u32,
    value: *mut u32,
    flags: *mut u32,
) {
    let cx = cx();
    let sums = cx.kernel().genunix().checksums(&cx, mp);
    let kept = sums.flags & HCK_FLAGS;
    let summed = kept & (HCK_PARTIALCKSUM | HCK_FULLCKSUM) != 0;
    let partial = kept & HCK_PARTIALCKSUM != 0;
    let out = [
        (flags, kept, true),
        (value, sums.value, summed),
        (start, sums.start, partial),
        (stuff, sums.stuff, partial),
        (end, sums.end, partial),
    ];
    for (place, word, valid) in out {
        if valid && !place.is_null() {
            // SAFETY: hcksum_retrieve: each place is null or writable.
            unsafe { place.write(word) };
        }
    }
}

unsafe extern "C" fn ip_cksum(mp: *mut mblk_t, offset: c_int, partial: u32) -> uint_t {
    let cx = cx();
    cx.kernel().genunix().checksum(&cx, mp, offset.max(0) as usize, partial).into()
}

impl Genunix {
    /// `ip_cksum`: the folded sum of the bytes from `offset` on, added to a partial one.
    pub(super) fn checksum(&self, cx: &Cx, mp: *mut mblk_t, offset: usize, partial: u32) -> u16 {
        let mut skip = offset;
        let mut sum = Sum::from(partial);
        for mb in self.blocks_of(cx, mp, "ip_cksum") {
            let part = self.bytes(mb).part(skip, usize::MAX);
            skip = skip.saturating_sub(mb.len());
            match already_summed(mb, part) {
                Some((known, from)) => {
                    sum.add(&part.part(0, from).get());
                    sum.add_partial(known, (part.len() - from).is_multiple_of(2));
                }
                None => sum.add(&part.get()),
            }
        }
        sum.fold()
    }
}

/// The sum somebody made of the rest of a block (`STRUIO_IP`), and where in `part` that rest begins.
fn already_summed(mb: Mb, part: Mem) -> Option<(u16, usize)> {
    let db = mb.data();
    let summed = u32::from(db.struioflag()) & STRUIO_IP != 0;
    let start = (mb.rptr().addr()).checked_add_signed(db.cksum_start())?;
    let end = (mb.rptr().addr()).checked_add_signed(db.cksum_end())?;
    let covers = end == part.addr() + part.len() && start >= part.addr() && start <= end;
    (summed && covers).then(|| (db.cksum_value() as u16, start - part.addr()))
}

unsafe extern "C" fn ip_csum_hdr(header: *mut ipha_t) -> u16 {
    // SAFETY: the caller has an IP header there; its first byte is version and length.
    let first = unsafe { Mem::of(header, 1) }.get()[0];
    // SAFETY: a header is as long as it says.
    let bytes = unsafe { Mem::of(header, usize::from(first & 0xf) * 4) }.get();
    let mut sum = Sum::default();
    sum.add(&bytes);
    match !sum.fold() {
        0xffff => 0,
        sum => sum,
    }
}

unsafe extern "C" fn ip_hdr_length_v6(mp: *mut mblk_t, header: *mut ip6_t) -> c_int {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let Some(mb) = genunix.live_message(&cx, mp, "ip_hdr_length_v6") else { return 0 };
    let room = mb.wptr().addr().saturating_sub(header.addr());
    // SAFETY: the header lies in the message's first block, so `room` bytes of the block follow it.
    let bytes = unsafe { Mem::of(header.cast::<c_void>(), room) }.get();
    v6_headers(&bytes) as c_int
}

/// Bytes of the fixed header and of the extension headers that are whole; where the packet is cut short, what there is.
fn v6_headers(bytes: &[u8]) -> usize {
    const FIXED: usize = size_of::<ip6_t>();
    const NEXT: usize = 6;
    let mut at = FIXED;
    let mut next = bytes.get(NEXT).copied().unwrap_or(59);
    loop {
        let Some(&[following, length]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()) else {
            return at;
        };
        let size = match next {
            0 | 43 | 60 => 8 * (usize::from(length) + 1),
            44 => 8,
            _ => return at,
        };
        if bytes.len() < at + size {
            return at;
        }
        at += size;
        next = following;
    }
}

#[cfg(test)]
mod tests {
    use super::v6_headers;

    #[test]
    fn extension_headers_are_counted_as_far_as_they_are_there() {
        let mut packet = vec![0u8; 40];
        packet[6] = 0;
        packet.extend([44, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0; 8]);
        assert_eq!(v6_headers(&packet), 56);
        assert_eq!(v6_headers(&packet[..50]), 48);
        packet[6] = 6;
        assert_eq!(v6_headers(&packet), 40);
    }
}
