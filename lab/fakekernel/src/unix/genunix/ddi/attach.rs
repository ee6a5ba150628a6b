//! Attaching and detaching instances (`U/os/devcfg.c`), and what must be gone after either (rule 19).

use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use illumos_sys_hdrs::{DDI_RESUME, DDI_SUSPEND, ddi_attach_cmd_t, ddi_detach_cmd_t, dev_info_t, dev_ops};
use sim::race::Key;
use sim::{Ctx, Rule};

use super::node::{DevInfo, Phase};
use crate::loader::cx::Cx;
use crate::loader::entry::EntryKind;
use crate::loader::errno::Errno;
use crate::loader::kernel::Kernel;
use crate::loader::module::Module;
use crate::loader::resources::InstanceScope;

type Attach = unsafe extern "C" fn(*mut dev_info_t, ddi_attach_cmd_t) -> c_int;
type Detach = unsafe extern "C" fn(*mut dev_info_t, ddi_detach_cmd_t) -> c_int;
type Probe = unsafe extern "C" fn(*mut dev_info_t) -> c_int;

/// What else happens when an instance comes or goes: the DACF rules of a network driver, for one.
pub trait AttachHook: Send + Sync {
    /// The instance has attached.
    fn attached(&self, kernel: &Kernel, device: &DevInfo);
    /// The instance is about to detach; an error keeps it.
    ///
    /// # Errors
    ///
    /// Why it must stay, EBUSY as a rule.
    fn detaching(&self, kernel: &Kernel, device: &DevInfo) -> Result<(), Errno>;
}

/// A driver's `struct dev_ops`, in its own data segment.
#[derive(Clone, Copy)]
pub(super) struct Operations(*mut dev_ops);

impl Operations {
    pub(super) fn of(module: &Module) -> Result<Self, Errno> {
        module.dev_ops().map(|ops| Self(ops.cast())).ok_or(Errno::ENXIO)
    }

    pub(super) fn read(self) -> dev_ops {
        // SAFETY: mod_install published this pointer and the module is still installed, so its data is there.
        unsafe { self.0.read() }
    }

    /// `devo_refcnt`, which keeps the module's `_fini` from removing it.
    fn held(self) -> &'static AtomicI32 {
        let count = self.0.wrapping_byte_add(offset_of!(dev_ops, devo_refcnt)).cast::<i32>();
        // SAFETY: as above; the count is changed by the kernel alone, and atomically. The reference ends in this module.
        unsafe { AtomicI32::from_ptr(count) }
    }
}

/// What attaching and detaching an instance leaves for the next such call (rule 54): the framework's own locks.
fn turns(device: &DevInfo) -> Key {
    Key("device node", device.as_ptr().addr() as u64)
}

impl Kernel {
    /// Adds something that happens whenever an instance of any driver attaches or detaches.
    pub fn add_attach_hook(&self, hook: Arc<dyn AttachHook>) {
        self.genunix().devices.hooks.lock().push(hook);
    }

    /// Attaches a driver's instance: probe, attach, then the hooks. User context.
    ///
    /// # Errors
    ///
    /// ENXIO when the module is no installed driver or will not have the node; EALREADY when it is attached; EIO when
    /// attach(9E) failed.
    pub fn attach(&self, module: &Module, device: &DevInfo) -> Result<(), Errno> {
        let operations = Operations::of(module)?;
        self.begin(device, Phase::Idle, Errno::EALREADY)?;
        let _scope = InstanceScope::new(device.instance());
        operations.held().fetch_add(1, Ordering::AcqRel);
        let result = self.probe_and_attach(module, operations.read(), device);
        self.finish(device, if result.is_ok() { Phase::Attached } else { Phase::Idle });
        match result {
            Ok(()) => self.hooks().iter().for_each(|hook| hook.attached(self, device)),
            Err(_) => {
                operations.held().fetch_sub(1, Ordering::AcqRel);
                self.clean_up(module, device, "attach");
            }
        }
        result
    }

    fn probe_and_attach(&self, module: &Module, ops: dev_ops, device: &DevInfo) -> Result<(), Errno> {
        const NOT_THERE: c_int = 6;
        let dip = device.as_ptr();
        if let Some(probe) = ops.devo_probe {
            let probe: Probe = probe;
            // SAFETY: the driver's own entry point, for a node it is bound to; probe(9E).
            let found = unsafe { self.enter(probe, (dip,), EntryKind::callback_in("probe", Ctx::User)) };
            if found == NOT_THERE {
                return Err(Errno::ENXIO);
            }
        }
        let attach: Attach = ops.devo_attach.ok_or(Errno::ENXIO)?;
        let args = (dip, ddi_attach_cmd_t(0));
        // SAFETY: as above; attach(9E), DDI_ATTACH, one call at a time for a node.
        match unsafe {
            module.enter(attach, args, EntryKind::callback_in("attach", Ctx::User).in_turn(turns(device)))
        } {
            0 => Ok(()),
            _ => Err(Errno::EIO),
        }
    }

    /// Detaches an instance: the hooks, then detach(9E). User context.
    ///
    /// # Errors
    ///
    /// EBUSY when something holds the node, a hook objects or the driver refuses; ENXIO when it is not attached.
    pub fn detach(&self, module: &Module, device: &DevInfo) -> Result<(), Errno> {
        let operations = Operations::of(module)?;
        self.begin(device, Phase::Attached, Errno::ENXIO)?;
        let result = self.run_detach(module, operations.read(), device);
        self.finish(device, if result.is_ok() { Phase::Idle } else { Phase::Attached });
        if result.is_ok() {
            operations.held().fetch_sub(1, Ordering::AcqRel);
            self.clean_up(module, device, "detach");
        }
        result
    }

