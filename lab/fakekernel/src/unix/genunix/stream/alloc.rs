//! `allocb`, `desballoc` and their kin: never sleep, null on shortage.

use std::ptr;

use illumos_sys_hdrs::{frtn_t, mblk_t, uint_t};
use sim::{FaultKind, Rule};

use super::block::{Db, Mb};
use super::classes::{Buffer, DBLK, MBLK};
use super::{DataInfo, Owner, Storage};
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::unix::genunix::Genunix;
use crate::unix::genunix::heap::{Fill, Kind};
use crate::unix::genunix::origin;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: allocb, allocb_tmpl, desballoc, esballoc; }
}

/// More than this in one message block is a computation gone wrong.
const ABSURD: usize = 1 << 30;

impl Genunix {
    /// What `allocb` does, for `owner`; a fault point.
    pub(super) fn make_message(&self, cx: &Cx, size: usize, owner: Owner) -> Option<Mb> {
        if cx.fault(FaultKind::ALLOCB) {
            return None;
        }
        let buffer = Buffer::for_request(size);
        let origin = Self::origin(cx, owner);
        let inline = match buffer {
            Buffer::Inline(len) => len,
            Buffer::Separate(..) => 0,
        };
        let dblk = self.memory.alloc(DBLK + inline, 64, Kind::Dblk, Fill::Uninitialised, origin)?;
        let (base, storage) = match buffer {
            Buffer::Inline(_) => (dblk.part(DBLK, inline), Storage::Inline),
            Buffer::Separate(len, align) => {
                let Some(mem) = self.memory.alloc(len, align, Kind::Dblk, Fill::Uninitialised, origin) else {
                    self.free_quietly(dblk.addr(), Kind::Dblk, origin);
                    return None;
                };
                (mem, Storage::Separate(mem.addr()))
            }
        };
        let db = Db::new(dblk.start().as_ptr().cast());
        let base = base.start().as_ptr();
        self.finish(cx, db, base, buffer.len(), storage, owner)
    }

    /// What `desballoc` (or `esballoc`) does.
    fn make_loan(
        &self,
        cx: &Cx,
        base: *mut u8,
        size: usize,
        frtn: *mut frtn_t,
        synchronous: bool,
    ) -> Option<Mb> {
        if cx.fault(FaultKind::DESBALLOC) {
            return None;
        }
        let owner = Owner::of(cx);
        let dblk = self.memory.alloc(DBLK, 64, Kind::Dblk, Fill::Uninitialised, Self::origin(cx, owner))?;
        let db = Db::new(dblk.start().as_ptr().cast());
        let lender = if self.streams.books { cx.module_name() } else { "" };
        let mb = self.finish(cx, db, base, size, Storage::Loan { lender, synchronous }, owner)?;
        db.set_frtn(frtn);
        Some(mb)
    }

    /// A message block for a data block, both in their initial state. The checksum fields keep whatever they held.
    fn finish(
        &self,
        cx: &Cx,
        db: Db,
        base: *mut u8,
        size: usize,
        storage: Storage,
        owner: Owner,
    ) -> Option<Mb> {
        let origin = Self::origin(cx, owner);
        let Some(mem) = self.memory.alloc(MBLK, 64, Kind::Mblk, Fill::Zero, origin) else {
            self.free_quietly(db.addr(), Kind::Dblk, origin);
            return None;
        };
        let mb = Mb::new(mem.start().as_ptr().cast());
        init_data(db, base, size);
        db.set_mblk(mb.raw());
        mb.set_rptr(base);
        mb.set_wptr(base);
        mb.set_datap(db.raw());
        if !self.streams.books {
            return Some(mb);
        }
        let mut table = self.streams.table.lock();
        table.messages.insert(mb.addr(), owner);
        table.data.insert(db.addr(), DataInfo { storage, sharers: 1, maker: owner });
        Some(mb)
    }

    fn free_quietly(&self, addr: usize, kind: Kind, by: origin::Origin) {
        // The block was allocated a moment ago and nobody knows it; damage elsewhere is found by the next sweep.
        drop(self.memory.free(addr, None, kind, by));
    }
}

pub(super) fn init_data(db: Db, base: *mut u8, size: usize) {
    db.set_frtn(ptr::null_mut());
    db.set_base(base);
    db.set_lim(base.wrapping_add(size));
    db.reset_word();
    db.set_cpid(-1);
    db.set_cred(ptr::null_mut());
    db.hide_private();
    // The value, start, stuff and end of a checksum are stale garbage; only the flags are cleared.
    db.set_cksum(0xbadd_cafe, 0, 0xbadd);
}

fn raw(mb: Option<Mb>) -> *mut mblk_t {
    mb.map_or(ptr::null_mut(), Mb::raw)
}

unsafe extern "C" fn allocb(size: usize, _priority: uint_t) -> *mut mblk_t {
    let cx = cx();
    cx.check(size <= ABSURD, Rule::AbsurdArgument, || format!("allocb({size})"));
    raw(cx.kernel().genunix().make_message(&cx, size, Owner::of(&cx)))
}

unsafe extern "C" fn allocb_tmpl(size: usize, template: *const mblk_t) -> *mut mblk_t {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let Some(template) = genunix.live_message(&cx, template.cast_mut(), "allocb_tmpl") else {
        return ptr::null_mut();
    };
    raw(genunix.message_like(&cx, size, template, Owner::of(&cx)))
}

impl Genunix {
    /// What `allocb_tmpl` does: credentials, process id and type of another message.
    pub(super) fn message_like(&self, cx: &Cx, size: usize, template: Mb, owner: Owner) -> Option<Mb> {
        let mb = self.make_message(cx, size, owner)?;
        let (new, old) = (mb.data(), template.data());
        new.set_kind(old.kind());
        new.set_cpid(old.cpid());
        new.set_cred(old.cred());
        Some(mb)
    }
}

unsafe extern "C" fn desballoc(
    base: *mut u8,
    size: usize,
    _priority: uint_t,
    frtn: *mut frtn_t,
) -> *mut mblk_t {
    loan(base, size, frtn, true)
}

unsafe extern "C" fn esballoc(
    base: *mut u8,
    size: usize,
    _priority: uint_t,
    frtn: *mut frtn_t,
) -> *mut mblk_t {
    loan(base, size, frtn, false)
}

fn loan(base: *mut u8, size: usize, frtn: *mut frtn_t, synchronous: bool) -> *mut mblk_t {
    let cx = cx();
    if base.is_null() || frtn.is_null() {
        cx.violate(Rule::AbsurdArgument, format!("{} of a null buffer or free routine", cx.call()));
        return ptr::null_mut();
    }
    cx.check(size <= ABSURD, Rule::AbsurdArgument, || format!("{size} bytes lent"));
    raw(cx.kernel().genunix().make_loan(&cx, base, size, frtn, synchronous))
}
