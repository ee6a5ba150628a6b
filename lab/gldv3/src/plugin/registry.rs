//! `mactype_register` and its kin (`M/mac.c`).
//!
//! One lock serialises lookups and unregistering; it is held while a plugin is loaded, so the plugin's `_init` runs with it held
//! by the same thread. `mactype_register` therefore takes no lock, and a `mactype_unregister` inside that `_init` panics: the C
//! framework has this trap, so the lab has it too.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fakekernel::mem::{Mem, c_string};
use fakekernel::{Errno, Export, HostMutex, Kernel, SleepMutex, cx, export};
use illumos_sys_hdrs::{mactype_ops_t, mactype_register_t, uint_t};

pub(crate) fn exports() -> Vec<Export> {
    export! { UK: mactype_alloc, mactype_free, mactype_register, mactype_unregister; }
}

const VERSION: uint_t = 1;
const RECORD: &str = "mactype_register_t";

/// A registered plugin.
pub(crate) struct MacType {
    pub(crate) ident: String,
    pub(super) ops: mactype_ops_t,
    pub(crate) addrlen: usize,
    pub(crate) broadcast: Vec<u8>,
    /// DLPI type of the medium.
    pub(crate) mactype: u32,
    /// DLPI type native to the medium.
    pub(super) nativetype: u32,
    /// Entries of its statistics table.
    pub(crate) statistics: usize,
    /// Entries of its ndd table.
    pub(super) mappings: usize,
    /// Macs registered with it.
    users: AtomicU32,
}

/// The plugins of a host.
pub(crate) struct Registry {
    lock: SleepMutex<()>,
    types: HostMutex<Vec<Arc<MacType>>>,
}

impl Registry {
    fn new() -> Self {
        Self { lock: SleepMutex::new("mac type registry", ()), types: HostMutex::new(Vec::new()) }
    }

    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(Self::new)
    }

    fn find(&self, ident: &str) -> Option<Arc<MacType>> {
        self.types.lock().iter().find(|t| t.ident == ident).cloned()
    }

    /// Is there a plugin of that name?
    pub(super) fn is_known(&self, ident: &str) -> bool {
        self.find(ident).is_some()
    }

    /// One user more of a plugin that is registered.
    pub(super) fn get_known(&self, ident: &str) -> Option<Arc<MacType>> {
        let types = self.types.lock();
        let found = types.iter().find(|t| t.ident == ident)?;
        found.users.fetch_add(1, Ordering::AcqRel);
        Some(found.clone())
    }

    /// `mactype_getplugin`: looks a plugin up, loads the module `mac/<ident>` once if need be, and counts one more user.
    pub(crate) fn get(&self, kernel: &Kernel, ident: &str) -> Option<Arc<MacType>> {
        let _held = self.lock.lock();
        let plugin = self.find(ident).or_else(|| {
            kernel.modload(&format!("mac/{ident}")).ok()?;
            self.find(ident)
        })?;
        plugin.users.fetch_add(1, Ordering::AcqRel);
        Some(plugin)
    }
}

impl MacType {
    /// One user less.
    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "C" fn mactype_alloc(version: uint_t) -> *mut mactype_register_t {
    let cx = cx();
    cx.may_block();
    if version != VERSION {
        return std::ptr::null_mut();
    }
    let record = cx.kernel().genunix().lend_structure(&cx, size_of::<mactype_register_t>(), RECORD);
    let record: *mut mactype_register_t = record.cast();
    let filled = mactype_register_t { mtr_version: version, ..mactype_register_t::default() };
    // SAFETY: fresh memory of that size, 8-aligned.
    unsafe { record.write(filled) };
    record
}

unsafe extern "C" fn mactype_free(record: *mut mactype_register_t) {
    let cx = cx();
    cx.kernel().genunix().return_structure(&cx, record.cast(), RECORD);
}

unsafe extern "C" fn mactype_register(record: *mut mactype_register_t) -> c_int {
    let cx = cx();
    // SAFETY: mactype_register: a record of mactype_alloc.
    let record = unsafe { record.read() };
    if record.mtr_ident.is_null() || record.mtr_ops.is_null() {
        return Errno::EINVAL.0;
    }
    // SAFETY: the record's operations, not null.
    let ops = unsafe { record.mtr_ops.read() };
    let complete = ops.mtops_unicst_verify.is_some()
        && ops.mtops_multicst_verify.is_some()
        && ops.mtops_sap_verify.is_some()
        && ops.mtops_header.is_some()
        && ops.mtops_header_info.is_some();
    if !complete {
        return Errno::EINVAL.0;
    }
    // SAFETY: the ident is a string.
    let ident = String::from_utf8_lossy(&unsafe { c_string(record.mtr_ident, None) }).into_owned();
    let addrlen = record.mtr_addrlen as usize;
    let broadcast = if record.mtr_brdcst_addr.is_null() {
        Vec::new()
    } else {
        // SAFETY: an address of that length.
        unsafe { Mem::of(record.mtr_brdcst_addr, addrlen) }.get()
    };
    let plugin = MacType {
        ident: ident.clone(),
        ops,
        addrlen,
        broadcast,
        mactype: record.mtr_mactype,
        nativetype: record.mtr_nativetype,
        statistics: record.mtr_statcount,
        mappings: record.mtr_mappingcount,
        users: AtomicU32::new(0),
    };
    let registry = Registry::of(cx.kernel());
    {
        let mut types = registry.types.lock();
        if types.iter().any(|t| t.ident == ident) {
            return Errno::EEXIST.0;
        }
        types.push(Arc::new(plugin));
    }
    cx.kernel().resources().add("mac type", hash_of(&ident), ident);
    0
}

unsafe extern "C" fn mactype_unregister(ident: *const c_char) -> c_int {
    let cx = cx();
    cx.may_block();
    // SAFETY: mactype_unregister: a string.
    let ident = String::from_utf8_lossy(&unsafe { c_string(ident, None) }).into_owned();
    let registry = Registry::of(cx.kernel());
    if registry.lock.is_mine() {
        cx.panic("recursive mutex_enter: mactype_unregister while the plugin is being loaded");
    }
    let _held = registry.lock.lock();
    let mut types = registry.types.lock();
    let Some(at) = types.iter().position(|t| t.ident == ident) else { return Errno::ENXIO.0 };
    if types[at].users.load(Ordering::Acquire) > 0 {
        return Errno::EBUSY.0;
    }
    types.remove(at);
    drop(types);
    cx.kernel().resources().remove("mac type", hash_of(&ident));
    0
}

/// A number for the ledger that stands for a name (FNV-1a).
fn hash_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
