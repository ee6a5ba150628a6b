//! GIDs and address vectors (`ib_gid_t`, `ibt_adds_vect_t`).

use core::fmt;

use illumos_sys_hdrs as sys;

/// A GID: two host-order words.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Gid {
    /// Subnet prefix; the upper 64 bits of a multicast GID.
    pub prefix: u64,
    /// Port GUID; the lower 64 bits of a multicast GID.
    pub guid: u64,
}

impl Gid {
    pub(crate) fn raw(self) -> sys::ib_gid_t {
        let words = sys::ib_ucast_gid_t { ugid_prefix: self.prefix, ugid_guid: self.guid };
        sys::ib_gid_t { gid: sys::ib_gid_s__bindgen_ty_1 { ucast_gid: words } }
    }

    pub(crate) fn from_raw(raw: &sys::ib_gid_t) -> Self {
        // SAFETY: both members of the union are integers of the same 16 bytes.
        let words = unsafe { raw.gid.ucast_gid };
        Self { prefix: words.ugid_prefix, guid: words.ugid_guid }
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{:016x}", self.prefix, self.guid)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How a datagram gets to a port: a route, and what the headers claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// Destination GID; used when `send_grh`.
    pub dgid: Gid,
    /// Source GID, for information: the adapter uses `sgid_index`.
    pub sgid: Gid,
    /// Static rate, `IBT_SRATE_*` code (2 = 2.5 Gb/s, 3 = 10, ...); 0 for none.
    pub rate: u32,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Flow label, 20 bits.
    pub flow: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// The adapter's port, from 1.
    pub port: u8,
    /// Whether a GRH is sent.
    pub send_grh: bool,
    /// Destination LID.
    pub dlid: u16,
    /// Source LID minus base LID. What the SA says of a path to a group can be out of range: mask with 2^LMC - 1.
    pub source_path_bits: u8,
    /// Index in the port's GID table.
    pub sgid_index: u32,
}

impl AddressVector {
    pub(crate) fn raw(&self) -> sys::ibt_adds_vect_t {
        let mut raw = sys::ibt_adds_vect_t {
            av_dgid: self.dgid.raw(),
            av_sgid: self.sgid.raw(),
            av_srate: sys::ibt_srate_e(self.rate),
            av_tclass: self.tclass,
            av_hop: self.hop_limit,
            av_port_num: self.port,
            av_opaque1: if self.send_grh { sys::B_TRUE } else { sys::B_FALSE },
            av_opaque2: self.dlid,
            av_opaque3: self.source_path_bits,
            av_opaque4: self.sgid_index,
            ..Default::default()
        };
        raw.set_av_srvl(self.sl & 0xf);
        raw.set_av_flow(self.flow & 0xf_ffff);
        raw
    }

    pub(crate) fn from_raw(raw: &sys::ibt_adds_vect_t) -> Self {
        Self {
            dgid: Gid::from_raw(&raw.av_dgid),
            sgid: Gid::from_raw(&raw.av_sgid),
            rate: raw.av_srate.0,
            sl: raw.av_srvl(),
            flow: raw.av_flow(),
            tclass: raw.av_tclass,
            hop_limit: raw.av_hop,
            port: raw.av_port_num,
            send_grh: raw.av_opaque1 != sys::B_FALSE,
            dlid: raw.av_opaque2,
            source_path_bits: raw.av_opaque3,
            sgid_index: raw.av_opaque4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressVector, Gid};

    #[test]
    fn every_field_survives_the_round_trip() {
        let vector = AddressVector {
            dgid: Gid { prefix: 1, guid: 2 },
            sgid: Gid { prefix: 3, guid: 4 },
            rate: 5,
            sl: 0xa,
            flow: 0xf_1234,
            tclass: 0x7e,
            hop_limit: 9,
            port: 2,
            send_grh: true,
            dlid: 0xc001,
            source_path_bits: 7,
            sgid_index: 3,
        };
        assert_eq!(AddressVector::from_raw(&vector.raw()), vector);
    }
}
