//! A loaded kernel module.

mod code;
mod coverage;
mod elf;
mod life;
mod link;
mod names;
mod objects;
mod probe;
mod rebind;
mod symbols;
mod window;

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sim::race::{self, Key};
use sim::{Frame, HostMutex, Rule};

use crate::loader::cx::Cx;
use crate::loader::debugger::{self, Told};
use crate::loader::entry::{self, EntryKind, ModuleFn};
use crate::loader::gate::Import;
use crate::loader::kernel::Kernel;

pub use code::Function;
pub(crate) use link::Dependency;
pub(crate) use names::interned;
pub use objects::preload;
pub use rebind::Rebound;
pub(crate) use window::{Access, Window, in_window_range};

/// A loaded kernel module of one host; cheap clone.
#[derive(Clone)]
pub struct Module(pub(crate) Arc<ModuleInner>);

pub(crate) struct ModuleInner {
    kernel: Kernel,
    name: &'static str,
    class: String,
    text: Window,
    data: Window,
    imports: Vec<Arc<Import>>,
    symbols: symbols::Symbols,
    depends_on: Vec<Module>,
    /// Threads inside the module's functions.
    pub inside: AtomicU32,
    /// Those of them that nobody waits for: interrupts, and threads that [`EntryKind::fleeting`] is about.
    pub fleeting: AtomicU32,
    /// Held while a debugger is to know of it.
    told: HostMutex<Option<Told>>,
    pub state: HostMutex<State>,
}

impl ModuleInner {
    /// Where its text begins, if this is in it.
    pub(crate) fn text_start(&self, addr: usize) -> Option<usize> {
        self.text.contains(addr).then(|| self.text.start())
    }
}

/// Where a module is in its life.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The `struct modlinkage *` that `_info` reported.
    pub linkage: Option<usize>,
    /// `mod_install` has succeeded (and `mod_remove` not).
    pub linked: bool,
    /// `_init` has returned 0.
    pub installed: bool,
    pub unloaded: bool,
    /// The `struct dev_ops *` in use.
    pub dev_ops: Option<usize>,
    /// Loaded modules that depend on this one.
    pub dependents: u32,
}

/// Why an object cannot be loaded, in the words of the kernel's loader where it has any.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The loader refuses it (rule 40); one line per complaint.
    #[error("{}\nWARNING: mod_load: cannot load module '{module}'", complaints.join("\n"))]
    Refused {
        /// Module name.
        module: String,
        /// What is wrong, one line each.
        complaints: Vec<String>,
    },
}

