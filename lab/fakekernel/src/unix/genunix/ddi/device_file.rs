//! A driver's device files: ioctl(2) on a minor node.

use std::ffi::c_int;

use illumos_sys_hdrs::{cb_ops, cred_t, dev_t};
use sim::Ctx;

use super::attach::Operations;
use super::node::DevInfo;
use crate::loader::entry::EntryKind;
use crate::loader::errno::Errno;
use crate::loader::kernel::Kernel;
use crate::loader::module::Module;
use crate::unix::genunix::Cred;

type Ioctl = unsafe extern "C" fn(dev_t, c_int, isize, c_int, *mut cred_t, *mut c_int) -> c_int;

/// `FREAD | FWRITE` and a 64-bit caller.
const MODE: c_int = 0x0020_0003;

impl Kernel {
    /// `ioctl(2)` on the minor node `name` of an attached instance, by a process with `cred`; what the driver says by `rvalp`. User
    /// context.
    ///
    /// # Errors
    ///
    /// ENXIO without such a node, an instance or an entry point; what the driver answers.
    pub fn ioctl(
        &self,
        module: &Module,
        device: &DevInfo,
        name: &str,
        (command, argument): (i32, usize),
        cred: Cred,
    ) -> Result<i32, Errno> {
        let minor = device.minor_nodes().into_iter().find(|node| node.name == name).ok_or(Errno::ENXIO)?;
        let major = self.major(device.driver()).ok_or(Errno::ENXIO)?;
        let entries = Operations::of(module)?.read().devo_cb_ops.cast::<cb_ops>();
        if entries.is_null() {
            return Err(Errno::ENXIO);
        }
        // SAFETY: the driver's own table, which is there as long as it is installed.
        let ioctl: Ioctl = unsafe { entries.read() }.cb_ioctl.ok_or(Errno::ENXIO)?;
        let dev = dev_t::from(major) << 32 | dev_t::from(minor.minor);
        let mut value: c_int = 0;
        device.hold();
        let answer = self.with_cred(cred, |cred| {
            let args = (dev, command, argument as isize, MODE, cred, &raw mut value);
            // SAFETY: the driver's own entry point, ioctl(9E), for a minor node of an instance that is held.
            unsafe { module.enter(ioctl, args, EntryKind::callback_in("ioctl", Ctx::User)) }
        });
        device.release();
        if answer == 0 { Ok(value) } else { Err(Errno(answer)) }
    }
}
