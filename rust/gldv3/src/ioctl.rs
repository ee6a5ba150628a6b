//! Ioctls on `/dev/dld` that a driver answers (`dld_ioc_register`).
//!
//! The framework calls a function per command and gives it no context, so the driver's state is reached through one
//! static per module: there can be one [`IoctlRegistration`] at a time.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::user::{Cred, Plain, UserMemory};
use kernel::{Errno, KArc, KVec};

/// One command of a driver with state `S`.
pub trait Ioctl<S>: 'static {
    /// The command, module id included (`0x61710001`).
    const COMMAND: u32;
    /// Whether the record is copied in before and out after the call; out also after an error.
    const COPY: Copy;
    /// Whether the caller needs the privilege to configure data links.
    const PRIVILEGED: bool;
    /// The record as the caller has it.
    type Record: Plain;

    /// Answers. `record` is zero if it is not copied in; `user` is the caller's own memory of it, for a command that
    /// copies by itself. **May block.**
    fn call(state: &S, record: &mut Self::Record, user: UserMemory<'_>, cred: Cred<'_>) -> Result<(), Errno>;
}

/// Which way a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Copy {
    None,
    In,
    Out,
    InOut,
}

/// One row of the table.
#[repr(transparent)]
pub struct Entry<S> {
    raw: sys::dld_ioc_info,
    state: core::marker::PhantomData<fn(&S)>,
}

impl<S: Send + Sync + 'static> Entry<S> {
    /// The row of command `I`.
    pub fn of<I: Ioctl<S>>() -> Self {
        let copy = match I::COPY {
            Copy::None => 0,
            Copy::In => sys::DLDCOPYIN,
            Copy::Out => sys::DLDCOPYOUT,
            Copy::InOut => sys::DLDCOPYIN | sys::DLDCOPYOUT,
        };
        let raw = sys::dld_ioc_info {
            di_cmd: I::COMMAND,
            di_flags: copy as sys::uint_t,
            di_argsize: size_of::<I::Record>(),
            di_func: Some(call::<S, I>),
            di_priv_func: if I::PRIVILEGED { Some(sys::secpolicy_dl_config) } else { None },
        };
        Self { raw, state: core::marker::PhantomData }
    }
}

/// The commands of a module, registered.
///
/// Keep it in the module's state, not in an instance. Dropped after `mod_remove`, when no call can be running: the
/// framework holds the driver during one.
pub struct IoctlRegistration<S: Send + Sync + 'static> {
    module_id: u16,
    state: KArc<S>,
    table: KVec<Entry<S>>,
}

// SAFETY: the table is written before it is registered and never after; S may be used from every thread.
unsafe impl<S: Send + Sync> Send for IoctlRegistration<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for IoctlRegistration<S> {}

/// The state of the one registration, or null.
static STATE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

impl<S: Send + Sync + 'static> IoctlRegistration<S> {
    /// Registers the commands of `module_id` (`IBPART_IOC`). `ENOENT` if the framework does not know that id, `EBUSY`
    /// if this module has a registration already.
    pub fn register(module_id: u16, state: KArc<S>, table: KVec<Entry<S>>) -> Result<Self, Errno> {
        let count = sys::uint_t::try_from(table.len()).map_err(|_| Errno::EINVAL)?;
        let cookie = KArc::as_ptr(&state).as_ptr().cast();
        if STATE.compare_exchange(ptr::null_mut(), cookie, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Err(Errno::EBUSY);
        }
        let rows: *const sys::dld_ioc_info = table.as_ptr().cast();
        // SAFETY: the framework keeps the pointer and only reads; the table stays until it is unregistered.
        let result = unsafe { sys::dld_ioc_register(module_id, rows.cast_mut(), count) };
        if let Err(error) = Errno::check(result) {
            STATE.store(ptr::null_mut(), Ordering::Relaxed);
            return Err(error);
        }
        Ok(Self { module_id, state, table })
    }

    /// What the commands work on.
    pub fn state(&self) -> &KArc<S> {
        &self.state
    }

    /// How many commands there are.
    pub fn commands(&self) -> usize {
        self.table.len()
    }
}

impl<S: Send + Sync + 'static> Drop for IoctlRegistration<S> {
    fn drop(&mut self) {
        // SAFETY: registered by `register`.
        unsafe { sys::dld_ioc_unregister(self.module_id) };
        STATE.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// # Safety
///
/// Called by dld for a row made by [`Entry::of`]: `record` points at `di_argsize` bytes (8-aligned kernel memory),
/// `user` and `mode` are the caller's, `cred` is held.
unsafe extern "C" fn call<S: Send + Sync + 'static, I: Ioctl<S>>(
    record: *mut c_void,
    user: isize,
    mode: c_int,
    cred: *mut sys::cred_t,
    _value: *mut c_int,
) -> c_int {
    let state: *const S = STATE.load(Ordering::Acquire).cast();
    // SAFETY: rows of type S are registered together with a state of type S, one at a time, and the registration
    // cannot be dropped while dld holds the driver for this call.
    let Some(state) = (unsafe { state.as_ref() }) else { return Errno::ENODEV.get() };
    // SAFETY: by this function's contract.
    let Some(record) = (unsafe { record.cast::<I::Record>().as_mut() }) else { return Errno::EINVAL.get() };
    // SAFETY: used during this call.
    let user = unsafe { UserMemory::new(user as u64, mode) };
    // SAFETY: used during this call.
    let Some(cred) = (unsafe { Cred::from_raw(cred) }) else { return Errno::EPERM.get() };
    Errno::raw(I::call(state, record, user, cred))
}
