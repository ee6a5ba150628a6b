//! Posting work requests. Interrupt level allowed; each array is posted in order up to the first bad request.

use super::channel::nothing_strayed;
use super::objects::{Channel, Destination, Made};
use super::posted::{Posting, Way};
use super::{Device, Ibtl, hdl, out, resolve};
use crate::adapter::driver::post::destination;
use crate::adapter::{Adapter, Ah, Driver, Qp, Srq, driver};
use crate::status::*;
use fabric::{Error, FarSend, Lso, QKey, QpState, Qpn, RcSendWr, RecvWr, SendOp, SendWr, Sge, UdDest};
use fakekernel::{Cx, Export, FaultKind, Rule, cx, export};
use illumos_sys_hdrs::{
    IBT_RC_SRV, IBT_UD_SRV, IBT_WR_SEND_CKSUM, IBT_WR_SEND_IMMED, IBT_WR_SEND_INLINE, IBT_WR_SEND_SIGNAL,
    IBT_WR_SEND_SOLICIT, IBT_WRC_SEND, IBT_WRC_SEND_LSO, ibt_channel_hdl_t, ibt_recv_wr_t, ibt_send_wr_t,
    ibt_srq_hdl_t, ibt_status_t, ibt_ud_dest_hdl_t, ibt_ud_dest_t, ibt_wr_ds_t, uint_t,
};
use std::sync::Arc;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: ibt_post_send, ibt_post_recv, ibt_post_srq; }
}

/// More entries than any HCA takes: a count like this is garbage, and reading the list would be a wild read.
const ABSURD_SGL: u32 = 1024;

unsafe extern "C" fn ibt_post_send(
    chan: ibt_channel_hdl_t,
    wr_list: *mut ibt_send_wr_t,
    num_wr: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    if let (Adapter::Driver(driver), Qp::Driver(qp)) = (channel.open.adapter(), &channel.qp) {
        // SAFETY: the caller's array has `num_wr` requests.
        let requests = unsafe { crate::ptr::elements(wr_list, num_wr as usize) };
        let (done, result) = post_to_driver(&cx, &ibtl, &channel, (driver, qp), requests);
        out!(posted, done);
        return of(result);
    }
    let (Adapter::Model(hca), Qp::Model(qp)) = (channel.open.adapter(), &channel.qp) else {
        return IBT_CHAN_HDL_INVALID;
    };
    if matches!(qp.state(), QpState::Reset | QpState::Init | QpState::Rtr) {
        return IBT_CHAN_STATE_INVALID;
    }
    check_count(&cx, num_wr);
    let mut done = 0;
    let mut status = IBT_SUCCESS;
    while done < num_wr {
        // SAFETY: the caller's array has `num_wr` requests.
        let wr = unsafe { crate::ptr::element(wr_list, done as usize) };
        let posted = match post_far(&cx, &ibtl, (hca, qp), &wr) {
            Some(posted) => posted,
            None => post_send_one(&cx, &ibtl, &channel, (hca, qp), &wr),
        };
        if let Err(e) = posted {
            status = e;
            break;
        }
        done += 1;
    }
    check_places(&cx, (hca, qp));
    out!(posted, done);
    status
}

/// The client's requests go to a loaded adapter in one array, with what their destinations stand for in them.
fn post_to_driver(
    cx: &Cx,
    ibtl: &Ibtl,
    channel: &Channel,
    (driver, qp): (&Driver, &Arc<driver::Qp>),
    requests: Vec<ibt_send_wr_t>,
) -> (u32, Result<(), ibt_status_t>) {
    check_count(cx, requests.len() as uint_t);
    if cx.fault(FaultKind("ibt_post_send")) {
        return (0, Err(error(Error::ChanFull)));
    }
    let mut found = Vec::with_capacity(requests.len());
    for request in &requests {
        let dest = match request.wr_trans {
            IBT_UD_SRV => found_dest(cx, ibtl, destination(request)),
            // Of a connection there is none.
            _ => Ok(ibt_ud_dest_t::default()),
        };
        match dest {
            Ok(dest) => found.push(dest),
            Err(status) => return (0, Err(status)),
        }
        // SAFETY: the request's list has as many entries as it says.
        unsafe { driver.check_memory(cx, request.wr_sgl, request.wr_nds, "reads") };
    }
    let noted: Vec<u64> = requests
        .iter()
        .map(|wr| {
            // SAFETY: the request's list has as many entries as it says.
            let pieces = if is_inline(wr) { Vec::new() } else { unsafe { pieces(wr.wr_sgl, wr.wr_nds) } };
            ibtl.posted.post(cx, channel, &Posting { way: Way::Send, id: wr.wr_id, pieces: &pieces })
        })
        .collect();
    // SAFETY: lists and headers are the caller's, for the time of the call.
    let (taken, result) = unsafe { driver.post_send(qp, requests, found) };
    noted.iter().skip(taken as usize).for_each(|number| ibtl.posted.withdraw(*number));
    (taken, result)
}

