//! Queue pairs of connections, as `ibtl_chan.c` makes them and `ibcm` moves them.

use std::sync::Arc;

use fabric::{Mtu, PortNum, QKey, Qpn, RcAttr, ReadyToReceive, ReadyToSend};
use fakekernel::{Rule, race};
use illumos_sys_hdrs::{
    IBC_FREE_QP_ONLY, IBT_CEP_SET_ATOMIC, IBT_CEP_SET_INIT_RTR, IBT_CEP_SET_MIN_RNR_NAK, IBT_CEP_SET_PKEY_IX,
    IBT_CEP_SET_PORT, IBT_CEP_SET_RDMA_R, IBT_CEP_SET_RDMA_W, IBT_CEP_SET_RESET_INIT, IBT_CEP_SET_RTR_RTS,
    IBT_CEP_SET_STATE, IBT_RC_SRV, IBT_STATE_ERROR, IBT_STATE_INIT, IBT_STATE_RESET, IBT_STATE_RTR,
    IBT_STATE_RTS, ib_mtu_t, ibt_cep_state_e, ibt_qp_info_t, ibt_qp_rc_attr_t, ibt_rnr_nak_time_e,
    ibt_rnr_retry_cnt_e,
};

use super::queue_pair::{Kind, info};
use super::{Answer, Driver, Qp, answer, down};
use crate::adapter::{RcConfig, UdConfig};
use crate::convert::{vector_from_c, vector_to_c};
use crate::ibtl::Opaque;

impl Driver {
    /// As `ibt_alloc_rc_channel` does it: made, and brought to INIT.
    pub(crate) fn alloc_rc_qp(&self, config: &RcConfig) -> Answer<Arc<Qp>> {
        let RcConfig { port, pkey_ix, pd, scq, rcq, srq, sizes, flags } = config.clone();
        let made = UdConfig { port, pkey_ix, qkey: QKey(0), pd, scq, rcq, srq, sizes, flags };
        let qp = self.make(&made, Kind::Connection)?;
        let mut rc = empty();
        (rc.rc_path.cep_hca_port_num, rc.rc_path.cep_pkey_ix) = (port.0, pkey_ix);
        self.change(&qp, IBT_CEP_SET_RESET_INIT, (IBT_STATE_RESET, IBT_STATE_INIT), rc)
            .inspect_err(|_| self.must(self.free_qp(&qp)))?;
        // Who accepts a connection says so what the other side shall begin with.
        let psn = self.connection(&qp).map(|attr| attr.expected_psn);
        if psn != Some(0) {
            self.blame(Rule::AbsurdArgument, format!("a queue pair in INIT expects the packet {psn:?}"));
        }
        Ok(qp)
    }

    /// Changes it by a record in which nothing else is set.
    fn change(
        &self,
        qp: &Qp,
        flags: u32,
        (from, to): (ibt_cep_state_e, ibt_cep_state_e),
        rc: ibt_qp_rc_attr_t,
    ) -> Answer<()> {
        let mut info = ibt_qp_info_t { qp_trans: IBT_RC_SRV, qp_current_state: from, qp_state: to, ..info() };
        info.qp_transport.rc = rc;
        self.modify(qp, flags, info)
    }

    pub(crate) fn set_rc_port(&self, qp: &Qp, port: PortNum) -> Answer<()> {
        let mut rc = empty();
        rc.rc_path.cep_hca_port_num = port.0;
        let flags = IBT_CEP_SET_STATE | IBT_CEP_SET_PORT.0;
        self.change(qp, flags, (IBT_STATE_RESET, IBT_STATE_INIT), rc)
    }

    /// From ERROR through RESET to INIT, as `ibt_recycle_rc` has it: by the state, and the port's flag stands for the index, too.
    pub(crate) fn recycle_rc_qp(&self, qp: &Qp, port: PortNum, pkey_ix: u16) -> Answer<()> {
        self.change(qp, IBT_CEP_SET_STATE, (IBT_STATE_ERROR, IBT_STATE_RESET), empty())?;
        qp.forget_posted();
        let mut rc = empty();
        (rc.rc_path.cep_hca_port_num, rc.rc_path.cep_pkey_ix) = (port.0, pkey_ix);
        let rights = IBT_CEP_SET_RDMA_R.0 | IBT_CEP_SET_RDMA_W.0 | IBT_CEP_SET_ATOMIC.0;
        let flags = IBT_CEP_SET_STATE | IBT_CEP_SET_PORT.0 | rights;
        self.change(qp, flags, (IBT_STATE_RESET, IBT_STATE_INIT), rc)?;
        let now = self.query_qp(qp)?;
        if (now.state, now.port, now.pkey_ix) != (fabric::QpState::Init, port, pkey_ix) {
            self.blame(Rule::AbsurdArgument, format!("a recycled queue pair says {now:?}"));
        }
        Ok(())
    }

