//! Calls of a client's CM handler.

use fakekernel::Kernel;
use illumos_sys_hdrs::{
    IBT_CM_EVENT_CONN_CLOSED, IBT_CM_EVENT_CONN_EST, IBT_CM_EVENT_FAILURE, IBT_CM_EVENT_MRA_RCV,
    IBT_CM_EVENT_REP_RCV, IBT_CM_EVENT_REQ_RCV, ibt_cm_conn_failed_t, ibt_cm_event_t, ibt_cm_event_type_t,
    ibt_cm_handler_t, ibt_cm_mra_rcv_t, ibt_cm_reason_e, ibt_cm_rep_rcv_t, ibt_cm_req_rcv_t,
    ibt_cm_return_args_t, ibt_rnr_retry_cnt_e,
};

use super::mad::{self, About, DREP_PRIVATE, REJ_PRIVATE, REP_PRIVATE, RTU_PRIVATE, Rep, Req};
use crate::convert::gid_to_c;
use crate::ibcm::units::ib_to_usec;
use crate::ibtl::{Opaque, call};

/// A function of a client's and its argument.
#[derive(Clone, Copy, Default)]
pub(super) struct Handler {
    pub function: ibt_cm_handler_t,
    pub private: Opaque,
}

/// What is told.
pub(super) enum Told<'a> {
    Req {
        req: &'a Req,
        port: u8,
    },
    Rep {
        rep: &'a Rep,
        /// What is left of the time that the opener's REQ gives its own side for an answer, in microseconds.
        service_time: i64,
    },
    Mra {
        about: About,
        service: u8,
        private: &'a [u8],
    },
    /// The RTU's private data, on the side that was asked.
    Established(Option<&'a [u8]>),
    /// A code, the private data that came, whether an answer can have some.
    Closed {
        code: u8,
        private: Option<&'a [u8]>,
        answered: bool,
    },
    Failed {
        code: u8,
        about: About,
        reason: u32,
        private: Option<&'a [u8]>,
    },
}

/// What a handler answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// An `ibt_cm_status_t`.
    pub status: u32,
    /// The channel of a REQ that is accepted.
    pub channel: usize,
    pub rdma_in: u8,
    pub rdma_out: u8,
    pub rnr_retry: u8,
    pub private: Vec<u8>,
}

impl Told<'_> {
    const fn kind(&self) -> ibt_cm_event_type_t {
        match self {
            Told::Req { .. } => IBT_CM_EVENT_REQ_RCV,
            Told::Rep { .. } => IBT_CM_EVENT_REP_RCV,
            Told::Mra { .. } => IBT_CM_EVENT_MRA_RCV,
            Told::Established(_) => IBT_CM_EVENT_CONN_EST,
            Told::Closed { .. } => IBT_CM_EVENT_CONN_CLOSED,
            Told::Failed { .. } => IBT_CM_EVENT_FAILURE,
        }
    }

    /// Bytes of private data that the answer has room for; `None`: the handler gets no memory for them.
    const fn room(&self) -> Option<usize> {
        match self {
            Told::Req { .. } => Some(REP_PRIVATE),
            Told::Rep { .. } => Some(RTU_PRIVATE),
            Told::Closed { answered: true, .. } => Some(DREP_PRIVATE),
            Told::Failed { private: Some(_), .. } => Some(REJ_PRIVATE),
            Told::Mra { .. } | Told::Established(_) | Told::Closed { .. } | Told::Failed { .. } => None,
        }
    }

    const fn has_return_args(&self) -> bool {
        !matches!(self, Told::Established(_) | Told::Failed { .. })
    }

    fn private(&self) -> Option<&[u8]> {
        match self {
            Told::Req { req, .. } => Some(&req.private),
            Told::Rep { rep, .. } => Some(&rep.private),
            Told::Mra { private, .. } => Some(private),
            Told::Established(private) | Told::Closed { private, .. } => *private,
            // What came with a failure is in the answer's memory.
            Told::Failed { .. } => None,
        }
    }

    /// The memory that private data is in, and where it begins: that of a REQ or a REP is where it came, in the message.
    fn memory(&self) -> (Vec<u8>, usize) {
        match self {
            Told::Req { req, .. } => mad::data_of_req(req),
            Told::Rep { rep, .. } => mad::data_of_rep(rep),
            _ => (self.private().unwrap_or_default().to_vec(), 0),
        }
    }

    fn fill(&self, event: &mut ibt_cm_event_t) {
        match self {
            Told::Req { req, port } => event.cm_event.req = req_to_c(req, *port),
            Told::Rep { rep, service_time } => {
                event.cm_event.rep = ibt_cm_rep_rcv_t {
                    rep_rdma_ra_in: rep.initiator_depth,
                    rep_rdma_ra_out: rep.responder_resources,
                    rep_service_time: *service_time,
                    rep_failover_status: 2,
                    rep_flags: u8::from(rep.flow_control) | u8::from(rep.srq) << 1,
                };
            }
            Told::Mra { about, service, .. } => {
                event.cm_event.mra =
                    ibt_cm_mra_rcv_t { mra_msg_type: *about as u8, mra_service_time: ib_to_usec(*service) };
            }
            Told::Established(_) => {}
            Told::Closed { code, .. } => event.cm_event.closed = *code,
            Told::Failed { code, about, reason, .. } => {
                event.cm_event.failed = ibt_cm_conn_failed_t {
                    cf_code: *code,
                    cf_msg: *about as u8,
                    cf_reason: ibt_cm_reason_e(*reason),
                    ..Default::default()
                };
            }
        }
    }
}