/// Is its memory read before the post returns?
fn is_inline(wr: &ibt_send_wr_t) -> bool {
    wr.wr_flags & IBT_WR_SEND_INLINE != 0
}

/// The scatter/gather list of a request; nothing if it is absurd.
///
/// # Safety
///
/// There are `nds` entries at `sgl`.
unsafe fn pieces(sgl: *const ibt_wr_ds_t, nds: u32) -> Vec<Sge> {
    let nds = if nds > ABSURD_SGL || sgl.is_null() { 0 } else { nds };
    let piece = |n| {
        // SAFETY: by this function's contract.
        let d = unsafe { crate::ptr::element(sgl, n) };
        Sge { va: d.ds_va, lkey: d.ds_key, len: d.ds_len }
    };
    (0..nds as usize).map(piece).collect()
}

/// What a client's destination stands for, as an adapter finds it behind the pointer in a request.
fn found_dest(cx: &Cx, ibtl: &Ibtl, dest: ibt_ud_dest_hdl_t) -> Result<ibt_ud_dest_t, ibt_status_t> {
    if dest.is_null() {
        return Err(IBT_UD_DEST_HDL_INVALID);
    }
    let dest = resolve(cx, &ibtl.dests, dest).ok_or(IBT_UD_DEST_HDL_INVALID)?;
    let Ah::Driver(ah) = &dest.ah else { return Err(IBT_UD_DEST_HDL_INVALID) };
    let target = *dest.target.lock();
    Ok(ibt_ud_dest_t {
        ud_ah: ah.get().cast(),
        ud_dst_qpn: target.qpn,
        ud_qkey: target.qkey,
        ..Default::default()
    })
}

/// The lab's adapter, and a queue pair of it.
type Model<'a> = (&'a fabric::Hca, &'a fabric::Qp);

/// A CQ that is overrun is lost, with every channel on it.
fn check_places(cx: &Cx, (hca, qp): Model<'_>) {
    if !cx.checks() {
        return;
    }
    if let Some((requests, places)) = hca.overcommitted(qp) {
        let what = format!("{requests} requests are posted that may complete in a CQ with {places} places");
        cx.violate(Rule::AbsurdArgument, what);
    }
}

/// A plain datagram to a far end, in a machine that is measured; `None` if it is anything else.
fn post_far(
    cx: &Cx,
    ibtl: &Ibtl,
    (hca, qp): Model<'_>,
    wr: &ibt_send_wr_t,
) -> Option<Result<(), ibt_status_t>> {
    const PLAIN: u8 = IBT_WR_SEND_SIGNAL | IBT_WR_SEND_SOLICIT;
    const MOST: usize = 4;
    let plain = wr.wr_opcode == IBT_WRC_SEND
        && wr.wr_trans == IBT_UD_SRV
        && wr.wr_flags & !PLAIN == 0
        && wr.wr_nds as usize <= MOST;
    if !plain || cx.checks() {
        return None;
    }
    let dest = resolve(cx, &ibtl.dests, plain_dest(wr).1)?;
    let mut sgl = [Sge { va: 0, lkey: 0, len: 0 }; MOST];
    for (n, sge) in sgl.iter_mut().take(wr.wr_nds as usize).enumerate() {
        // SAFETY: the caller's list has `wr_nds` entries.
        let piece = unsafe { crate::ptr::element(wr.wr_sgl, n) };
        *sge = Sge { va: piece.ds_va, lkey: piece.ds_key, len: piece.ds_len };
    }
    let Ah::Model(ah) = &dest.ah else { return None };
    let send = FarSend {
        id: wr.wr_id,
        signal: wr.wr_flags & IBT_WR_SEND_SIGNAL != 0,
        ah,
        sgl: &sgl[..wr.wr_nds as usize],
    };
    hca.post_far(qp, &send).map(|posted| posted.map_err(error))
}

