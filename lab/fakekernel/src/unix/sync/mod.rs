//! Mutexes, condition variables, readers/writer locks, semaphores: the words are in module memory with the kernel's encoding, everything
//! else is in [`crate::unix::locks`].

mod cv;
mod mutex;
mod rwlock;
mod sema;

use std::ffi::c_void;

use sim::{Class, ClassKey, Rule};

use crate::loader::backtrace::frame;
use crate::loader::backtrace::lock_words;
use crate::loader::cx::Cx;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;

/// The part of `unix`.
pub(crate) fn unix_exports() -> Vec<Export> {
    let mut exports = mutex::exports();
    exports.extend(rwlock::exports());
    exports
}

/// The part of `genunix`.
pub(crate) fn genunix_exports() -> Vec<Export> {
    let mut exports = cv::exports();
    exports.extend(sema::exports());
    exports
}

/// `mutex_enter` in the name of a call that takes a module's lock.
pub(crate) fn lock_for(cx: &Cx, lock: *mut c_void) {
    mutex::enter(cx, lock);
}

/// `mutex_exit` in the name of a call that took a module's lock.
pub(crate) fn unlock_for(cx: &Cx, lock: *mut c_void) {
    mutex::exit(cx, lock);
}

/// `cv_broadcast` in the name of a call.
pub(crate) fn wake_all(cx: &Cx, cv: *mut c_void) {
    cv::wake(cx, cv, u16::MAX);
}

/// Who holds a mutex of a module; see [`mutex::owner`].
pub(crate) fn mutex_owner(addr: usize) -> Option<usize> {
    mutex::owner(addr)
}

/// Where a lock is initialised: its class, and in words.
fn origin(cx: &Cx, kernel: &Kernel) -> (Class, String) {
    let key = ClassKey::InitAt(kernel.index(), cx.caller_pc());
    let class = kernel.machine().0.order.lock().class(key);
    (class, format!("initialised at {}", frame(kernel.machine(), cx.caller_pc())))
}

/// Checks the order of taking a lock (rule 34) against everything the thread holds.
pub(crate) fn check_order(cx: &Cx, class: Class, addr: usize, what: &str) {
    let machine = cx.thread().machine();
    let inversion = {
        let local = cx.thread().0.local();
        if local.held.is_empty() {
            return;
        }
        let mut order = machine.0.order.lock();
        local.held.iter().find_map(|lock| {
            let inversion = order.take((lock.class, lock.addr), (class, addr)).err()?;
            Some((lock.clone(), inversion))
        })
    };
    let Some((lock, inversion)) = inversion else { return };
    let path: Vec<String> = inversion.path.iter().map(|class| class_words(cx, *class)).collect();
    let holding = lock_words(&lock, cx.try_kernel());
    cx.violate(
        Rule::LockOrder,
        format!("{what} taken while holding {holding}; elsewhere the order is {}", path.join(", then ")),
    );
}

fn class_words(cx: &Cx, class: Class) -> String {
    let machine = cx.thread().machine();
    let key = machine.0.order.lock().key(class).clone();
    match key {
        ClassKey::InitAt(_, pc) => format!("lock initialised at {}", frame(machine, pc)),
        ClassKey::Zeroed(_, addr) => format!("lock {addr:#x}"),
        ClassKey::Lab(name) => name.to_owned(),
    }
}
