//! Ending a thread whose stack holds module frames.
//!
//! Module code cannot be unwound: it has no unwind tables, and the kernel's threads end only by their own will. When a machine
//! stops, such a thread goes back to its first frame in one step. What its frames own is never dropped, so nothing in them
//! can be reached again; values that other threads can reach live on the heap by construction (a `'static` bound on
//! everything that crosses threads).

use std::arch::naked_asm;
use std::ffi::c_void;

/// Where to go back to: the callee-saved registers at the first frame.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct ReturnPoint {
    rsp: usize,
}

/// Calls `f(arg)` so that [`abandon_to`] can end the call early. The callee-saved registers are kept on the stack below the
/// return address, so the stack pointer is all that has to be remembered.
///
/// # Safety
///
/// `point` is valid until this function returns, and `f` may be called with `arg`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_abandonable(
    point: *mut ReturnPoint,
    f: unsafe extern "C" fn(*mut c_void),
    arg: *mut c_void,
) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdi], rsp",
        "mov rdi, rdx",
        "call rsi",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Returns from the [`call_abandonable`] that filled in `point`.
///
/// # Safety
///
/// That call is still running on the calling thread, and no frame in between owns anything that must be dropped for another
/// thread's sake (a held lock that others will wait for, a borrow handed to another thread).
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abandon_to(point: *const ReturnPoint) -> ! {
    naked_asm!(
        "mov rsp, [rdi]",
        "cld",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
