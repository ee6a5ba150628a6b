//! Ports: `ibt_query_hca_ports` and its relatives, P_Key search, port state.

use super::{Device, Ibtl, hdl, out};
use crate::convert::gid_to_c;
use crate::os;
use crate::status::*;
use fabric::{PortAttr, PortState};
use fakekernel::{Cx, Export, FaultKind, cx, export};
use illumos_sys_hdrs::{
    IBT_PORT_CAP_CLNT_REREG, ib_gid_t, ib_guid_t, ib_lid_t, ib_mtu_t, ib_pkey_t, ibt_hca_hdl_t,
    ibt_hca_portinfo_t, ibt_port_caps_e, ibt_port_modify_flags_t, ibt_port_state_t, ibt_status_t, uint_t,
};
use std::sync::Arc;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_query_hca_ports, ibt_query_hca_ports_byguid, ibt_free_portinfo, ibt_pkey2index, ibt_pkey2index_byguid,
            ibt_index2pkey, ibt_index2pkey_byguid, ibt_get_port_state, ibt_get_port_state_byguid, ibt_modify_port,
            ibt_modify_port_byguid;
    }
}

unsafe extern "C" fn ibt_query_hca_ports(
    hca_hdl: ibt_hca_hdl_t,
    port: u8,
    port_info_p: *mut *mut ibt_hca_portinfo_t,
    ports_p: *mut uint_t,
    size_p: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    if cx.fault(FaultKind("ibt_query_hca_ports")) {
        return IBT_INSUFF_RESOURCE;
    }
    query(&cx, &open.device, port, port_info_p, ports_p, size_p)
}

unsafe extern "C" fn ibt_query_hca_ports_byguid(
    hca_guid: ib_guid_t,
    port: u8,
    port_info_p: *mut *mut ibt_hca_portinfo_t,
    ports_p: *mut uint_t,
    size_p: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let Some(device) = Ibtl::of(cx.kernel()).device(hca_guid) else { return IBT_HCA_INVALID };
    query(&cx, &device, port, port_info_p, ports_p, size_p)
}

fn query(
    cx: &Cx,
    device: &Device,
    port: u8,
    port_info_p: *mut *mut ibt_hca_portinfo_t,
    ports_p: *mut uint_t,
    size_p: *mut uint_t,
) -> ibt_status_t {
    if port > device.nports() {
        return IBT_HCA_PORT_INVALID;
    }
    device.refresh_ports();
    let mut ports = device.cached_ports();
    if port != 0 {
        ports.retain(|p| p.num.0 == port);
    }
    let layout = Layout::of(&ports);
    let block = os::alloc(cx, layout.total);
    for (i, attr) in ports.iter().enumerate() {
        layout.fill(block, i, attr);
    }
    out!(port_info_p, block.cast());
    out!(ports_p, ports.len() as uint_t);
    out!(size_p, layout.total as uint_t);
    IBT_SUCCESS
}

/// One block: the port structures, then every P_Key table, then every GID table.
struct Layout {
    pkeys: Vec<usize>,
    gids: Vec<usize>,
    total: usize,
}

impl Layout {
    fn of(ports: &[PortAttr]) -> Layout {
        let mut at = ports.len() * size_of::<ibt_hca_portinfo_t>();
        let mut pkeys = Vec::new();
        for port in ports {
            pkeys.push(at);
            at += port.pkeys.len() * size_of::<ib_pkey_t>();
        }
        at = at.next_multiple_of(align_of::<ib_gid_t>());
        let mut gids = Vec::new();
        for port in ports {
            gids.push(at);
            at += port.gids.len() * size_of::<ib_gid_t>();
        }
        Layout { pkeys, gids, total: at }
    }

    fn fill(&self, block: *mut u8, i: usize, attr: &PortAttr) {
        let pkeys: *mut ib_pkey_t = block.wrapping_add(self.pkeys[i]).cast();
        let gids: *mut ib_gid_t = block.wrapping_add(self.gids[i]).cast();
        for (n, pkey) in attr.pkeys.iter().enumerate() {
            // SAFETY: the block was made by this layout, which has room for the whole table here.
            unsafe { crate::ptr::set_element(pkeys, n, pkey.0) };
        }
        for (n, gid) in attr.gids.iter().enumerate() {
            // SAFETY: as above.
            unsafe { crate::ptr::set_element(gids, n, gid_to_c(*gid)) };
        }
        // SAFETY: the block begins with as many port structures as there are ports.
        unsafe { crate::ptr::set_element(block.cast(), i, port_info(attr, pkeys, gids)) };
    }
}

