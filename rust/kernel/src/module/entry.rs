//! The bodies of the entry points; [`module!`](crate::module!) makes the symbols.

use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;

use super::pin::{in_init, is_pinned};
use super::{Control, Driver, Env, Module, pins};
use crate::ddi::DevInfo;
use crate::errno::Errno;
use crate::list::{List, Room};
use crate::may_block::MayBlock;
use crate::sync::Mutex;
use crate::time::{Duration, sleep};
use crate::user::{Cred, UserMemory};
use crate::{KBox, log};

/// What the C shim supplies. Made by [`module!`](crate::module!) only.
#[doc(hidden)]
pub struct Linkage {
    linkage: *mut sys::modlinkage,
    env: Env,
}

impl Linkage {
    /// A module without a device.
    pub fn misc(linkage: *mut sys::modlinkage) -> Self {
        Self {
            linkage,
            env: Env { name: None, linkage: AtomicPtr::new(linkage), dev_ops: AtomicPtr::default() },
        }
    }

    /// A driver.
    pub fn driver(linkage: *mut sys::modlinkage, ops: *mut sys::dev_ops, name: &'static CStr) -> Self {
        Self {
            linkage,
            env: Env { name: Some(name), linkage: AtomicPtr::new(linkage), dev_ops: AtomicPtr::new(ops) },
        }
    }

    /// As the log knows the module.
    fn name(&self) -> &'static str {
        self.env.name.and_then(|name| name.to_str().ok()).unwrap_or("plugin")
    }

    /// `_info`.
    ///
    /// # Safety
    ///
    /// `info` is the kernel's, `self` names the shim's linkage.
    pub unsafe fn info(&self, info: *mut sys::modinfo) -> c_int {
        // SAFETY: by this function's contract.
        unsafe { sys::mod_info(self.linkage, info) }
    }
}

/// A loaded module's state: a `static` of the module, empty at load. `T` is what it knows about its instances.
#[doc(hidden)]
pub struct Loaded<M, T> {
    state: AtomicPtr<State<M, T>>,
}

struct State<M, T> {
    module: M,
    instances: T,
}

/// What a module knows about its instances: nothing, for one without devices.
#[doc(hidden)]
pub trait InstanceTable: Sized + Send + Sync {
    /// An empty table.
    fn new(may_block: &MayBlock) -> Self;
}

impl InstanceTable for () {
    fn new(_: &MayBlock) -> Self {}
}

/// A driver's instances: one block of memory for each, taken in its attach and gone with its detach.
#[doc(hidden)]
pub struct Instances<I>(Mutex<List<Slot<I>>>);

impl<I: Send> InstanceTable for Instances<I> {
    fn new(may_block: &MayBlock) -> Self {
        Self(Mutex::new_waiting(List::new(), may_block))
    }
}

struct Slot<I> {
    number: i32,
    /// `None` while attach or detach works on it.
    instance: Option<I>,
}

