//! Who called: the first thing an implementation asks.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use sim::current::{self, Call};
use sim::{Contexts, Ctx, FaultKind, Frame, Halt, KernelPanic, Nanos, Rule, Severity, Thread, Violation};

use crate::loader::backtrace;
use crate::loader::gate::Import;
use crate::loader::kernel::Kernel;
use crate::loader::kernels::kernel_of;
use crate::loader::module::Module;
use crate::loader::resources::Resource;

/// How soon a call that waits for memory looks again, at first and at last.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(1);
const LONGEST_WAIT: Nanos = Nanos::from_millis(100);

/// The call being served on this thread. Take it in the first line of an implementation: a call the implementation makes into a
/// module, and that module's calls back, replace it.
#[derive(Clone)]
pub struct Cx {
    thread: Thread,
    import: Option<Arc<Import>>,
    /// Looked up when asked for.
    module: OnceCell<Option<Module>>,
    /// Of a thread on which no module called, looked up when asked for.
    own_kernel: OnceCell<Option<Kernel>>,
    /// For reports about an entry point rather than a call.
    entry: Option<&'static str>,
    at: Call,
}

/// The call being served on this thread. In lab code that no module called, the thread's host and no module.
///
/// # Panics
///
/// Outside a machine.
pub fn cx() -> Cx {
    Cx::of_current()
}

impl Cx {
    pub(crate) fn of_current() -> Self {
        let thread = Thread(current::thread());
        let at = current::call();
        let import = (!at.import().is_null()).then(|| import_of(at.import()));
        Self { thread, import, module: OnceCell::new(), own_kernel: OnceCell::new(), entry: None, at }
    }

    /// For a report about an entry into `module` that has just returned.
    pub fn of_entry(module: Option<&Module>, entry: &'static str) -> Self {
        let thread = Thread(current::thread());
        let kernel = module.map_or_else(|| kernel_of(&thread), |m| Some(m.kernel().clone()));
        Self {
            thread,
            import: None,
            module: OnceCell::from(module.cloned()),
            own_kernel: OnceCell::from(kernel),
            entry: Some(entry),
            at: current::call(),
        }
    }

    /// The host called.
    ///
    /// # Panics
    ///
    /// On a thread of no host that no module called.
    #[inline]
    pub fn kernel(&self) -> &Kernel {
        self.try_kernel().expect("a thread of no host: use Kernel::scope")
    }

    /// As [`kernel`](Self::kernel), `None` on a thread of no host.
    #[inline]
    pub fn try_kernel(&self) -> Option<&Kernel> {
        match &self.import {
            Some(import) => Some(&import.kernel),
            None => self.own_kernel.get_or_init(|| kernel_of(&self.thread)).as_ref(),
        }
    }

    /// The module that called; `None` if lab code did.
    pub fn module(&self) -> Option<&Module> {
        let called = || self.import.as_ref().and_then(|i| i.module.get()?.upgrade()).map(Module);
        self.module.get_or_init(called).as_ref()
    }

