//! What the calling operating-system thread is in its machine. Everything here belongs to the thread itself.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use crate::fiber::Turn;
use crate::thread::ThreadInner;

/// The module's call being served.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    import: *const (),
    pc: usize,
    rbp: usize,
    sp: usize,
}

// SAFETY: a plain record; whoever follows the pointer says why the import lives.
unsafe impl Send for Call {}

impl Call {
    /// Lab code runs on its own.
    pub const NONE: Self = Self { import: ptr::null(), pc: 0, rbp: 0, sp: 0 };

    /// A call through an import, from the address before `pc` in the module, whose frame pointer was `rbp` and whose stack pointer
    /// `sp` before the call.
    ///
    /// # Safety
    ///
    /// `import` is what whoever reads it takes it for, and stays that as long as the machine lives.
    #[inline]
    pub unsafe fn new(import: *const (), pc: usize, rbp: usize, sp: usize) -> Self {
        Self { import, pc, rbp, sp }
    }

    /// The same call as seen from elsewhere in the module.
    #[must_use]
    #[inline]
    pub fn at(self, pc: usize, rbp: usize, sp: usize) -> Self {
        Self { pc, rbp, sp, ..self }
    }

    /// Which import, as the loader knows it; null when lab code runs on its own.
    #[inline]
    pub fn import(self) -> *const () {
        self.import
    }

    /// Return address in the module.
    #[inline]
    pub fn pc(self) -> usize {
        self.pc
    }

    /// The module's frame pointer.
    #[inline]
    pub fn rbp(self) -> usize {
        self.rbp
    }

    /// Stack pointer in the module before the call.
    #[inline]
    pub fn sp(self) -> usize {
        self.sp
    }
}

/// The innermost entry into a module on this thread.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
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
    /// Calls out of modules and entries into them, on this operating-system thread: it stays as it is while a module runs by itself.
    pub changes: Cell<u64>,
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
            changes: Cell::new(0),
        }
    }

    fn replace(&self, with: &Self) -> Self {
        Self {
            thread: Cell::new(self.thread.replace(with.thread.get())),
            call: Cell::new(self.call.replace(with.call.get())),
            stack: Cell::new(self.stack.replace(with.stack.get())),
            home: Cell::new(self.home.replace(with.home.get())),
            turn: Cell::new(self.turn.replace(with.turn.get())),
            // The operating-system thread's, whichever thread it carries.
            changes: Cell::new(0),
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

/// Is the calling thread one of a machine? Async-signal-safe.
pub fn is_thread() -> bool {
    CURRENT.with(|c| !c.thread.get().is_null())
}

/// Runs `f` with the calling thread; `None` outside a machine.
#[inline]
pub fn with<R>(f: impl FnOnce(Option<&ThreadInner>) -> R) -> R {
    let thread = CURRENT.with(|c| c.thread.get());
    // SAFETY: the pointer is null or that of the `Arc` which the thread's first frame holds until `clear`.
    f(unsafe { thread.as_ref() })
}

/// The calling thread.
///
/// # Panics
///
/// Outside a machine.
#[inline]
pub fn thread() -> Arc<ThreadInner> {
    try_thread().expect("this is no thread of a machine: use Machine::run or Kernel::spawn")
}

/// The calling thread; `None` outside a machine.
#[inline]
pub fn try_thread() -> Option<Arc<ThreadInner>> {
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
#[inline]
pub fn is_unchecked() -> bool {
    with(|me| me.is_some_and(|me| !me.machine.0.config.checks))
}

/// Says whose module the thread is in from now on, as [`home`] gives it; whose it was before.
///
/// # Safety
///
/// Null, or what whoever asks for it takes it for, as long as the thread is in that module.
#[inline]
pub unsafe fn set_home(home: *const ()) -> *const () {
    CURRENT.with(|c| c.home.replace(home))
}

/// Whose module the thread is in; null outside a module of a machine without checks.
#[inline]
pub fn home() -> *const () {
    CURRENT.with(|c| c.home.get())
}

/// The module's call being served.
#[inline]
pub fn call() -> Call {
    CURRENT.with(|c| c.call.get())
}

/// From now on this call is served.
#[inline]
pub fn set_call(call: Call) {
    CURRENT.with(|c| {
        c.call.set(call);
        c.changes.set(c.changes.get().wrapping_add(1));
    });
}

/// How often [`set_call`] was called on this operating-system thread: no module has called or been entered while it stays the
/// same. Async-signal-safe.
pub fn changes() -> u64 {
    CURRENT.with(|c| c.changes.get())
}

/// The innermost entry into a module.
#[inline]
pub fn stack() -> Stack {
    CURRENT.with(|c| c.stack.get())
}

/// From now on the innermost entry into a module is this one.
#[inline]
pub fn set_stack(stack: Stack) {
    CURRENT.with(|c| c.stack.set(stack));
}
