//! Ports, as IBTL asks for them and keeps them.

use std::ptr;

use fabric::{Gid, Guid, LinkSpeed, LinkWidth, Lmc, Mtu, PKey, PhysState, PortAttr, PortNum, PortState, Sl};
use fakekernel::Rule;
use illumos_sys_hdrs::{IBT_SUCCESS, ib_gid_t, ib_pkey_t, ibt_hca_portinfo_t, ibt_port_modify_flags_t};

use super::{Answer, Driver, answer, down};
use crate::convert::gid_from_c;

/// What lies behind the tables, which a driver must not write to.
const FENCE: usize = 4;
const FENCE_PKEY: ib_pkey_t = 0xfe11;

impl Driver {
    /// All ports, each asked for by its number; IBTL's copy of the attributes says how long the tables are.
    pub(crate) fn query_ports(&self) -> Vec<PortAttr> {
        (1..=self.nports()).map(|port| self.query_port(port)).collect()
    }

    /// IBTL holds its list of clients over it, so the driver may not call back.
    pub(crate) fn modify_port(&self, port: u8, flags: ibt_port_modify_flags_t, init_type: u8) -> Answer<()> {
        answer(down!(self, ibc_modify_ports(port, flags, init_type)))
    }

    fn query_port(&self, port: u8) -> PortAttr {
        let attributes = &self.registered.attributes;
        let pkeys = usize::from(attributes.hca_max_port_pkey_tbl_sz);
        let gids = attributes.hca_max_port_sgid_tbl_sz as usize;
        let mut pkey_table = vec![0; pkeys];
        pkey_table.resize(pkeys + FENCE, FENCE_PKEY);
        let mut gid_table = vec![ib_gid_t::default(); gids + FENCE];
        let (pkeys_at, gids_at) = (pkey_table.as_mut_ptr(), gid_table.as_mut_ptr());
        // The sizes are not preset when what is known is asked for anew.
        let mut info = ibt_hca_portinfo_t { p_pkey_tbl: pkeys_at, p_sgid_tbl: gids_at, ..Default::default() };
        let status = down!(self, ibc_query_hca_ports(port, &raw mut info));
        let fenced = pkey_table[pkeys..].iter().all(|pkey| *pkey == FENCE_PKEY)
            && gid_table[gids..].iter().all(|gid| gid_from_c(*gid) == Gid::default());
        let exact = usize::from(info.p_pkey_tbl_sz) == pkeys && info.p_sgid_tbl_sz as usize == gids;
        let kept = ptr::eq(info.p_pkey_tbl, pkeys_at) && ptr::eq(info.p_sgid_tbl, gids_at);
        if status != IBT_SUCCESS || !(fenced && exact && kept) || info.p_port_num != port {
            let what = format!(
                "ibc_query_hca_ports of port {port}: status {}, port {}, tables of {} and {} for {pkeys} and {gids}",
                status.0, info.p_port_num, info.p_pkey_tbl_sz, info.p_sgid_tbl_sz
            );
            self.blame(Rule::AbsurdArgument, what);
        }
        pkey_table.truncate(pkeys);
        gid_table.truncate(gids);
        known(&info, &pkey_table, &gid_table)
    }
}

/// The record as IBTL keeps it.
fn known(info: &ibt_hca_portinfo_t, pkeys: &[ib_pkey_t], gids: &[ib_gid_t]) -> PortAttr {
    let gids: Vec<Gid> = gids.iter().map(|gid| gid_from_c(*gid)).collect();
    let mtu = Mtu::from_code(info.p_mtu.0 as u8).unwrap_or(Mtu::M256);
    PortAttr {
        num: PortNum(info.p_port_num),
        guid: Guid(gids.first().map_or(0, |gid| gid.guid)),
        state: match info.p_linkstate.0 {
            2 => PortState::Init,
            3 => PortState::Armed,
            4 => PortState::Active,
            _ => PortState::Down,
        },
        phys: if info.p_phys_state == PhysState::LinkUp as u8 {
            PhysState::LinkUp
        } else {
            PhysState::Polling
        },
        lid: fabric::Lid(info.p_opaque1),
        lmc: Lmc::new(info.p_lmc()).unwrap_or_default(),
        sm_lid: fabric::Lid(info.p_sm_lid),
        sm_sl: Sl::truncating(info.p_sm_sl()),
        mtu_cap: mtu,
        mtu,
        width: match info.p_width_active {
            1 => LinkWidth::X1,
            4 => LinkWidth::X8,
            8 => LinkWidth::X12,
            _ => LinkWidth::X4,
        },
        speed: match info.p_speed_active {
            1 => LinkSpeed::Sdr,
            2 => LinkSpeed::Ddr,
            16 => LinkSpeed::Fdr,
            32 => LinkSpeed::Edr,
            _ => LinkSpeed::Qdr,
        },
        pkeys: pkeys.iter().copied().map(PKey).collect(),
        gids,
        subnet_timeout: info.p_subnet_timeout,
        init_type_reply: info.p_init_type_reply,
        capabilities: info.p_capabilities.0,
        max_msg: info.p_msg_sz,
        pkey_violations: info.p_pkey_violations.into(),
        qkey_violations: info.p_qkey_violations.into(),
    }
}