    /// Name of the module that called, empty if lab code did.
    #[inline]
    pub fn module_name(&self) -> &'static str {
        match &self.import {
            Some(import) => import.module_name,
            None => self.module().map_or("", Module::name),
        }
    }

    /// The symbol called (or the entry point a report is about); empty if lab code called.
    pub fn call(&self) -> &str {
        match (&self.import, self.entry) {
            (_, Some(entry)) => entry,
            (Some(import), None) => &import.name,
            (None, None) => "",
        }
    }

    /// The calling thread.
    #[inline]
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// The context it runs in.
    pub fn ctx(&self) -> Ctx {
        self.thread.ctx()
    }

    /// The processor interrupt level: the context's, or a higher one set by a spin mutex.
    pub fn pil(&self) -> u8 {
        self.thread.0.pil()
    }

    /// Return address of the call in the module; 0 if lab code called.
    pub fn caller_pc(&self) -> usize {
        self.at.pc()
    }

    /// Module frames, innermost first.
    pub fn backtrace(&self) -> Vec<Frame> {
        backtrace::of_thread(&self.thread.0, self.at)
    }

    /// Return addresses of the innermost module frames, for ledgers that are printed only when something is wrong.
    pub fn pcs(&self) -> Vec<usize> {
        backtrace::pcs(&self.thread.0, self.at, 8)
    }

    /// The first of those, 0 beyond the outermost: for what is kept by the thousand.
    pub fn innermost_pcs<const N: usize>(&self) -> [usize; N] {
        backtrace::innermost(&self.thread.0, self.at)
    }

    /// This call may sleep: rules 1 and 2 (fatal), 3 (noted).
    pub fn may_block(&self) {
        self.may_block_with(0);
    }

    /// As [`may_block`](Self::may_block) for a call that releases the lock at `released` while it sleeps.
    pub fn may_block_with(&self, released: usize) {
        if !self.checks() {
            return;
        }
        let bit = self.thread.0.context_bit();
        if !Contexts::UK.allows_bit(bit) {
            let rule = if self.spin_held() { Rule::BlockWithSpinMutex } else { Rule::SleepInInterrupt };
            self.violate(rule, format!("may sleep, in {} context at PIL {}", self.ctx(), self.pil()));
        }
        if let Some(lock) = self.first_driver_lock(released) {
            self.note_with(Rule::BlockWithMutex, || format!("may sleep while holding {lock}"));
        }
    }

    /// This call is an upcall or a barrier: no driver mutex may be held (rule 4).
    pub fn no_locks(&self) {
        if let Some(lock) = self.checks().then(|| self.first_driver_lock(0)).flatten() {
            self.violate(Rule::UpcallWithMutex, format!("called while holding {lock}"));
        }
    }

    /// The outermost driver mutex or rwlock the thread holds, in words.
    fn first_driver_lock(&self, except: usize) -> Option<String> {
        let held = self.thread.0.local().held.iter().find(|h| h.is_driver() && h.addr != except)?.clone();
        Some(backtrace::lock_words(&held, self.try_kernel()))
    }

    fn spin_held(&self) -> bool {
        self.thread.0.local().held.iter().any(|h| h.is_spin())
    }

    /// Does the machine enforce the rules?
    #[inline]
    pub fn checks(&self) -> bool {
        self.thread.machine().config().checks
    }

    /// Breaks `rule` unless `ok`, or unless the case is suppressed; then returns. Must not be called with a HostMutex held.
    pub fn check(&self, ok: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !ok && self.checks() {
            self.violate(rule, what());
        }
    }

    /// Breaks `rule`: the machine halts and this thread never returns, unless the case is suppressed or the rule is only a
    /// tolerated one. Must not be called with a HostMutex held.
    pub fn violate(&self, rule: Rule, detail: impl Into<String>) {
        if rule.severity() == Severity::Tolerated {
            return self.note(rule, detail);
        }
        let detail = detail.into();
        if self.suppressed(rule, || self.backtrace(), || detail.clone()) {
            return;
        }
        let violation = Violation {
            rule,
            host: self.host_name(),
            module: self.module_name().to_owned(),
            call: self.call().to_owned(),
            thread: self.thread.name().to_owned(),
            ctx: self.ctx(),
            detail,
            backtrace: self.backtrace(),
        };
        self.halt(Halt::Violation(Box::new(violation)))
    }

    /// Is this a known violation? Then it is noted. `frames` are those of the module that is at fault.
    pub(crate) fn suppressed(
        &self,
        rule: Rule,
        frames: impl FnOnce() -> Vec<Frame>,
        detail: impl FnOnce() -> String,
    ) -> bool {
        let machine = self.thread.machine();
        let host = self.try_kernel().map_or("", Kernel::name);
        let entry = machine.config().suppress.find(host, self.module_name(), rule, self.call(), frames);
        if entry.is_some() {
            machine.0.notes.add_with(rule, self.module_name(), self.call(), detail, entry);
        }
        entry.is_some()
    }

    /// Is leaving this behind a known violation? Then it is noted, and struck out of the ledger.
    pub(crate) fn forgiven(&self, left: &Resource) -> bool {
        let known = self.suppressed(left.rule, || left.backtrace.clone(), || left.to_string());
        if known {
            self.kernel().resources().remove(left.kind, left.key);
        }
        known
    }

    /// Notes a tolerated case (severity T); see [`sim::Machine::notes`].
    pub fn note(&self, rule: Rule, detail: impl Into<String>) {
        self.note_with(rule, || detail.into());
    }

    /// As [`note`](Self::note); the detail is asked for once per rule, module and call.
    pub fn note_with(&self, rule: Rule, detail: impl FnOnce() -> String) {
        self.thread.machine().0.notes.add_with(rule, self.module_name(), self.call(), detail, None);
    }

    /// The kernel panics with this message: the machine halts and this thread never returns.
    pub fn panic(&self, message: impl Into<String>) -> ! {
        self.halt(Halt::Panic(Box::new(KernelPanic {
            message: message.into(),
            host: self.host_name(),
            module: self.module_name().to_owned(),
            thread: self.thread.name().to_owned(),
            backtrace: self.backtrace(),
        })))
    }

    /// Shall this call fail? Decided by the machine's [`crate::Faults`] and the seed; never in a machine without checks.
    pub fn fault(&self, what: FaultKind) -> bool {
        if !self.checks() {
            return false;
        }
        let host = self.try_kernel().map_or("", Kernel::name);
        let fails = self.thread.machine().0.injector.lock().fails(what, host, self.module_name());
        if fails {
            self.thread.0.local().injected = Some(self.call().to_owned());
        }
        fails
    }

    /// This call waits for kernel memory (`KM_SLEEP`): it is held as long as there is none for its module. **May block.**
    pub fn wait_for_memory(&self) {
        self.may_block();
        if !self.checks() {
            return;
        }
        let host = self.try_kernel().map_or("", Kernel::name);
        let is_short = || self.thread.machine().0.injector.lock().is_short(host, self.module_name());
        let mut pause = SHORTEST_WAIT;
        while is_short() {
            sim::thread::sleep(pause);
            pause = Nanos((pause.0 * 2).min(LONGEST_WAIT.0));
        }
    }

    fn host_name(&self) -> String {
        self.try_kernel().map_or_else(String::new, |k| k.name().to_owned())
    }

    fn halt(&self, halt: Halt) -> ! {
        self.thread.machine().0.halt(halt);
        self.thread.0.end_here()
    }
}

/// A counted reference to the import a call came through.
pub(crate) fn import_of(import: *const ()) -> Arc<Import> {
    let import: *const Import = import.cast();
    // SAFETY: imports are `Arc`s that their module holds, and the machine keeps its modules until every thread has ended.
    unsafe { Arc::increment_strong_count(import) };
    // SAFETY: as above, and the count was raised for this one.
    unsafe { Arc::from_raw(import) }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cx({} called {} on {:?})", self.module_name(), self.call(), self.thread)
    }
}
