//! Plans for the fault points of one host.

use sim::{FaultKind, FaultPlan, Watch};

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

    fn watch(&self, kind: FaultKind, module: Option<&str>) -> Watch {
        Watch { host: self.name().to_owned(), module: module.map(str::to_owned), kind }
    }
}
