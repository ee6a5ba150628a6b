//! What adapters hand out. Each knows which of the two it is of; one of the other kind is no handle of this adapter's.
#![forbid(unsafe_code)]

use std::sync::Arc;

use fabric::{CqNum, Moderation, PortNum, QKey, QpSizes, QpState, Qpn, Signalling, SrqSizes};

use super::driver;
use crate::ibtl::Opaque;

/// A protection domain.
#[derive(Clone)]
pub(crate) enum Pd {
    Model(fabric::Pd),
    Driver(Opaque),
}

/// An address handle.
#[derive(Clone)]
pub(crate) enum Ah {
    Model(fabric::Ah),
    Driver(Opaque),
}

/// A completion queue.
#[derive(Clone)]
pub(crate) enum Cq {
    Model(fabric::Cq),
    Driver(Arc<driver::Cq>),
}

impl Cq {
    /// Its number, unique within the adapter.
    pub(crate) fn num(&self) -> CqNum {
        match self {
            Self::Model(cq) => cq.num(),
            Self::Driver(cq) => cq.num(),
        }
    }

    /// Completions that it holds.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Self::Model(cq) => cq.size(),
            Self::Driver(cq) => cq.size(),
        }
    }

    /// As it was set last.
    pub(crate) fn moderation(&self) -> Moderation {
        match self {
            Self::Model(cq) => cq.moderation(),
            Self::Driver(cq) => cq.moderation(),
        }
    }
}

/// A queue pair.
#[derive(Clone)]
pub(crate) enum Qp {
    Model(fabric::Qp),
    Driver(Arc<driver::Qp>),
}

impl Qp {
    pub(crate) fn num(&self) -> Qpn {
        match self {
            Self::Model(qp) => qp.num(),
            Self::Driver(qp) => qp.num(),
        }
    }

    /// Datagrams that came into buffers posted before the queue pair was recycled: see [`fabric::Qp::strayed`].
    pub(crate) fn strayed(&self) -> u64 {
        match self {
            Self::Model(qp) => qp.strayed(),
            Self::Driver(_) => 0,
        }
    }
}

/// A shared receive queue.
#[derive(Clone)]
pub(crate) enum Srq {
    Model(fabric::Srq),
    Driver(Arc<driver::Srq>),
}

impl Srq {
    pub(crate) fn sizes(&self) -> SrqSizes {
        match self {
            Self::Model(srq) => srq.sizes(),
            Self::Driver(srq) => srq.sizes(),
        }
    }
}

/// A memory region.
#[derive(Clone)]
pub(crate) enum Mr {
    Model(fabric::Mr),
    Driver(Arc<driver::Mr>),
}

impl Mr {
    pub(crate) fn base(&self) -> u64 {
        match self {
            Self::Model(mr) => mr.base(),
            Self::Driver(mr) => mr.base,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Model(mr) => mr.len(),
            Self::Driver(mr) => mr.len,
        }
    }

    pub(crate) fn lkey(&self) -> u32 {
        match self {
            Self::Model(mr) => mr.lkey(),
            Self::Driver(mr) => mr.lkey,
        }
    }
}

/// A datagram queue pair to be made, as a client asked for it.
#[derive(Clone)]
pub(crate) struct UdConfig {
    pub port: PortNum,
    pub pkey_ix: u16,
    pub qkey: QKey,
    pub pd: Pd,
    pub scq: Cq,
    pub rcq: Cq,
    pub srq: Option<Srq>,
    pub sizes: QpSizes,
    pub flags: illumos_sys_hdrs::ibt_attr_flags_t,
}

impl UdConfig {
    fn has(&self, flag: illumos_sys_hdrs::ibt_attr_flags_t) -> bool {
        self.flags.0 & flag.0 != 0
    }

    /// For the model; `None` if something in it is a loaded adapter's.
    pub(super) fn model(&self) -> Option<fabric::UdConfig> {
        use illumos_sys_hdrs::{IBT_FAST_REG_RES_LKEY, IBT_USES_LSO, IBT_WR_SIGNALED};
        let (Pd::Model(pd), Cq::Model(scq), Cq::Model(rcq)) = (&self.pd, &self.scq, &self.rcq) else {
            return None;
        };
        let srq = match &self.srq {
            None => None,
            Some(Srq::Model(srq)) => Some(srq.clone()),
            Some(Srq::Driver(_)) => return None,
        };
        let by_request = self.has(IBT_WR_SIGNALED);
        Some(fabric::UdConfig {
            port: self.port,
            pkey_ix: self.pkey_ix,
            qkey: self.qkey,
            pd: pd.clone(),
            scq: scq.clone(),
            rcq: rcq.clone(),
            srq,
            sizes: self.sizes,
            signalling: if by_request { Signalling::PerRequest } else { Signalling::All },
            uses_lso: self.has(IBT_USES_LSO),
            uses_reserved_lkey: self.has(IBT_FAST_REG_RES_LKEY),
        })
    }
}

/// What a queue pair is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpNow {
    pub state: QpState,
    pub port: PortNum,
    pub pkey_ix: u16,
    pub qkey: QKey,
    pub sizes: QpSizes,
}
