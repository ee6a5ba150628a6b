//! Ioctls on `/dev/dld` that a driver answers (`dld_ioc_register`).
//!
//! The framework calls a function per command and gives it no context, so the driver's state is reached through one
//! static per module: there can be one [`IoctlRegistration`] at a time.

use core::any::TypeId;
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::sync::CallbackSlot;
use kernel::user::{Cred, Plain, UserMemory};
use kernel::{Errno, KArc, KBox, KVec, MayBlock};

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
    fn call(
        state: &S,
        record: &mut Self::Record,
        user: UserMemory<'_>,
        cred: Cred<'_>,
        may_block: &MayBlock,
    ) -> Result<(), Errno>;
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

/// To how many bytes kmem_alloc(9F) aligns everything.
const RECORD_ALIGN: usize = 8;

/// One row of the table.
#[repr(transparent)]
pub struct Entry<S> {
    raw: sys::dld_ioc_info,
    state: core::marker::PhantomData<fn(&S)>,
}

impl<S: Send + Sync + 'static> Entry<S> {
    /// The row of command `I`.
    pub fn of<I: Ioctl<S>>() -> Self {
        const { assert!(align_of::<I::Record>() <= RECORD_ALIGN, "dld allocates the record with kmem_alloc(9F)") };
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
/// Keep it in the module's state, not in an instance: the framework loads the driver to call it. Dropping it waits for a
/// call that is running (**may block**).
pub struct IoctlRegistration<S: Send + Sync + 'static> {
    module_id: u16,
    table: KVec<Entry<S>>,
    state: KArc<S>,
    _target: KBox<Target>,
    _pin: Pin,
}

// SAFETY: the table is written before it is registered and never after; S may be used from every thread.
unsafe impl<S: Send + Sync> Send for IoctlRegistration<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for IoctlRegistration<S> {}

/// The way to the state of the one registration.
static STATE: CallbackSlot<Target> = CallbackSlot::new();

/// A state whose type only the rows registered with it know.
struct Target {
    type_id: TypeId,
    state: NonNull<c_void>,
}

// SAFETY: made from a `KArc<S>` with S: Send + Sync, and turned into nothing but `&S`.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    fn of<S: Send + Sync + 'static>(state: &KArc<S>) -> Self {
        Self { type_id: TypeId::of::<S>(), state: KArc::as_ptr(state).cast() }
    }

    fn state<S: 'static>(&self) -> Option<&S> {
        // SAFETY: it is an S, and the registration keeps it while the slot is open.
        (self.type_id == TypeId::of::<S>()).then(|| unsafe { self.state.cast().as_ref() })
    }
}

impl<S: Send + Sync + 'static> IoctlRegistration<S> {
    /// Registers the commands of `module_id` (`IBPART_IOC`). `ENOENT` if the framework does not know that id, `EBUSY`
    /// if this module has a registration already.
    pub fn register(
        module_id: u16,
        state: KArc<S>,
        table: KVec<Entry<S>>,
        may_block: &MayBlock,
    ) -> Result<Self, Errno> {
        let count = sys::uint_t::try_from(table.len()).map_err(|_| Errno::EINVAL)?;
        let target = KBox::new_waiting(Target::of(&state), may_block);
        // SAFETY: the registration keeps the target, and shuts the way to it first.
        if !unsafe { STATE.open(NonNull::from(&*target)) } {
            return Err(Errno::EBUSY);
        }
        let rows: *const sys::dld_ioc_info = table.as_ptr().cast();
        // SAFETY: the framework keeps the pointer and only reads; the table stays until it is unregistered.
        let result = unsafe { sys::dld_ioc_register(module_id, rows.cast_mut(), count) };
        if let Err(error) = Errno::check(result) {
            STATE.quiesce();
            return Err(error);
        }
        Ok(Self { module_id, table, state, _target: target, _pin: Pin::of_registration() })
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
        STATE.quiesce();
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
    // SAFETY: by this function's contract; `Entry::of` has seen to the alignment.
    let Some(record) = (unsafe { record.cast::<I::Record>().as_mut() }) else { return Errno::EINVAL.get() };
    // SAFETY: used during this call.
    let user = unsafe { UserMemory::new(user as u64, mode) };
    // SAFETY: used during this call.
    let Some(cred) = (unsafe { Cred::from_raw(cred) }) else { return Errno::EPERM.get() };
    // SAFETY: dld calls on the thread of whoever called ioctl(2).
    let may_block = unsafe { MayBlock::new() };
    let result = STATE.call(|target| {
        let state = target.state::<S>().ok_or(Errno::ENODEV)?;
        I::call(state, record, user, cred, &may_block)
    });
    Errno::raw(result.unwrap_or(Err(Errno::ENODEV)))
}