    fn run_detach(&self, module: &Module, ops: dev_ops, device: &DevInfo) -> Result<(), Errno> {
        let hooks = self.hooks();
        for (done, hook) in hooks.iter().enumerate() {
            if let Err(error) = hook.detaching(self, device) {
                hooks[..done].iter().for_each(|hook| hook.attached(self, device));
                return Err(error);
            }
        }
        let refused = if device.node.state.lock().holds > 0 {
            true
        } else {
            let _scope = InstanceScope::new(device.instance());
            let detach: Detach = ops.devo_detach.ok_or(Errno::EBUSY)?;
            let args = (device.as_ptr(), ddi_detach_cmd_t(0));
            // SAFETY: the driver's own entry point, for an instance it attached; detach(9E), DDI_DETACH.
            unsafe {
                module.enter(detach, args, EntryKind::callback_in("detach", Ctx::User).in_turn(turns(device)))
                    != 0
            }
        };
        if refused {
            hooks.iter().for_each(|hook| hook.attached(self, device));
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// `DDI_SUSPEND` for an attached instance, as a system that is about to be suspended asks each driver. User context.
    ///
    /// # Errors
    ///
    /// EBUSY when something is being done to the node; ENXIO when it is not attached; EIO when the driver refuses.
    pub fn suspend(&self, module: &Module, device: &DevInfo) -> Result<(), Errno> {
        let ops = Operations::of(module)?.read();
        let detach: Detach = ops.devo_detach.ok_or(Errno::EIO)?;
        let args = (device.as_ptr(), DDI_SUSPEND);
        self.meanwhile(device, || {
            // SAFETY: the driver's own entry point, for an instance it attached; detach(9E), DDI_SUSPEND.
            unsafe { module.enter(detach, args, EntryKind::callback_in("detach", Ctx::User)) }
        })
    }

    /// `DDI_RESUME` for an instance, whether it was suspended or not. User context.
    ///
    /// # Errors
    ///
    /// As for [`Kernel::suspend`].
    pub fn resume(&self, module: &Module, device: &DevInfo) -> Result<(), Errno> {
        let ops = Operations::of(module)?.read();
        let attach: Attach = ops.devo_attach.ok_or(Errno::EIO)?;
        let args = (device.as_ptr(), DDI_RESUME);
        self.meanwhile(device, || {
            // SAFETY: the driver's own entry point, for an instance it attached; attach(9E), DDI_RESUME.
            unsafe { module.enter(attach, args, EntryKind::callback_in("attach", Ctx::User)) }
        })
    }

    /// A call about an attached instance that stays attached whatever comes of it.
    fn meanwhile(&self, device: &DevInfo, call: impl FnOnce() -> c_int) -> Result<(), Errno> {
        self.begin(device, Phase::Attached, Errno::ENXIO)?;
        let scope = InstanceScope::new(device.instance());
        let answer = call();
        drop(scope);
        self.finish(device, Phase::Attached);
        if answer == 0 { Ok(()) } else { Err(Errno::EIO) }
    }

    /// Detaches every instance of a driver, as an unload does first.
    ///
    /// # Errors
    ///
    /// The first refusal; the instances before it stay detached.
    pub fn detach_instances(&self, module: &Module) -> Result<(), Errno> {
        for node in self.genunix().devices.nodes.all() {
            let attached = node.state.lock().phase == Phase::Attached;
            if attached && node.spec.driver == module.name() {
                self.detach(module, &DevInfo { node })?;
            }
        }
        Ok(())
    }

    /// Instances of a driver that are attached.
    pub fn attached_instances(&self, driver: &str) -> Vec<u32> {
        let nodes = self.genunix().devices.nodes.all();
        let mine = nodes.iter().filter(|node| node.spec.driver == driver);
        mine.filter(|node| node.state.lock().phase == Phase::Attached)
            .map(|node| node.spec.instance)
            .collect()
    }

    fn hooks(&self) -> Vec<Arc<dyn AttachHook>> {
        self.genunix().devices.hooks.lock().clone()
    }

    fn begin(&self, device: &DevInfo, from: Phase, otherwise: Errno) -> Result<(), Errno> {
        let mut state = device.node.state.lock();
        match state.phase {
            Phase::Busy => Err(Errno::EBUSY),
            phase if phase == from => {
                state.phase = Phase::Busy;
                Ok(())
            }
            _ => Err(otherwise),
        }
    }

    fn finish(&self, device: &DevInfo, phase: Phase) {
        device.node.state.lock().phase = phase;
    }

    /// The framework's share of a detach or a failed attach, and the check that the driver did its own.
    fn clean_up(&self, module: &Module, device: &DevInfo, entry: &'static str) {
        device.remove_minors(None);
        device.with_properties(super::property::Properties::remove_all);
        let cx = Cx::of_entry(Some(module), entry);
        let mut left = self.resources().of(module.name(), Some(device.instance()));
        left.retain(|one| !cx.forgiven(one));
        if let Some(first) = left.first() {
            let taken =
                first.backtrace.first().map_or_else(String::new, |frame| format!(", taken at {frame}"));
            let what = format!(
                "{} left of instance {} after {entry}, the first is {} {:#x} ({}){taken}",
                left.len(),
                device.instance(),
                first.kind,
                first.key,
                first.detail
            );
            cx.violate(Rule::Leak, what);
        }
    }
}
