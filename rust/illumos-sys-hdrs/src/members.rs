//! Member names that C spells as macros over another member, which bindgen leaves out.

use crate::bindings::{
    boolean_t, ib_gid_s, ib_gid_s__bindgen_ty_1, ib_lid_t, ib_path_bits_t, ib_ucast_gid_s, ibt_adds_vect_s,
    ibt_wc_s,
};

impl ib_gid_s {
    /// A GID from its two host-endian halves.
    pub const fn new(gid_prefix: u64, gid_guid: u64) -> Self {
        let ucast_gid = ib_ucast_gid_s { ugid_prefix: gid_prefix, ugid_guid: gid_guid };
        Self { gid: ib_gid_s__bindgen_ty_1 { ucast_gid } }
    }

    /// Subnet prefix, host-endian.
    pub const fn gid_prefix(&self) -> u64 {
        // SAFETY: every member of the union is integers that fill its 16 bytes, so any bytes are a valid value.
        unsafe { self.gid.ucast_gid.ugid_prefix }
    }

    /// Port GUID, host-endian.
    pub const fn gid_guid(&self) -> u64 {
        // SAFETY: every member of the union is integers that fill its 16 bytes, so any bytes are a valid value.
        unsafe { self.gid.ucast_gid.ugid_guid }
    }
}

impl ibt_adds_vect_s {
    /// Whether a GRH is sent.
    pub const fn av_send_grh(&self) -> boolean_t {
        self.av_opaque1
    }

    /// Sets whether a GRH is sent.
    pub const fn set_av_send_grh(&mut self, send: boolean_t) {
        self.av_opaque1 = send;
    }

    /// Destination LID.
    pub const fn av_dlid(&self) -> ib_lid_t {
        self.av_opaque2
    }

    /// Sets the destination LID.
    pub const fn set_av_dlid(&mut self, dlid: ib_lid_t) {
        self.av_opaque2 = dlid;
    }

    /// Source path bits.
    pub const fn av_src_path(&self) -> ib_path_bits_t {
        self.av_opaque3
    }

    /// Sets the source path bits.
    pub const fn set_av_src_path(&mut self, bits: ib_path_bits_t) {
        self.av_opaque3 = bits;
    }

    /// Index of the source GID in the port's table.
    pub const fn av_sgid_ix(&self) -> u32 {
        self.av_opaque4
    }

    /// Sets the index of the source GID in the port's table.
    pub const fn set_av_sgid_ix(&mut self, index: u32) {
        self.av_opaque4 = index;
    }
}

impl ibt_wc_s {
    /// Source LID of a received datagram.
    pub const fn wc_slid(&self) -> ib_lid_t {
        self.wc_opaque1
    }

    /// P_Key index a datagram was received with.
    pub const fn wc_pkey_ix(&self) -> u16 {
        self.wc_opaque2
    }

    /// Path bits of the LID a datagram was sent to.
    pub const fn wc_path_bits(&self) -> ib_path_bits_t {
        self.wc_opaque4
    }
}
