//! What a kernel module is: `_init`, `_fini`, `_info`, attach and detach.
//!
//! A module is a value. [`Module::init`] makes it before the module is installed, and it is dropped after the module
//! was removed, so everything global is a field that undoes itself. A driver's instances are values too
//! ([`Driver::attach`]), and what must keep the module's text loaded - a buffer lent to somebody, a callback that is
//! still out - holds a [`Pin`].

mod entry;
mod pin;
#[cfg(test)]
mod tests;

pub use entry::{Instances, Linkage, Loaded};
pub use pin::{Pin, pins};

use core::ffi::CStr;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;

use crate::ddi::DevInfo;
use crate::errno::Errno;
use crate::may_block::MayBlock;
use crate::user::{Cred, UserMemory};

/// A kernel module.
pub trait Module: Sized + Send + Sync + 'static {
    /// `_init`, before `mod_install`: makes the module's global state. An error undoes the load. **May block.**
    fn init(env: &Env, may_block: &MayBlock) -> Result<Self, Errno>;

    /// `_fini`, before `mod_remove`: an error (`EBUSY`) keeps the module loaded and in use. Takes back what can be refused. A [`Pin`]
    /// that is left after this keeps the module loaded, too. **May block.**
    fn prepare_unload(&self) -> Result<(), Errno> {
        Ok(())
    }
}

/// A module that drives devices.
pub trait Driver: Module {
    /// One attached device.
    type Instance: Send + Sync + 'static;

    /// `DDI_ATTACH`. Several instances may be attaching at once, and the framework may use what is registered here
    /// before this returns. On an error everything must be undone: detach is not called. **May block.**
    fn attach(&self, dip: DevInfo, may_block: &MayBlock) -> Result<Self::Instance, Errno>;

    /// `DDI_DETACH`: undoes everything, or hands the instance back, fully working. Failing is normal while in use.
    /// **May block.**
    fn detach(&self, dip: DevInfo, instance: Self::Instance) -> Result<(), Self::Instance>;

    /// `DDI_SUSPEND`, which is refused: says in the log which device it is that keeps the system from it, and why. The instance
    /// goes on working, so a `DDI_RESUME` finds nothing to do. Kernel threads may be stopped meanwhile: waits for none.
    fn refuse_suspend(&self, dip: DevInfo, instance: &Self::Instance);
}

/// A driver whose minor nodes ([`crate::ddi::MinorNode`]) can be asked and told things by `ioctl(2)`.
pub trait Control: Driver {
    /// An ioctl on the minor node of the device with that instance number. Answers what `ioctl` returns; `ENOTTY` for a command
    /// that it does not know. The device stays attached as long as the node is open. **May block.**
    fn ioctl(
        &self,
        instance: i32,
        command: i32,
        argument: UserMemory<'_>,
        caller: Cred<'_>,
    ) -> Result<i32, Errno>;
}

/// What `_init` knows about its module.
pub struct Env {
    pub(crate) name: Option<&'static CStr>,
    /// NULL once taken.
    pub(crate) linkage: AtomicPtr<sys::modlinkage>,
    /// NULL in a module without devices, and once taken.
    pub(crate) dev_ops: AtomicPtr<sys::dev_ops>,
}

impl Env {
    /// The driver's name (`ibd`, `ibp`); the empty string in a module without a device.
    ///
    /// It comes from the C shim, so one Rust object can be several drivers.
    pub fn driver_name(&self) -> &'static CStr {
        self.name.unwrap_or_default()
    }

    /// The shim's `dev_ops`, for `gldv3`: once. Lives as long as the module.
    pub fn take_dev_ops(&self) -> Option<NonNull<sys::dev_ops>> {
        NonNull::new(self.dev_ops.swap(ptr::null_mut(), Ordering::Relaxed))
    }

    /// The shim's `modlinkage`, for `ibtf-provider`: once. Lives as long as the module.
    pub fn take_linkage(&self) -> Option<NonNull<sys::modlinkage>> {
        NonNull::new(self.linkage.swap(ptr::null_mut(), Ordering::Relaxed))
    }
}

