//! A loaded kernel module.

use std::ffi::c_void;
use std::path::PathBuf;

use crate::entry::{EntryKind, ModuleFn};
use crate::errno::Errno;
use crate::halt::Frame;
use crate::kernel::Kernel;

/// A loaded kernel module of one host; cheap clone.
#[derive(Clone, Debug)]
pub struct Module {}

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
    /// The loader refuses it; one line per complaint.
    #[error("{}\nWARNING: mod_load: cannot load module '{module}'", complaints.join("\n"))]
    Refused {
        /// Module name.
        module: String,
        /// What is wrong, one line each.
        complaints: Vec<String>,
    },
}

impl Module {
    /// Module name.
    pub fn name(&self) -> &str {
        unimplemented!()
    }

    /// "mac", "drv", "misc" ...
    pub fn class(&self) -> &str {
        unimplemented!()
    }

    /// The host it is loaded in.
    pub fn kernel(&self) -> &Kernel {
        unimplemented!()
    }

    /// Installs its dependencies, then calls `_init`. A failure unloads it again, without `_fini`.
    pub fn install(&self) -> Result<(), Errno> {
        unimplemented!()
    }

    /// An unload attempt: EBUSY with dependents; detaches all instances; `_fini`; then the text is gone.
    pub fn unload(&self) -> Result<(), Errno> {
        unimplemented!()
    }

    /// Has `_init` returned 0 (and `_fini` not)?
    pub fn is_installed(&self) -> bool {
        unimplemented!()
    }

    /// The `struct dev_ops *` that `mod_install` published; `None` for a misc module or before that.
    pub fn dev_ops(&self) -> Option<*mut c_void> {
        unimplemented!()
    }

    /// The value of a symbol the module defines.
    pub fn symbol(&self, name: &str) -> Option<usize> {
        let _ = name;
        unimplemented!()
    }

    /// Module, function and offset of an address in the module's text.
    pub fn frame(&self, pc: usize) -> Frame {
        let _ = pc;
        unimplemented!()
    }

    /// Is `addr` in its text or data?
    pub fn contains(&self, addr: usize) -> bool {
        let _ = addr;
        unimplemented!()
    }

    /// How often it called an import.
    pub fn calls_of(&self, import: &str) -> u64 {
        let _ = import;
        unimplemented!()
    }

    /// Calls a function of the module and checks locks, PIL, control words and stack across the call (rules 35 to 39).
    ///
    /// # Safety
    ///
    /// `f` is a function of the module with this prototype, and the arguments are what it may be given.
    pub unsafe fn enter<F: ModuleFn>(&self, f: F, args: F::Args, kind: EntryKind) -> F::Ret {
        let _ = (f, args, kind);
        unimplemented!()
    }
}