impl Module {
    /// Loads an object; `Kernel::load` has made sure that it is not loaded.
    pub(crate) fn load(kernel: &Kernel, path: &Path, name: &str, class: &str) -> Result<Self, LoadError> {
        let object =
            objects::read(name, path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
        let refused = |complaints| LoadError::Refused { module: name.to_owned(), complaints };
        let file = object.file.as_ref().map_err(|complaints| refused(complaints.clone()))?;
        let (dependencies, missing) = kernel.dependencies(&file.depends_on)?;
        let ordinal = kernel.next_ordinal();
        let linked = link::link(kernel, name, ordinal, file, &dependencies).map_err(|mut complaints| {
            complaints.extend(missing);
            refused(complaints)
        })?;
        let depends_on: Vec<Self> = dependencies
            .into_iter()
            .filter_map(|d| if let Dependency::Loaded(module) = d { Some(module) } else { None })
            .collect();
        for dependency in &depends_on {
            dependency.0.state.lock().dependents += 1;
        }
        let module = Self(Arc::new(ModuleInner {
            kernel: kernel.clone(),
            name: interned(name),
            class: class.to_owned(),
            text: linked.text,
            data: linked.data,
            imports: linked.imports,
            symbols: linked.symbols,
            depends_on,
            inside: AtomicU32::new(0),
            fleeting: AtomicU32::new(0),
            told: HostMutex::new(debugger::tell(kernel.name(), &object.bytes, &linked.addresses)),
            state: HostMutex::new(State::default()),
        }));
        for import in &module.0.imports {
            let _ = import.module.set(Arc::downgrade(&module.0));
        }
        if module.0.imports.iter().any(|import| tells_of_accesses(&import.name)) {
            kernel.machine().watch_for_races();
        }
        Ok(module)
    }

    /// Module name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// "mac", "drv", "misc" ...
    pub fn class(&self) -> &str {
        &self.0.class
    }

    /// The host it is loaded in.
    pub fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    /// Has `_init` returned 0 (and `_fini` not)?
    pub fn is_installed(&self) -> bool {
        self.0.state.lock().installed
    }

    /// Is its text gone?
    pub fn is_unloaded(&self) -> bool {
        self.0.state.lock().unloaded
    }

    /// The `struct dev_ops *` that `mod_install` published; `None` for a misc module or before that.
    pub fn dev_ops(&self) -> Option<*mut c_void> {
        self.0.state.lock().dev_ops.map(std::ptr::with_exposed_provenance_mut)
    }

    /// The value of a symbol the module defines, local ones included.
    pub fn symbol(&self, name: &str) -> Option<usize> {
        self.0.symbols.get(name).map(|s| s.addr)
    }

    /// A symbol that dependents may use: not a local one. With whether it is a function.
    pub(crate) fn exported(&self, name: &str) -> Option<(usize, bool)> {
        self.0.symbols.get(name).filter(|s| !s.local).map(|s| (s.addr, s.function))
    }

    /// Module, function and offset of an address in the module's text.
    pub fn frame(&self, pc: usize) -> Frame {
        let (symbol, offset) = match self.0.symbols.function_at(pc) {
            Some((name, offset)) => (name.to_owned(), offset),
            None => (String::new(), pc.wrapping_sub(self.0.text.start())),
        };
        Frame { module: self.0.name.to_owned(), symbol, offset: offset as u64 }
    }

    /// Unmaps it, at the end of its machine.
    pub(crate) fn release(&self) {
        drop(self.0.told.lock().take());
        self.0.text.release();
        self.0.data.release();
    }

    /// Is `addr` in its text or data?
    pub fn contains(&self, addr: usize) -> bool {
        self.0.text.contains(addr) || self.0.data.contains(addr)
    }

    /// Is `addr` in its text (or one of its import stubs)?
    pub fn is_text(&self, addr: usize) -> bool {
        self.0.text.contains(addr)
    }

    /// How often it called an import.
    pub fn calls_of(&self, import: &str) -> u64 {
        let found = self.0.imports.iter().find(|i| i.name == import);
        found.map_or(0, |i| i.calls.load(Ordering::Relaxed))
    }

    /// How often it called each function it imports, in the order of its symbol table.
    pub fn calls(&self) -> Vec<(String, u64)> {
        self.0.imports.iter().map(|i| (i.name.clone(), i.calls.load(Ordering::Relaxed))).collect()
    }

    /// Names of all functions it imports, in the order of its symbol table.
    pub fn imports(&self) -> Vec<String> {
        self.0.imports.iter().map(|i| i.name.clone()).collect()
    }

    /// Calls a function of the module and checks locks, PIL, control words and stack across the call (rules 35 to 39).
    ///
    /// # Safety
    ///
    /// `f` is a function of the module with this prototype, and the arguments are what it may be given.
    pub unsafe fn enter<F: ModuleFn>(&self, f: F, args: F::Args, kind: EntryKind) -> F::Ret {
        if self.is_unloaded() {
            if let Some(own) = self.0.imports.iter().find(|import| import.stub == f.addr()) {
                // A pointer to a function of the kernel's is good for ever, and the stub is the lab's.
                // SAFETY: the stub jumps there with the arguments as they are: the prototype is the same.
                let function = unsafe { F::at(own.addr) };
                // SAFETY: by this function's contract, which holds for what the stub jumps to.
                return unsafe { entry::enter(None, &self.0.kernel, function, args, kind) };
            }
            let detail = format!("{} called after the unload of {}", kind.name, self.name());
            Cx::of_entry(Some(self), kind.name).violate(Rule::CallAfterUnload, detail);
        }
        race::acquire(self.installation());
        // SAFETY: by this function's contract.
        unsafe { entry::enter(Some(self), &self.0.kernel, f, args, kind) }
    }
}

/// Is this a function that a module calls before a plain load or store, because it was built so?
fn tells_of_accesses(import: &str) -> bool {
    ["__tsan_read", "__tsan_write", "__tsan_unaligned_"].iter().any(|prefix| import.starts_with(prefix))
}

impl Module {
    /// What calls that nobody waited for leave, once they are over, for its `_fini`.
    pub(crate) fn fleeting(&self) -> Key {
        Key("calls into a module that nobody waits for", Arc::as_ptr(&self.0).addr() as u64)
    }

    /// What everything in the module comes after: its `_init`.
    fn installation(&self) -> Key {
        Key("installation", Arc::as_ptr(&self.0).addr() as u64)
    }
}

/// Would the loader take this file, as far as the file alone decides? Symbols and dependencies are not looked at.
pub fn object_is_acceptable(name: &str, data: &[u8]) -> Result<(), LoadError> {
    let refused = |complaints| LoadError::Refused { module: name.to_owned(), complaints };
    elf::read(name, data).map(drop).map_err(refused)
}

/// The same copy in memory.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({} of {})", self.0.name, self.0.kernel.name())
    }
}
