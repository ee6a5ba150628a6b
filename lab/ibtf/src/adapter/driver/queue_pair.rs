//! Queue pairs and the groups they hear, as `ibtl_qp.c` and `ibtl_chan.c` drive them.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use fabric::{Gid, Lid, PortNum, QKey, QpSizes, QpState, Qpn};
use fakekernel::{HostMutex, Rule, race};
use illumos_sys_hdrs::{
    IBC_FREE_QP_AND_QPN, IBT_CEP_SET_INIT_RTR, IBT_CEP_SET_QKEY, IBT_CEP_SET_RESET_INIT, IBT_CEP_SET_RTR_RTS,
    IBT_CEP_SET_STATE, IBT_CHAN_STATE_INVALID, IBT_CQ_HDL_INVALID, IBT_GSI_SQP, IBT_PD_HDL_INVALID,
    IBT_QP_USES_SRQ, IBT_RC_RQP, IBT_RC_SRV, IBT_SRQ_HDL_INVALID, IBT_STATE_ERROR, IBT_STATE_INIT,
    IBT_STATE_RESET, IBT_STATE_RTS, IBT_STATE_SQE, IBT_UD_RQP, IBT_UD_SRV, ibt_cep_state_e, ibt_chan_sizes_t,
    ibt_qp_alloc_attr_t, ibt_qp_alloc_flags_t, ibt_qp_info_t, ibt_qp_query_attr_t,
};

use super::{Answer, Driver, Qp, answer, down, garbage};
use crate::adapter::{Cq, Pd, QpNow, Srq, UdConfig};
use crate::convert::gid_to_c;
use crate::ibtl::{Opaque, SelfHandle};

impl Driver {
    /// As `ibt_alloc_ud_channel` does it: made, and brought to RTS.
    pub(crate) fn alloc_ud_qp(&self, config: &UdConfig) -> Answer<Arc<Qp>> {
        let qp = self.make(config, Kind::Datagrams)?;
        self.initialize(&qp, config.port, config.pkey_ix, config.qkey)
            .inspect_err(|_| self.must(self.free_qp(&qp)))?;
        Ok(qp)
    }

    /// The queue pair 1 of a port, as `ibmf` makes it.
    pub(super) fn alloc_gsi_qp(&self, config: &UdConfig) -> Answer<Arc<Qp>> {
        let qp = self.make(config, Kind::GeneralServices(config.port.0))?;
        self.initialize(&qp, config.port, config.pkey_ix, config.qkey)
            .inspect_err(|_| self.must(self.free_qp(&qp)))?;
        Ok(qp)
    }

    /// In RESET.
    pub(super) fn make(&self, config: &UdConfig, kind: Kind) -> Answer<Arc<Qp>> {
        let Pd::Driver(pd) = &config.pd else { return Err(IBT_PD_HDL_INVALID) };
        let (Cq::Driver(send_cq), Cq::Driver(receive_cq)) = (&config.scq, &config.rcq) else {
            return Err(IBT_CQ_HDL_INVALID);
        };
        let srq = match &config.srq {
            None => None,
            Some(Srq::Driver(srq)) => Some(srq.clone()),
            Some(Srq::Model(_)) => return Err(IBT_SRQ_HDL_INVALID),
        };
        let qp = Arc::new(Qp {
            num: OnceLock::new(),
            handle: OnceLock::new(),
            token: SelfHandle::default(),
            send_cq: send_cq.clone(),
            receive_cq: receive_cq.clone(),
            flags: config.flags,
            srq: srq.clone(),
            is_connection: kind == Kind::Connection,
            kept: OnceLock::new(),
            established: AtomicU32::new(0),
            sends: HostMutex::default(),
            receives: HostMutex::default(),
        });
        let token = self.qps.insert_arc(qp.clone());
        qp.token.set(token);
        // SAFETY: integers, and pointers that an operation which does not use them does not follow.
        let mut attr: ibt_qp_alloc_attr_t = unsafe { garbage() };
        attr.qp_alloc_flags = ibt_qp_alloc_flags_t::default();
        attr.qp_scq_hdl = send_cq.token.get();
        attr.qp_rcq_hdl = receive_cq.token.get();
        attr.qp_pd_hdl = pd.get().cast();
        let QpSizes { sq, rq, sq_sgl, rq_sgl } = config.sizes;
        attr.qp_sizes =
            ibt_chan_sizes_t { cs_sq: sq, cs_rq: rq, cs_sq_sgl: sq_sgl, cs_rq_sgl: rq_sgl, cs_inline: 0 };
        attr.qp_flags = config.flags;
        attr.qp_opaque1 = send_cq.handle().get().cast();
        attr.qp_opaque2 = receive_cq.handle().get().cast();
        if let Some(srq) = &srq {
            attr.qp_alloc_flags = IBT_QP_USES_SRQ;
            attr.qp_srq_hdl = srq.token.get();
            attr.qp_opaque3 = srq.handle().get().cast();
        }
        let (mut number, mut handle) = (0, ptr::null_mut());
        let made = match kind {
            Kind::Datagrams | Kind::Connection => {
                let service = if kind == Kind::Connection { IBT_RC_RQP } else { IBT_UD_RQP };
                let mut sizes = ibt_chan_sizes_t::default();
                down!(
                    self,
                    ibc_alloc_qp(
                        token.cast(),
                        service,
                        &raw mut attr,
                        &raw mut sizes,
                        &raw mut number,
                        &raw mut handle
                    )
                )
            }
            // ibmf wants no sizes.
            Kind::GeneralServices(port) => {
                number = 1;
                down!(
                    self,
                    ibc_alloc_special_qp(
                        port,
                        token.cast(),
                        IBT_GSI_SQP,
                        &raw mut attr,
                        ptr::null_mut(),
                        &raw mut handle
                    )
                )
            }
        };
        if let Err(status) = answer(made) {
            let _ = self.qps.remove(token);
            return Err(status);
        }
        let (_, _) = (qp.handle.set(Opaque::of(handle)), qp.num.set(Qpn::truncating(number)));
        self.gave("ibc_qp_hdl_t", qp.handle());
        qp.meet_cqs();
        if self.query_qp(&qp)?.state != QpState::Reset {
            self.blame(Rule::AbsurdArgument, "a new queue pair is not in RESET");
        }
        Ok(qp)
    }

