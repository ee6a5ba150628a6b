//! `ibt_open_rc_channel` and what belongs to it.

use std::ffi::c_void;

use fabric::{Mtu, Nanos};
use fakekernel::{Export, FaultKind, Rule, cx, export};
use illumos_sys_hdrs::{
    IBT_BLOCKING, IBT_CHAN_HDL_INVALID, IBT_CHAN_SRV_TYPE_INVALID, IBT_CHAN_STATE_INVALID, IBT_CM_DELAY_REQ,
    IBT_CM_EVENT_REP_RCV, IBT_CM_EVENT_REQ_RCV, IBT_CM_FAILURE, IBT_INSUFF_RESOURCE, IBT_INVALID_PARAM,
    IBT_NOCALLBACKS, IBT_NONBLOCKING, IBT_PATH_PKT_LT_TOO_HIGH, IBT_SUCCESS, clock_t, ibt_chan_open_args_t,
    ibt_chan_open_flags_t, ibt_channel_hdl_t, ibt_cm_event_type_t, ibt_cm_proceed_reply_t, ibt_cm_reason_e,
    ibt_cm_status_t, ibt_cmdelay_flags_t, ibt_execution_mode_t, ibt_path_info_t, ibt_priv_data_len_t,
    ibt_rc_returns_t, ibt_status_t,
};

use super::active::Open;
use super::closing::Mode;
use super::handler::{Answer, Handler};
use super::mad::{About, DREQ_PRIVATE, MRA_PRIVATE, REP_PRIVATE, REQ_PRIVATE};
use crate::convert::{gid_from_c, vector_from_c};
use crate::ibcm::Ibcm;
use crate::ibtl::{Ibtl, Opaque, hdl};
use crate::ptr::{elements, load, set_element, store};

pub(in crate::ibcm) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_open_rc_channel, ibt_close_rc_channel, ibt_cm_proceed, ibt_cm_delay;
    }
}

/// Bits of `ibt_chan_open_flags_t` (`ibvti.h` has the last four).
mod flag {
    pub const REDIRECTED: u32 = 1;
    pub const PORT_REDIRECTED: u32 = 2;
    pub const DUP: u32 = 4;
    pub const CM_RETRY: u32 = 0x10;
    pub const STARTING_PSN: u32 = 0x20;
    pub const LOCAL_CM_TIME: u32 = 0x40;
    pub const REMOTE_CM_TIME: u32 = 0x80;
}

/// The longest lifetime of a packet that ibcm counts with.
const LONGEST_LIFETIME: u8 = 20;
const MOST_RNR_RETRIES: u32 = 7;

unsafe extern "C" fn ibt_open_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    flags: ibt_chan_open_flags_t,
    mode: ibt_execution_mode_t,
    args: *mut ibt_chan_open_args_t,
    returns: *mut ibt_rc_returns_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    // SAFETY: the caller's arguments, or NULL; they stay as they are during the call.
    let Some(args) = (unsafe { load(args) }) else { return IBT_INVALID_PARAM };
    // SAFETY: the caller's own, or NULL.
    let wanted = unsafe { load(returns) };
    // SAFETY: the caller's path, or NULL.
    let path = unsafe { load(args.oc_path) };
    let (Some(path), Ok(())) = (path, check(flags.0, mode, &args, wanted.as_ref())) else {
        return IBT_INVALID_PARAM;
    };
    if path.pi_sid == 0 {
        return IBT_INVALID_PARAM;
    }
    if path.pi_prim_pkt_lt > LONGEST_LIFETIME {
        return IBT_PATH_PKT_LT_TOO_HIGH;
    }
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, rc_chan, IBT_CHAN_HDL_INVALID);
    if channel.connection().is_none() {
        return IBT_CHAN_SRV_TYPE_INVALID;
    }
    if cx.fault(FaultKind("ibt_open_rc_channel")) {
        return IBT_INSUFF_RESOURCE;
    }
    // SAFETY: the caller's private data have as many bytes as it says.
    let private = unsafe { private_data(args.oc_priv_data, args.oc_priv_data_len, REQ_PRIVATE) };
    let open = match open_of(flags.0, &args, &path, private) {
        Some(open) => open,
        None => return IBT_INVALID_PARAM,
    };
    if mode == IBT_BLOCKING {
        cx.no_locks();
    }
    let ibcm = Ibcm::of(cx.kernel());
    let (_, outcome) = match ibcm.open(&channel, &open) {
        Ok(begun) => begun,
        Err(status) => return status,
    };
    let Some(wanted) = wanted.filter(|_| mode == IBT_BLOCKING) else { return IBT_SUCCESS };
    let opened = ibcm.wait_for_open(&outcome);
    let room = usize::from(wanted.rc_priv_data_len);
    for (n, byte) in opened.private.iter().take(room).enumerate() {
        // SAFETY: the caller has room for so many bytes.
        unsafe { set_element(wanted.rc_priv_data.cast::<u8>(), n, *byte) };
    }
    let answer = ibt_rc_returns_t {
        rc_rdma_ra_in: opened.rdma_in,
        rc_rdma_ra_out: opened.rdma_out,
        rc_status: ibt_cm_reason_e(opened.reason),
        rc_failover_status: 2,
        rc_priv_data_len: opened.private.len().min(room) as u8,
        ..wanted
    };
    // SAFETY: the caller's own variable.
    unsafe { store(returns, answer) };
    if opened.reason == 0 { IBT_SUCCESS } else { IBT_CM_FAILURE }
}

