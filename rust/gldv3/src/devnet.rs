//! Data-link ids and what the link management daemon knows about them.

use core::ffi::CStr;
use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::Errno;

/// A data-link id (`datalink_id_t`), given out by the link management daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub u32);

/// A link's name and class.
#[derive(Clone, Copy, Debug)]
pub struct LinkInfo {
    name: [u8; sys::MAXLINKNAMELEN],
    /// `DATALINK_CLASS_*` of `sys/dls_mgmt.h`.
    pub class: u32,
}

impl LinkInfo {
    /// The name.
    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or_default()
    }
}

/// What the daemon knows about `id` (`dls_mgmt_get_linkinfo`): `EBADF` without a daemon, `ENOENT` for an unknown id.
/// Asks a process: **may block**, with no lock its ioctls could need.
pub fn link_info(id: LinkId) -> Result<LinkInfo, Errno> {
    let mut name = [0; sys::MAXLINKNAMELEN];
    let mut class = sys::datalink_class_t(0);
    // SAFETY: the name has room for the longest one; the other answers are not wanted.
    let result = unsafe {
        sys::dls_mgmt_get_linkinfo(
            id.0,
            name.as_mut_ptr().cast(),
            &mut class,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    Errno::check(result)?;
    Ok(LinkInfo { name, class: class.0 })
}

/// Whether a zone may see a link (`dls_devnet_islinkvisible`): it made the link, or has it. That is false in the global zone too, of
/// a link that another made and has. **May block.**
pub fn is_visible(id: LinkId, zone: i32) -> bool {
    // SAFETY: two numbers; an id that is no link's is not visible.
    let visible = unsafe { sys::dls_devnet_islinkvisible(id.0, zone) };
    visible != sys::B_FALSE
}
