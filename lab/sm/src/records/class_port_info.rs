//! `ClassPortInfo`: what the subnet administrator offers, and where to send requests instead (IBA volume 1, 13.4.8.1).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Gid, Lid, PKey, QKey, Qpn, Sl};

/// What the subnet administrator offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// [`ClassPortInfo::UD_MULTICAST`] and its like.
    pub capability_mask: u16,
    /// 27 bits.
    pub capability_mask2: u32,
    /// An `ib_time_t` of five bits: the longest the answer to a request takes.
    pub resp_time: u8,
    /// Requests go there instead, in an answer whose status says redirect.
    pub redirect_gid: Gid,
    /// GRH traffic class of the redirection.
    pub redirect_t_class: u8,
    /// Service level of the redirection.
    pub redirect_sl: Sl,
    /// GRH flow label of the redirection, 20 bits.
    pub redirect_flow_label: u32,
    /// Destination of the redirection; zero if only the GID is known.
    pub redirect_lid: Lid,
    /// Partition of the redirection.
    pub redirect_p_key: PKey,
    /// Queue pair of the redirection.
    pub redirect_qpn: Qpn,
    /// Queue key of the redirection.
    pub redirect_q_key: QKey,
    /// Where traps are to go: 32 bytes nobody here looks into.
    pub trap: [u8; 32],
}

impl ClassPortInfo {
    /// Optional records are offered.
    pub const OPTIONAL_RECORDS: u16 = 0x0100;
    /// Multicast groups of datagrams are offered.
    pub const UD_MULTICAST: u16 = 0x0200;
    /// `MultiPathRecord` is offered.
    pub const MULTI_PATH: u16 = 0x0400;
    /// Reinitialisation is offered.
    pub const REINIT: u16 = 0x0800;
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    base_version: u8,
    class_version: u8,
    capability_mask: U16,
    capability_mask2_resp_time: U32,
    redirect_gid: [u8; 16],
    redirect_tc_sl_fl: U32,
    redirect_lid: U16,
    redirect_p_key: U16,
    redirect_qpn: U32,
    redirect_q_key: U32,
    trap: [u8; 32],
}

impl Record for ClassPortInfo {
    const ATTRIBUTE: Attribute = Attribute::CLASS_PORT_INFO;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        let mask2 = wire.capability_mask2_resp_time.get();
        let tc_sl_fl = wire.redirect_tc_sl_fl.get();
        Some(Self {
            capability_mask: wire.capability_mask.get(),
            capability_mask2: mask2 >> 5,
            resp_time: mask2 as u8 & 31,
            redirect_gid: Gid::from_bytes(wire.redirect_gid),
            redirect_t_class: (tc_sl_fl >> 24) as u8,
            redirect_sl: Sl::truncating((tc_sl_fl >> 20) as u8),
            redirect_flow_label: tc_sl_fl & 0xf_ffff,
            redirect_lid: Lid(wire.redirect_lid.get()),
            redirect_p_key: PKey(wire.redirect_p_key.get()),
            redirect_qpn: Qpn::truncating(wire.redirect_qpn.get()),
            redirect_q_key: QKey(wire.redirect_q_key.get()),
            trap: wire.trap,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let tc_sl_fl = u32::from(self.redirect_t_class) << 24
            | u32::from(self.redirect_sl.get()) << 20
            | (self.redirect_flow_label & 0xf_ffff);
        let wire = Wire {
            base_version: 1,
            class_version: 2,
            capability_mask: self.capability_mask.into(),
            capability_mask2_resp_time: (self.capability_mask2 << 5 | u32::from(self.resp_time & 31)).into(),
            redirect_gid: self.redirect_gid.to_bytes(),
            redirect_tc_sl_fl: tc_sl_fl.into(),
            redirect_lid: self.redirect_lid.0.into(),
            redirect_p_key: self.redirect_p_key.0.into(),
            redirect_qpn: self.redirect_qpn.get().into(),
            redirect_q_key: self.redirect_q_key.0.into(),
            trap: self.trap,
        };
        wire.as_bytes().to_vec()
    }
}