impl<M: Module, T: InstanceTable> Loaded<M, T> {
    /// Nothing loaded yet.
    #[expect(clippy::new_without_default, reason = "only for the static in module!")]
    pub const fn new() -> Self {
        Self { state: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// `_init`.
    ///
    /// # Safety
    ///
    /// Called by the kernel as `_init`, with the shim's linkage.
    pub unsafe fn init(&self, linkage: &Linkage) -> c_int {
        let state = match Self::make(linkage) {
            Ok(state) => state.into_raw(),
            Err(error) => {
                let name = linkage.name();
                log!(warn, name, "cannot be loaded: {error}");
                wait_for_pins(name);
                return error.get();
            }
        };
        // Attach may run before mod_install returns.
        self.state.store(state.as_ptr(), Ordering::Release);
        // SAFETY: the linkage is the shim's, complete and static.
        let result = unsafe { sys::mod_install(linkage.linkage) };
        if result != 0 {
            self.state.store(core::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: not installed, so nobody calls in; the box is from above.
            drop(unsafe { KBox::from_raw(state) });
            wait_for_pins(linkage.name());
        }
        result
    }

    fn make(linkage: &Linkage) -> Result<KBox<State<M, T>>, Errno> {
        // SAFETY: _init runs on a thread that may sleep, and this ends with it.
        let may_block = unsafe { MayBlock::new() };
        let instances = T::new(&may_block);
        let module = in_init(|| M::init(&linkage.env, &may_block))?;
        Ok(KBox::new_waiting(State { module, instances }, &may_block))
    }

    /// `_fini`.
    ///
    /// # Safety
    ///
    /// Called by the kernel as `_fini`, with the shim's linkage.
    pub unsafe fn fini(&self, linkage: &Linkage) -> c_int {
        let Some(state) = NonNull::new(self.state.load(Ordering::Acquire)) else { return Errno::EBUSY.get() };
        // SAFETY: published by `init`, taken away only below.
        if let Err(error) = unsafe { state.as_ref() }.module.prepare_unload() {
            return error.get();
        }
        if pins() != 0 {
            return Errno::EBUSY.get();
        }
        // SAFETY: the linkage is the one that was installed.
        let result = unsafe { sys::mod_remove(linkage.linkage) };
        if result == 0 {
            self.state.store(core::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: removed: nobody calls in any more; the box is from `init`.
            drop(unsafe { KBox::from_raw(state) });
            wait_for_pins(linkage.name());
        }
        result
    }

    fn state(&self) -> Option<&State<M, T>> {
        let state = NonNull::new(self.state.load(Ordering::Acquire))?;
        // SAFETY: published complete by `init`, freed only when the module can no longer be called.
        Some(unsafe { state.as_ref() })
    }
}

impl<M: Driver> Loaded<M, Instances<M::Instance>> {
    /// `attach(9E)`.
    ///
    /// # Safety
    ///
    /// Called by the kernel as attach.
    pub unsafe fn attach(&self, dip: *mut sys::dev_info_t, cmd: sys::ddi_attach_cmd_t) -> c_int {
        // SAFETY: the node is attaching, and the instance goes before it does.
        let dip = unsafe { DevInfo::from_raw(dip) };
        let attached = match (self.state(), dip) {
            (Some(state), Some(dip)) if cmd == sys::DDI_ATTACH => {
                let attached = state.attach(dip);
                attached.inspect_err(|error| log!(warn, dip, "cannot be attached: {error}")).is_ok()
            }
            // It was never suspended: what is attached works.
            (Some(state), Some(dip)) if cmd == sys::DDI_RESUME => state.is_attached(dip),
            _ => false,
        };
        answer(attached)
    }

    /// `detach(9E)`.
    ///
    /// # Safety
    ///
    /// Called by the kernel as detach.
    pub unsafe fn detach(&self, dip: *mut sys::dev_info_t, cmd: sys::ddi_detach_cmd_t) -> c_int {
        // SAFETY: the node is attached until detach succeeds.
        let dip = unsafe { DevInfo::from_raw(dip) };
        let detached = match (self.state(), dip) {
            (Some(state), Some(dip)) if cmd == sys::DDI_DETACH => state.detach(dip),
            (Some(state), Some(dip)) if cmd == sys::DDI_SUSPEND => {
                state.refuse_suspend(dip);
                false
            }
            _ => false,
        };
        answer(detached)
    }
}

impl<M: Control> Loaded<M, Instances<M::Instance>> {
    /// `ioctl(9E)`.
    ///
    /// # Safety
    ///
    /// Called by the kernel as ioctl.
    pub unsafe fn ioctl(
        &self,
        dev: sys::dev_t,
        command: c_int,
        argument: isize,
        mode: c_int,
        cred: *mut sys::cred_t,
        answer: *mut c_int,
    ) -> c_int {
        // SAFETY: the kernel holds the caller's credential for the call.
        let cred = unsafe { Cred::from_raw(cred) };
        let (Some(state), Some(cred)) = (self.state(), cred) else { return Errno::EINVAL.get() };
        // SAFETY: plain arithmetic on the device number.
        let minor = unsafe { sys::getminor(dev) };
        // SAFETY: the mode is the call's, and the value ends with it.
        let argument = unsafe { UserMemory::new(argument as u64, mode) };
        let Ok(instance) = i32::try_from(minor) else { return Errno::EINVAL.get() };
        match state.module.ioctl(instance, command, argument, cred) {
            Ok(value) => {
                // SAFETY: the kernel passes room for the answer.
                unsafe { answer.write(value) };
                0
            }
            Err(error) => error.get(),
        }
    }
}

impl<M: Driver> State<M, Instances<M::Instance>> {
    fn attach(&self, dip: DevInfo) -> Result<(), Errno> {
        // SAFETY: attach(9E) runs on a thread that may sleep, and this ends with it.
        let may_block = unsafe { MayBlock::new() };
        let number = dip.instance();
        let room = Room::new_waiting(&may_block);
        self.instances.0.lock().put(room, Slot { number, instance: None });
        match self.module.attach(dip, &may_block) {
            Ok(instance) => {
                self.put(number, instance);
                Ok(())
            }
            Err(error) => {
                self.forget(number);
                Err(error)
            }
        }
    }

    fn detach(&self, dip: DevInfo) -> bool {
        let number = dip.instance();
        let Some(instance) = self.take(number) else { return false };
        match self.module.detach(dip, instance) {
            Ok(()) => {
                self.forget(number);
                true
            }
            Err(instance) => {
                self.put(number, instance);
                false
            }
        }
    }

    fn is_attached(&self, dip: DevInfo) -> bool {
        let number = dip.instance();
        self.instances.0.lock().iter().any(|slot| slot.number == number && slot.instance.is_some())
    }

    fn refuse_suspend(&self, dip: DevInfo) {
        // Without the lock; nobody else looks for this instance while the framework is at its node.
        let number = dip.instance();
        let Some(instance) = self.take(number) else { return };
        self.module.refuse_suspend(dip, &instance);
        self.put(number, instance);
    }

    fn put(&self, number: i32, instance: M::Instance) {
        if let Some(slot) = self.instances.0.lock().find_mut(|slot| slot.number == number) {
            slot.instance = Some(instance);
        }
    }

    fn take(&self, number: i32) -> Option<M::Instance> {
        self.instances.0.lock().find_mut(|slot| slot.number == number)?.instance.take()
    }

    fn forget(&self, number: i32) {
        let slot = self.instances.0.lock().take(|slot| slot.number == number);
        drop(slot);
    }
}

/// The text goes when the entry point returns. What is pinned by now was forgotten, and it is too late to refuse: so the text stays, and
/// this thread with it. **May block.**
fn wait_for_pins(name: &str) {
    if is_pinned() {
        log!(warn, name, "something of it was never taken back: its text stays");
    }
    while is_pinned() {
        sleep(Duration::from_secs(1));
    }
}

fn answer(ok: bool) -> c_int {
    if ok { sys::DDI_SUCCESS as c_int } else { sys::DDI_FAILURE as c_int }
}
