//! The block counters of an object that was built with them (`kmod build --coverage`).
//!
//! They are bytes of the module's own data, so they are looked at when those go: before an unload and at the end of the
//! machine. A byte that has come round to zero again is missed; the next copy of the module makes up for it.

use crate::loader::module::Module;

/// Marks around the counters.
const MARKS: (&str, &str) = ("__start___sancov_cntrs", "__stop___sancov_cntrs");

impl Module {
    /// Adds what this copy has counted to the machine's account. For a module that is loaded and runs no more.
    pub(crate) fn harvest(&self) {
        let (Some(start), Some(stop)) = (self.symbol(MARKS.0), self.symbol(MARKS.1)) else { return };
        if self.is_unloaded() {
            return;
        }
        let counted = self.0.data.read(start, stop.saturating_sub(start));
        let mut account = self.kernel().machine().kernels().coverage.lock();
        let all = account.entry(self.name().to_owned()).or_default();
        all.resize(all.len().max(counted.len()), 0);
        for (sum, new) in all.iter_mut().zip(counted) {
            *sum = sum.saturating_add(new);
        }
    }
}