fn check(
    flags: u32,
    mode: ibt_execution_mode_t,
    args: &ibt_chan_open_args_t,
    returns: Option<&ibt_rc_returns_t>,
) -> Result<(), ()> {
    let mode_fits = match mode {
        IBT_BLOCKING => returns.is_some(),
        IBT_NONBLOCKING => returns.is_none(),
        _ => false,
    };
    let room_fits = returns.is_none_or(|returns| usize::from(returns.rc_priv_data_len) <= REP_PRIVATE);
    let redirected = flags & (flag::REDIRECTED | flag::PORT_REDIRECTED) != 0;
    let good = args.oc_cm_handler.is_some()
        && mode_fits
        && room_fits
        && args.oc_path_rnr_retry_cnt.0 <= MOST_RNR_RETRIES
        && args.oc_rdma_ra_in <= crate::ibtl::RDMA_DEPTH
        && args.oc_rdma_ra_out <= crate::ibtl::RDMA_DEPTH
        && flags & flag::DUP == 0
        && !redirected;
    good.then_some(()).ok_or(())
}

fn open_of(
    flags: u32,
    args: &ibt_chan_open_args_t,
    path: &ibt_path_info_t,
    private: Vec<u8>,
) -> Option<Open> {
    let cep = &path.pi_prim_cep_path;
    let micros = |usec: u32| Nanos(u64::from(usec) * 1_000);
    let given = |bit: u32| flags & bit != 0;
    Some(Open {
        hca: path.pi_hca_guid,
        service_id: path.pi_sid,
        vector: vector_from_c(&cep.cep_adds_vect)?,
        sgid: gid_from_c(cep.cep_adds_vect.av_sgid),
        dgid: gid_from_c(cep.cep_adds_vect.av_dgid),
        pkey_ix: cep.cep_pkey_ix,
        mtu: Mtu::from_code(u8::try_from(path.pi_path_mtu.0).ok()?)?,
        lifetime: path.pi_prim_pkt_lt,
        handler: Handler { function: args.oc_cm_handler, private: Opaque::of(args.oc_cm_clnt_private) },
        retry: args.oc_path_retry_cnt(),
        rnr_retry: args.oc_path_rnr_retry_cnt.0 as u8,
        rdma_in: args.oc_rdma_ra_in,
        rdma_out: args.oc_rdma_ra_out,
        cm_retries: given(flag::CM_RETRY).then(|| args.oc_opaque1() as u8),
        first_psn: given(flag::STARTING_PSN).then(|| args.oc_opaque2()),
        local_response: given(flag::LOCAL_CM_TIME).then(|| micros(args.oc_opaque3)),
        remote_response: given(flag::REMOTE_CM_TIME).then(|| micros(args.oc_opaque4)),
        private,
    })
}

/// A client's private data, cut at what a message has room for.
///
/// # Safety
///
/// `at` is NULL or points to `len` bytes.
unsafe fn private_data(at: *const c_void, len: ibt_priv_data_len_t, room: usize) -> Vec<u8> {
    // SAFETY: by this function's contract.
    unsafe { elements(at.cast::<u8>(), usize::from(len).min(room)) }
}