/// Defines the entry points of a kernel module. Exactly one per object.
///
/// `kernel::module!(misc MacIb);` makes `_init`, `_fini` and `_info`; `kernel::module!(driver Ibd);` makes
/// `kmod_attach` and `kmod_detach` as well, and `kernel::module!(control Swhca);` beside them `kmod_ioctl`. The C shim supplies
/// `kmod_linkage`, and for a driver `kmod_dev_ops` and `kmod_name`.
///
/// For `target_os = "none"` only, so that a host can link the crate's tests. No expression of the caller ends up in
/// unsafe code: the type's name is all that is taken.
#[macro_export]
macro_rules! module {
    (misc $module:ty) => {
        #[cfg(target_os = "none")]
        const _: () = {
            static LOADED: $crate::module::Loaded<$module, ()> = $crate::module::Loaded::new();

            fn linkage() -> $crate::module::Linkage {
                $crate::module::Linkage::misc(&raw mut kmod_linkage)
            }

    $crate::module!(@common $module);
        };
    };
    (driver $module:ty) => {
        #[cfg(target_os = "none")]
        const _: () = {
            $crate::module!(@driver $module);
        };
    };
    (control $module:ty) => {
        #[cfg(target_os = "none")]
        const _: () = {
            $crate::module!(@driver $module);

            #[unsafe(no_mangle)]
            unsafe extern "C" fn kmod_ioctl(
                dev: $crate::sys::dev_t,
                command: ::core::ffi::c_int,
                argument: isize,
                mode: ::core::ffi::c_int,
                cred: *mut $crate::sys::cred_t,
                answer: *mut ::core::ffi::c_int,
            ) -> ::core::ffi::c_int {
                // SAFETY: the kernel calls ioctl(9E) on an open minor node, hence with its device attached.
                unsafe { LOADED.ioctl(dev, command, argument, mode, cred, answer) }
            }
        };
    };
    (@driver $module:ty) => {
            static LOADED: $crate::module::Loaded<
                $module,
                $crate::module::Instances<<$module as $crate::module::Driver>::Instance>,
            > = $crate::module::Loaded::new();

            unsafe extern "C" {
                static mut kmod_dev_ops: $crate::sys::dev_ops;
                static kmod_name: ::core::ffi::c_char;
            }

            fn linkage() -> $crate::module::Linkage {
                // SAFETY: the shim defines the name as a NUL-terminated constant array, and this is its first byte.
                let name = unsafe { ::core::ffi::CStr::from_ptr(&raw const kmod_name) };
                $crate::module::Linkage::driver(&raw mut kmod_linkage, &raw mut kmod_dev_ops, name)
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn kmod_attach(
                dip: *mut $crate::sys::dev_info_t,
                cmd: $crate::sys::ddi_attach_cmd_t,
            ) -> ::core::ffi::c_int {
                // SAFETY: the kernel calls attach(9E) with a live node, once until it is detached.
                unsafe { LOADED.attach(dip, cmd) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn kmod_detach(
                dip: *mut $crate::sys::dev_info_t,
                cmd: $crate::sys::ddi_detach_cmd_t,
            ) -> ::core::ffi::c_int {
                // SAFETY: the kernel calls detach(9E) for a node that is attached.
                unsafe { LOADED.detach(dip, cmd) }
            }

    $crate::module!(@common $module);
    };
    (@common $module:ty) => {
        unsafe extern "C" {
            static mut kmod_linkage: $crate::sys::modlinkage;
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _init() -> ::core::ffi::c_int {
            // SAFETY: the kernel calls _init once per load, before anything else but _info.
            unsafe { LOADED.init(&linkage()) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _fini() -> ::core::ffi::c_int {
            // SAFETY: the kernel calls _fini after a successful _init, with no instance attached.
            unsafe { LOADED.fini(&linkage()) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _info(info: *mut $crate::sys::modinfo) -> ::core::ffi::c_int {
            // SAFETY: the kernel passes a modinfo to fill.
            unsafe { linkage().info(info) }
        }
    };
}
