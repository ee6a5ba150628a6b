//! `linkb`, `adjmsg`, `pullupmsg` and their kin.

use std::ffi::c_int;
use std::ptr;

use illumos_sys_hdrs::mblk_t;

use super::Owner;
use super::block::Mb;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::unix::genunix::Genunix;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: linkb, unlinkb, rmvb, adjmsg, pullupmsg, msgpullup, msgdsize; }
}

impl Genunix {
    /// Bytes of data in the `M_DATA` blocks of a message.
    pub(super) fn data_size(&self, cx: &Cx, mp: *mut mblk_t) -> usize {
        let blocks = self.blocks_of(cx, mp, "msgdsize");
        blocks.into_iter().filter(|mb| mb.data().kind() == 0).map(Mb::len).sum()
    }

    /// Appends a message to another.
    pub(super) fn link(&self, cx: &Cx, mp: *mut mblk_t, bp: *mut mblk_t) {
        if let Some(last) = self.blocks_of(cx, mp, "linkb").last() {
            last.set_cont(bp);
        }
    }

    /// The leading blocks of the first one's type.
    fn leading(&self, cx: &Cx, mp: *mut mblk_t, doing: &str) -> Vec<Mb> {
        let mut blocks = self.blocks_of(cx, mp, doing);
        let kind = blocks.first().map(|mb| mb.data().kind());
        let same = blocks.iter().take_while(|mb| Some(mb.data().kind()) == kind).count();
        blocks.truncate(same);
        blocks
    }

    /// Trims `len` bytes from the head (positive) or the tail (negative); false, and nothing changed, when there are not so
    /// many. Blocks other than the first that become empty are freed.
    pub(super) fn adjust(&self, cx: &Cx, mp: *mut mblk_t, len: isize, by: Owner) -> bool {
        let blocks = self.leading(cx, mp, "adjmsg");
        let mut left = len.unsigned_abs();
        if blocks.iter().map(|mb| mb.len()).sum::<usize>() < left {
            return false;
        }
        let trimmed: Vec<Mb> = if len >= 0 { blocks } else { blocks.into_iter().rev().collect() };
        for mb in trimmed {
            let cut = left.min(mb.len());
            if len >= 0 {
                mb.set_rptr(mb.rptr().wrapping_add(cut));
            } else {
                mb.set_wptr(mb.wptr().wrapping_sub(cut));
            }
            left -= cut;
            if cut > 0 && mb.len() == 0 && mb.raw() != mp {
                self.cut_out(cx, mp, mb, by);
            }
        }
        true
    }

    /// Takes a block that is not the first out of its message and frees it.
    fn cut_out(&self, cx: &Cx, mp: *mut mblk_t, gone: Mb, by: Owner) {
        let before = self.blocks_of(cx, mp, "adjmsg").into_iter().find(|mb| mb.cont() == gone.raw());
        if let Some(before) = before {
            before.set_cont(gone.cont());
            gone.set_cont(ptr::null_mut());
            self.free_block(cx, gone.raw(), by);
        }
    }

    /// A new block with the first `len` bytes of a message (-1: all of the leading blocks), or `None`.
    fn gathered(&self, cx: &Cx, mp: *mut mblk_t, len: isize, by: Owner, doing: &str) -> Option<(Mb, usize)> {
        let blocks = self.leading(cx, mp, doing);
        let have: usize = blocks.iter().map(|mb| mb.len()).sum();
        let want = if len < 0 { have } else { len.unsigned_abs() };
        if want > have {
            return None;
        }
        let new = self.message_like(cx, want, *blocks.first()?, by)?;
        new.set_wptr(new.wptr().wrapping_add(want));
        let target = self.bytes(new);
        let mut filled = 0;
        for mb in blocks {
            let part = self.bytes(mb).part(0, want - filled);
            target.part(filled, part.len()).copy_from(part);
            filled += part.len();
        }
        Some((new, want))
    }

    /// Makes the first `len` bytes contiguous and 8-byte aligned in the block at `mp`, which stays the message's head. The new
    /// data block has none of the old one's checksum or LSO information.
    pub(super) fn pull_up(&self, cx: &Cx, mp: *mut mblk_t, len: isize, by: Owner) -> bool {
        let Some(first) = self.blocks_of(cx, mp, "pullupmsg").first().copied() else { return false };
        let aligned = first.rptr().addr().is_multiple_of(8);
        let enough = if len < 0 { first.cont().is_null() } else { len.unsigned_abs() <= first.len() };
        if aligned && enough {
            return true;
        }
        let Some((new, want)) = self.gathered(cx, mp, len, by, "pullupmsg") else { return false };
        // The new data goes under the old block and the old data under the new one, which is then freed in its place.
        let (rest, tail) = (first.cont(), self.swapped(first, new));
        tail.set_cont(rest);
        self.drop_head(cx, first, tail, want, by);
        true
    }

