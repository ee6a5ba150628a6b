//! Message blocks in a machine without checks: what a block is, the block itself says.

use std::ffi::c_char;
use std::ptr;

use illumos_sys_hdrs::{frtn_t, mblk_t};

use super::alloc::init_data;
use super::block::{Db, Mb};
use super::classes::{Buffer, DBLK, MBLK};
use crate::unix::genunix::bare::Bare;
use crate::unix::genunix::heap::Fill;
use crate::unix::genunix::plain::Routine;

/// `allocb`.
pub(in crate::unix::genunix) fn make_plainly(bare: &Bare, size: usize) -> *mut mblk_t {
    let buffer = Buffer::for_request(size);
    let (dblk, base) = match buffer {
        Buffer::Inline(len) => {
            let dblk = bare.alloc(DBLK + len, 64, Fill::Uninitialised);
            (dblk, dblk.part(DBLK, len))
        }
        Buffer::Separate(len, align) => {
            (bare.alloc(DBLK, 64, Fill::Uninitialised), bare.alloc(len, align, Fill::Uninitialised))
        }
    };
    finish(bare, Db::new(dblk.start().as_ptr().cast()), base.start().as_ptr(), buffer.len())
}

/// `desballoc`.
pub(in crate::unix::genunix) fn lend_plainly(
    bare: &Bare,
    base: *mut u8,
    size: usize,
    routine: *mut frtn_t,
) -> *mut mblk_t {
    let dblk = bare.alloc(DBLK, 64, Fill::Uninitialised);
    let db = Db::new(dblk.start().as_ptr().cast());
    let mp = finish(bare, db, base, size);
    db.set_frtn(routine);
    mp
}

fn finish(bare: &Bare, db: Db, base: *mut u8, size: usize) -> *mut mblk_t {
    let mb = Mb::new(bare.alloc(MBLK, 64, Fill::Zero).start().as_ptr().cast());
    init_data(db, base, size);
    db.set_mblk(mb.raw());
    mb.set_rptr(base);
    mb.set_wptr(base);
    mb.set_datap(db.raw());
    mb.raw()
}

/// Frees one block: the one behind it (`b_cont`), and the free routine that is to be run now.
pub(in crate::unix::genunix) fn free_plainly(bare: &Bare, mp: *mut mblk_t) -> (*mut mblk_t, Option<Routine>) {
    let mb = Mb::new(mp);
    let (rest, db) = (mb.cont(), mb.data());
    bare.free(mb.addr());
    if db.release() != Some(true) {
        return (rest, None);
    }
    let frtn = db.frtn();
    let mut routine = None;
    if !frtn.is_null() {
        routine = routine_at(frtn);
    } else if db.base().addr() != db.addr() + DBLK {
        bare.free(db.base().addr());
    }
    bare.free(db.addr());
    (rest, routine)
}

fn routine_at(frtn: *mut frtn_t) -> Option<Routine> {
    // SAFETY: desballoc(9F): the structure lives until the last free, which is this one.
    let frtn = unsafe { ptr::read(frtn) };
    // SAFETY: free_rtn(9S): the function takes the argument beside it; the header declares it without arguments.
    let function = frtn.free_func.map(|function| unsafe {
        std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn(*mut c_char)>(function)
    });
    Some((function?, frtn.free_arg))
}
