//! `freeb`, `freemsg`, `freemsgchain`, and the free routine of a loan, which runs inside them.

use std::ffi::c_char;

use illumos_sys_hdrs::{frtn_t, mblk_t};
use sim::race::{self, Key};
use sim::{Ctx, Rule};

use super::block::{Db, Mb};
use super::classes::DBLK;
use super::{Owner, Storage};
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::EntryKind;
use crate::loader::export::Export;
use crate::unix::genunix::Genunix;
use crate::unix::genunix::heap::Kind;
use crate::unix::genunix::kmem;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: freeb, freemsg, freemsgchain; }
}

type FreeRoutine = unsafe extern "C" fn(*mut c_char);

/// A free routine and its argument, as the loan's owner left them.
#[derive(Clone, Copy)]
struct Routine {
    function: FreeRoutine,
    argument: *mut c_char,
}

// SAFETY: the argument is the lender's cookie, handed back to it and never used otherwise; the DDI lets any thread do that.
unsafe impl Send for Routine {}

impl Genunix {
    /// Frees one block on behalf of `by`. A machine without checks runs every free routine at once, `esballoc`'s too.
    pub(super) fn free_block(&self, cx: &Cx, mp: *mut mblk_t, by: Owner) {
        if !self.streams.books {
            return self.free_unbooked(cx, Mb::new(mp));
        }
        let Some(mb) = self.live_message(cx, mp, "freeb") else { return };
        self.check_owner(cx, mb, by, "freeb");
        cx.check(mb.next().is_null() && mb.prev().is_null(), Rule::BadMessageFree, || {
            format!("freeb of mblk {:#x} that is linked by b_next or b_prev", mb.addr())
        });
        let Some(db) = self.live_data(cx, mb, "freeb") else { return };
        self.check_pointers(cx, mb, db, "freeb");
        self.forget_message(cx, mb, by);
        race::acquire(Key("message", mb.addr() as u64));
        race::pass(Key("message", db.addr() as u64));
        let sharers = self.one_sharer_less(db);
        match db.release() {
            None => cx
                .violate(Rule::BadMessagePointers, format!("freeb: dblk {:#x} has no references", db.addr())),
            Some(last) if last != (sharers == 0) => {
                let what = format!("dblk {:#x}: db_ref disagrees, {sharers} mblks still share it", db.addr());
                cx.violate(Rule::BadMessagePointers, what);
            }
            Some(true) => self.last_free(cx, db, by),
            Some(false) => {}
        }
    }

    /// As [`Self::free_block`], by what the blocks themselves say.
    fn free_unbooked(&self, cx: &Cx, mb: Mb) {
        let db = mb.data();
        self.forget_message(cx, mb, Owner::Framework);
        if db.release() != Some(true) {
            return;
        }
        if !db.frtn().is_null() {
            if let Some(routine) = self.routine(cx, db) {
                run(cx, routine);
            }
        } else if db.base().addr() != db.addr() + DBLK {
            self.free_data(cx, db.base().addr(), Owner::Framework);
        }
        self.free_data(cx, db.addr(), Owner::Framework);
    }

    /// Frees a message on behalf of `by`.
    pub(super) fn free_message(&self, cx: &Cx, mp: *mut mblk_t, by: Owner) {
        if matches!(by, Owner::Module(_)) && self.is_foreign(mp, by) {
            cx.no_locks();
        }
        let mut next = mp;
        while !next.is_null() {
            let Some(mb) = self.live_message(cx, next, "freemsg") else { return };
            let this = next;
            next = mb.cont();
            self.free_block(cx, this, by);
        }
    }

    /// Frees a chain of messages on behalf of `by`.
    pub(super) fn free_chain(&self, cx: &Cx, mp: *mut mblk_t, by: Owner) {
        let mut next = mp;
        while !next.is_null() {
            let Some(mb) = self.live_message(cx, next, "freemsgchain") else { return };
            let this = next;
            next = mb.next();
            mb.set_next(std::ptr::null_mut());
            self.free_message(cx, this, by);
        }
    }

    /// Whether somebody else's free routine may run when `by` frees this message.
    fn is_foreign(&self, mp: *mut mblk_t, by: Owner) -> bool {
        if self.memory.kind(mp.addr()) != Some(Kind::Mblk) {
            return false;
        }
        let data = Mb::new(mp).datap().addr();
        self.streams.table.lock().data.get(&data).is_some_and(|info| info.maker != by)
    }

