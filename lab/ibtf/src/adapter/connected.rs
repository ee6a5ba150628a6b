//! Queue pairs of reliable connections.
#![forbid(unsafe_code)]

use fabric::{PortNum, QpSizes, RcAttr, ReadyToReceive, ReadyToSend, Signalling};
use illumos_sys_hdrs::{
    IBT_CHAN_HDL_INVALID, IBT_CQ_HDL_INVALID, IBT_FAST_REG_RES_LKEY, IBT_SRQ_HDL_INVALID, IBT_WR_SIGNALED,
    ibt_attr_flags_t,
};

use super::{Adapter, Answer, Cq, Driver, Pd, Qp, Srq, driver, of_model};

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
        match self {
            Self::Model(hca) => {
                of_model(hca.alloc_rc_qp(config.model().ok_or(IBT_CQ_HDL_INVALID)?)).map(Qp::Model)
            }
            Self::Driver(driver) => driver.alloc_rc_qp(config).map(Qp::Driver),
        }
    }

    fn change<T>(
        &self,
        qp: &Qp,
        of_model: impl FnOnce(&fabric::Hca, &fabric::Qp) -> Result<T, fabric::Error>,
        of_driver: impl FnOnce(&Driver, &driver::Qp) -> Answer<T>,
    ) -> Answer<T> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => super::of_model(of_model(hca, qp)),
            (Self::Driver(driver), Qp::Driver(qp)) => of_driver(driver, qp),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    pub(crate) fn set_rc_port(&self, qp: &Qp, port: PortNum) -> Answer<()> {
        self.change(qp, |hca, qp| hca.set_rc_port(qp, port), |driver, qp| driver.set_rc_port(qp, port))
    }

    pub(crate) fn rc_to_rtr(&self, qp: &Qp, attr: ReadyToReceive) -> Answer<()> {
        self.change(qp, |hca, qp| hca.rc_to_rtr(qp, attr), |driver, qp| driver.rc_to_rtr(qp, &attr))
    }

    pub(crate) fn rc_to_rts(&self, qp: &Qp, attr: ReadyToSend) -> Answer<()> {
        self.change(qp, |hca, qp| hca.rc_to_rts(qp, attr), |driver, qp| driver.rc_to_rts(qp, &attr))
    }

    pub(crate) fn set_min_rnr(&self, qp: &Qp, code: u8) -> Answer<()> {
        self.change(qp, |hca, qp| hca.set_min_rnr(qp, code), |driver, qp| driver.set_min_rnr(qp, code))
    }

    /// Frees it; its number stays taken until [`Self::release_number`].
    pub(crate) fn free_qp_only(&self, qp: &Qp) -> Answer<()> {
        self.change(qp, |hca, qp| hca.free_qp_only(qp), |driver, qp| driver.free_qp_only(qp))
    }

    pub(crate) fn release_number(&self, qp: &Qp) {
        match (self, qp) {
            (Self::Model(hca), qp) => hca.release_number(qp.num()),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.release_number(qp),
            _ => {}
        }
    }

    /// How a connection stands; `None` for a queue pair of datagrams.
    pub(crate) fn connection(&self, qp: &Qp) -> Option<RcAttr> {
        match (self, qp) {
            (Self::Model(_), Qp::Model(qp)) => qp.connection(),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.connection(qp),
            _ => None,
        }
    }

    pub(crate) fn set_srq_limit(&self, srq: &Srq, limit: u32) -> Answer<()> {
        match (self, srq) {
            (Self::Model(hca), Srq::Model(srq)) => of_model(hca.set_srq_limit(srq, limit)),
            _ => Err(IBT_SRQ_HDL_INVALID),
        }
    }
}