    /// The port in the record is 0, and that of the queue pair is kept.
    pub(crate) fn rc_to_rtr(&self, qp: &Qp, attr: &ReadyToReceive) -> Answer<()> {
        let port = self.query_qp(qp)?.port;
        let mut rc = empty();
        rc.rc_path.cep_adds_vect = vector_to_c(&attr.vector, fabric::Gid::default());
        rc.rc_path.cep_adds_vect.av_port_num = 0;
        rc.rc_path.cep_pkey_ix = attr.pkey_ix;
        rc.rc_dst_qpn = attr.peer.get();
        rc.rc_path_mtu = ib_mtu_t(u32::from(attr.path_mtu.code()));
        rc.rc_min_rnr_nak = ibt_rnr_nak_time_e(u32::from(attr.min_rnr));
        rc.set_rc_rq_psn(attr.first_psn);
        let flags = IBT_CEP_SET_INIT_RTR | IBT_CEP_SET_PKEY_IX;
        self.change(qp, flags, (IBT_STATE_INIT, IBT_STATE_RTR), rc)?;
        self.check_moved(qp, fabric::QpState::Rtr, port);
        Ok(())
    }

    /// The state in the record is RESET: the flag says where to go.
    pub(crate) fn rc_to_rts(&self, qp: &Qp, attr: &ReadyToSend) -> Answer<()> {
        let port = self.query_qp(qp)?.port;
        let mut rc = empty();
        rc.rc_path.cep_cm_opaque1 = attr.ack_timeout;
        rc.rc_rnr_retry_cnt = ibt_rnr_retry_cnt_e(u32::from(attr.rnr_retry));
        rc.set_rc_retry_cnt(attr.retry);
        rc.set_rc_sq_psn(attr.first_psn);
        self.change(qp, IBT_CEP_SET_RTR_RTS, (IBT_STATE_RTR, IBT_STATE_RESET), rc)?;
        self.check_moved(qp, fabric::QpState::Rts, port);
        Ok(())
    }

    /// It may have failed since, by itself.
    fn check_moved(&self, qp: &Qp, to: fabric::QpState, port: PortNum) {
        let now = self.query_qp(qp).map(|now| (now.state, now.port));
        if now != Ok((to, port)) && now != Ok((fabric::QpState::Error, port)) {
            let what = format!("a connection that was brought to {to:?} on port {} says {now:?}", port.0);
            self.blame(Rule::AbsurdArgument, what);
        }
    }

    /// As `ibt_modify_rc_channel`, of one that stands.
    pub(crate) fn set_min_rnr(&self, qp: &Qp, code: u8) -> Answer<()> {
        let rc = ibt_qp_rc_attr_t { rc_min_rnr_nak: ibt_rnr_nak_time_e(u32::from(code)), ..empty() };
        let flags = IBT_CEP_SET_STATE | IBT_CEP_SET_MIN_RNR_NAK.0;
        self.change(qp, flags, (IBT_STATE_RTS, IBT_STATE_RTS), rc)
    }

    /// Frees it; its number stays taken.
    pub(crate) fn free_qp_only(&self, qp: &Qp) -> Answer<()> {
        let handle = qp.handle();
        let mut number = std::ptr::null_mut();
        self.give_back("ibc_qp_hdl_t", handle, || {
            answer(down!(self, ibc_free_qp(handle.get().cast(), IBC_FREE_QP_ONLY, &raw mut number)))
        })?;
        let _ = self.qps.remove(qp.token.get::<()>());
        qp.leave_cqs();
        race::release(qp.key());
        let number = Opaque::of(number);
        let _ = qp.kept.set(number);
        self.gave("ibc_qpn_hdl_t", number);
        Ok(())
    }

    /// And not any more.
    pub(crate) fn release_number(&self, qp: &Qp) {
        let Some(number) = qp.kept.get().copied() else { return };
        // `ibtl` and `ibcm` have had locks of theirs since whoever asked for something before.
        race::acquire(qp.key());
        let released = self
            .give_back("ibc_qpn_hdl_t", number, || answer(down!(self, ibc_release_qpn(number.get().cast()))));
        self.must(released);
    }

    /// How it stands; `None` for one of datagrams.
    pub(crate) fn connection(&self, qp: &Qp) -> Option<RcAttr> {
        if !qp.is_connection {
            return None;
        }
        let raw = self.raw_query(qp).ok()?;
        // SAFETY: every member of the union is plain data.
        let rc = unsafe { raw.qp_info.qp_transport.rc };
        let path = rc.rc_path;
        let receives = matches!(raw.qp_info.qp_state, IBT_STATE_RTR | IBT_STATE_RTS);
        let receive = receives.then(|| {
            Some(ReadyToReceive {
                vector: vector_from_c(&path.cep_adds_vect)?,
                pkey_ix: path.cep_pkey_ix,
                peer: Qpn::truncating(rc.rc_dst_qpn),
                first_psn: rc.rc_rq_psn(),
                path_mtu: Mtu::from_code(u8::try_from(rc.rc_path_mtu.0).ok()?)?,
                min_rnr: rc.rc_min_rnr_nak.0 as u8,
            })
        });
        let send = (raw.qp_info.qp_state == IBT_STATE_RTS).then(|| ReadyToSend {
            first_psn: rc.rc_sq_psn(),
            ack_timeout: path.cep_cm_opaque1,
            retry: rc.rc_retry_cnt(),
            rnr_retry: rc.rc_rnr_retry_cnt.0 as u8,
        });
        let expected_psn = rc.rc_rq_psn();
        Some(RcAttr { receive: receive.flatten(), send, unacknowledged: 0, expected_psn })
    }
}

/// A record in which nothing is set: `ibcm` clears it.
fn empty() -> ibt_qp_rc_attr_t {
    ibt_qp_rc_attr_t::default()
}
