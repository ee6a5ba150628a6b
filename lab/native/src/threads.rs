//! A thread of the driver's, on a stack of its own: it runs when somebody waits for what it does, until it waits itself.

use std::arch::naked_asm;
use std::ffi::c_void;

use crate::Fault;
use crate::processor::with;

/// Words of a stack.
const WORDS: usize = 32 << 10;
/// Registers that a function keeps, below the address that it returns to.
const KEPT: usize = 6;

/// What it runs.
pub(crate) type Body = unsafe extern "C" fn(*mut c_void);

/// See the module's documentation.
pub(crate) struct DriverThread {
    stack: Vec<usize>,
    /// Where it stands, while it does not run.
    own: usize,
    /// Where whoever let it run stands.
    other: usize,
    /// It has something to do.
    woken: bool,
}

impl DriverThread {
    /// Has not run yet.
    pub(crate) fn new(body: Body, argument: usize) -> Self {
        let mut stack = vec![0; WORDS];
        let mut top = WORDS - KEPT - 2;
        // Where a function is called from, the stack ends at a multiple of 16.
        top -= usize::from(!(&raw const stack[top + KEPT + 1]).addr().is_multiple_of(16));
        // r15, r14, r13, r12, rbx, rbp, and where it goes.
        stack[top + 2] = body as *const () as usize;
        stack[top + 3] = argument;
        stack[top + KEPT] = begin as *const () as usize;
        let own = (&raw const stack[top]).addr();
        Self { stack, own, other: 0, woken: true }
    }

    fn has_room(&self) -> bool {
        self.stack.as_ptr_range().contains(&std::ptr::with_exposed_provenance(self.own))
    }
}

/// Lets the driver's thread run until it waits. Whether there was anything for it to do.
///
/// # Safety
///
/// On a thread that has a [`Processor`](crate::processor::Processor), outside the driver, with none of the driver's locks held.
pub(crate) unsafe fn run() -> bool {
    let places = with(|processor| {
        let thread = processor.thread.as_mut().filter(|thread| thread.woken && thread.has_room())?;
        thread.woken = false;
        Some((&raw mut thread.other, thread.own))
    });
    let Some((other, own)) = places else { return false };
    // SAFETY: a stack that `new` prepared, or on which `wait` stands; it comes back by `wait`.
    unsafe { switch(other, own) };
    true
}

/// The driver's thread waits: back to whoever let it run.
///
/// # Safety
///
/// Called by the driver on its thread.
pub(crate) unsafe fn wait() {
    let places =
        with(|processor| processor.thread.as_mut().map(|thread| (&raw mut thread.own, thread.other)));
    match places {
        // SAFETY: `run` stands there, and comes back here.
        Some((own, other)) if other != 0 => unsafe { switch(own, other) },
        _ => panic!("a driver waits where nobody can wake it"),
    }
}

/// The driver wakes its thread.
pub(crate) fn wake() {
    with(|processor| match &mut processor.thread {
        Some(thread) => thread.woken = true,
        None => processor.fail(Fault::Wakes),
    });
}

/// Keeps the place of the caller, and goes on at another's.
///
/// # Safety
///
/// One was kept at `to`, on a stack that is still there.
#[unsafe(naked)]
unsafe extern "C" fn switch(keep: *mut usize, to: usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a new stack begins: calls what is in `r13` with what is in `r12`. A driver's thread does not end here.
///
/// # Safety
///
/// Only `switch` comes here.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov rdi, r12", "call r13", "ud2")
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static SEEN: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn note(what: usize) {
        SEEN.with_borrow_mut(|seen| seen.push(what));
    }

    unsafe extern "C" fn counts_and_waits(from: *mut c_void) {
        for n in from.addr().. {
            note(n);
            // SAFETY: on the thread itself.
            unsafe { wait() };
        }
    }

    #[test]
    fn driver_thread_goes_on_where_it_waited_when_it_is_woken_and_not_before() {
        let mut processor = crate::processor::Processor::for_tests();
        processor.thread = Some(DriverThread::new(counts_and_waits, 7));
        processor.as_this_thread(|| {
            // SAFETY: as the function wants it.
            let ran = || note(100 + usize::from(unsafe { run() }));
            ran();
            ran();
            wake();
            ran();
        });
        assert_eq!(SEEN.take(), [7, 101, 100, 8, 101]);
    }
}
