//! [`MayBlock`]: the token for waiting.

use core::marker::PhantomData;

/// Proof that the thread which has it may sleep: what waits for memory (`KM_SLEEP`) asks for a reference.
///
/// Only the border crates make one, in an entry point that the kernel calls where sleeping is legal: `_init`, attach, an ioctl, a
/// property that is set, a thread of the module's own. It is lent for the call. So no callback can keep one: it is neither `Send`
/// nor `Sync`, and a reference to it never lives for `'static`.
///
/// One thing no type sees: whether the caller holds a mutex. A thread that waits for memory with a mutex held stops every
/// interrupt that wants the mutex. The lab notes that as rule 3. So memory is waited for first, and locked afterwards.
pub struct MayBlock(PhantomData<*mut ()>);

impl MayBlock {
    /// A token for the present call.
    ///
    /// # Safety
    ///
    /// The calling thread may sleep: it is a user or kernel thread, in no interrupt and with no spin lock held. That lasts as long
    /// as the value.
    pub unsafe fn new() -> Self {
        Self(PhantomData)
    }

    /// For tests: every thread of a host may sleep.
    #[cfg(not(target_os = "none"))]
    pub fn on_host() -> Self {
        Self(PhantomData)
    }
}
