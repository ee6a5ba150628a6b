//! The control device of dld (`sys/dld.h`, `sys/dld_ioc.h`) and the ioctls of an IPoIB driver behind it (`sys/ibpart.h`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `/dev/dld` by its physical name.
pub const DEVICE: &str = "/devices/pseudo/dld@0:ctl";

/// `DLDIOC_SETMACPROP`.
pub const SET_PROPERTY: u32 = 0x0d1d_001b;
/// `DLDIOC_GETMACPROP`.
pub const GET_PROPERTY: u32 = 0x0d1d_001c;
/// `DLDIOC_DOORSERVER`.
pub const DOOR_SERVER: u32 = 0x0d1d_0010;
/// `IBD_CREATE_IBPART`: command 1 of the module number that the IPoIB drivers have.
pub const CREATE_PARTITION: u32 = 0x6171_0001;
/// `IBD_DELETE_IBPART`.
pub const DELETE_PARTITION: u32 = 0x6171_0002;

/// `MAC_PROP_PRIVATE`: the property is known by its name.
pub const PROPERTY_PRIVATE: u32 = u32::MAX;
/// `MAC_PROP_ZONE`.
pub const PROPERTY_ZONE: u32 = 7;

/// The public properties a case asks for, with their numbers in `mac_prop_id_t` and the width of their values.
pub const PROPERTIES: [(&str, u32, u32); 5] =
    [("duplex", 1, 4), ("speed", 2, 8), ("state", 3, 4), ("mtu", 6, 4), ("linkmode", 62, 4)];

/// Octets of a property's value that we have room for.
pub const VALUE: usize = 508;

/// `dld_ioc_macprop_t`, with room for a value.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Property {
    /// 0: not the default value.
    pub flags: u32,
    /// The link.
    pub link: u32,
    /// `mac_prop_id_t`.
    pub number: u32,
    /// What the kernel says about permissions.
    pub permissions: u32,
    /// Its name.
    pub name: [u8; 256],
    /// Octets of the value that follow; at most [`VALUE`].
    pub size: u32,
    /// The value.
    pub value: [u8; VALUE],
}

/// `ibpart_ioctl_t`.
#[derive(Clone, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Partition {
    /// `ioc_info_cmd`, not used by these two.
    pub command: u32,
    /// The link of the port.
    pub port_link: u32,
    /// The driver's instance of the port.
    pub port_instance: u32,
    /// Its number at the adapter, filled in by the kernel.
    pub port_number: u32,
    /// The adapter's GUID, filled in by the kernel.
    pub hca_guid: u64,
    /// The port's GUID, filled in by the kernel.
    pub port_guid: u64,
    /// The driver's own reason, beside errno.
    pub status: u32,
    _align: u32,
    /// The link to be made or deleted.
    pub link: u32,
    /// 1: make it although the port has no such P_Key.
    pub force: u32,
    /// The P_Key.
    pub pkey: u16,
    _align_pkey: u16,
    _align_end: u32,
}

/// `dld_ioc_zid_t`, the value of the property `zone`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ZoneOfLink {
    /// The zone.
    pub zone: u32,
    /// The link.
    pub link: u32,
}

const _: () = assert!(size_of::<Property>() == 276 + VALUE && size_of::<Partition>() == 56);

impl Property {
    /// Property `number` or private property `name` of a link, with room for a value of `size` octets.
    pub fn new(link: u32, number: u32, name: &str, size: u32) -> Self {
        let size = size.min(VALUE as u32);
        Self { flags: 0, link, number, permissions: 0, name: super::name(name), size, value: [0; VALUE] }
    }

    /// The property of that name: a public one, or a private one, which begins with an underscore.
    pub fn named(link: u32, name: &str) -> Option<Self> {
        if name.starts_with('_') {
            return Some(Self::new(link, PROPERTY_PRIVATE, name, 256));
        }
        let &(_, number, size) = PROPERTIES.iter().find(|(known, ..)| *known == name)?;
        Some(Self::new(link, number, name, size))
    }

    /// The property `zone` with that value.
    pub fn zone(link: u32, zone: u32) -> Self {
        let mut property = Self::new(link, PROPERTY_ZONE, "zone", size_of::<ZoneOfLink>() as u32);
        property.value[..8].copy_from_slice(ZoneOfLink { zone, link }.as_bytes());
        property
    }

    /// Sets the value: a number of the property's width, or the text of a private one. `false` if it is neither.
    pub fn set(&mut self, value: &str) -> bool {
        if self.number == PROPERTY_PRIVATE {
            self.value[..256].copy_from_slice(&super::name::<256>(value));
            return true;
        }
        let Ok(number) = value.parse::<u64>() else { return false };
        self.value[..8].copy_from_slice(&number.to_ne_bytes());
        true
    }

    /// The value as a number of the property's width.
    pub fn number_value(&self) -> u64 {
        let mut eight = [0; 8];
        let width = (self.size as usize).min(8);
        eight[..width].copy_from_slice(&self.value[..width]);
        u64::from_ne_bytes(eight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_public_by_number_or_private_by_name() {
        let mut mtu = Property::named(11, "mtu").expect("a public property");
        assert!(mtu.set("1400") && !mtu.set("many"));
        assert_eq!((mtu.number, mtu.size, mtu.number_value()), (6, 4, 1400));
        let mut private = Property::named(11, "_ibd_ud_num_swqe").expect("a private property");
        assert!(private.set("1024"));
        assert_eq!((private.number, super::super::text(&private.value)), (PROPERTY_PRIVATE, "1024"));
        assert!(Property::named(11, "nonesuch").is_none());
    }
}