fn check_count(cx: &Cx, num_wr: uint_t) {
    cx.check(num_wr > 0, Rule::AbsurdArgument, || "a post of no work requests".into());
}

fn post_send_one(
    cx: &Cx,
    ibtl: &Ibtl,
    channel: &Channel,
    (hca, qp): Model<'_>,
    wr: &ibt_send_wr_t,
) -> Result<(), ibt_status_t> {
    if matches!(channel.made, Made::Connected(..)) {
        return post_connected(cx, ibtl, channel, (hca, qp), wr);
    }
    if wr.wr_trans != IBT_UD_SRV {
        return Err(IBT_CHAN_SRV_TYPE_INVALID);
    }
    let (op, dest) = match wr.wr_opcode {
        IBT_WRC_SEND => (SendOp::Send, plain_dest(wr).1),
        IBT_WRC_SEND_LSO => large_send(wr, hca)?,
        _ => return Err(IBT_CHAN_OP_TYPE_INVALID),
    };
    if dest.is_null() {
        return Err(IBT_UD_DEST_HDL_INVALID);
    }
    let dest = resolve(cx, &ibtl.dests, dest).ok_or(IBT_UD_DEST_HDL_INVALID)?;
    if cx.fault(FaultKind("ibt_post_send")) {
        return Err(error(Error::ChanFull));
    }
    let flag = |f: u8| wr.wr_flags & f != 0;
    let request = SendWr {
        id: wr.wr_id,
        signal: flag(IBT_WR_SEND_SIGNAL),
        solicited: flag(IBT_WR_SEND_SOLICIT),
        cksum: flag(IBT_WR_SEND_CKSUM),
        immediate: flag(IBT_WR_SEND_IMMED).then_some(plain_dest(wr).0),
        op,
        dest: target(&dest)?,
        sgl: list(cx, &channel.open.device, wr.wr_sgl, wr.wr_nds)?,
    };
    let inline: u64 = request.sgl.iter().map(|s| u64::from(s.len)).sum();
    if is_inline(wr) && inline > u64::from(hca.config().attr.max_inline) {
        return Err(error(Error::ChanSglLenInvalid));
    }
    let (overruns, pieces) = (hca.overruns(qp, &request), request.sgl.len());
    let read_later = if is_inline(wr) { &[][..] } else { &request.sgl };
    let number = ibtl.posted.post(cx, channel, &Posting { way: Way::Send, id: wr.wr_id, pieces: read_later });
    hca.post_send(qp, request).map_err(error).inspect_err(|_| ibtl.posted.withdraw(number))?;
    cx.check(!overruns, Rule::HeapCorruption, || {
        format!("a send of {pieces} pieces is longer than its place in the queue, and nothing looks: it wrote over the next one")
    });
    Ok(())
}