    /// As `ibt_initialize_qp`: three steps, each with no more than the fields that are its own.
    fn initialize(&self, qp: &Qp, port: PortNum, pkey_ix: u16, qkey: QKey) -> Answer<()> {
        let mut info = info();
        // SAFETY: every member of the union is plain data.
        let mut ud = unsafe { info.qp_transport.ud };
        ud.ud_port = port.0;
        ud.ud_pkey_ix = pkey_ix;
        ud.ud_qkey = qkey.0;
        info.qp_transport.ud = ud;
        (info.qp_current_state, info.qp_state) = (IBT_STATE_RESET, IBT_STATE_INIT);
        self.modify(qp, IBT_CEP_SET_RESET_INIT, info)?;
        info.qp_current_state = IBT_STATE_INIT;
        self.modify(qp, IBT_CEP_SET_INIT_RTR, info)?;
        // The flag says where to go; `ibcm` leaves RESET in here.
        info.qp_state = IBT_STATE_RESET;
        self.modify(qp, IBT_CEP_SET_RTR_RTS, info)?;
        let now = self.query_qp(qp)?;
        // It may have failed in the meantime.
        let is_up = matches!(now.state, QpState::Rts | QpState::Error);
        if !is_up || (now.port, now.pkey_ix, now.qkey) != (port, pkey_ix, qkey) {
            self.blame(
                Rule::AbsurdArgument,
                format!("a queue pair that was brought to RTS says it is {now:?}"),
            );
        }
        Ok(())
    }

    pub(super) fn modify(&self, qp: &Qp, flags: u32, mut info: ibt_qp_info_t) -> Answer<()> {
        let flags = illumos_sys_hdrs::ibt_cep_modify_flags_e(flags);
        let handle = qp.handle().get().cast();
        let answer = answer(down!(self, ibc_modify_qp(handle, flags, &raw mut info, ptr::null_mut())));
        race::release(qp.key());
        answer
    }

    fn move_to(&self, qp: &Qp, from: ibt_cep_state_e, to: ibt_cep_state_e) -> Answer<()> {
        let qp_trans = if qp.is_connection { IBT_RC_SRV } else { IBT_UD_SRV };
        let info = ibt_qp_info_t { qp_state: to, qp_current_state: from, qp_trans, ..info() };
        self.modify(qp, IBT_CEP_SET_STATE, info)
    }

    pub(crate) fn free_qp(&self, qp: &Qp) -> Answer<()> {
        let handle = qp.handle();
        self.give_back("ibc_qp_hdl_t", handle, || {
            answer(down!(self, ibc_free_qp(handle.get().cast(), IBC_FREE_QP_AND_QPN, ptr::null_mut())))
        })?;
        let _ = self.qps.remove(qp.token.get::<()>());
        qp.leave_cqs();
        Ok(())
    }

