//! UD destinations: address handle, QPN and Q_Key in one object.

use super::objects::{Destination, Kind, Opaque, Target, drop_hold, hold};
use super::{Ibtl, arg, hdl, out, take};
use crate::convert::{boolean, gid_from_c, gid_to_c};
use crate::status::*;
use fabric::{AddressVector, GlobalRoute, Lid, PortNum, Rate, Sl};
use fakekernel::{Export, FaultKind, HostMutex, cx, export};
use illumos_sys_hdrs::{
    B_FALSE, IBT_WC_GRH_PRESENT, boolean_t, ib_gid_t, ib_qkey_t, ib_qpn_t, ib_vaddr_t, ibt_adds_vect_t,
    ibt_channel_hdl_t, ibt_hca_hdl_t, ibt_pd_hdl_t, ibt_status_t, ibt_ud_dest_flags_t, ibt_ud_dest_hdl_t,
    ibt_ud_dest_query_attr_t, ibt_wc_t,
};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_ud_dest, ibt_free_ud_dest, ibt_query_ud_dest;
        UKS: ibt_modify_ud_dest, ibt_modify_reply_ud_dest, ibt_is_privileged_ud_dest;
    }
}

unsafe extern "C" fn ibt_alloc_ud_dest(
    hca_hdl: ibt_hca_hdl_t,
    _flags: ibt_ud_dest_flags_t,
    pd: ibt_pd_hdl_t,
    ud_dest_p: *mut ibt_ud_dest_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let domain = hdl!(cx, ibtl.pds, pd, IBT_PD_HDL_INVALID);
    if cx.fault(FaultKind("ibt_alloc_ud_dest")) {
        return IBT_INSUFF_RESOURCE;
    }
    let ah = match open.adapter().alloc_ah(&domain.pd) {
        Ok(ah) => ah,
        Err(e) => return e,
    };
    open.gained(Kind::Ah);
    let target = Target { qpn: 0, qkey: 0, vector: ibt_adds_vect_t { av_port_num: 1, ..Default::default() } };
    let dest = Destination { ah, open, pd: Opaque::of(pd), target: HostMutex::new(target) };
    let handle = ibtl.dests.insert(dest);
    hold(cx.kernel(), "ibt_ud_dest_hdl_t", handle, "UD destination");
    out!(ud_dest_p, handle.cast());
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_modify_ud_dest(
    ud_dest: ibt_ud_dest_hdl_t,
    qkey: ib_qkey_t,
    dest_qpn: ib_qpn_t,
    adds_vect: *mut ibt_adds_vect_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let dest = hdl!(cx, ibtl.dests, ud_dest, IBT_UD_DEST_HDL_INVALID);
    if cx.fault(FaultKind("ibt_modify_ud_dest")) {
        return IBT_INSUFF_RESOURCE;
    }
    // SAFETY: NULL keeps the address; else the interface wants an address vector.
    let av = unsafe { crate::ptr::load(adds_vect) };
    let changed = av.as_ref().map_or(Ok(()), |av| dest.open.adapter().modify_ah(&dest.ah, av));
    if let Err(status) = changed {
        return status;
    }
    let mut target = dest.target.lock();
    target.qkey = qkey;
    target.qpn = dest_qpn & 0x00ff_ffff;
    if let Some(av) = av {
        target.vector = av;
    }
    IBT_SUCCESS
}

/// The path back to the sender of a received datagram.
unsafe extern "C" fn ibt_modify_reply_ud_dest(
    ud_chan: ibt_channel_hdl_t,
    ud_dest: ibt_ud_dest_hdl_t,
    qkey: ib_qkey_t,
    wc: *mut ibt_wc_t,
    recv_buf: ib_vaddr_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    let dest = hdl!(cx, ibtl.dests, ud_dest, IBT_UD_DEST_HDL_INVALID);
    let wc = arg!(cx, wc, "the ibt_wc_t of ibt_modify_reply_ud_dest");
    let now = match channel.open.adapter().query_qp(&channel.qp) {
        Ok(now) => now,
        Err(status) => return status,
    };
    let port = now.port;
    let grh = if wc.wc_flags & IBT_WC_GRH_PRESENT != 0 { reply_route(recv_buf) } else { None };
    let vector = AddressVector {
        port,
        dlid: Lid(wc.wc_opaque1),
        sl: Sl::truncating(wc.wc_sl()),
        src_path: wc.wc_opaque4,
        rate: Rate::default(),
        grh,
    };
    let vector = to_c(&vector, port);
    if let Err(e) = dest.open.adapter().modify_ah(&dest.ah, &vector) {
        return e;
    }
    let mut target = dest.target.lock();
    // Q_Key 0 means the channel's own.
    target.qkey = if qkey == 0 { now.qkey.0 } else { qkey };
    target.qpn = wc.wc_qpn & 0x00ff_ffff;
    target.vector = vector;
    IBT_SUCCESS
}

/// Source and destination of the GRH at the start of a receive buffer, exchanged.
fn reply_route(recv_buf: ib_vaddr_t) -> Option<GlobalRoute> {
    const GRH_LEN: usize = 40;
    let base: *const u8 = std::ptr::with_exposed_provenance(recv_buf as usize);
    // SAFETY: the caller says a GRH was received into this buffer, whose first 40 bytes are for it.
    let grh = unsafe { crate::ptr::elements(base, GRH_LEN) };
    let sgid: [u8; 16] = grh.get(8..24)?.try_into().ok()?;
    let word = u32::from_be_bytes([grh[0], grh[1], grh[2], grh[3]]);
    Some(GlobalRoute {
        dgid: fabric::Gid::from_bytes(sgid),
        sgid_ix: 0,
        flow_label: word & 0x000f_ffff,
        tclass: (word >> 20) as u8,
        hop_limit: grh[7],
    })
}

fn to_c(vector: &AddressVector, port: PortNum) -> ibt_adds_vect_t {
    let mut av = ibt_adds_vect_t {
        av_port_num: port.0,
        av_opaque1: boolean(vector.grh.is_some()),
        av_opaque2: vector.dlid.0,
        av_opaque3: vector.src_path,
        ..Default::default()
    };
    av.set_av_srvl(vector.sl.get());
    if let Some(grh) = &vector.grh {
        av.av_dgid = gid_to_c(grh.dgid);
        av.av_opaque4 = u32::from(grh.sgid_ix);
        av.av_tclass = grh.tclass;
        av.av_hop = grh.hop_limit;
        av.set_av_flow(grh.flow_label);
    }
    av
}

unsafe extern "C" fn ibt_query_ud_dest(
    ud_dest: ibt_ud_dest_hdl_t,
    dest_attrs: *mut ibt_ud_dest_query_attr_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let dest = hdl!(cx, ibtl.dests, ud_dest, IBT_UD_DEST_HDL_INVALID);
    let Target { qpn, qkey, mut vector } = *dest.target.lock();
    // Whatever was stored, the source GID told is that of port and index.
    vector.av_sgid = source_gid(&dest, &vector).unwrap_or_default();
    let attr = ibt_ud_dest_query_attr_t {
        ud_hca_hdl: dest.open.handle.get(),
        ud_dst_qpn: qpn,
        ud_qkey: qkey,
        ud_addr_vect: vector,
        ud_pd: dest.pd.get().cast(),
    };
    out!(dest_attrs, attr);
    IBT_SUCCESS
}

fn source_gid(dest: &Destination, vector: &ibt_adds_vect_t) -> Option<ib_gid_t> {
    let port = dest.open.device.cached_port(vector.av_port_num)?;
    port.gids.get(vector.av_opaque4 as usize).map(|gid| gid_to_c(*gid))
}

unsafe extern "C" fn ibt_free_ud_dest(ud_dest: ibt_ud_dest_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let Some(dest) = take(&cx, &ibtl.dests, ud_dest) else { return IBT_UD_DEST_HDL_INVALID };
    drop_hold(cx.kernel(), "ibt_ud_dest_hdl_t", ud_dest);
    dest.open.lost(Kind::Ah);
    of(dest.open.adapter().free_ah(&dest.ah))
}

unsafe extern "C" fn ibt_is_privileged_ud_dest(ud_dest: ibt_ud_dest_hdl_t) -> boolean_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let dest = hdl!(cx, ibtl.dests, ud_dest, B_FALSE);
    let qkey = dest.target.lock().qkey;
    boolean(fabric::QKey(qkey).is_privileged())
}

/// The multicast GID of an address vector.
pub(super) fn group_of(av: &ibt_adds_vect_t) -> (fabric::Gid, Lid) {
    (gid_from_c(av.av_dgid), Lid(av.av_opaque2))
}
