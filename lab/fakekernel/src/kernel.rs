//! One host.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use crate::context::Ctx;
use crate::entry::{EntryKind, ModuleFn};
use crate::export::Export;
use crate::machine::Machine;
use crate::module::{LoadError, Module};
use crate::resources::Resources;
use crate::thread::Thread;

/// One host: what its modules see as the kernel. Cheap clone.
#[derive(Clone, Debug)]
pub struct Kernel {}

impl Kernel {
    /// Host name.
    pub fn name(&self) -> &str {
        unimplemented!()
    }

    /// The machine it is part of.
    pub fn machine(&self) -> &Machine {
        unimplemented!()
    }

    /// Adds a kernel module the lab provides. `path` is how modules name it in their dependencies, e.g. "misc/mac". "unix" and
    /// "genunix" are there from the start and are extended when provided again.
    pub fn provide(&self, module: &'static str, path: &'static str, exports: Vec<Export>) {
        let _ = (module, path, exports);
        unimplemented!()
    }

    /// Where to find an object that another one depends on ("mac/mac_ib") and the lab does not provide.
    pub fn add_object(&self, dependency: &str, path: &Path) {
        let _ = (dependency, path);
        unimplemented!()
    }

    /// Loads an object: dependencies, symbols, relocation, `_info`. `class` is "mac", "drv", "misc" ... User context of a machine thread.
    /// Loading a name that is loaded gives the loaded one.
    pub fn load(&self, path: &Path, name: &str, class: &str) -> Result<Module, LoadError> {
        let _ = (path, name, class);
        unimplemented!()
    }

    /// The loaded module of that name.
    pub fn module(&self, name: &str) -> Option<Module> {
        let _ = name;
        unimplemented!()
    }

    /// The module whose window holds `addr`.
    pub fn module_at(&self, addr: usize) -> Option<Module> {
        let _ = addr;
        unimplemented!()
    }

    /// Address of a data symbol of a provided module in this host, e.g. `hz`.
    pub fn data(&self, name: &str) -> Option<*mut u8> {
        let _ = name;
        unimplemented!()
    }

    /// Gives a driver name a major number (as an entry of name_to_major does); the same one when asked again.
    pub fn add_major(&self, driver: &str) -> u32 {
        let _ = driver;
        unimplemented!()
    }

    /// The major number of a driver name.
    pub fn major(&self, driver: &str) -> Option<u32> {
        let _ = driver;
        unimplemented!()
    }

    /// What modules of this host have taken and not given back.
    pub fn resources(&self) -> &Resources {
        unimplemented!()
    }

    /// Per-host state of a lab crate, created on first use.
    pub fn state<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        let _ = init;
        unimplemented!()
    }

    /// A thread of this host.
    pub fn spawn(&self, name: &str, ctx: Ctx, f: impl FnOnce() + Send + 'static) -> Thread {
        let _ = (name, ctx, f);
        unimplemented!()
    }

    /// Runs `f` soon on one of the host's interrupt threads, in `ctx`, on processor `cpu`. Any context; does not wait.
    pub fn interrupt(&self, name: &'static str, ctx: Ctx, cpu: u32, f: impl FnOnce() + Send + 'static) {
        let _ = (name, ctx, cpu, f);
        unimplemented!()
    }

    /// Runs `f` with this host as the calling thread's host: for threads that serve several, like the first one.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _ = &f;
        unimplemented!()
    }

    /// Calls a function pointer that a module gave: finds the module by the address and calls [`Module::enter`]. An address in a
    /// window that is no longer loaded breaks rule 35; one outside all windows is lab code and is called as it is.
    ///
    /// # Safety
    ///
    /// As for [`Module::enter`].
    pub unsafe fn enter<F: ModuleFn>(&self, f: F, args: F::Args, kind: EntryKind) -> F::Ret {
        let _ = (f, args, kind);
        unimplemented!()
    }

    /// A live lock, condition variable, timeout ... in `[start, start + len)`: what rule 9 asks before memory is released.
    pub fn live_object_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        let _ = (start, len);
        unimplemented!()
    }
}

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