/// A send on a connection.
fn post_connected(
    cx: &Cx,
    ibtl: &Ibtl,
    channel: &Channel,
    (hca, qp): Model<'_>,
    wr: &ibt_send_wr_t,
) -> Result<(), ibt_status_t> {
    if wr.wr_trans != IBT_RC_SRV {
        return Err(IBT_CHAN_SRV_TYPE_INVALID);
    }
    if wr.wr_opcode != IBT_WRC_SEND {
        return Err(IBT_CHAN_OP_TYPE_INVALID);
    }
    if cx.fault(FaultKind("ibt_post_send")) {
        return Err(error(Error::ChanFull));
    }
    let flag = |f: u8| wr.wr_flags & f != 0;
    // SAFETY: every member of the union is integers and pointers, for which any bytes are a value.
    let connected = unsafe { wr.wr.rc };
    // SAFETY: as above.
    let immediate = unsafe { connected.rcwr.send_immed };
    let request = RcSendWr {
        id: wr.wr_id,
        signal: flag(IBT_WR_SEND_SIGNAL),
        solicited: flag(IBT_WR_SEND_SOLICIT),
        immediate: flag(IBT_WR_SEND_IMMED).then_some(immediate),
        sgl: list(cx, &channel.open.device, wr.wr_sgl, wr.wr_nds)?,
    };
    if is_inline(wr) {
        return Err(error(Error::ChanSglLenInvalid));
    }
    let posting = Posting { way: Way::Send, id: wr.wr_id, pieces: &request.sgl };
    let number = ibtl.posted.post(cx, channel, &posting);
    hca.post_rc_send(qp, request).map_err(error).inspect_err(|_| ibtl.posted.withdraw(number))
}

/// Immediate data and destination of a plain datagram.
fn plain_dest(wr: &ibt_send_wr_t) -> (u32, ibt_ud_dest_hdl_t) {
    // SAFETY: every member of the union is integers and pointers, for which any bytes are a value; only the handle table
    // looks at the pointer.
    let ud = unsafe { wr.wr.ud };
    (ud.udwr_immed, ud.udwr_dest)
}

fn large_send(wr: &ibt_send_wr_t, hca: &fabric::Hca) -> Result<(SendOp, ibt_ud_dest_hdl_t), ibt_status_t> {
    // SAFETY: as for a plain datagram.
    let lso = unsafe { wr.wr.ud_lso };
    if lso.lso_hdr_sz > hca.config().attr.max_lso_hdr_size {
        return Err(error(Error::ChanSglLenInvalid));
    }
    // SAFETY: the caller's header has that many bytes, which was just bounded, and is copied at post as the interface says.
    let header = unsafe { crate::ptr::elements(lso.lso_hdr, lso.lso_hdr_sz as usize) };
    Ok((SendOp::Lso(Lso { header, mss: lso.lso_mss }), lso.lso_ud_dest))
}

fn target(dest: &Destination) -> Result<UdDest, ibt_status_t> {
    let Ah::Model(ah) = &dest.ah else { return Err(IBT_UD_DEST_HDL_INVALID) };
    let target = *dest.target.lock();
    Ok(UdDest { ah: ah.clone(), qpn: Qpn::truncating(target.qpn), qkey: QKey(target.qkey) })
}

/// The scatter/gather list of a request.
fn list(cx: &Cx, device: &Device, sgl: *const ibt_wr_ds_t, nds: u32) -> Result<Vec<Sge>, ibt_status_t> {
    if nds > ABSURD_SGL {
        return Err(error(Error::ChanSglLenInvalid));
    }
    // SAFETY: the caller's list has `nds` entries.
    let list = unsafe { pieces(sgl, nds) };
    let attr = device.adapter.model().map(|hca| &hca.config().attr);
    if let Some(attr) = attr.filter(|attr| attr.res_lkey) {
        for sge in list.iter().filter(|s| s.lkey == attr.reserved_lkey && s.len > 0) {
            check_mapped(cx, device, sge);
        }
    }
    Ok(list)
}

/// The reserved key vouches for nothing: the address must come from a mapping that is still bound.
fn check_mapped(cx: &Cx, device: &Device, sge: &Sge) {
    let mapped = device.is_mapped(sge.va, sge.va.saturating_add(u64::from(sge.len)));
    cx.check(mapped, Rule::AbsurdArgument, || {
        format!(
            "{} bytes at {:#x} with the reserved key lie in no mapping of ibt_map_mem_iov",
            sge.len, sge.va
        )
    });
}

