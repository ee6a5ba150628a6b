//! Channels of datagrams, and what those of connected mode have in common with them.

pub(super) use super::objects::Made;
use super::objects::{Channel, CmLink, Kind, Opaque, OpenHca, Private, SelfHandle, drop_hold, hold};
use super::{Ibtl, arg, hdl, out, resolve, take};
use crate::adapter::{Qp, UdConfig};
use crate::status::*;
use fabric::{PortNum, QKey, QpSizes};
use fakekernel::{Cx, Export, FaultKind, Rule, cx, export};
use illumos_sys_hdrs::{
    IBT_ACHAN_CLONE, IBT_ACHAN_USER_MAP, IBT_ACHAN_USES_FCMD, IBT_ACHAN_USES_FEXCH, IBT_ACHAN_USES_RFCI,
    IBT_ACHAN_USES_RSS, IBT_ACHAN_USES_SRQ, IBT_CEP_SET_QKEY, ib_guid_t, ib_qkey_t, ib_qpn_t,
    ibt_cep_modify_flags_t, ibt_cep_state_e, ibt_chan_alloc_flags_t, ibt_chan_sizes_t, ibt_channel_hdl_t,
    ibt_cq_hdl_t, ibt_hca_hdl_t, ibt_qflags_t, ibt_queue_sizes_t, ibt_status_t, ibt_ud_chan_alloc_args_t,
    ibt_ud_chan_modify_attr_t, ibt_ud_chan_query_attr_t, ibt_ud_dest_hdl_t, uint_t,
};
use std::ffi::c_void;
use std::sync::Arc;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_ud_channel, ibt_alloc_ud_channel_range, ibt_query_ud_channel, ibt_modify_ud_channel,
            ibt_recover_ud_channel, ibt_recycle_ud, ibt_update_channel_qkey, ibt_flush_channel, ibt_free_channel,
            ibt_query_queues, ibt_resize_queues;
        UKS: ibt_set_chan_private, ibt_get_chan_private, ibt_channel_to_hca_guid;
    }
}

/// Flags of which at most one may be given.
const EXCLUSIVE: u32 = IBT_ACHAN_USER_MAP.0
    | IBT_ACHAN_USES_RSS.0
    | IBT_ACHAN_USES_RFCI.0
    | IBT_ACHAN_USES_FCMD.0
    | IBT_ACHAN_CLONE.0;
/// What needs hardware the software HCA does not model.
const UNSUPPORTED: u32 =
    IBT_ACHAN_USER_MAP.0 | IBT_ACHAN_USES_RSS.0 | IBT_ACHAN_USES_RFCI.0 | IBT_ACHAN_USES_FCMD.0;

