//! Errors on demand: the next call of a kind answers what a test wants.

use crate::Error;
use std::collections::BTreeMap;

use std::sync::atomic::{AtomicUsize, Ordering};

use lab_lock::Mutex;
/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Each is the method of the same name.
pub enum Call {
    QueryPorts,
    AllocPd,
    FreePd,
    AllocCq,
    ResizeCq,
    ModifyCq,
    FreeCq,
    NotifyCq,
    PollCq,
    AllocQp,
    FlushQp,
    ModifyQp,
    FreeQp,
    PostSend,
    PostRecv,
    AllocAh,
    ModifyAh,
    FreeAh,
    AttachMcg,
    DetachMcg,
    RegisterMr,
    DeregisterMr,
    AllocSrq,
    FreeSrq,
    PostSrq,
}

/// Let `skip` calls pass, then fail `times`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Calls that pass first.
    pub skip: u32,
    /// Calls that fail then.
    pub times: u32,
    /// What they answer.
    pub error: Error,
}

#[derive(Default)]
pub(crate) struct Calls {
    injected: Mutex<BTreeMap<Call, Injection>>,
    /// How many wait there: the common case is none.
    waiting: AtomicUsize,
}

impl Calls {
    pub(crate) fn inject(&self, call: Call, injection: Injection) {
        let mut calls = self.injected.lock();
        calls.insert(call, injection);
        self.waiting.store(calls.len(), Ordering::Release);
    }

    pub(crate) fn check(&self, call: Call) -> Result<(), Error> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let mut calls = self.injected.lock();
        let Some(injection) = calls.get_mut(&call) else { return Ok(()) };
        if injection.skip > 0 {
            injection.skip -= 1;
            return Ok(());
        }
        let error = injection.error;
        injection.times = injection.times.saturating_sub(1);
        if injection.times == 0 {
            calls.remove(&call);
            self.waiting.store(calls.len(), Ordering::Release);
        }
        Err(error)
    }
}
