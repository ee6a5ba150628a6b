//! Who called: the first thing an implementation asks.

use crate::config::FaultKind;
use crate::context::Ctx;
use crate::halt::Frame;
use crate::kernel::Kernel;
use crate::module::Module;
use crate::rule::Rule;
use crate::thread::Thread;

/// The call being served on this thread. Take it in the first line of an implementation: a call the implementation makes into a
/// module, and that module's calls back, replace it.
#[derive(Clone, Debug)]
pub struct Cx {
    pub(crate) thread: Thread,
    pub(crate) module: Option<Module>,
    pub(crate) kernel: Option<Kernel>,
}

/// The call being served on this thread. In lab code that no module called, the thread's host and no module.
///
/// # Panics
///
/// Outside a machine.
pub fn cx() -> Cx {
    unimplemented!()
}

impl Cx {
    /// The host called.
    ///
    /// # Panics
    ///
    /// On a thread of no host that no module called.
    pub fn kernel(&self) -> &Kernel {
        self.kernel.as_ref().expect("a thread of no host")
    }

    /// The module that called; `None` if lab code did.
    pub fn module(&self) -> Option<&Module> {
        self.module.as_ref()
    }

    /// Name of the module that called, empty if lab code did.
    pub fn module_name(&self) -> &str {
        unimplemented!()
    }

    /// The symbol called; empty if lab code called.
    pub fn call(&self) -> &str {
        unimplemented!()
    }

    /// The calling thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// The context it runs in.
    pub fn ctx(&self) -> Ctx {
        unimplemented!()
    }

    /// Return address of the call in the module; 0 if lab code called.
    pub fn caller_pc(&self) -> usize {
        unimplemented!()
    }

    /// Module frames, innermost first.
    pub fn backtrace(&self) -> Vec<Frame> {
        unimplemented!()
    }

    /// This call may sleep: rules 1 and 2 (fatal), 3 (noted).
    pub fn may_block(&self) {
        unimplemented!()
    }

    /// This call is an upcall or a barrier: no driver mutex may be held (rule 4).
    pub fn no_locks(&self) {
        unimplemented!()
    }

    /// Breaks `rule` unless `ok`, or unless the case is suppressed; then returns. Must not be called with a HostMutex held.
    pub fn check(&self, ok: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !ok {
            self.violate(rule, what());
        }
    }

    /// Breaks `rule`: the machine halts and this thread never returns, unless the case is suppressed or the rule is only a
    /// tolerated one.
    pub fn violate(&self, rule: Rule, detail: impl Into<String>) {
        let _ = (rule, detail.into());
        unimplemented!()
    }

    /// Notes a tolerated case (severity T); see [`crate::Machine::notes`].
    pub fn note(&self, rule: Rule, detail: impl Into<String>) {
        let _ = (rule, detail.into());
        unimplemented!()
    }

    /// The kernel panics with this message: the machine halts and this thread never returns.
    pub fn panic(&self, message: impl Into<String>) -> ! {
        let _: String = message.into();
        unimplemented!()
    }

    /// Shall this call fail? Decided by the machine's [`crate::Faults`] and the seed.
    pub fn fault(&self, what: FaultKind) -> bool {
        let _ = what;
        unimplemented!()
    }
}
