//! [`PortReport`]: a port as its adapter describes it (`ibt_hca_portinfo_t`).

use core::slice;

use illumos_sys_hdrs as sys;

use crate::Gid;

/// The logical state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkState {
    Down,
    Active,
}

/// Speed of a lane, the code of `PortInfo` (`sys/ib/ib_types.h`): 1 SDR, 2 DDR, 4 QDR, 16 FDR, 32 EDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(pub u8);

/// What the answer to a query is written into.
///
/// The tables have the sizes of the adapter's attributes, always: `ibtl` trusts what it was told at attach.
pub struct PortReport<'a> {
    raw: &'a mut sys::ibt_hca_portinfo_t,
    pkeys: &'a mut [u16],
    gids: &'a mut [sys::ib_gid_t],
}

impl<'a> PortReport<'a> {
    /// # Safety
    ///
    /// The tables of `raw` are NULL or have room for so many entries, and they are the caller's.
    pub(crate) unsafe fn new(raw: &'a mut sys::ibt_hca_portinfo_t, pkeys: u16, gids: u16) -> Self {
        let (pkey_table, gid_table): (&mut [u16], &mut [sys::ib_gid_t]) =
            if raw.p_pkey_tbl.is_null() || raw.p_sgid_tbl.is_null() {
                (&mut [], &mut [])
            } else {
                // SAFETY: by this function's contract.
                let pkeys = unsafe { slice::from_raw_parts_mut(raw.p_pkey_tbl, usize::from(pkeys)) };
                // SAFETY: as above, and the two tables are not one.
                let gids = unsafe { slice::from_raw_parts_mut(raw.p_sgid_tbl, usize::from(gids)) };
                (pkeys, gids)
            };
        raw.p_pkey_tbl_sz = pkeys;
        raw.p_sgid_tbl_sz = u32::from(gids);
        Self { raw, pkeys: pkey_table, gids: gid_table }
    }

    /// Number, state and LID. What no software port differs in is filled in, too: 4x, link up, one virtual lane.
    pub fn set_link(&mut self, port: u8, state: LinkState, lid: u16, speed: Speed) {
        let raw = &mut *self.raw;
        raw.p_port_num = port;
        raw.p_linkstate = if state == LinkState::Active { sys::IBT_PORT_ACTIVE } else { sys::IBT_PORT_DOWN };
        raw.p_phys_state = if state == LinkState::Active {
            sys::IBT_PORT_PHYS_STATE_UP
        } else {
            sys::IBT_PORT_PHYS_STATE_POLLING
        } as _;
        raw.p_opaque1 = if state == LinkState::Active { lid } else { 0 };
        raw.p_width_supported = sys::IBT_LINK_WIDTH_4X as _;
        raw.p_width_enabled = sys::IBT_LINK_WIDTH_4X as _;
        raw.p_width_active = sys::IBT_LINK_WIDTH_4X as _;
        raw.p_speed_supported = speed.0 as _;
        raw.p_speed_enabled = speed.0 as _;
        raw.p_speed_active = speed.0 as _;
        raw.p_max_vl = 1;
        raw.p_msg_sz = 1 << 31;
        raw.set_p_lmc(0);
    }

    /// The largest MTU as a code (4 is 2048 bytes, 5 is 4096).
    pub fn set_mtu(&mut self, code: u8) {
        self.raw.p_mtu = sys::ib_mtu_t(u32::from(code));
    }

    /// The subnet manager, and its time-out code: 20 at most, which `ibmf` shifts by it without a look.
    pub fn set_manager(&mut self, lid: u16, sl: u8, timeout: u8) {
        self.raw.p_sm_lid = lid;
        self.raw.set_p_sm_sl(sl & 0xf);
        self.raw.p_subnet_timeout = timeout.min(20);
        self.raw.p_capabilities = sys::IBT_PORT_CAP_CLNT_REREG;
    }

    /// The counters of violations, saturating at 16 bits.
    pub fn set_violations(&mut self, pkey: u64, qkey: u64) {
        self.raw.p_pkey_violations = u16::try_from(pkey).unwrap_or(u16::MAX);
        self.raw.p_qkey_violations = u16::try_from(qkey).unwrap_or(u16::MAX);
    }

    /// The P_Key table; entries beyond `pkeys` are invalid (0).
    pub fn set_pkeys(&mut self, pkeys: &[u16]) {
        let all = pkeys.iter().copied().chain(core::iter::repeat(0));
        for (to, from) in self.pkeys.iter_mut().zip(all) {
            *to = from;
        }
    }

    /// The GID table: one GID, and below it the same prefix with GUID 0.
    pub fn set_gid(&mut self, gid: Gid) {
        for (index, to) in self.gids.iter_mut().enumerate() {
            *to = Gid { prefix: gid.prefix, guid: if index == 0 { gid.guid } else { 0 } }.raw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LinkState, PortReport, Speed};
    use crate::Gid;
    use illumos_sys_hdrs as sys;

    #[test]
    fn tables_are_filled_in_place_and_their_sizes_are_told_though_the_query_had_none() {
        let (mut pkeys, mut gids) = ([7u16; 3], [sys::ib_gid_t::default(); 2]);
        let mut raw = sys::ibt_hca_portinfo_t {
            p_pkey_tbl: pkeys.as_mut_ptr(),
            p_sgid_tbl: gids.as_mut_ptr(),
            ..Default::default()
        };
        // SAFETY: the tables above.
        let mut report = unsafe { PortReport::new(&mut raw, 3, 2) };
        report.set_link(2, LinkState::Active, 9, Speed(4));
        report.set_pkeys(&[0xffff]);
        report.set_gid(Gid { prefix: 1, guid: 2 });
        assert_eq!((raw.p_pkey_tbl_sz, raw.p_sgid_tbl_sz, raw.p_port_num, raw.p_opaque1), (3, 2, 2, 9));
        assert_eq!(pkeys, [0xffff, 0, 0]);
        assert_eq!(gids.map(|gid| (gid.gid_prefix(), gid.gid_guid())), [(1, 2), (1, 0)]);
    }
}
