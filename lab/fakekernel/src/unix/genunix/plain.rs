//! Memory and messages in a machine without checks: nobody asks who calls, in which context, or whether it shall fail.
//!
//! The host is the one whose module the thread is in; its heap is the plain one ([`super::bare`]).

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use illumos_sys_hdrs::{frtn_t, mblk_t, uint_t};
use sim::current;

use super::Genunix;
use super::bare::Bare;
use super::heap::Fill;
use super::stream::{free_plainly, lend_plainly, make_plainly};

/// By name: what stands in for the function of that name.
pub(super) fn address(name: &str) -> Option<usize> {
    Some(match name {
        "kmem_alloc" => kmem_alloc as *const () as usize,
        "kmem_zalloc" => kmem_zalloc as *const () as usize,
        "kmem_free" => kmem_free as *const () as usize,
        "allocb" => allocb as *const () as usize,
        "desballoc" => desballoc as *const () as usize,
        "freeb" => freeb as *const () as usize,
        "freemsg" => freemsg as *const () as usize,
        _ => return None,
    })
}

/// The heap of the host the thread works for.
fn heap<R>(f: impl FnOnce(&Bare) -> R) -> R {
    let home: *const Genunix = current::home().cast();
    // SAFETY: null, or what `Services::home` gave for a host that keeps it until every thread has ended.
    let genunix = unsafe { home.as_ref() }.expect("called by a module of a machine without checks");
    f(genunix.memory.plain().expect("only machines without checks bind to these functions"))
}

fn allocate(size: usize, fill: Fill) -> *mut c_void {
    if size == 0 {
        return ptr::null_mut();
    }
    let align = super::kmem::alignment(size);
    heap(|bare| bare.alloc(size, align, fill)).start().as_ptr().cast()
}

unsafe extern "C" fn kmem_alloc(size: usize, _flags: c_int) -> *mut c_void {
    allocate(size, Fill::Uninitialised)
}

unsafe extern "C" fn kmem_zalloc(size: usize, _flags: c_int) -> *mut c_void {
    allocate(size, Fill::Zero)
}

unsafe extern "C" fn kmem_free(buf: *mut c_void, _size: usize) {
    if !buf.is_null() {
        heap(|bare| bare.free(buf.addr()));
    }
}

unsafe extern "C" fn allocb(size: usize, _priority: uint_t) -> *mut mblk_t {
    heap(|bare| make_plainly(bare, size))
}

unsafe extern "C" fn desballoc(
    base: *mut u8,
    size: usize,
    _priority: uint_t,
    routine: *mut frtn_t,
) -> *mut mblk_t {
    heap(|bare| lend_plainly(bare, base, size, routine))
}

unsafe extern "C" fn freeb(mp: *mut mblk_t) {
    if let Some(routine) = heap(|bare| free_plainly(bare, mp).1) {
        run(routine);
    }
}

unsafe extern "C" fn freemsg(mp: *mut mblk_t) {
    let mut next = mp;
    while !next.is_null() {
        let (rest, routine) = heap(|bare| free_plainly(bare, next));
        if let Some(routine) = routine {
            run(routine);
        }
        next = rest;
    }
}

/// A free routine and its argument.
pub(super) type Routine = (unsafe extern "C" fn(*mut c_char), *mut c_char);

fn run((function, argument): Routine) {
    // SAFETY: the lender gave this function for this argument, once per loan.
    unsafe { function(argument) };
}
