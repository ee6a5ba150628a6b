//! Functions of a module that only a test calls.

use std::ffi::c_long;

use sim::Ctx;

use crate::loader::entry::EntryKind;
use crate::loader::module::Module;

/// What every function that is called this way looks like.
type Probe = unsafe extern "C" fn(c_long) -> c_long;

impl Module {
    /// Calls `long NAME(long)`, a function the module has for its tests, with the checks of every other call into a module;
    /// reports name it as the entry point. Its context is `ctx`, or the caller's.
    ///
    /// What is called must have that prototype. As with `_init`, only the name says so: a name that begins with `probe_`.
    ///
    /// # Panics
    ///
    /// The module has no such function, or it is called something else.
    pub fn call_probe(&self, name: &'static str, ctx: Option<Ctx>, arg: i64) -> i64 {
        assert!(name.starts_with("probe_"), "{name} is no probe's name");
        let addr = self.symbol(name).filter(|addr| self.is_text(*addr));
        let addr = addr.unwrap_or_else(|| panic!("module {} has no function {name}", self.name()));
        let pointer = std::ptr::with_exposed_provenance::<()>(addr);
        // SAFETY: a function in the module's text; functions of that name have this prototype by convention.
        let probe: Probe = unsafe { std::mem::transmute(pointer) };
        let kind = EntryKind { ctx, ..EntryKind::callback(name) };
        // SAFETY: as above, and it takes any number.
        unsafe { self.enter(probe, (arg,), kind) }
    }
}
