//! Completion queues and queue pairs.
#![forbid(unsafe_code)]

use fabric::{Gid, Lid, Moderation, Notify, PortNum, QKey};
use illumos_sys_hdrs::{
    IBT_CHAN_HDL_INVALID, IBT_CQ_HDL_INVALID, IBT_NEXT_COMPLETION, IBT_NEXT_SOLICITED, ibt_cq_attr_t,
};

use super::{Adapter, Answer, Cq, Qp, QpNow, UdConfig, of_model};

impl Adapter {
    /// `hid` is the interrupt it is pinned to, 0 for any.
    pub(crate) fn alloc_cq(&self, attr: &ibt_cq_attr_t, hid: u32) -> Answer<Cq> {
        match self {
            Self::Model(hca) => of_model(hca.alloc_cq(attr.cq_size, hid)).map(Cq::Model),
            Self::Driver(driver) => driver.alloc_cq(*attr).map(Cq::Driver),
        }
    }

    pub(crate) fn free_cq(&self, cq: &Cq) -> Answer<()> {
        match (self, cq) {
            (Self::Model(hca), Cq::Model(cq)) => of_model(hca.free_cq(cq)),
            (Self::Driver(driver), Cq::Driver(cq)) => driver.free_cq(cq),
            _ => Err(IBT_CQ_HDL_INVALID),
        }
    }

    pub(crate) fn resize_cq(&self, cq: &Cq, size: u32) -> Answer<u32> {
        match (self, cq) {
            (Self::Model(hca), Cq::Model(cq)) => of_model(hca.resize_cq(cq, size)),
            (Self::Driver(driver), Cq::Driver(cq)) => driver.resize_cq(cq, size),
            _ => Err(IBT_CQ_HDL_INVALID),
        }
    }

    pub(crate) fn modify_cq(&self, cq: &Cq, moderation: Moderation) -> Answer<()> {
        match (self, cq) {
            (Self::Model(hca), Cq::Model(cq)) => of_model(hca.modify_cq(cq, moderation)),
            (Self::Driver(driver), Cq::Driver(cq)) => driver.modify_cq(cq, moderation),
            _ => Err(IBT_CQ_HDL_INVALID),
        }
    }

    /// Any context.
    pub(crate) fn notify_cq(&self, cq: &Cq, notify: Notify) -> Answer<()> {
        match (self, cq) {
            (Self::Model(hca), Cq::Model(cq)) => of_model(hca.notify_cq(cq, notify)),
            (Self::Driver(driver), Cq::Driver(cq)) => {
                let notify = match notify {
                    Notify::Next => IBT_NEXT_COMPLETION,
                    Notify::NextSolicited => IBT_NEXT_SOLICITED,
                };
                driver.notify_cq(cq, notify)
            }
            _ => Err(IBT_CQ_HDL_INVALID),
        }
    }

    /// A datagram queue pair that sends and receives.
    pub(crate) fn alloc_qp(&self, config: &UdConfig) -> Answer<Qp> {
        match self {
            Self::Model(hca) => {
                let config = config.model().ok_or(IBT_CQ_HDL_INVALID)?;
                of_model(hca.alloc_qp(config)).map(Qp::Model)
            }
            Self::Driver(driver) => driver.alloc_ud_qp(config).map(Qp::Driver),
        }
    }

    pub(crate) fn free_qp(&self, qp: &Qp) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.free_qp(qp)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.free_qp(qp),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    pub(crate) fn query_qp(&self, qp: &Qp) -> Answer<QpNow> {
        match (self, qp) {
            (Self::Model(_), Qp::Model(qp)) => {
                let now = qp.query();
                Ok(QpNow {
                    state: now.state,
                    port: now.config.port,
                    pkey_ix: now.config.pkey_ix,
                    qkey: now.config.qkey,
                    sizes: now.config.sizes,
                })
            }
            (Self::Driver(driver), Qp::Driver(qp)) => driver.query_qp(qp),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    /// From SQE to RTS.
    pub(crate) fn recover_qp(&self, qp: &Qp) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.recover_qp(qp)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.recover_qp(qp),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    /// From ERROR through RESET to RTS.
    pub(crate) fn recycle_qp(&self, qp: &Qp, port: PortNum, pkey_ix: u16, qkey: QKey) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.recycle_qp(qp, port, pkey_ix, qkey)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.recycle_qp(qp, port, pkey_ix, qkey),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    /// To ERROR, whatever it is in.
    pub(crate) fn flush_qp(&self, qp: &Qp) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.flush_qp(qp)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.flush_qp(qp),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    pub(crate) fn set_qkey(&self, qp: &Qp, qkey: QKey) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.set_qkey(qp, qkey)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.set_qkey(qp, qkey),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    pub(crate) fn attach_mcg(&self, qp: &Qp, gid: Gid, lid: Lid) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.attach_mcg(qp, gid, lid)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.attach_mcg(qp, gid, lid),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }

    pub(crate) fn detach_mcg(&self, qp: &Qp, gid: Gid, lid: Lid) -> Answer<()> {
        match (self, qp) {
            (Self::Model(hca), Qp::Model(qp)) => of_model(hca.detach_mcg(qp, gid, lid)),
            (Self::Driver(driver), Qp::Driver(qp)) => driver.detach_mcg(qp, gid, lid),
            _ => Err(IBT_CHAN_HDL_INVALID),
        }
    }
}