    /// The record that the driver fills.
    pub(super) fn raw_query(&self, qp: &Qp) -> Answer<ibt_qp_query_attr_t> {
        // SAFETY: integers, and pointers that are not followed.
        let mut attr: ibt_qp_query_attr_t = unsafe { garbage() };
        answer(down!(self, ibc_query_qp(qp.handle().get().cast(), &raw mut attr)))?;
        race::release(qp.key());
        Ok(attr)
    }

    pub(crate) fn query_qp(&self, qp: &Qp) -> Answer<QpNow> {
        let attr = self.raw_query(qp)?;
        let (sends, receives) = (qp.send_cq.token.get(), qp.receive_cq.token.get());
        let shared = qp.srq.as_ref().map_or(ptr::null_mut(), |srq| srq.token.get());
        let queues = (attr.qp_sq_cq, attr.qp_rq_cq, attr.qp_srq);
        if attr.qp_qpn != qp.num().get() || queues != (sends, receives, shared) {
            let what = format!("ibc_query_qp of {:?} says {:#x}, and queues", qp.num(), attr.qp_qpn);
            self.blame(Rule::AbsurdArgument, what);
        }
        let (port, pkey_ix, qkey) = if qp.is_connection {
            // SAFETY: every member of the union is plain data.
            let path = unsafe { attr.qp_info.qp_transport.rc }.rc_path;
            (path.cep_hca_port_num, path.cep_pkey_ix, 0)
        } else {
            // SAFETY: as above.
            let ud = unsafe { attr.qp_info.qp_transport.ud };
            (ud.ud_port, ud.ud_pkey_ix, ud.ud_qkey)
        };
        Ok(QpNow {
            state: state(attr.qp_info.qp_state),
            port: PortNum(port),
            pkey_ix,
            qkey: QKey(qkey),
            sizes: QpSizes {
                sq: attr.qp_info.qp_sq_sz,
                rq: attr.qp_info.qp_rq_sz,
                sq_sgl: attr.qp_sq_sgl,
                rq_sgl: attr.qp_rq_sgl,
            },
        })
    }

    pub(crate) fn recover_qp(&self, qp: &Qp) -> Answer<()> {
        self.move_to(qp, IBT_STATE_SQE, IBT_STATE_RTS)
    }

    pub(crate) fn recycle_qp(&self, qp: &Qp, port: PortNum, pkey_ix: u16, qkey: QKey) -> Answer<()> {
        if self.query_qp(qp)?.state != QpState::Error {
            return Err(IBT_CHAN_STATE_INVALID);
        }
        self.move_to(qp, IBT_STATE_ERROR, IBT_STATE_RESET)?;
        qp.forget_posted();
        self.initialize(qp, port, pkey_ix, qkey)
    }

    pub(crate) fn flush_qp(&self, qp: &Qp) -> Answer<()> {
        self.move_to(qp, IBT_STATE_RESET, IBT_STATE_ERROR)
    }

    /// The state that it is in is asked for, too, and is granted.
    pub(crate) fn set_qkey(&self, qp: &Qp, qkey: QKey) -> Answer<()> {
        let now = c_state(self.query_qp(qp)?.state);
        let mut info = ibt_qp_info_t { qp_state: now, qp_current_state: now, ..info() };
        // SAFETY: every member of the union is plain data.
        let mut ud = unsafe { info.qp_transport.ud };
        ud.ud_qkey = qkey.0;
        info.qp_transport.ud = ud;
        self.modify(qp, IBT_CEP_SET_STATE | IBT_CEP_SET_QKEY.0, info)
    }

    pub(crate) fn attach_mcg(&self, qp: &Qp, gid: Gid, lid: Lid) -> Answer<()> {
        answer(down!(self, ibc_attach_mcg(qp.handle().get().cast(), gid_to_c(gid), lid.0)))
    }

    pub(crate) fn detach_mcg(&self, qp: &Qp, gid: Gid, lid: Lid) -> Answer<()> {
        answer(down!(self, ibc_detach_mcg(qp.handle().get().cast(), gid_to_c(gid), lid.0)))
    }
}

/// What a queue pair is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Datagrams,
    Connection,
    /// The queue pair 1 of a port.
    GeneralServices(u8),
}

/// A record that says that it is about a datagram queue pair, and nothing else.
pub(super) fn info() -> ibt_qp_info_t {
    // SAFETY: integers.
    ibt_qp_info_t { qp_trans: IBT_UD_SRV, ..unsafe { garbage() } }
}

fn state(raw: ibt_cep_state_e) -> QpState {
    match raw.0 {
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        5 => QpState::Sqe,
        6 => QpState::Error,
        _ => QpState::Reset,
    }
}

fn c_state(state: QpState) -> ibt_cep_state_e {
    ibt_cep_state_e(state as u32)
}