/// A REQ as its receiver's client sees it.
fn req_to_c(req: &Req, port: u8) -> ibt_cm_req_rcv_t {
    let mut out = ibt_cm_req_rcv_t {
        req_service_id: req.service_id,
        req_transport: req.transport,
        req_hca_guid: req.guid,
        req_prim_hca_port: port,
        req_rdma_ra_in: req.initiator_depth,
        req_rdma_ra_out: req.responder_resources,
        req_timeout: ib_to_usec(req.remote_response),
        req_remote_qpn: req.qpn,
        req_pkey: req.p_key,
        req_flags: u8::from(req.flow_control) | u8::from(req.srq) << 1,
        req_rnr_retry_cnt: ibt_rnr_retry_cnt_e(u32::from(req.rnr_retry)),
        ..Default::default()
    };
    out.set_req_retry_cnt(req.retry);
    let to = &mut out.req_prim_addr;
    to.av_dgid = gid_to_c(req.path.local_gid);
    to.av_sgid = gid_to_c(req.path.remote_gid);
    to.av_srate = illumos_sys_hdrs::ibt_srate_e(u32::from(req.path.rate));
    to.set_av_srvl(req.path.sl);
    to.set_av_flow(req.path.flow_label);
    to.av_tclass = req.path.tclass;
    to.av_hop = req.path.hop_limit;
    to.av_port_num = port;
    to.av_opaque2 = req.path.local_lid;
    out
}

impl Handler {
    /// Calls it. `id` is what the client may name the connection by, `channel` the channel's handle, if it has one.
    pub fn tell(&self, kernel: &Kernel, told: &Told<'_>, id: Option<u32>, channel: usize) -> Option<Answer> {
        let function = self.function?;
        let mut event = ibt_cm_event_t {
            cm_type: told.kind(),
            cm_session_id: std::ptr::without_provenance_mut(id.unwrap_or(0) as usize),
            cm_channel: std::ptr::without_provenance_mut(channel),
            ..Default::default()
        };
        let (mut memory, at) = told.memory();
        if let Some(private) = told.private() {
            event.cm_priv_data_len = private.len() as u8;
            event.cm_priv_data = memory.as_mut_ptr().wrapping_add(at).cast();
        }
        told.fill(&mut event);
        let mut args = ibt_cm_return_args_t::default();
        if let Told::Req { req, .. } = told {
            // What the answer says unless the client says something else.
            let rep = illumos_sys_hdrs::ibt_cm_ret_rep_t {
                cm_rnr_retry_cnt: ibt_rnr_retry_cnt_e(u32::from(req.rnr_retry)),
                ..Default::default()
            };
            args.cm_ret.rep = rep;
        }
        let mut answer = vec![0u8; told.room().unwrap_or(0)];
        if let Told::Failed { private: Some(came), .. } = told {
            let len = came.len().min(answer.len());
            answer[..len].copy_from_slice(&came[..len]);
        }
        let (answer_at, answer_len) = match told.room() {
            Some(len) => (answer.as_mut_ptr().cast(), len as u8),
            None => (std::ptr::null_mut(), 0),
        };
        let args_at = if told.has_return_args() { &raw mut args } else { std::ptr::null_mut() };
        let arguments = (self.private.get(), &raw mut event, args_at, answer_at, answer_len);
        let status = call(kernel, function, arguments, "CM handler");
        // SAFETY: every member of the union is integers and pointers, for which any bytes are a value.
        let rep = unsafe { args.cm_ret.rep };
        answer.truncate(usize::from(args.cm_ret_len));
        Some(Answer {
            status: status.0,
            channel: rep.cm_channel.addr(),
            rdma_in: rep.cm_rdma_ra_in,
            rdma_out: rep.cm_rdma_ra_out,
            rnr_retry: rep.cm_rnr_retry_cnt.0 as u8 & 7,
            private: answer,
        })
    }
}
