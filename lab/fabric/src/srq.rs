//! Shared receive queues.

use crate::{Error, Pd, RecvWr};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lab_lock::Mutex;
/// Sizes of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqSizes {
    /// Work requests.
    pub wrs: u32,
    /// SGL entries per request.
    pub sgl: u32,
}

/// Number of a shared receive queue, unique within its HCA for the HCA's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SrqNum(pub u32);

/// A shared receive queue. Clones name the same one.
#[derive(Clone)]
pub struct Srq(pub(crate) Arc<SrqInner>);

pub(crate) struct SrqInner {
    num: SrqNum,
    pub(crate) pd: Pd,
    pub(crate) sizes: SrqSizes,
    pub(crate) used: Arc<AtomicU32>,
    state: Mutex<SrqState>,
}

struct SrqState {
    waiting: VecDeque<RecvWr>,
    users: u32,
    /// A QP has taken from it.
    used: bool,
    kept: bool,
    freed: bool,
    failed: bool,
    /// 0: nothing is told.
    limit: u32,
}

impl Srq {
    pub(crate) fn new(num: SrqNum, pd: Pd, sizes: SrqSizes) -> Self {
        Srq(Arc::new(SrqInner {
            num,
            pd,
            sizes,
            used: Arc::new(AtomicU32::new(0)),
            state: Mutex::new(SrqState {
                waiting: VecDeque::new(),
                users: 0,
                used: false,
                kept: false,
                freed: false,
                failed: false,
                limit: 0,
            }),
        }))
    }

    /// Its number, as [`crate::AsyncEvent::SrqLimit`] names it.
    #[must_use]
    pub fn num(&self) -> SrqNum {
        self.0.num
    }

    /// Receives in it that nobody has taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.state.lock().waiting.len()
    }

    pub(crate) fn set_limit(&self, limit: u32) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        if s.freed {
            return Err(Error::SrqHdlInvalid);
        }
        s.limit = limit;
        Ok(())
    }

    /// As failing hardware would: nothing is put into it or taken out any more.
    pub(crate) fn fail(&self) {
        self.0.state.lock().failed = true;
    }

    /// Real sizes.
    #[must_use]
    pub fn sizes(&self) -> SrqSizes {
        self.0.sizes
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> Pd {
        self.0.pd.clone()
    }

    /// Its HCA has refused to free it and always will ([`crate::HcaConfig::keeps_srqs`]).
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.state.lock().kept
    }

    pub(crate) fn hold(&self) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        if s.freed {
            return Err(Error::SrqHdlInvalid);
        }
        s.users += 1;
        s.used = true;
        Ok(())
    }

    pub(crate) fn release(&self) {
        let mut s = self.0.state.lock();
        s.users = s.users.saturating_sub(1);
    }

    /// `keeps`: the HCA keeps one that a QP has taken from.
    pub(crate) fn retire(&self, keeps: bool) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        match (s.freed, s.users) {
            (true, _) => Err(Error::SrqHdlInvalid),
            (false, 0) if !(keeps && s.used) => {
                s.freed = true;
                s.waiting.clear();
                Ok(())
            }
            (false, users) => {
                s.kept = users == 0;
                Err(Error::SrqInUse)
            }
        }
    }

    pub(crate) fn post(&self, wr: RecvWr) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        if s.freed {
            return Err(Error::SrqHdlInvalid);
        }
        if s.failed {
            return Err(Error::SrqErrorState);
        }
        if wr.sgl.len() > self.0.sizes.sgl as usize {
            return Err(Error::ChanSglLenInvalid);
        }
        if self.0.used.load(Ordering::Acquire) >= self.0.sizes.wrs {
            return Err(Error::ChanFull);
        }
        self.0.used.fetch_add(1, Ordering::AcqRel);
        s.waiting.push_back(wr);
        Ok(())
    }

    /// The oldest receive, and whether taking it is to be told.
    pub(crate) fn take(&self) -> Option<(RecvWr, bool)> {
        let mut s = self.0.state.lock();
        if s.failed {
            return None;
        }
        let wr = s.waiting.pop_front()?;
        let low = s.waiting.len() < s.limit as usize;
        if low {
            s.limit = 0;
        }
        Some((wr, low))
    }
}