unsafe extern "C" fn ibt_close_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    mode: ibt_execution_mode_t,
    priv_data: *mut c_void,
    priv_data_len: ibt_priv_data_len_t,
    ret_status: *mut u8,
    ret_priv_data: *mut c_void,
    ret_priv_data_len_p: *mut ibt_priv_data_len_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, rc_chan, IBT_CHAN_HDL_INVALID);
    if channel.connection().is_none() {
        return IBT_CHAN_SRV_TYPE_INVALID;
    }
    // SAFETY: the caller's own variable, or NULL.
    let room = unsafe { load(ret_priv_data_len_p) }.unwrap_or(0);
    let mode = match mode {
        IBT_BLOCKING => Mode::Blocking,
        IBT_NONBLOCKING => Mode::NonBlocking,
        IBT_NOCALLBACKS => Mode::NoCallbacks,
        _ => return IBT_INVALID_PARAM,
    };
    if usize::from(room) > super::mad::DREP_PRIVATE {
        return IBT_INVALID_PARAM;
    }
    let link = *channel.cm.lock();
    let Some(id) = link.session else {
        if !link.connected && !link.closed {
            return IBT_CHAN_STATE_INVALID;
        }
        // SAFETY: the caller's own variable, or NULL.
        unsafe { store(ret_status, super::closed::ALREADY) };
        return IBT_SUCCESS;
    };
    if mode != Mode::NonBlocking {
        cx.no_locks();
    }
    // SAFETY: the caller's private data have as many bytes as it says.
    let private = unsafe { private_data(priv_data, priv_data_len, DREQ_PRIVATE) };
    let outcome = Ibcm::of(cx.kernel()).close(id, mode, private);
    if outcome.code != 0 {
        // SAFETY: the caller's own variable, or NULL.
        unsafe { store(ret_status, outcome.code) };
    }
    if !ret_priv_data.is_null() {
        for (n, byte) in outcome.private.iter().take(room.into()).enumerate() {
            // SAFETY: the caller has room for so many bytes.
            unsafe { set_element(ret_priv_data.cast::<u8>(), n, *byte) };
        }
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_cm_proceed(
    event: ibt_cm_event_type_t,
    session_id: *mut c_void,
    status: ibt_cm_status_t,
    cm_event_data: *mut ibt_cm_proceed_reply_t,
    priv_data: *mut c_void,
    priv_data_len: ibt_priv_data_len_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let Ok(id) = u32::try_from(session_id.addr()) else { return IBT_INVALID_PARAM };
    // SAFETY: the caller's answer, or NULL.
    let reply = unsafe { load(cm_event_data) };
    // SAFETY: every member of the union is integers and pointers, for which any bytes are a value.
    let rep = reply.map(|reply| unsafe { reply.rep });
    // SAFETY: the caller's private data have as many bytes as it says.
    let private = unsafe { private_data(priv_data, priv_data_len, REP_PRIVATE) };
    let answer = Answer {
        status: status.0,
        channel: rep.map_or(0, |rep| rep.cm_channel.addr()),
        rdma_in: rep.map_or(0, |rep| rep.cm_rdma_ra_in),
        rdma_out: rep.map_or(0, |rep| rep.cm_rdma_ra_out),
        rnr_retry: rep.map_or(0, |rep| rep.cm_rnr_retry_cnt.0 as u8 & 7),
        private,
    };
    let ibcm = Ibcm::of(cx.kernel());
    let own = ibcm.is_in_handler(id, cx.thread().did());
    cx.check(!own, Rule::AbsurdArgument, || {
        "ibt_cm_proceed inside the handler whose answer it gives: ibcm waits for that handler to return"
            .into()
    });
    let about = match event {
        IBT_CM_EVENT_REQ_RCV => About::Req,
        IBT_CM_EVENT_REP_RCV => About::Rep,
        _ => return IBT_INVALID_PARAM,
    };
    crate::status::of(ibcm.proceed(id, about, answer))
}

unsafe extern "C" fn ibt_cm_delay(
    flags: ibt_cmdelay_flags_t,
    cm_session_id: *mut c_void,
    service_time: clock_t,
    priv_data: *mut c_void,
    priv_data_len: ibt_priv_data_len_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let Ok(id) = u32::try_from(cm_session_id.addr()) else { return IBT_INVALID_PARAM };
    // SAFETY: the caller's private data have as many bytes as it says.
    let private = unsafe { private_data(priv_data, priv_data_len, MRA_PRIVATE) };
    let about = if flags == IBT_CM_DELAY_REQ { About::Req } else { About::Rep };
    let service = super::super::units::usec_to_ib(service_time);
    crate::status::of(Ibcm::of(cx.kernel()).delay(id, about, service, private))
}
