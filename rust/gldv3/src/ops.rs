//! `mac_init_ops(9F)`: what makes a driver's `dev_ops` those of a GLDv3 driver.

use core::ptr::NonNull;

use illumos_sys_hdrs as sys;
use kernel::Errno;
use kernel::module::{Env, Pin};

/// The driver's `dev_ops` in mac's hands, from before `mod_install` until after `mod_remove`.
///
/// Keep it in the module's state, as the last field that is dropped.
pub struct DriverOps {
    ops: NonNull<sys::dev_ops>,
    _pin: Pin,
}

// SAFETY: the pointer is only used to give the ops back.
unsafe impl Send for DriverOps {}
// SAFETY: as above.
unsafe impl Sync for DriverOps {}

impl DriverOps {
    /// From [`kernel::module::Module::init`], once. `ENXIO` the second time, and in a module without devices. **May block.**
    pub fn register(env: &Env) -> Result<Self, Errno> {
        let ops = env.take_dev_ops().ok_or(Errno::ENXIO)?;
        // SAFETY: the shim's ops and name are static, and the driver is not installed yet.
        unsafe { sys::mac_init_ops(ops.as_ptr(), env.driver_name().as_ptr()) };
        Ok(Self { ops, _pin: Pin::of_registration() })
    }
}

impl Drop for DriverOps {
    fn drop(&mut self) {
        // SAFETY: the module's state is dropped when the driver is not installed, or no longer.
        unsafe { sys::mac_fini_ops(self.ops.as_ptr()) };
    }
}