fn port_info(attr: &PortAttr, p_pkey_tbl: *mut ib_pkey_t, p_sgid_tbl: *mut ib_gid_t) -> ibt_hca_portinfo_t {
    let configured = attr.state >= PortState::Armed;
    let default = attr.pkeys.iter().position(|p| p.is_valid() && p.is_full());
    let mut info = ibt_hca_portinfo_t {
        p_opaque1: if configured { attr.lid.0 } else { 0 },
        p_qkey_violations: saturate(attr.qkey_violations),
        p_pkey_violations: saturate(attr.pkey_violations),
        p_phys_state: attr.phys as u8,
        p_sm_lid: attr.sm_lid.0,
        p_linkstate: port_state(attr.state),
        p_port_num: attr.num.0,
        p_width_supported: attr.width as u8 | 1,
        p_width_enabled: attr.width as u8 | 1,
        p_width_active: attr.width as u8,
        p_mtu: ib_mtu_t(u32::from(attr.mtu_cap.code())),
        p_speed_supported: attr.speed.code() | 1,
        p_speed_enabled: attr.speed.code() | 1,
        p_speed_active: attr.speed.code(),
        p_sgid_tbl,
        p_sgid_tbl_sz: attr.gids.len() as uint_t,
        p_pkey_tbl_sz: attr.pkeys.len() as u16,
        p_def_pkey_ix: default.unwrap_or(0) as u16,
        p_pkey_tbl,
        p_max_vl: 4,
        p_init_type_reply: attr.init_type_reply,
        p_subnet_timeout: attr.subnet_timeout,
        p_capabilities: ibt_port_caps_e(IBT_PORT_CAP_CLNT_REREG.0),
        p_msg_sz: attr.max_msg,
        ..Default::default()
    };
    info.set_p_sm_sl(attr.sm_sl.get());
    info.set_p_lmc(attr.lmc.get());
    info
}

fn saturate(n: u64) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn port_state(state: PortState) -> ibt_port_state_t {
    use illumos_sys_hdrs::{IBT_PORT_ACTIVE, IBT_PORT_ARM, IBT_PORT_DOWN, IBT_PORT_INIT};
    match state {
        PortState::Down => IBT_PORT_DOWN,
        PortState::Init => IBT_PORT_INIT,
        PortState::Armed => IBT_PORT_ARM,
        PortState::Active => IBT_PORT_ACTIVE,
    }
}

unsafe extern "C" fn ibt_free_portinfo(port_info: *mut ibt_hca_portinfo_t, size: uint_t) {
    let cx = cx();
    os::take_back(&cx, port_info.cast(), size as usize);
}

/// The device of an open handle or of a GUID.
fn opened(cx: &Cx, hca_hdl: ibt_hca_hdl_t) -> Result<Arc<Device>, ibt_status_t> {
    let ibtl = Ibtl::of(cx.kernel());
    super::resolve(cx, &ibtl.opens, hca_hdl).map(|o| o.device.clone()).ok_or(IBT_HCA_HDL_INVALID)
}

fn by_guid(cx: &Cx, guid: ib_guid_t) -> Result<Arc<Device>, ibt_status_t> {
    Ibtl::of(cx.kernel()).device(guid).ok_or(IBT_HCA_INVALID)
}

fn pkey_index(device: &Device, port: u8, pkey: ib_pkey_t) -> Result<u16, ibt_status_t> {
    if port == 0 || port > device.nports() {
        return Err(IBT_HCA_PORT_INVALID);
    }
    if !fabric::PKey(pkey).is_valid() {
        return Err(IBT_INVALID_PARAM);
    }
    device.pkey_index(port, pkey).ok_or(IBT_INVALID_PARAM)
}

