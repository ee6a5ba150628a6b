//! Plans for the fault points of one host.

use sim::{FaultKind, FaultPlan, Shortage, Watch};

use crate::loader::kernel::Kernel;

impl Kernel {
    /// Plans failures for this host's calls alone, those of `module` or of every module, and counts them from now on.
    pub fn set_fault(&self, kind: FaultKind, module: Option<&str>, plan: FaultPlan) {
        self.machine().0.injector.lock().watch(self.watch(kind, module), plan);
    }

    /// Ends such a plan; how often its calls were reached, `None` if there was none.
    pub fn clear_fault(&self, kind: FaultKind, module: Option<&str>) -> Option<u64> {
        self.machine().0.injector.lock().unwatch(&self.watch(kind, module))
    }

    /// There is no kernel memory for this host's calls from now on, those of `module` or of every module. Ends as often as it was begun.
    pub fn begin_memory_shortage(&self, module: Option<&str>) {
        self.machine().0.injector.lock().run_short(self.shortage(module));
    }

    /// There is memory again; whether there was such a shortage.
    pub fn end_memory_shortage(&self, module: Option<&str>) -> bool {
        self.machine().0.injector.lock().end_shortage(&self.shortage(module))
    }

    fn shortage(&self, module: Option<&str>) -> Shortage {
        Shortage { host: self.name().to_owned(), module: module.map(str::to_owned) }
    }

    fn watch(&self, kind: FaultKind, module: Option<&str>) -> Watch {
        Watch { host: self.name().to_owned(), module: module.map(str::to_owned), kind }
    }
}
