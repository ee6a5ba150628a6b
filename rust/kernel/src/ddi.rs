//! The device node (`dev_info_t`): identity and properties.

use core::ffi::{CStr, c_int};
use core::fmt;
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::errno::Errno;

/// A node of the device tree.
///
/// Valid from attach to the end of a successful detach; keep it in the instance and nowhere else. What may live longer keeps
/// its [`NodeName`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct DevInfo(NonNull<sys::dev_info_t>);

// SAFETY: the functions below may be called for an attached node from any thread.
unsafe impl Send for DevInfo {}
// SAFETY: as above.
unsafe impl Sync for DevInfo {}

/// Where to look for a property.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The node itself, its driver's configuration file included.
    Node,
    /// The node, then its ancestors: for what the IB nexus sets on the way (`hca-guid`, `port-guid`).
    Ancestors,
}

impl Scope {
    fn flags(self) -> sys::uint_t {
        match self {
            Self::Node => (sys::DDI_PROP_DONTPASS | sys::DDI_PROP_NOTPROM) as sys::uint_t,
            Self::Ancestors => 0,
        }
    }
}

impl DevInfo {
    /// # Safety
    ///
    /// `raw` is attached (or attaching) and stays so as long as the value is used.
    pub unsafe fn from_raw(raw: *mut sys::dev_info_t) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// For C.
    pub fn as_raw(self) -> *mut sys::dev_info_t {
        self.0.as_ptr()
    }

    /// The instance number: stable, persistent, possibly sparse. **Any** context.
    pub fn instance(self) -> i32 {
        // SAFETY: the node is attached.
        unsafe { sys::ddi_get_instance(self.as_raw()) }
    }

    /// The driver's name. **Any** context.
    pub fn driver_name(self) -> &'static CStr {
        // SAFETY: the node is attached.
        let name = unsafe { sys::ddi_driver_name(self.as_raw()) };
        // SAFETY: the name of a bound driver is a string that lives as long as the driver's module.
        unsafe { CStr::from_ptr(name) }
    }

    /// The node by name. **Any** context.
    pub fn name(self) -> NodeName {
        NodeName { driver: self.driver_name(), instance: self.instance() }
    }

    /// An integer property; `None` if there is none of that name or it is not an integer. **May block.**
    ///
    /// A boolean property (no value) reads as 1.
    pub fn prop_int(self, name: &CStr, scope: Scope) -> Option<i32> {
        // The call never fails; two different defaults tell a missing property from any value.
        let get = |default: c_int| {
            // SAFETY: the node is attached, and the name, which C has as `char *`, is only read.
            unsafe {
                sys::ddi_prop_get_int(
                    sys::DDI_DEV_T_ANY,
                    self.as_raw(),
                    scope.flags(),
                    name.as_ptr().cast_mut(),
                    default,
                )
            }
        };
        let value = get(-1);
        (value != -1 || get(-2) == -1).then_some(value)
    }

    /// A 64-bit property; `None` if there is none of that name. **May block.**
    pub fn prop_int64(self, name: &CStr, scope: Scope) -> Option<i64> {
        let get = |default: i64| {
            // SAFETY: as in `prop_int`.
            unsafe {
                sys::ddi_prop_get_int64(
                    sys::DDI_DEV_T_ANY,
                    self.as_raw(),
                    scope.flags(),
                    name.as_ptr().cast_mut(),
                    default,
                )
            }
        };
        let value = get(-1);
        (value != -1 || get(-2) == -1).then_some(value)
    }

    /// An array of integers of the node itself, as many as `values` has room for; how many there are, 0 if there is no such
    /// property. **May block.**
    pub fn prop_int_array(self, name: &CStr, values: &mut [i32]) -> usize {
        let (mut array, mut count) = (core::ptr::null_mut(), 0);
        // SAFETY: the node is attached, the name is only read, and the answer is ours to free.
        let result = unsafe {
            sys::ddi_prop_lookup_int_array(
                sys::DDI_DEV_T_ANY,
                self.as_raw(),
                Scope::Node.flags(),
                name.as_ptr().cast_mut(),
                &mut array,
                &mut count,
            )
        };
        if result != sys::DDI_PROP_SUCCESS as c_int || array.is_null() {
            return 0;
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the framework answers an array of so many integers.
        let found = unsafe { core::slice::from_raw_parts(array, count) };
        for (value, found) in values.iter_mut().zip(found) {
            *value = *found;
        }
        // SAFETY: from the look-up above; nobody uses it any more.
        unsafe { sys::ddi_prop_free(array.cast()) };
        count
    }
}

/// A device file below `/devices`: `NODE:NAME`.
///
/// Gone with the value. Creation and drop **may block**.
pub struct MinorNode {
    dip: DevInfo,
    name: &'static CStr,
}

/// A character device in the terms of `stat(2)` (`sys/stat.h`).
const S_IFCHR: c_int = 0x2000;
/// `DDI_PSEUDO` (`sys/sunddi.h`).
const DDI_PSEUDO: &CStr = c"ddi_pseudo";

impl MinorNode {
    /// Makes the file of the device's own minor number, which is its instance: `ddi_getinfo_1to1(9F)` finds the device by it.
    pub fn new(dip: DevInfo, name: &'static CStr) -> Result<Self, Errno> {
        let minor = sys::minor_t::try_from(dip.instance()).map_err(|_| Errno::EINVAL)?;
        // SAFETY: attaching or attached; both strings are only read.
        let result = unsafe {
            sys::ddi_create_minor_node(
                dip.as_raw(),
                name.as_ptr().cast_mut(),
                S_IFCHR,
                minor,
                DDI_PSEUDO.as_ptr().cast_mut(),
                0,
            )
        };
        if result == sys::DDI_SUCCESS as c_int { Ok(Self { dip, name }) } else { Err(Errno::ENOMEM) }
    }
}

impl Drop for MinorNode {
    fn drop(&mut self) {
        // SAFETY: attached, or detaching; the name is only read.
        unsafe { sys::ddi_remove_minor_node(self.dip.as_raw(), self.name.as_ptr().cast_mut()) };
    }
}

/// A node's driver and instance, as in `ibd0`: for whoever names a node and may live longer than it.
#[derive(Clone, Copy)]
pub struct NodeName {
    driver: &'static CStr,
    instance: i32,
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.driver.to_str().unwrap_or("?"), self.instance)
    }
}

impl crate::log::Source for DevInfo {}

impl fmt::Display for DevInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl fmt::Debug for DevInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