fn index_pkey(device: &Device, port: u8, ix: u16) -> Result<ib_pkey_t, ibt_status_t> {
    let attr = device.cached_port(port).ok_or(IBT_HCA_PORT_INVALID)?;
    let pkey = attr.pkeys.get(usize::from(ix)).ok_or(IBT_INVALID_PARAM)?;
    if pkey.is_valid() { Ok(pkey.0) } else { Err(IBT_INVALID_PARAM) }
}

/// Stores a result where the caller wants it, or answers the error.
fn answer<T>(result: Result<T, ibt_status_t>, p: *mut T) -> ibt_status_t {
    match result {
        Ok(value) => {
            out!(p, value);
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_pkey2index(
    hca_hdl: ibt_hca_hdl_t,
    port_num: u8,
    pkey: ib_pkey_t,
    pkey_ix: *mut u16,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer(opened(&cx, hca_hdl).and_then(|d| pkey_index(&d, port_num, pkey)), pkey_ix)
}

unsafe extern "C" fn ibt_pkey2index_byguid(
    hca_guid: ib_guid_t,
    port_num: u8,
    pkey: ib_pkey_t,
    pkey_ix: *mut u16,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer(by_guid(&cx, hca_guid).and_then(|d| pkey_index(&d, port_num, pkey)), pkey_ix)
}

unsafe extern "C" fn ibt_index2pkey(
    hca_hdl: ibt_hca_hdl_t,
    port_num: u8,
    pkey_ix: u16,
    pkey: *mut ib_pkey_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer(opened(&cx, hca_hdl).and_then(|d| index_pkey(&d, port_num, pkey_ix)), pkey)
}

unsafe extern "C" fn ibt_index2pkey_byguid(
    hca_guid: ib_guid_t,
    port_num: u8,
    pkey_ix: u16,
    pkey: *mut ib_pkey_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer(by_guid(&cx, hca_guid).and_then(|d| index_pkey(&d, port_num, pkey_ix)), pkey)
}

/// GID index 0 and base LID of a port that is ACTIVE.
fn state(device: &Device, port: u8) -> Result<(ib_gid_t, ib_lid_t), ibt_status_t> {
    let attr = device.cached_port(port).ok_or(IBT_HCA_PORT_INVALID)?;
    if attr.state != PortState::Active {
        return Err(illumos_sys_hdrs::IBT_HCA_PORT_NOT_ACTIVE);
    }
    Ok((gid_to_c(attr.gids[0]), attr.lid.0))
}

fn answer_state(
    result: Result<(ib_gid_t, ib_lid_t), ibt_status_t>,
    sgid_p: *mut ib_gid_t,
    base_lid_p: *mut ib_lid_t,
) -> ibt_status_t {
    match result {
        Ok((gid, lid)) => {
            out!(sgid_p, gid);
            out!(base_lid_p, lid);
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_get_port_state(
    hca_hdl: ibt_hca_hdl_t,
    port: u8,
    sgid_p: *mut ib_gid_t,
    base_lid_p: *mut ib_lid_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer_state(opened(&cx, hca_hdl).and_then(|d| state(&d, port)), sgid_p, base_lid_p)
}

unsafe extern "C" fn ibt_get_port_state_byguid(
    hca_guid: ib_guid_t,
    port: u8,
    sgid_p: *mut ib_gid_t,
    base_lid_p: *mut ib_lid_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    answer_state(by_guid(&cx, hca_guid).and_then(|d| state(&d, port)), sgid_p, base_lid_p)
}

unsafe extern "C" fn ibt_modify_port(
    hca_hdl: ibt_hca_hdl_t,
    port: u8,
    flags: ibt_port_modify_flags_t,
    init_type: u8,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    match opened(&cx, hca_hdl) {
        Ok(device) => modify(&device, port, flags, init_type),
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_modify_port_byguid(
    hca_guid: ib_guid_t,
    port: u8,
    flags: ibt_port_modify_flags_t,
    init_type: u8,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    match by_guid(&cx, hca_guid) {
        Ok(device) => modify(&device, port, flags, init_type),
        Err(status) => status,
    }
}

/// The lab's own adapter has nothing that could be set.
fn modify(device: &Device, port: u8, flags: ibt_port_modify_flags_t, init_type: u8) -> ibt_status_t {
    match device.adapter.driver() {
        Some(driver) => of(driver.modify_port(port, flags, init_type)),
        None => IBT_NOT_SUPPORTED,
    }
}
