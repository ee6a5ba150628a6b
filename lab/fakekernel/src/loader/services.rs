//! What the loader asks of the kernel whose modules it loads: it knows `unix` and `genunix` by this alone.

use std::any::Any;
use std::panic::RefUnwindSafe;

use sim::Rule;

use crate::loader::cx::Cx;
use crate::loader::kernel::Kernel;

/// Something in memory that the kernel still knows.
#[derive(Clone, Debug)]
pub struct LiveObject {
    /// Its address.
    pub addr: usize,
    /// What it is and in which state, e.g. "mutex held by ...".
    pub what: String,
    /// In use (rule 9, P); otherwise idle but never destroyed (rule 9 as a defect).
    pub busy: bool,
}

/// One host's kernel functions and what they know. None of these waits or is a scheduling point. What a panic leaves of them is looked at
/// for a report alone.
pub(crate) trait Services: Any + Send + Sync + RefUnwindSafe {
    /// A live lock, condition variable, timeout ... in `[start, start + len)`.
    fn live_object_in(&self, kernel: &Kernel, start: usize, len: usize) -> Option<LiveObject>;

    /// A live lock or condition variable in `[start, start + len)`, and nothing else.
    fn live_lock_in(&self, start: usize, len: usize) -> Option<LiveObject>;

    /// The memory is released: whatever is known in it is forgotten.
    fn forget_memory(&self, kernel: &Kernel, start: usize, len: usize);

    /// A lock in words: its address, and where it was initialised if that is known.
    fn describe_lock(&self, addr: usize) -> String;

    /// What a module has taken and not given back that is in no ledger because it changes hands with every packet; one line each.
    fn unreturned_by(&self, kernel: &Kernel, module: &str) -> Vec<String>;

    /// Looks for damage in all memory that modules were given (rule 16).
    fn examine_memory(&self, kernel: &Kernel, cx: &Cx);

    /// The rule that an access to an inaccessible address breaks, and why, if the address is one that the kernel gives out.
    fn forbidden(&self, kernel: &Kernel, addr: usize) -> Option<(Rule, String)>;

    /// Address of what a machine without checks binds a function's name to, when there is something plainer than that function.
    fn plain(&self, symbol: &str) -> Option<usize>;

    /// What the plain functions find by the thread that calls them: an address that is valid as long as the run.
    fn home(&self, kernel: &Kernel) -> *const ();

    /// Ends everything; what is left is dropped, or leaked, by the caller.
    fn take_apart(&self) -> Box<dyn Any>;
}
