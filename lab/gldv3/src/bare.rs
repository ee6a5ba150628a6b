//! A driver in another's place: `mac` calls a function of some other module where it would call `mc_tx` of the link's driver.

use std::ffi::{c_int, c_void};
use std::path::Path;

use fakekernel::{EntryKind, Errno, Kernel, LoadError, Module};
use illumos_sys_hdrs::mblk_t;

type Start = unsafe extern "C" fn(u64, c_int, c_int) -> c_int;
pub(crate) type Tx = unsafe extern "C" fn(*mut c_void, *mut mblk_t) -> *mut mblk_t;

/// A loaded module that has `bare_start` and `bare_tx`. It stays until the machine is over.
#[derive(Clone, Debug)]
pub struct BareDriver {
    pub(crate) module: Module,
    pub(crate) tx: Tx,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// It is no module for this kernel.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// `_init` failed.
    #[error("_init: {0}")]
    Init(Errno),
    /// A function is missing.
    #[error("the module has no {0}")]
    Missing(&'static str),
    /// What `bare_start` answered.
    #[error("bare_start answers {0}")]
    Start(i32),
}

impl BareDriver {
    /// Loads the object, and has it send from a port of an adapter to the machine with LID `dlid`. On a thread of the machine.
    ///
    /// # Errors
    ///
    /// See [`BareError`].
    pub fn load(kernel: &Kernel, object: &Path, hca: u64, port: u8, dlid: u16) -> Result<Self, BareError> {
        let module = kernel.load(object, "bare", "misc")?;
        module.install().map_err(BareError::Init)?;
        let (start, tx) = (function(&module, "bare_start")?, function(&module, "bare_tx")?);
        // SAFETY: the module's function of that name has this prototype.
        let start = unsafe { std::mem::transmute::<*const (), Start>(start) };
        // SAFETY: as above.
        let tx = unsafe { std::mem::transmute::<*const (), Tx>(tx) };
        let args = (hca, c_int::from(port), c_int::from(dlid));
        // SAFETY: it takes integers.
        let status = unsafe { module.enter(start, args, EntryKind::callback("bare_start")) };
        if status == 0 { Ok(Self { module, tx }) } else { Err(BareError::Start(status)) }
    }
}

fn function(module: &Module, name: &'static str) -> Result<*const (), BareError> {
    module.symbol(name).map(std::ptr::with_exposed_provenance).ok_or(BareError::Missing(name))
}
