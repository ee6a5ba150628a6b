//! `dupb`, `copyb` and their kin.

use std::ptr;

use illumos_sys_hdrs::mblk_t;
use sim::FaultKind;

use super::Owner;
use super::block::Mb;
use super::classes::MBLK;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::mem::Mem;
use crate::unix::genunix::Genunix;
use crate::unix::genunix::heap::{Fill, Kind};

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: dupb, dupmsg, copyb, copymsg; }
}

impl Genunix {
    fn dup_block(&self, cx: &Cx, mb: Mb, owner: Owner) -> Option<Mb> {
        let db = self.live_data(cx, mb, "dupb")?;
        if cx.fault(FaultKind::DUPB) || !db.share() {
            return None;
        }
        let Some(mem) = self.memory.alloc(MBLK, 64, Kind::Mblk, Fill::Zero, Self::origin(cx, owner)) else {
            db.release();
            return None;
        };
        let new = Mb::new(mem.start().as_ptr().cast());
        new.set_rptr(mb.rptr());
        new.set_wptr(mb.wptr());
        new.set_band(mb.band());
        new.set_flag(mb.flag());
        new.set_datap(db.raw());
        if !self.streams.books {
            return Some(new);
        }
        let mut table = self.streams.table.lock();
        table.messages.insert(new.addr(), owner);
        if let Some(info) = table.data.get_mut(&db.addr()) {
            info.sharers += 1;
        }
        Some(new)
    }

    /// A copy with its data at the same offset in the buffer, and the buffer in the same phase of four bytes.
    fn copy_block(&self, cx: &Cx, mb: Mb, owner: Owner) -> Option<Mb> {
        let old = self.live_data(cx, mb, "copyb")?;
        let size = old.lim().addr() - old.base().addr();
        let phase = old.base().addr() % 4;
        let new = self.make_message(cx, size + phase, owner)?;
        let db = new.data();
        db.set_kind(old.kind());
        db.set_flags(old.flags());
        db.set_cpid(old.cpid());
        db.set_cred(old.cred());
        db.set_cksum_start(old.cksum_start());
        db.set_cksum_end(old.cksum_end());
        db.set_cksum_stuff(old.cksum_stuff());
        db.set_struioflag(old.struioflag());
        db.set_struioun(old.struioun());
        new.set_band(mb.band());
        new.set_flag(mb.flag());
        let shift = mb.rptr().addr().wrapping_sub(old.base().addr());
        let start = db.base().wrapping_add(phase).wrapping_add(shift);
        new.set_rptr(start);
        new.set_wptr(start.wrapping_add(mb.len()));
        self.bytes(new).copy_from(self.bytes(mb));
        Some(new)
    }

    /// The data of a live block.
    pub(super) fn bytes(&self, mb: Mb) -> Mem {
        // SAFETY: between the pointers of a live block lies its buffer: heap memory, or a loan that its lender keeps until the
        // last free.
        unsafe { Mem::of(mb.rptr(), mb.len()) }
    }

    /// Applies `one` to every block of a message and links the results; all or nothing.
    pub(super) fn each_block(
        &self,
        cx: &Cx,
        mp: *mut mblk_t,
        owner: Owner,
        doing: &str,
        one: impl Fn(Mb) -> Option<Mb>,
    ) -> *mut mblk_t {
        let mut made: Vec<Mb> = Vec::new();
        for mb in self.blocks_of(cx, mp, doing) {
            match one(mb) {
                Some(new) => made.push(new),
                None => {
                    made.into_iter().for_each(|mb| self.free_block(cx, mb.raw(), owner));
                    return ptr::null_mut();
                }
            }
        }
        for pair in made.windows(2) {
            pair[0].set_cont(pair[1].raw());
        }
        made.first().map_or(ptr::null_mut(), |mb| mb.raw())
    }

    /// `copymsg` for `owner`.
    pub(super) fn copy_message(&self, cx: &Cx, mp: *mut mblk_t, owner: Owner) -> *mut mblk_t {
        self.each_block(cx, mp, owner, "copymsg", |mb| self.copy_block(cx, mb, owner))
    }

    /// `dupmsg` for `owner`.
    pub(super) fn dup_message(&self, cx: &Cx, mp: *mut mblk_t, owner: Owner) -> *mut mblk_t {
        self.each_block(cx, mp, owner, "dupmsg", |mb| self.dup_block(cx, mb, owner))
    }
}

unsafe extern "C" fn dupb(mp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let owner = Owner::of(&cx);
    let new = genunix.live_message(&cx, mp, "dupb").and_then(|mb| genunix.dup_block(&cx, mb, owner));
    new.map_or(ptr::null_mut(), Mb::raw)
}

unsafe extern "C" fn dupmsg(mp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    cx.kernel().genunix().dup_message(&cx, mp, Owner::of(&cx))
}

unsafe extern "C" fn copyb(mp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let owner = Owner::of(&cx);
    let new = genunix.live_message(&cx, mp, "copyb").and_then(|mb| genunix.copy_block(&cx, mb, owner));
    new.map_or(ptr::null_mut(), Mb::raw)
}

unsafe extern "C" fn copymsg(mp: *mut mblk_t) -> *mut mblk_t {
    let cx = cx();
    cx.kernel().genunix().copy_message(&cx, mp, Owner::of(&cx))
}
