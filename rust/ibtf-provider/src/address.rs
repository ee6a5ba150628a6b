//! GIDs and address vectors (`ib_gid_t`, `ibt_adds_vect_t`).

use illumos_sys_hdrs as sys;

/// A GID: two host-order words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid {
    /// Subnet prefix; the upper 64 bits of a multicast GID.
    pub prefix: u64,
    /// Port GUID; the lower 64 bits of a multicast GID.
    pub guid: u64,
}

impl Gid {
    /// Whether it is a group's.
    pub fn is_multicast(self) -> bool {
        self.prefix >> 56 == 0xff
    }

    pub(crate) fn raw(self) -> sys::ib_gid_t {
        sys::ib_gid_s::new(self.prefix, self.guid)
    }

    pub(crate) fn from_raw(raw: &sys::ib_gid_t) -> Self {
        Self { prefix: raw.gid_prefix(), guid: raw.gid_guid() }
    }
}

/// How a datagram gets to a port.
///
/// Clients leave garbage in the fields of the global route when no GRH is sent, and in the index of the source GID even when one
/// is: a provider reads the former only with `send_grh`, and takes an index that is none for 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// Destination GID; used when `send_grh`.
    pub dgid: Gid,
    /// Static rate, `IBT_SRATE_*` code.
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
    /// Source LID minus base LID; to be masked with 2^LMC - 1.
    pub source_path_bits: u8,
    /// Index in the port's GID table.
    pub sgid_index: u32,
}

impl AddressVector {
    pub(crate) fn from_raw(raw: &sys::ibt_adds_vect_t) -> Self {
        Self {
            dgid: Gid::from_raw(&raw.av_dgid),
            rate: raw.av_srate.0,
            sl: raw.av_srvl(),
            flow: raw.av_flow(),
            tclass: raw.av_tclass,
            hop_limit: raw.av_hop,
            port: raw.av_port_num,
            send_grh: raw.av_send_grh() != sys::B_FALSE,
            dlid: raw.av_dlid(),
            source_path_bits: raw.av_src_path(),
            sgid_index: raw.av_sgid_ix(),
        }
    }

    /// All but the source GID, which `ibtl` adds.
    pub(crate) fn raw(&self) -> sys::ibt_adds_vect_t {
        let mut raw = sys::ibt_adds_vect_t {
            av_dgid: self.dgid.raw(),
            av_srate: sys::ibt_srate_e(self.rate),
            av_tclass: self.tclass,
            av_hop: self.hop_limit,
            av_port_num: self.port,
            ..Default::default()
        };
        raw.set_av_srvl(self.sl & 0xf);
        raw.set_av_flow(self.flow & 0xf_ffff);
        raw.set_av_send_grh(if self.send_grh { sys::B_TRUE } else { sys::B_FALSE });
        raw.set_av_dlid(self.dlid);
        raw.set_av_src_path(self.source_path_bits);
        raw.set_av_sgid_ix(self.sgid_index);
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressVector, Gid};

    #[test]
    fn every_field_survives_the_round_trip() {
        let vector = AddressVector {
            dgid: Gid { prefix: 1, guid: 2 },
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