    fn forget_message(&self, cx: &Cx, mb: Mb, by: Owner) {
        if self.streams.books {
            self.streams.table.lock().messages.remove(&mb.addr());
        }
        if let Err(fault) = self.memory.free(mb.addr(), None, Kind::Mblk, Self::origin(cx, by)) {
            kmem::report(cx, &format!("mblk {:#x}", mb.addr()), &fault);
        }
    }

    fn one_sharer_less(&self, db: Db) -> u32 {
        let mut table = self.streams.table.lock();
        let Some(info) = table.data.get_mut(&db.addr()) else { return 0 };
        info.sharers = info.sharers.saturating_sub(1);
        info.sharers
    }

    fn last_free(&self, cx: &Cx, db: Db, by: Owner) {
        let Some(storage) = self.streams.table.lock().data.get(&db.addr()).map(|info| info.storage) else {
            return;
        };
        match storage {
            Storage::Loan { synchronous: true, .. } => {
                cx.no_locks();
                if let Some(routine) = self.routine(cx, db) {
                    run(cx, routine);
                }
            }
            Storage::Loan { synchronous: false, .. } => {
                if let Some(routine) = self.routine(cx, db) {
                    self.run_later(cx, db, by, routine);
                    return;
                }
            }
            Storage::Separate(addr) => self.free_data(cx, addr, by),
            Storage::Inline => {}
        }
        self.end_data(cx, db, by);
    }

    fn end_data(&self, cx: &Cx, db: Db, by: Owner) {
        self.streams.table.lock().data.remove(&db.addr());
        self.free_data(cx, db.addr(), by);
    }

    fn free_data(&self, cx: &Cx, addr: usize, by: Owner) {
        if let Some(size) = self.memory.size(addr).filter(|_| self.streams.books) {
            kmem::no_adapter_has(cx, addr, size);
        }
        if let Err(fault) = self.memory.free(addr, None, Kind::Dblk, Self::origin(cx, by)) {
            kmem::report(cx, &format!("the buffer at {addr:#x}"), &fault);
        }
    }

    /// Reads the loan's `frtn_t`, which is not copied when the loan is made and must still be there.
    fn routine(&self, cx: &Cx, db: Db) -> Option<Routine> {
        let frtn: *mut frtn_t = db.frtn();
        if self.is_freed(frtn.addr()) {
            let why = self.memory.explain(cx.kernel(), frtn.addr());
            cx.violate(Rule::HeapCorruption, format!("the free_rtn of a loaned buffer is gone: {why}"));
            return None;
        }
        // SAFETY: desballoc(9F): the structure lives until the last free; if it lay in the heap it was just found live.
        let frtn = unsafe { frtn.read() };
        let Some(function) = frtn.free_func else {
            cx.panic(format!("dblk {:#x} was lent with a null free_func", db.addr()));
        };
        // SAFETY: free_rtn(9S): the function takes the argument beside it; the header declares it without arguments.
        let function = unsafe { std::mem::transmute::<unsafe extern "C" fn(), FreeRoutine>(function) };
        Some(Routine { function, argument: frtn.free_arg })
    }

    fn run_later(&self, cx: &Cx, db: Db, by: Owner, routine: Routine) {
        let data = db.addr();
        let kernel = cx.kernel().clone();
        cx.kernel().spawn("esballoc free", Ctx::Kernel, move || {
            let cx = crate::loader::cx::cx();
            run(&cx, routine);
            let db = Db::new(std::ptr::with_exposed_provenance_mut(data));
            kernel.genunix().end_data(&cx, db, by);
        });
    }
}

fn run(cx: &Cx, routine: Routine) {
    let Routine { function, argument } = routine;
    // SAFETY: the lender gave this function for this argument, once per loan; its module cannot be unloaded with a loan out,
    // or the call is reported as rule 35.
    unsafe { cx.kernel().enter(function, (argument,), EntryKind::callback("free_func")) };
}

unsafe extern "C" fn freeb(mp: *mut mblk_t) {
    let cx = cx();
    cx.kernel().genunix().free_block(&cx, mp, Owner::of(&cx));
}

unsafe extern "C" fn freemsg(mp: *mut mblk_t) {
    let cx = cx();
    cx.kernel().genunix().free_message(&cx, mp, Owner::of(&cx));
}

unsafe extern "C" fn freemsgchain(mp: *mut mblk_t) {
    let cx = cx();
    cx.kernel().genunix().free_chain(&cx, mp, Owner::of(&cx));
}