unsafe extern "C" fn ibt_post_recv(
    chan: ibt_channel_hdl_t,
    wr_list: *mut ibt_recv_wr_t,
    num_wr: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    if cx.fault(FaultKind("ibt_post_recv")) {
        return IBT_INSUFF_RESOURCE;
    }
    check_count(&cx, num_wr);
    let device = &channel.open.device;
    if let (Adapter::Driver(driver), Qp::Driver(qp)) = (&device.adapter, &channel.qp) {
        // SAFETY: the caller's array has `num_wr` requests.
        let requests = unsafe { crate::ptr::elements(wr_list, num_wr as usize) };
        for wr in &requests {
            // SAFETY: the request's list has as many entries as it says.
            unsafe { driver.check_memory(&cx, wr.wr_sgl, wr.wr_nds, "will write") };
        }
        let noted: Vec<u64> = requests
            .iter()
            .map(|wr| {
                // SAFETY: the request's list has as many entries as it says.
                let pieces = unsafe { pieces(wr.wr_sgl, wr.wr_nds) };
                note_receive(&cx, &ibtl, &channel, wr.wr_id, &pieces)
            })
            .collect();
        // SAFETY: the lists are the caller's, for the time of the call.
        let (done, result) = unsafe { driver.post_recv(qp, requests) };
        noted.iter().skip(done as usize).for_each(|number| ibtl.posted.withdraw(*number));
        out!(posted, done);
        return of(result);
    }
    let (Adapter::Model(hca), Qp::Model(qp)) = (&device.adapter, &channel.qp) else {
        return IBT_CHAN_HDL_INVALID;
    };
    let post = |wr: RecvWr| {
        let number = note_receive(&cx, &ibtl, &channel, wr.id, &wr.sgl);
        hca.post_recv(qp, wr).inspect_err(|_| ibtl.posted.withdraw(number))
    };
    // SAFETY: passed on from this call.
    let status = unsafe { post_receives(&cx, device, wr_list, num_wr, posted, post) };
    check_places(&cx, (hca, qp));
    nothing_strayed(&cx, &channel);
    status
}

fn note_receive(cx: &Cx, ibtl: &Ibtl, channel: &Channel, id: u64, pieces: &[Sge]) -> u64 {
    ibtl.posted.post(cx, channel, &Posting { way: Way::Receive, id, pieces })
}

/// What a shared queue has is in no books: nobody here uses one.
unsafe extern "C" fn ibt_post_srq(
    srq: ibt_srq_hdl_t,
    wr_list: *mut ibt_recv_wr_t,
    num_wr: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.srqs, srq, IBT_SRQ_HDL_INVALID);
    check_count(&cx, num_wr);
    let device = &object.open.device;
    match (&device.adapter, &object.srq) {
        (Adapter::Driver(driver), Srq::Driver(srq)) => {
            // SAFETY: the caller's array has `num_wr` requests.
            let requests = unsafe { crate::ptr::elements(wr_list, num_wr as usize) };
            for wr in &requests {
                // SAFETY: the request's list has as many entries as it says.
                unsafe { driver.check_memory(&cx, wr.wr_sgl, wr.wr_nds, "will write") };
            }
            // SAFETY: the lists are the caller's, for the time of the call.
            let (done, result) = unsafe { driver.post_srq(srq, requests) };
            out!(posted, done);
            of(result)
        }
        // SAFETY: passed on from this call.
        (Adapter::Model(hca), Srq::Model(srq)) => unsafe {
            post_receives(&cx, device, wr_list, num_wr, posted, |wr| hca.post_srq(srq, wr))
        },
        _ => IBT_SRQ_HDL_INVALID,
    }
}

/// Posts an array of receives.
///
/// # Safety
///
/// `wr_list` has `num_wr` requests, each with a list of as many entries as it says.
unsafe fn post_receives(
    cx: &Cx,
    device: &Device,
    wr_list: *mut ibt_recv_wr_t,
    num_wr: uint_t,
    posted: *mut uint_t,
    post: impl Fn(RecvWr) -> Result<(), Error>,
) -> ibt_status_t {
    let mut done = 0;
    let mut status = IBT_SUCCESS;
    while done < num_wr {
        // SAFETY: by this function's contract.
        let wr = unsafe { crate::ptr::element(wr_list, done as usize) };
        let result = list(cx, device, wr.wr_sgl, wr.wr_nds)
            .and_then(|sgl| post(RecvWr { id: wr.wr_id, sgl }).map_err(error));
        if let Err(e) = result {
            status = e;
            break;
        }
        done += 1;
    }
    out!(posted, done);
    status
}
