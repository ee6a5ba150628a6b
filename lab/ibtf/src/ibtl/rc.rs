//! Channels of connected mode, as far as they are not the communication manager's: making, asking, changing.

use super::channel::{Made, check_flags, enter, sizes_to_c};
use super::objects::{Channel, Opaque, OpenHca};
use super::{Ibtl, arg, hdl, out, resolve};
use crate::adapter::{Qp, RcConfig};
use crate::convert::vector_to_c;
use crate::status::*;
use fabric::{
    AddressVector, Lid, Mtu, PortNum, QpSizes, QpState, Qpn, Rate, RcAttr, ReadyToReceive, ReadyToSend, Sl,
};
use fakekernel::{Cx, Export, FaultKind, Kernel, Rule, cx, export};
use illumos_sys_hdrs::{
    IBT_ACHAN_CLONE, IBT_ACHAN_USES_SRQ, IBT_CEP_SET_MIN_RNR_NAK, IBT_CHAN_ATTR_RO, IBT_STATE_RTS,
    ibt_cep_flags_t, ibt_cep_modify_flags_t, ibt_cep_path_t, ibt_cep_state_e, ibt_chan_alloc_flags_t,
    ibt_chan_sizes_t, ibt_channel_hdl_t, ibt_hca_hdl_t, ibt_qp_info_s__bindgen_ty_1, ibt_qp_query_attr_t,
    ibt_qp_rc_attr_t, ibt_queue_sizes_t, ibt_rc_chan_alloc_args_t, ibt_rc_chan_modify_attr_t,
    ibt_rc_chan_query_attr_t, ibt_rnr_nak_time_e, ibt_rnr_retry_cnt_e, ibt_status_t,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_rc_channel, ibt_query_rc_channel, ibt_query_qp, ibt_modify_rc_channel, ibt_modify_rdma, ibt_set_rdma_resource,
            ibt_change_port, ibt_pause_sendq, ibt_unpause_sendq, ibt_migrate_path;
    }
}

