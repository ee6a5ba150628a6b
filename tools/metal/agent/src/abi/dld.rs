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
/// `IBD_INFO_IBPART`, and what it may be asked (`IBD_INFO_CMD_*`): about a partition, a port's P_Keys, how many P_Keys a port has.
pub const INFORMATION: u32 = 0x6171_0003;
/// `IBD_INFO_CMD_IBPART`.
pub const ABOUT_PARTITION: u32 = 1;
/// `IBD_INFO_CMD_IBPORT`.
pub const ABOUT_PORT: u32 = 2;
/// `IBD_INFO_CMD_PKEYTBLSZ`.
pub const TABLE_SIZE: u32 = 3;

/// `MAC_PROP_PRIVATE`: the property is known by its name.
pub const PROPERTY_PRIVATE: u32 = u32::MAX;
/// `MAC_PROP_ZONE`.
pub const PROPERTY_ZONE: u32 = 7;

/// `DLD_PROP_DEFAULT`: the default is asked for, not the value.
pub const DEFAULT: u32 = 1;
/// `DLD_PROP_POSSIBLE`: the values that are possible.
pub const POSSIBLE: u32 = 2;

/// The public properties a case asks for, with their numbers in `mac_prop_id_t` and the width of their values.
pub const PROPERTIES: [(&str, u32, u32); 5] =
    [("duplex", 1, 4), ("speed", 2, 8), ("state", 3, 4), ("mtu", 6, 4), ("linkmode", 62, 4)];

/// Octets of a property's value that we have room for.
pub const VALUE: usize = 508;

/// And ranges of values.
const MOST_RANGES: u32 = (VALUE as u32 - 8) / 8;

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

/// `ibport_ioctl_t`; the P_Keys are elsewhere.
#[derive(Clone, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Port {
    /// [`ABOUT_PORT`] or [`TABLE_SIZE`].
    pub command: u32,
    /// The port's link.
    pub link: u32,
    /// The driver's instance of it.
    pub instance: u32,
    /// Its number at the adapter, filled in by the kernel.
    pub number: u32,
    /// The adapter's GUID, filled in by the kernel.
    pub hca_guid: u64,
    /// The port's GUID, filled in by the kernel.
    pub port_guid: u64,
    /// The driver's own reason, beside errno.
    pub status: u32,
    _align: u32,
    /// How many P_Keys there is room for, or that there are.
    pub table_size: u32,
    _align_keys: u32,
    /// Where the P_Keys go.
    pub(crate) keys: u64,
}

/// `ibpart_ioctl_t`.
#[derive(Clone, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Partition {
    /// [`ABOUT_PARTITION`] if the driver is asked about one.
    pub command: u32,
    /// The link of the port; or the partition that is asked about.
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

const _: () =
    assert!(size_of::<Property>() == 276 + VALUE && size_of::<Partition>() == 56 && size_of::<Port>() == 56);

impl Property {
    /// Property `number` or private property `name` of a link, with room for a value of `size` octets.
    pub fn new(link: u32, number: u32, name: &str, size: u32) -> Self {
        let size = size.min(VALUE as u32);
        Self { flags: 0, link, number, permissions: 0, name: super::name(name), size, value: [0; VALUE] }
    }

    /// The property of that name: a public one, a private one, which begins with an underscore, or `#12` for a public one by its
    /// number, with room for a value of 256 octets.
    pub fn named(link: u32, name: &str) -> Option<Self> {
        if name.starts_with('_') {
            return Some(Self::new(link, PROPERTY_PRIVATE, name, 256));
        }
        if let Some(number) = name.strip_prefix('#') {
            return Some(Self::new(link, number.parse().ok()?, name, 256));
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

    /// Asks for the values that are possible, as many ranges as there is room for.
    pub fn want_possible(&mut self) {
        self.flags = POSSIBLE;
        self.size = VALUE as u32;
        self.value[..4].copy_from_slice(&MOST_RANGES.to_ne_bytes());
    }

    /// The ranges that were answered: `mac_propval_range_t` is their number, the type of their ends and the ends. Who has none to tell
    /// leaves it as it was.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        let word = |index: usize| {
            let octets = self.value.get(4 * index..4 * index + 4).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u32::from_ne_bytes)
        };
        let all = (0..word(0).min(MOST_RANGES) as usize)
            .map(move |range| (word(2 + 2 * range), word(3 + 2 * range)));
        all.take_while(move |range| word(0) < MOST_RANGES || *range != (0, 0))
    }

    /// Who may do what with it.
    pub fn permission(&self) -> &'static str {
        match self.permissions {
            1 => "r",
            0x10 => "w",
            0x11 => "rw",
            _ => "none",
        }
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
        let numbered = Property::named(11, "#9").expect("a public property by its number");
        assert_eq!((numbered.number, numbered.size), (9, 256));
    }

    #[test]
    fn the_possible_values_are_ranges() {
        let mut mtu = Property::named(11, "mtu").expect("a public property");
        mtu.want_possible();
        assert_eq!(mtu.value[..4], 62_u32.to_ne_bytes());
        let words = [2_u32, 1, 5, 9, 20, 30].map(u32::to_ne_bytes).concat();
        mtu.value[..24].copy_from_slice(&words);
        assert_eq!(mtu.ranges().collect::<Vec<_>>(), [(5, 9), (20, 30)]);
        mtu.value[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(mtu.ranges().count(), 2, "nobody has more");
    }
}
