//! Queue pairs of reliable connections. A loaded adapter has none here yet.
#![forbid(unsafe_code)]

use fabric::{PortNum, QpSizes, RcAttr, ReadyToReceive, ReadyToSend, Signalling};
use illumos_sys_hdrs::{
    IBT_CHAN_SRV_TYPE_INVALID, IBT_CQ_HDL_INVALID, IBT_FAST_REG_RES_LKEY, IBT_INSUFF_RESOURCE,
    IBT_SRQ_HDL_INVALID, IBT_WR_SIGNALED, ibt_attr_flags_t,
};

use super::{Adapter, Answer, Cq, Pd, Qp, Srq, of_model};

/// One to be made, as a client asked for it.
#[derive(Clone)]
pub(crate) struct RcConfig {
    pub port: PortNum,
    pub pkey_ix: u16,
    pub pd: Pd,
    pub scq: Cq,
    pub rcq: Cq,
    pub srq: Option<Srq>,
    pub sizes: QpSizes,
    pub flags: ibt_attr_flags_t,
}

impl RcConfig {
    /// For the model; `None` if something in it is a loaded adapter's.
    fn model(&self) -> Option<fabric::RcConfig> {
        let (Pd::Model(pd), Cq::Model(scq), Cq::Model(rcq)) = (&self.pd, &self.scq, &self.rcq) else {
            return None;
        };
        let srq = match &self.srq {
            None => None,
            Some(Srq::Model(srq)) => Some(srq.clone()),
            Some(Srq::Driver(_)) => return None,
        };
        // The reference adapter's driver looks at these two bits, too: a queue that may use the reserved key alone reports each send.
        let by_request = self.flags.0 & IBT_WR_SIGNALED.0 != 0;
        Some(fabric::RcConfig {
            port: self.port,
            pkey_ix: self.pkey_ix,
            pd: pd.clone(),
            scq: scq.clone(),
            rcq: rcq.clone(),
            srq,
            sizes: self.sizes,
            signalling: if by_request { Signalling::PerRequest } else { Signalling::All },
            uses_reserved_lkey: self.flags.0 & IBT_FAST_REG_RES_LKEY.0 != 0,
        })
    }
}

impl Adapter {
    /// In INIT.
    pub(crate) fn alloc_rc_qp(&self, config: &RcConfig) -> Answer<Qp> {
        let Self::Model(hca) = self else { return Err(IBT_INSUFF_RESOURCE) };
        of_model(hca.alloc_rc_qp(config.model().ok_or(IBT_CQ_HDL_INVALID)?)).map(Qp::Model)
    }

    fn change<T>(
        &self,
        qp: &Qp,
        change: impl FnOnce(&fabric::Hca, &fabric::Qp) -> Result<T, fabric::Error>,
    ) -> Answer<T> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(change(hca, qp)),
            _ => Err(IBT_CHAN_SRV_TYPE_INVALID),
        }
    }

    pub(crate) fn set_rc_port(&self, qp: &Qp, port: PortNum) -> Answer<()> {
        self.change(qp, |hca, qp| hca.set_rc_port(qp, port))
    }

    pub(crate) fn rc_to_rtr(&self, qp: &Qp, attr: ReadyToReceive) -> Answer<()> {
        self.change(qp, |hca, qp| hca.rc_to_rtr(qp, attr))
    }

    pub(crate) fn rc_to_rts(&self, qp: &Qp, attr: ReadyToSend) -> Answer<()> {
        self.change(qp, |hca, qp| hca.rc_to_rts(qp, attr))
    }

    pub(crate) fn set_min_rnr(&self, qp: &Qp, code: u8) -> Answer<()> {
        self.change(qp, |hca, qp| hca.set_min_rnr(qp, code))
    }

    /// Frees it; its number stays taken until [`Self::release_number`].
    pub(crate) fn free_qp_only(&self, qp: &Qp) -> Answer<()> {
        self.change(qp, |hca, qp| hca.free_qp_only(qp))
    }

    pub(crate) fn release_number(&self, qp: &Qp) {
        if let Self::Model(hca) = self {
            hca.release_number(qp.num());
        }
    }

    pub(crate) fn set_srq_limit(&self, srq: &Srq, limit: u32) -> Answer<()> {
        match (self, srq) {
            (Self::Model(hca), Srq::Model(srq)) => of_model(hca.set_srq_limit(srq, limit)),
            _ => Err(IBT_SRQ_HDL_INVALID),
        }
    }
}

impl Qp {
    /// How its connection stands; `None` for one of datagrams, and for a loaded adapter's.
    pub(crate) fn connection(&self) -> Option<RcAttr> {
        match self {
            Self::Model(qp) => qp.connection(),
            Self::Driver(_) => None,
        }
    }
}