unsafe extern "C" fn ibt_alloc_rc_channel(
    hca_hdl: ibt_hca_hdl_t,
    flags: ibt_chan_alloc_flags_t,
    args: *mut ibt_rc_chan_alloc_args_t,
    rc_chan_p: *mut ibt_channel_hdl_t,
    sizes: *mut ibt_chan_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let args = arg!(cx, args, "the ibt_rc_chan_alloc_args_t of ibt_alloc_rc_channel");
    if let Err(status) = check_flags(flags.0, args.rc_srq.is_null()) {
        return status;
    }
    if args.rc_hca_port_num == 0 || args.rc_hca_port_num > open.device.nports() {
        return IBT_HCA_PORT_INVALID;
    }
    if cx.fault(FaultKind("ibt_alloc_rc_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    let made = recipe(&cx, &ibtl, &open, flags.0, &args).and_then(|recipe| make(&cx, &ibtl, &open, recipe));
    match made {
        Ok(channel) => {
            match open.adapter().query_qp(&channel.qp) {
                Ok(now) => out!(sizes, sizes_to_c(now.sizes)),
                Err(status) => return status,
            }
            out!(rc_chan_p, channel.handle.get());
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

/// What a channel of connected mode is told by whoever connects it in the communication manager's place.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The other side's port, and its queue pair.
    pub lid: u16,
    /// See above, 24 bits.
    pub qpn: u32,
    /// Number of the first packet, both ways.
    pub psn: u32,
    /// Code of the pause that the other side makes when there is no receive.
    pub min_rnr: u8,
    /// Code of what an acknowledgement may take.
    pub ack_timeout: u8,
    /// How often it sends again: what nobody acknowledges, and what finds no receive.
    pub retries: (u8, u8),
    /// Whether it is to send, too.
    pub sends: bool,
}

/// Connects a channel that a client has made and knows by that handle, which nobody else connects.
///
/// # Errors
///
/// A status: there is no such channel, or it cannot go there.
pub fn connect_channel(host: &Kernel, handle: usize, told: &Told) -> Result<(), u32> {
    let channel = Ibtl::of(host).channels.get(std::ptr::without_provenance::<u8>(handle));
    let channel = channel.map_err(|_| IBT_CHAN_HDL_INVALID.0)?;
    let adapter = channel.open.adapter();
    let receive = ReadyToReceive {
        vector: AddressVector {
            port: PortNum(0),
            dlid: Lid(told.lid),
            sl: Sl::default(),
            src_path: 0,
            rate: Rate::new(0).ok_or(IBT_INVALID_PARAM.0)?,
            grh: None,
        },
        pkey_ix: 0,
        peer: Qpn::truncating(told.qpn),
        first_psn: told.psn,
        path_mtu: Mtu::M2048,
        min_rnr: told.min_rnr,
    };
    adapter.rc_to_rtr(&channel.qp, receive).map_err(|status| status.0)?;
    let (retry, rnr_retry) = told.retries;
    let send = ReadyToSend { first_psn: told.psn, ack_timeout: told.ack_timeout, retry, rnr_retry };
    if told.sends { adapter.rc_to_rts(&channel.qp, send).map_err(|status| status.0) } else { Ok(()) }
}

/// Brings such a channel of a loaded adapter from ERROR to INIT again, on that port.
///
/// # Errors
///
/// A status, as above.
pub fn recycle_channel(host: &Kernel, handle: usize, port: u8) -> Result<(), u32> {
    let ibtl = Ibtl::of(host);
    let channel = ibtl.channels.get(std::ptr::without_provenance::<u8>(handle));
    let channel = channel.map_err(|_| IBT_CHAN_HDL_INVALID.0)?;
    let (Some(driver), Qp::Driver(qp)) = (channel.open.adapter().driver(), &channel.qp) else {
        return Err(IBT_NOT_SUPPORTED.0);
    };
    driver.recycle_rc_qp(qp, PortNum(port), 0).map_err(|status| status.0)?;
    ibtl.posted.given_back(&channel);
    Ok(())
}

/// The connection of a channel, which the communication manager is closing: the channel can be freed, and its number is kept.
pub struct Closing(Arc<Channel>);

impl Closing {
    /// The communication manager has forgotten it.
    pub fn is_over(self) {
        super::channel::connection_is_over(&self.0);
    }
}

/// Has such a channel closed by a communication manager that has not forgotten it yet.
///
/// # Errors
///
/// A status, as above.
pub fn close_channel(host: &Kernel, handle: usize) -> Result<Closing, u32> {
    let channel = Ibtl::of(host).channels.get(std::ptr::without_provenance::<u8>(handle));
    let channel = channel.map_err(|_| IBT_CHAN_HDL_INVALID.0)?;
    let mut link = channel.cm.lock();
    (link.connected, link.closing) = (true, true);
    drop(link);
    Ok(Closing(channel))
}

/// How often a loaded adapter has said of such a channel that it has received though it cannot send yet.
pub fn times_established(host: &Kernel, handle: usize) -> u32 {
    let channel = Ibtl::of(host).channels.get(std::ptr::without_provenance::<u8>(handle));
    match channel.map(|channel| channel.qp.clone()) {
        Ok(Qp::Driver(qp)) => qp.times_established(),
        _ => 0,
    }
}

/// What a channel is made from, and the handles that name it.
struct Recipe {
    config: RcConfig,
    control: ibt_cep_flags_t,
    scq: Opaque,
    rcq: Opaque,
    pd: Opaque,
    srq: Opaque,
}

fn recipe(
    cx: &Cx,
    ibtl: &Ibtl,
    open: &Arc<OpenHca>,
    flags: u32,
    args: &ibt_rc_chan_alloc_args_t,
) -> Result<Recipe, ibt_status_t> {
    if flags & IBT_ACHAN_CLONE.0 != 0 {
        return clone_of(cx, ibtl, open, args.rc_clone_chan);
    }
    if args.rc_scq.is_null() || args.rc_rcq.is_null() {
        return Err(IBT_CQ_HDL_INVALID);
    }
    if args.rc_pd.is_null() {
        return Err(IBT_PD_HDL_INVALID);
    }
    let scq = resolve(cx, &ibtl.cqs, args.rc_scq).ok_or(IBT_CQ_HDL_INVALID)?;
    let rcq = resolve(cx, &ibtl.cqs, args.rc_rcq).ok_or(IBT_CQ_HDL_INVALID)?;
    let pd = resolve(cx, &ibtl.pds, args.rc_pd).ok_or(IBT_PD_HDL_INVALID)?;
    let srq = if flags & IBT_ACHAN_USES_SRQ.0 != 0 {
        Some(resolve(cx, &ibtl.srqs, args.rc_srq).ok_or(IBT_SRQ_HDL_INVALID)?)
    } else {
        None
    };
    let asked = args.rc_sizes;
    let port = PortNum(args.rc_hca_port_num);
    let config = RcConfig {
        port,
        pkey_ix: default_pkey(open, port),
        pd: pd.pd.clone(),
        scq: scq.cq.clone(),
        rcq: rcq.cq.clone(),
        srq: srq.as_ref().map(|srq| srq.srq.clone()),
        sizes: QpSizes { sq: asked.cs_sq, rq: asked.cs_rq, sq_sgl: asked.cs_sq_sgl, rq_sgl: asked.cs_rq_sgl },
        flags: args.rc_flags,
    };
    Ok(Recipe {
        config,
        control: args.rc_control,
        scq: Opaque::of(args.rc_scq),
        rcq: Opaque::of(args.rc_rcq),
        pd: Opaque::of(args.rc_pd),
        srq: if srq.is_some() { Opaque::of(args.rc_srq) } else { Opaque::default() },
    })
}

/// The first full member's place in a port's table, as IBTL has it in its cache.
fn default_pkey(open: &OpenHca, port: PortNum) -> u16 {
    let attr = open.device.cached_port(port.0);
    let at = attr.and_then(|attr| attr.pkeys.iter().position(|pkey| pkey.is_valid() && pkey.is_full()));
    at.map_or(0, |at| at as u16)
}

fn clone_of(
    cx: &Cx,
    ibtl: &Ibtl,
    open: &Arc<OpenHca>,
    model: ibt_channel_hdl_t,
) -> Result<Recipe, ibt_status_t> {
    if model.is_null() {
        return Err(IBT_INVALID_PARAM);
    }
    let model = resolve(cx, &ibtl.channels, model).ok_or(IBT_INVALID_PARAM)?;
    let Made::Connected(config, control) = &model.made else { return Err(IBT_CHAN_SRV_TYPE_INVALID) };
    if !Arc::ptr_eq(&model.open, open) {
        return Err(IBT_INVALID_PARAM);
    }
    let (scq, rcq, pd, srq) = (model.scq, model.rcq, model.pd, model.srq);
    Ok(Recipe { config: config.clone(), control: *control, scq, rcq, pd, srq })
}

fn make(cx: &Cx, ibtl: &Ibtl, open: &Arc<OpenHca>, recipe: Recipe) -> Result<Arc<Channel>, ibt_status_t> {
    let qp = open.adapter().alloc_rc_qp(&recipe.config)?;
    let (flags, detail) = (recipe.config.flags, format!("RC channel {:?}", qp.num()));
    let channel = Channel {
        qp,
        made: Made::Connected(recipe.config, recipe.control),
        open: open.clone(),
        scq: recipe.scq,
        rcq: recipe.rcq,
        pd: recipe.pd,
        srq: recipe.srq,
        flags,
        private: Default::default(),
        handle: Default::default(),
        cm: Default::default(),
        seen_ready: AtomicBool::new(false),
    };
    Ok(enter(cx, ibtl, channel, detail))
}

/// A channel of connected mode; else the call answers that the service is another.
fn connected(cx: &Cx, chan: ibt_channel_hdl_t) -> Result<(Arc<Channel>, RcAttr), ibt_status_t> {
    let ibtl = Ibtl::of(cx.kernel());
    let channel = resolve(cx, &ibtl.channels, chan).ok_or(IBT_CHAN_HDL_INVALID)?;
    let attr = channel.connection().ok_or(IBT_CHAN_SRV_TYPE_INVALID)?;
    Ok((channel, attr))
}

unsafe extern "C" fn ibt_query_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    chan_attrs: *mut ibt_rc_chan_query_attr_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    match connected(&cx, rc_chan).and_then(|(channel, attr)| query(&channel, &attr)) {
        Ok(attr) => {
            out!(chan_attrs, attr);
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

fn query(channel: &Channel, attr: &RcAttr) -> Result<ibt_rc_chan_query_attr_t, ibt_status_t> {
    let now = channel.open.adapter().query_qp(&channel.qp)?;
    let Made::Connected(_, control) = &channel.made else { return Err(IBT_CHAN_SRV_TYPE_INVALID) };
    let mut path =
        ibt_cep_path_t { cep_pkey_ix: now.pkey_ix, cep_hca_port_num: now.port.0, ..Default::default() };
    let mut out = ibt_rc_chan_query_attr_t {
        rc_hca_guid: channel.open.device.guid,
        rc_scq: channel.scq.get().cast(),
        rc_rcq: channel.rcq.get().cast(),
        rc_pd: channel.pd.get().cast(),
        rc_state: ibt_cep_state_e(now.state as u32),
        rc_chan_sizes: sizes_to_c(now.sizes),
        rc_flags: channel.flags,
        rc_control: *control,
        rc_qpn: channel.qp.num().get(),
        rc_srq: channel.srq.get().cast(),
        ..Default::default()
    };
    if let Some(receive) = attr.receive {
        let sgid = channel.open.device.cached_port(now.port.0).and_then(|port| port.gids.first().copied());
        path.cep_adds_vect = vector_to_c(&receive.vector, sgid.unwrap_or_default());
        out.rc_dst_qpn = receive.peer.get();
        out.rc_path_mtu = illumos_sys_hdrs::ib_mtu_t(u32::from(receive.path_mtu.code()));
        out.rc_min_rnr_nak = ibt_rnr_nak_time_e(u32::from(receive.min_rnr));
    }
    if let Some(send) = attr.send {
        path.cep_cm_opaque1 = send.ack_timeout;
        out.set_rc_path_retry_cnt(send.retry);
        out.rc_path_rnr_retry_cnt = ibt_rnr_retry_cnt_e(u32::from(send.rnr_retry));
    }
    out.rc_prim_path = path;
    Ok(out)
}

/// Of a channel of connected mode.
unsafe extern "C" fn ibt_query_qp(qp: ibt_channel_hdl_t, attrs: *mut ibt_qp_query_attr_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    if cx.fault(FaultKind("ibt_query_qp")) {
        return IBT_INSUFF_RESOURCE;
    }
    let (channel, attr) = match connected(&cx, qp) {
        Ok(found) => found,
        Err(status) => return status,
    };
    let queried =
        query(&channel, &attr).and_then(|known| Ok((known, channel.open.adapter().query_qp(&channel.qp)?)));
    let (known, now) = match queried {
        Ok(queried) => queried,
        Err(status) => return status,
    };
    let mut rc = ibt_qp_rc_attr_t {
        rc_dst_qpn: known.rc_dst_qpn,
        rc_path_mtu: known.rc_path_mtu,
        rc_min_rnr_nak: known.rc_min_rnr_nak,
        rc_rnr_retry_cnt: known.rc_path_rnr_retry_cnt,
        rc_path: known.rc_prim_path,
        ..Default::default()
    };
    rc.set_rc_rq_psn(attr.expected_psn);
    let mut out = ibt_qp_query_attr_t {
        qp_sq_cq: known.rc_scq,
        qp_rq_cq: known.rc_rcq,
        qp_qpn: known.rc_qpn,
        qp_srq: known.rc_srq,
        qp_flags: known.rc_flags,
        ..Default::default()
    };
    out.qp_info.qp_state = known.rc_state;
    (out.qp_info.qp_sq_sz, out.qp_info.qp_rq_sz) = (now.sizes.sq, now.sizes.rq);
    out.qp_info.qp_transport = ibt_qp_info_s__bindgen_ty_1 { rc };
    // What the caller is told, ibtl remembers: by now the other side may have ended the connection.
    channel.seen_ready.store(known.rc_state == IBT_STATE_RTS, Ordering::Relaxed);
    out!(attrs, out);
    IBT_SUCCESS
}

/// Of what may be changed the RNR timer alone; retry counts and sizes are fixed, as the reference adapter says.
unsafe extern "C" fn ibt_modify_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    flags: ibt_cep_modify_flags_t,
    attrs: *mut ibt_rc_chan_modify_attr_t,
    actual_sz: *mut ibt_queue_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let (channel, _) = match connected(&cx, rc_chan) {
        Ok(found) => found,
        Err(status) => return status,
    };
    if cx.fault(FaultKind("ibt_modify_rc_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    let attrs = arg!(cx, attrs, "the ibt_rc_chan_modify_attr_t of ibt_modify_rc_channel");
    if !channel.seen_ready.load(Ordering::Relaxed) {
        let what = "ibt_modify_rc_channel before ibt_query_qp: ibtl remembers RESET, as ibcm names no state when it brings a connection \
                    to RTS, and the adapter resets the connection";
        cx.violate(Rule::AbsurdArgument, what);
    }
    let now = match channel.open.adapter().query_qp(&channel.qp) {
        Ok(now) => now,
        Err(status) => return status,
    };
    if now.state == QpState::Rts && flags.0 & !IBT_CEP_SET_MIN_RNR_NAK.0 != 0 {
        return IBT_CHAN_ATTR_RO;
    }
    if flags.0 & IBT_CEP_SET_MIN_RNR_NAK.0 != 0
        && let Err(status) = channel.open.adapter().set_min_rnr(&channel.qp, attrs.rc_min_rnr_nak.0 as u8)
    {
        return status;
    }
    out!(actual_sz, ibt_queue_sizes_t { qs_sq: now.sizes.sq, qs_rq: now.sizes.rq });
    IBT_SUCCESS
}

/// RDMA is not there: rights to it are taken and never used.
fn accept_rights(rc_chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    of(connected(&cx, rc_chan).map(|_| ()))
}

unsafe extern "C" fn ibt_modify_rdma(
    rc_chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
    _flags: ibt_cep_flags_t,
) -> ibt_status_t {
    accept_rights(rc_chan)
}

unsafe extern "C" fn ibt_set_rdma_resource(
    rc_chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
    _rdma_ra_out: u8,
    _rdma_ra_in: u8,
) -> ibt_status_t {
    refuse(rc_chan)
}

/// The answer of what the software HCA has not: draining a send queue, other ports, other paths.
fn refuse(rc_chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    match connected(&cx, rc_chan) {
        Ok(_) => IBT_CHAN_STATE_INVALID,
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_change_port(rc_chan: ibt_channel_hdl_t, _port_num: u8) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_pause_sendq(
    chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
) -> ibt_status_t {
    refuse(chan)
}

unsafe extern "C" fn ibt_unpause_sendq(chan: ibt_channel_hdl_t) -> ibt_status_t {
    refuse(chan)
}

unsafe extern "C" fn ibt_migrate_path(rc_chan: ibt_channel_hdl_t) -> ibt_status_t {
    refuse(rc_chan)
}