    /// Exchanges the data of two blocks; the second then holds what the first had.
    fn swapped(&self, first: Mb, second: Mb) -> Mb {
        let (data, rptr, wptr) = (first.datap(), first.rptr(), first.wptr());
        first.set_datap(second.datap());
        first.set_rptr(second.rptr());
        first.set_wptr(second.wptr());
        second.set_datap(data);
        second.set_rptr(rptr);
        second.set_wptr(wptr);
        first.data().set_mblk(first.raw());
        second
    }

    /// Drops the first `len` bytes of the blocks from `tail` on, freeing those used up, and hangs the rest behind `first`.
    fn drop_head(&self, cx: &Cx, first: Mb, tail: Mb, len: usize, by: Owner) {
        let mut left = len;
        let mut next = tail.raw();
        while !next.is_null() {
            let mb = Mb::new(next);
            let cut = left.min(mb.len());
            mb.set_rptr(mb.rptr().wrapping_add(cut));
            left -= cut;
            let used_up = mb.len() == 0 && (cut > 0 || mb == tail);
            if !used_up {
                break;
            }
            next = mb.cont();
            mb.set_cont(ptr::null_mut());
            self.free_block(cx, mb.raw(), by);
        }
        first.set_cont(next);
    }
}

unsafe extern "C" fn linkb(mp: *mut mblk_t, bp: *mut mblk_t) {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    if genunix.live_message(&cx, bp, "linkb").is_some() {
        genunix.link(&cx, mp, bp);
    }
}

unsafe extern "C" fn unlinkb(mp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    let Some(mb) = cx.kernel().genunix().live_message(&cx, mp, "unlinkb") else { return ptr::null_mut() };
    let rest = mb.cont();
    mb.set_cont(ptr::null_mut());
    rest
}

unsafe extern "C" fn rmvb(mp: *mut mblk_t, bp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    let blocks = cx.kernel().genunix().blocks_of(&cx, mp, "rmvb");
    let Some(at) = blocks.iter().position(|mb| mb.raw() == bp) else {
        return ptr::without_provenance_mut(usize::MAX);
    };
    let rest = blocks[at].cont();
    blocks[at].set_cont(ptr::null_mut());
    match at.checked_sub(1) {
        Some(before) => {
            blocks[before].set_cont(rest);
            mp
        }
        None => rest,
    }
}

unsafe extern "C" fn adjmsg(mp: *mut mblk_t, len: isize) -> c_int {
    let cx = cx();
    cx.kernel().genunix().adjust(&cx, mp, len, Owner::of(&cx)).into()
}

unsafe extern "C" fn pullupmsg(mp: *mut mblk_t, len: isize) -> c_int {
    let cx = cx();
    cx.kernel().genunix().pull_up(&cx, mp, len, Owner::of(&cx)).into()
}

unsafe extern "C" fn msgpullup(mp: *mut mblk_t, len: isize) -> *mut mblk_t {
    let cx = cx();
    cx.kernel().genunix().pulled_copy(&cx, mp, len, Owner::of(&cx))
}

impl Genunix {
    /// `msgpullup` for `owner`.
    pub(super) fn pulled_copy(&self, cx: &Cx, mp: *mut mblk_t, len: isize, owner: Owner) -> *mut mblk_t {
        let Some((new, taken)) = self.gathered(cx, mp, len, owner, "msgpullup") else {
            return ptr::null_mut();
        };
        match self.copy_beyond(cx, mp, taken, owner) {
            Some(rest) => {
                new.set_cont(rest);
                new.raw()
            }
            None => {
                self.free_block(cx, new.raw(), owner);
                ptr::null_mut()
            }
        }
    }

    /// A copy of everything behind the first `skip` bytes, null when there is nothing; `None` when no copy could be made.
    fn copy_beyond(&self, cx: &Cx, mp: *mut mblk_t, skip: usize, owner: Owner) -> Option<*mut mblk_t> {
        let blocks = self.blocks_of(cx, mp, "msgpullup");
        let mut before = 0;
        let first = blocks.iter().position(|mb| {
            before += mb.len();
            before > skip
        });
        let Some(first) = first else { return Some(ptr::null_mut()) };
        let cut = blocks[first].len() - (before - skip);
        let copy = self.copy_message(cx, blocks[first].raw(), owner);
        if copy.is_null() {
            return None;
        }
        let head = Mb::new(copy);
        head.set_rptr(head.rptr().wrapping_add(cut));
        Some(copy)
    }
}

unsafe extern "C" fn msgdsize(mp: *mut mblk_t) -> usize {
    let cx = cx();
    cx.kernel().genunix().data_size(&cx, mp)
}
