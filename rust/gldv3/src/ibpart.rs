//! The partition ioctls of an IPoIB driver, as `dladm create-part` and its kin issue them (`sys/ibpart.h`): records and
//! numbers for [`crate::ioctl`].

use core::mem::offset_of;

use illumos_sys_hdrs as sys;
use kernel::user::Plain;

/// The module id under which the framework dispatches them; to the driver named `ibp`.
pub const MODULE_ID: u16 = sys::IBPART_IOC as u16;
/// Creates a partition link: [`PartitionRecord`], in and out, privileged.
pub const CREATE: u32 = sys::IBD_CREATE_IBPART;
/// Deletes one: [`PartitionRecord`], in, privileged.
pub const DELETE: u32 = sys::IBD_DELETE_IBPART;
/// Asks about links and ports: [`Header`] in; the driver copies the rest by itself, by what `command` says.
pub const INFO: u32 = sys::IBD_INFO_IBPART;

/// `command` of an [`INFO`] that wants a [`PartitionRecord`].
pub const INFO_PARTITION: i32 = sys::IBD_INFO_CMD_IBPART as i32;
/// `command` of an [`INFO`] that wants a [`PortRecord`] and the P_Keys it points at.
pub const INFO_PORT: i32 = sys::IBD_INFO_CMD_IBPORT as i32;
/// `command` of an [`INFO`] that wants the number of P_Keys in a [`PortRecord`].
pub const INFO_TABLE_SIZE: i32 = sys::IBD_INFO_CMD_PKEYTBLSZ as i32;

/// What went wrong beyond the errno: `status` of a [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum PartitionError {
    /// No such port instance.
    InvalidPort = 1,
    /// The port is down.
    PortDown = 2,
    /// The P_Key is not in the port's table.
    PkeyNotPresent = 3,
    /// The P_Key can never be valid.
    InvalidPkey = 4,
    /// The port has that partition already.
    Exists = 5,
    /// The adapter has no resources left.
    NoResource = 6,
    /// The table the caller offers is of the wrong size.
    InvalidTableSize = 7,
}

/// `ibd_ioctl_t`: what every record begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Which information is wanted ([`INFO`] only).
    pub command: i32,
    /// Data-link id: of the port's link, or of the link asked about.
    pub link: u32,
    /// The driver's instance for the port.
    pub port_instance: i32,
    /// Port, from 1.
    pub port: u32,
    /// The adapter's node GUID.
    pub hca_guid: u64,
    /// The port's GUID.
    pub port_guid: u64,
    /// A [`PartitionError`], or 0.
    pub status: i32,
    /// Unused.
    pub pad: u32,
}

/// `ibpart_ioctl_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PartitionRecord {
    /// What every record begins with.
    pub header: Header,
    /// Data-link id of the partition's link.
    pub partition_link: u32,
    /// Not 0: create it although the port is down or lacks the P_Key.
    pub force: u32,
    /// P_Key.
    pub pkey: u16,
    /// Unused.
    pub pad: [u16; 3],
}

/// `ibport_ioctl_t` of a 64-bit caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortRecord {
    /// What every record begins with.
    pub header: Header,
    /// Number of P_Keys there is room for, or that there are.
    pub table_size: u32,
    /// Unused.
    pub pad: u32,
    /// User address of an array of 16-bit P_Keys.
    pub pkeys: u64,
}

/// `ibport_ioctl_t` of a 32-bit caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortRecord32 {
    /// What every record begins with.
    pub header: Header,
    /// Number of P_Keys there is room for, or that there are.
    pub table_size: u32,
    /// User address of an array of 16-bit P_Keys.
    pub pkeys: u32,
}

// SAFETY: integers only, and no padding: the fields' sizes add up (below).
unsafe impl Plain for Header {}
// SAFETY: as above.
unsafe impl Plain for PartitionRecord {}
// SAFETY: as above.
unsafe impl Plain for PortRecord {}
// SAFETY: as above.
unsafe impl Plain for PortRecord32 {}

const _: () = {
    assert!(size_of::<Header>() == 6 * 4 + 2 * 8 && size_of::<Header>() == size_of::<sys::ibd_ioctl_t>());
    assert!(size_of::<PartitionRecord>() == size_of::<Header>() + 2 * 4 + 4 * 2);
    assert!(size_of::<PartitionRecord>() == size_of::<sys::ibpart_ioctl_t>());
    assert!(size_of::<PortRecord>() == size_of::<Header>() + 2 * 4 + 8);
    assert!(size_of::<PortRecord>() == size_of::<sys::ibport_ioctl_t>());
    assert!(size_of::<PortRecord32>() == size_of::<Header>() + 2 * 4);
    assert!(offset_of!(Header, hca_guid) == offset_of!(sys::ibd_ioctl_t, ioc_hcaguid));
    assert!(offset_of!(Header, port_guid) == offset_of!(sys::ibd_ioctl_t, ioc_portguid));
    assert!(offset_of!(Header, status) == offset_of!(sys::ibd_ioctl_t, ioc_status));
    assert!(offset_of!(PartitionRecord, pkey) == offset_of!(sys::ibpart_ioctl_t, ioc_pkey));
    assert!(offset_of!(PortRecord, pkeys) == offset_of!(sys::ibport_ioctl_t, ioc_pkeys));
};
