//! What the calling operating-system thread is in its machine. Everything here belongs to the thread itself.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use crate::fiber::Turn;
use crate::thread::ThreadInner;

/// The module's call being served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Which of its imports, as the loader knows them; null when lab code runs on its own.
    pub import: *const (),
    /// Return address in the module.
    pub pc: usize,
    /// The module's frame pointer.
    pub rbp: usize,
    /// Stack pointer in the module before the call.
    pub sp: usize,
}

// SAFETY: a plain record; whoever follows the pointer says why the import lives.
unsafe impl Send for Call {}

impl Call {
    pub(crate) const NONE: Self = Self { import: ptr::null(), pc: 0, rbp: 0, sp: 0 };
}

/// The innermost entry into a module on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// Stack pointer at the entry; 0 outside a module.
    pub base: usize,
    /// Bytes of module frames of the entries around it.
    pub outer: usize,
    /// How many entries.
    pub depth: u32,
    /// Bytes that frames of this one may take.
    pub limit: usize,
}

impl Stack {
    const NONE: Self = Self { base: 0, outer: 0, depth: 0, limit: 0 };
}

pub(crate) struct Current {
    pub thread: Cell<*const ThreadInner>,
    pub call: Cell<Call>,
    pub stack: Cell<Stack>,
    /// The kernel functions of the host whose module the thread is in, in a machine without checks; their own affair.
    pub home: Cell<*const ()>,
    /// How a coroutine gives its operating-system thread back.
    pub turn: Cell<Option<Turn>>,
}

impl Current {
    /// No thread of a machine.
    const fn nobody() -> Self {
        Self {
            thread: Cell::new(ptr::null()),
            call: Cell::new(Call::NONE),
            stack: Cell::new(Stack::NONE),
            home: Cell::new(ptr::null()),
            turn: Cell::new(None),
        }
    }

    fn replace(&self, with: &Self) -> Self {
        Self {
            thread: Cell::new(self.thread.replace(with.thread.get())),
            call: Cell::new(self.call.replace(with.call.get())),
            stack: Cell::new(self.stack.replace(with.stack.get())),
            home: Cell::new(self.home.replace(with.home.get())),
            turn: Cell::new(self.turn.replace(with.turn.get())),
        }
    }
}

thread_local! {
    pub(crate) static CURRENT: Current = const { Current::nobody() };
}

/// Makes `thread` the calling thread's identity for the rest of its life.
pub(crate) fn set(thread: &Arc<ThreadInner>) {
    CURRENT.with(|c| c.thread.set(Arc::as_ptr(thread)));
}

/// No longer a thread of a machine.
pub(crate) fn clear() {
    take();
}

/// Takes the calling thread's identity off: another thread is about to be carried.
pub(crate) fn take() -> Current {
    CURRENT.with(|c| c.replace(&Current::nobody()))
}

/// Puts back what [`take`] took.
pub(crate) fn put(current: Current) {
    CURRENT.with(|c| c.replace(&current));
}

/// Says by what the coroutine that begins gives its operating-system thread back.
pub(crate) fn set_turn(turn: Option<Turn>) {
    CURRENT.with(|c| c.turn.set(turn));
}

/// Runs `f` with the calling thread; `None` outside a machine.
pub(crate) fn with<R>(f: impl FnOnce(Option<&ThreadInner>) -> R) -> R {
    let thread = CURRENT.with(|c| c.thread.get());
    // SAFETY: the pointer is null or that of the `Arc` which the thread's first frame holds until `clear`.
    f(unsafe { thread.as_ref() })
}

/// The calling thread.
///
/// # Panics
///
/// Outside a machine.
pub(crate) fn thread() -> Arc<ThreadInner> {
    try_thread().expect("this is no thread of a machine: use Machine::run or Kernel::spawn")
}

/// The calling thread; `None` outside a machine.
pub(crate) fn try_thread() -> Option<Arc<ThreadInner>> {
    let thread = CURRENT.with(|c| c.thread.get());
    if thread.is_null() {
        return None;
    }
    // SAFETY: it came from `Arc::as_ptr` of an `Arc` that the thread's first frame still holds.
    unsafe { Arc::increment_strong_count(thread) };
    // SAFETY: as above, and the count was raised for this one.
    Some(unsafe { Arc::from_raw(thread) })
}

/// Is the calling thread one of a machine that keeps no books?
pub(crate) fn is_unchecked() -> bool {
    with(|me| me.is_some_and(|me| !me.machine.0.config.checks))
}

/// Says whose module the thread is in from now on, as [`home`] gives it; whose it was before.
pub(crate) fn set_home(home: *const ()) -> *const () {
    CURRENT.with(|c| c.home.replace(home))
}

/// Whose module the thread is in; null outside a module of a machine without checks.
pub(crate) fn home() -> *const () {
    CURRENT.with(|c| c.home.get())
}

pub(crate) fn call() -> Call {
    CURRENT.with(|c| c.call.get())
}

pub(crate) fn set_call(call: Call) {
    CURRENT.with(|c| c.call.set(call));
}

pub(crate) fn stack() -> Stack {
    CURRENT.with(|c| c.stack.get())
}

pub(crate) fn set_stack(stack: Stack) {
    CURRENT.with(|c| c.stack.set(stack));
}