unsafe extern "C" fn ibt_alloc_ud_channel(
    hca_hdl: ibt_hca_hdl_t,
    flags: ibt_chan_alloc_flags_t,
    args: *mut ibt_ud_chan_alloc_args_t,
    ud_chan_p: *mut ibt_channel_hdl_t,
    sizes: *mut ibt_chan_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let args = arg!(cx, args, "the ibt_ud_chan_alloc_args_t of ibt_alloc_ud_channel");
    if let Err(status) = check_flags(flags.0, args.ud_srq.is_null()) {
        return status;
    }
    if cx.fault(FaultKind("ibt_alloc_ud_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    let recipe = if flags.0 & IBT_ACHAN_CLONE.0 != 0 {
        clone_of(&cx, &ibtl, &open, &args)
    } else {
        recipe(&cx, &ibtl, flags.0, &args)
    };
    let recipe = match recipe {
        Ok(recipe) => recipe,
        Err(status) => return status,
    };
    match make(&cx, &ibtl, &open, recipe) {
        Ok(channel) => {
            match open.adapter().query_qp(&channel.qp) {
                Ok(now) => out!(sizes, sizes_to_c(now.sizes)),
                Err(status) => return status,
            }
            out!(ud_chan_p, channel.handle.get());
            IBT_SUCCESS
        }
        Err(e) => e,
    }
}

impl Channel {
    /// How its connection stands; `None` for one of datagrams.
    pub(crate) fn connection(&self) -> Option<fabric::RcAttr> {
        self.open.adapter().connection(&self.qp)
    }
}

/// Whether these flags go together.
pub(super) fn check_flags(flags: u32, srq_is_null: bool) -> Result<(), ibt_status_t> {
    if flags & IBT_ACHAN_USES_FEXCH.0 != 0 {
        return Err(IBT_CHAN_SRV_TYPE_INVALID);
    }
    let rss_and_srq = IBT_ACHAN_USES_RSS.0 | IBT_ACHAN_USES_SRQ.0;
    let no_srq = flags & IBT_ACHAN_USES_SRQ.0 != 0 && srq_is_null;
    if (flags & EXCLUSIVE).count_ones() > 1 || flags & rss_and_srq == rss_and_srq || no_srq {
        return Err(IBT_INVALID_PARAM);
    }
    if flags & UNSUPPORTED != 0 {
        return Err(IBT_NOT_SUPPORTED);
    }
    Ok(())
}

/// Everything a channel is made from.
struct Recipe {
    config: UdConfig,
    flags: illumos_sys_hdrs::ibt_attr_flags_t,
    scq: Opaque,
    rcq: Opaque,
    pd: Opaque,
    srq: Opaque,
}

fn recipe(cx: &Cx, ibtl: &Ibtl, flags: u32, args: &ibt_ud_chan_alloc_args_t) -> Result<Recipe, ibt_status_t> {
    // The reference HCA checks these for NULL and reports; what is neither NULL nor a handle is a wild pointer.
    if args.ud_scq.is_null() || args.ud_rcq.is_null() {
        return Err(IBT_CQ_HDL_INVALID);
    }
    if args.ud_pd.is_null() {
        return Err(IBT_PD_HDL_INVALID);
    }
    let scq = resolve(cx, &ibtl.cqs, args.ud_scq).ok_or(IBT_CQ_HDL_INVALID)?;
    let rcq = resolve(cx, &ibtl.cqs, args.ud_rcq).ok_or(IBT_CQ_HDL_INVALID)?;
    let pd = resolve(cx, &ibtl.pds, args.ud_pd).ok_or(IBT_PD_HDL_INVALID)?;
    let srq = if flags & IBT_ACHAN_USES_SRQ.0 != 0 {
        Some(resolve(cx, &ibtl.srqs, args.ud_srq).ok_or(IBT_SRQ_HDL_INVALID)?)
    } else {
        None
    };
    let config = UdConfig {
        port: PortNum(args.ud_hca_port_num),
        pkey_ix: args.ud_pkey_ix,
        qkey: QKey(args.ud_qkey),
        pd: pd.pd.clone(),
        scq: scq.cq.clone(),
        rcq: rcq.cq.clone(),
        srq: srq.as_ref().map(|s| s.srq.clone()),
        sizes: QpSizes {
            sq: args.ud_sizes.cs_sq,
            rq: args.ud_sizes.cs_rq,
            sq_sgl: args.ud_sizes.cs_sq_sgl,
            rq_sgl: args.ud_sizes.cs_rq_sgl,
        },
        flags: args.ud_flags,
    };
    Ok(Recipe {
        config,
        flags: args.ud_flags,
        scq: Opaque::of(args.ud_scq),
        rcq: Opaque::of(args.ud_rcq),
        pd: Opaque::of(args.ud_pd),
        srq: if srq.is_some() { Opaque::of(args.ud_srq) } else { Opaque::default() },
    })
}

fn clone_of(
    cx: &Cx,
    ibtl: &Ibtl,
    open: &Arc<OpenHca>,
    args: &ibt_ud_chan_alloc_args_t,
) -> Result<Recipe, ibt_status_t> {
    if args.ud_clone_chan.is_null() {
        return Err(IBT_INVALID_PARAM);
    }
    let model = resolve(cx, &ibtl.channels, args.ud_clone_chan).ok_or(IBT_INVALID_PARAM)?;
    if !Arc::ptr_eq(&model.open, open) {
        return Err(IBT_INVALID_PARAM);
    }
    Ok(Recipe {
        config: config_now(&model)?,
        flags: model.flags,
        scq: model.scq,
        rcq: model.rcq,
        pd: model.pd,
        srq: model.srq,
    })
}

/// What another one like `model` is made from: as that is now.
fn config_now(model: &Channel) -> Result<UdConfig, ibt_status_t> {
    let Made::Datagrams(config) = &model.made else { return Err(IBT_CHAN_SRV_TYPE_INVALID) };
    let now = model.open.adapter().query_qp(&model.qp)?;
    let (port, pkey_ix, qkey, sizes) = (now.port, now.pkey_ix, now.qkey, now.sizes);
    Ok(UdConfig { port, pkey_ix, qkey, sizes, ..config.clone() })
}

fn make(cx: &Cx, ibtl: &Ibtl, open: &Arc<OpenHca>, recipe: Recipe) -> Result<Arc<Channel>, ibt_status_t> {
    let qp = open.adapter().alloc_qp(&recipe.config)?;
    let detail = format!("UD channel {:?}", qp.num());
    let channel = Channel {
        seen_ready: Default::default(),
        qp,
        made: Made::Datagrams(recipe.config),
        open: open.clone(),
        scq: recipe.scq,
        rcq: recipe.rcq,
        pd: recipe.pd,
        srq: recipe.srq,
        flags: recipe.flags,
        private: Private::default(),
        handle: SelfHandle::default(),
        cm: Default::default(),
    };
    Ok(enter(cx, ibtl, channel, detail))
}

/// Gives a new channel a handle.
pub(super) fn enter(cx: &Cx, ibtl: &Ibtl, channel: Channel, detail: String) -> Arc<Channel> {
    let channel = Arc::new(channel);
    channel.open.gained(Kind::Qp);
    let handle = ibtl.channels.insert_arc(channel.clone());
    channel.handle.set(handle);
    channel.open.device.know_channel(&channel);
    hold(cx.kernel(), "ibt_channel_hdl_t", handle, detail);
    channel
}

pub(super) fn sizes_to_c(sizes: QpSizes) -> ibt_chan_sizes_t {
    ibt_chan_sizes_t {
        cs_sq: sizes.sq,
        cs_rq: sizes.rq,
        cs_sq_sgl: sizes.sq_sgl,
        cs_rq_sgl: sizes.rq_sgl,
        cs_inline: 0,
    }
}

/// Ranges of QPs serve RSS, which the software HCA does not offer.
unsafe extern "C" fn ibt_alloc_ud_channel_range(
    _hca_hdl: ibt_hca_hdl_t,
    _log2: uint_t,
    _flags: ibt_chan_alloc_flags_t,
    _args: *mut ibt_ud_chan_alloc_args_t,
    _send_cq_p: *mut ibt_cq_hdl_t,
    _recv_cq_p: *mut ibt_cq_hdl_t,
    _base_qpn_p: *mut ib_qpn_t,
    _ud_chan_p: *mut ibt_channel_hdl_t,
    _sizes: *mut ibt_chan_sizes_t,
) -> ibt_status_t {
    cx().may_block();
    IBT_NOT_SUPPORTED
}

unsafe extern "C" fn ibt_query_ud_channel(
    ud_chan: ibt_channel_hdl_t,
    ud_chan_attrs: *mut ibt_ud_chan_query_attr_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    if cx.fault(FaultKind("ibt_query_ud_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    if matches!(channel.made, Made::Connected(..)) {
        return IBT_CHAN_SRV_TYPE_INVALID;
    }
    let now = match channel.open.adapter().query_qp(&channel.qp) {
        Ok(now) => now,
        Err(status) => return status,
    };
    let attr = ibt_ud_chan_query_attr_t {
        ud_qpn: channel.qp.num().get(),
        ud_hca_guid: channel.open.device.guid,
        ud_scq: channel.scq.get().cast(),
        ud_rcq: channel.rcq.get().cast(),
        ud_pd: channel.pd.get().cast(),
        ud_hca_port_num: now.port.0,
        ud_state: ibt_cep_state_e(now.state as u32),
        ud_pkey_ix: now.pkey_ix,
        ud_qkey: now.qkey.0,
        ud_chan_sizes: sizes_to_c(now.sizes),
        ud_flags: channel.flags,
        ud_srq: channel.srq.get().cast(),
        ..Default::default()
    };
    out!(ud_chan_attrs, attr);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_modify_ud_channel(
    ud_chan: ibt_channel_hdl_t,
    flags: ibt_cep_modify_flags_t,
    attrs: *mut ibt_ud_chan_modify_attr_t,
    actual_sz: *mut ibt_queue_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    if cx.fault(FaultKind("ibt_modify_ud_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    // Queue sizes are fixed (the HCA does not claim RESIZE_CHAN); the queue key is what may change.
    if flags.0 & !IBT_CEP_SET_QKEY.0 != 0 {
        return IBT_NOT_SUPPORTED;
    }
    let attrs = arg!(cx, attrs, "the ibt_ud_chan_modify_attr_t of ibt_modify_ud_channel");
    if flags.0 & IBT_CEP_SET_QKEY.0 != 0
        && let Err(e) = channel.open.adapter().set_qkey(&channel.qp, QKey(attrs.ud_qkey))
    {
        return e;
    }
    let sizes = match channel.open.adapter().query_qp(&channel.qp) {
        Ok(now) => now.sizes,
        Err(status) => return status,
    };
    out!(actual_sz, ibt_queue_sizes_t { qs_sq: sizes.sq, qs_rq: sizes.rq });
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_recover_ud_channel(ud_chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    of(channel.open.adapter().recover_qp(&channel.qp))
}

unsafe extern "C" fn ibt_recycle_ud(
    ud_chan: ibt_channel_hdl_t,
    hca_port_num: u8,
    pkey_ix: u16,
    qkey: ib_qkey_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    if cx.fault(FaultKind("ibt_recycle_ud")) {
        return IBT_INSUFF_RESOURCE;
    }
    let has_sent = matches!(&channel.qp, Qp::Model(qp) if qp.has_sent());
    cx.check(!has_sent, Rule::SentQueueRecycled, || {
        format!("queue pair {:?}: the slots of its send queue keep their owner bits", channel.qp.num())
    });
    let recycled = channel.open.adapter().recycle_qp(&channel.qp, PortNum(hca_port_num), pkey_ix, QKey(qkey));
    if recycled.is_ok() {
        ibtl.posted.given_back(&channel);
    }
    of(recycled)
}

unsafe extern "C" fn ibt_update_channel_qkey(
    ud_chan: ibt_channel_hdl_t,
    ud_dest: ibt_ud_dest_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    let dest = hdl!(cx, ibtl.dests, ud_dest, IBT_UD_DEST_HDL_INVALID);
    let qkey = QKey(dest.target.lock().qkey);
    of(channel.open.adapter().set_qkey(&channel.qp, qkey))
}

unsafe extern "C" fn ibt_flush_channel(chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    if cx.fault(FaultKind("ibt_flush_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    let cm = *channel.cm.lock();
    if cm.connected && !cm.closing {
        return IBT_CHAN_STATE_INVALID;
    }
    of(channel.open.adapter().flush_qp(&channel.qp))
}

/// See [`fabric::Qp::strayed`].
pub(super) fn nothing_strayed(cx: &Cx, channel: &Channel) {
    let strayed = channel.qp.strayed();
    cx.check(strayed == 0, Rule::HeapCorruption, || {
        format!("{strayed} datagrams came into buffers that were posted before the channel was recycled")
    });
}

unsafe extern "C" fn ibt_free_channel(chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    let cm = *channel.cm.lock();
    if cm.opening || cm.connected && !cm.closing {
        return IBT_CHAN_STATE_INVALID;
    }
    let known = cm.session.filter(|_| !cm.connected);
    cx.check(known.is_none(), Rule::HeapCorruption, || {
        "the channel is freed while ibcm is about to connect it, and keeps the pointer".into()
    });
    let freed = if cm.connected {
        channel.open.adapter().free_qp_only(&channel.qp)
    } else {
        channel.open.adapter().free_qp(&channel.qp)
    };
    if let Err(e) = freed {
        return e;
    }
    if cm.connected {
        keep_number(&channel);
    }
    ibtl.posted.given_back(&channel);
    nothing_strayed(&cx, &channel);
    let _ = take(&cx, &ibtl.channels, chan);
    channel.open.device.forget_channel(channel.qp.num());
    channel.open.lost(Kind::Qp);
    drop_hold(cx.kernel(), "ibt_channel_hdl_t", chan);
    IBT_SUCCESS
}

/// The channel is gone, and its number stays taken until the communication manager has forgotten its connection, which may have happened
/// just now.
fn keep_number(channel: &Channel) {
    channel.open.gained(Kind::Number);
    let mut cm = channel.cm.lock();
    cm.freed = true;
    let over = !cm.connected;
    drop(cm);
    if over {
        number_is_free(channel);
    }
}

/// The connection of a channel that is gone is forgotten.
fn number_is_free(channel: &Channel) {
    if std::mem::take(&mut channel.cm.lock().freed) {
        channel.open.adapter().release_number(&channel.qp);
        channel.open.lost(Kind::Number);
    }
}

/// The communication manager has forgotten a channel's connection: its number may be had again (`ibtl_cm_chan_is_closed`).
pub(crate) fn connection_is_over(channel: &Channel) {
    {
        let mut link = channel.cm.lock();
        *link = CmLink { freed: link.freed, closed: true, ..CmLink::default() };
    }
    number_is_free(channel);
}

unsafe extern "C" fn ibt_query_queues(
    chan: ibt_channel_hdl_t,
    actual_sz: *mut ibt_queue_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    let sizes = match channel.open.adapter().query_qp(&channel.qp) {
        Ok(now) => now.sizes,
        Err(status) => return status,
    };
    out!(actual_sz, ibt_queue_sizes_t { qs_sq: sizes.sq, qs_rq: sizes.rq });
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_resize_queues(
    _chan: ibt_channel_hdl_t,
    _flags: ibt_qflags_t,
    _request_sz: *mut ibt_queue_sizes_t,
    _actual_sz: *mut ibt_queue_sizes_t,
) -> ibt_status_t {
    cx().may_block();
    IBT_NOT_SUPPORTED
}

unsafe extern "C" fn ibt_set_chan_private(chan: ibt_channel_hdl_t, clnt_private: *mut c_void) {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.channels, chan).private.set(clnt_private);
}

unsafe extern "C" fn ibt_get_chan_private(chan: ibt_channel_hdl_t) -> *mut c_void {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.channels, chan, std::ptr::null_mut()).private.get()
}

unsafe extern "C" fn ibt_channel_to_hca_guid(chan: ibt_channel_hdl_t) -> ib_guid_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.channels, chan, 0).open.device.guid
}
