//! What is done about a queue pair later, by the soft interrupt: where nobody holds a lock.

use core::sync::atomic::Ordering;

use ibtf_provider::QpState;
use kernel::KArc;

use super::Qp;
use crate::calls::Call;

/// What is to be done.
pub(super) mod owed {
    /// Its owner is to be told that it holds no receive of a shared queue.
    pub(crate) const EMPTY: u32 = 1;
    /// It has failed on the side that receives: so it does on the other.
    pub(crate) const FAILURE: u32 = 2;
}

impl Qp {
    /// Has something done about it, soon.
    pub(super) fn owe(this: &KArc<Self>, what: u32) {
        if this.owed.fetch_or(what, Ordering::AcqRel) == 0 {
            this.parts.node.call(Call::Qp(this.clone()));
        }
    }

    /// Does what is owed. In none of the operations.
    pub(crate) fn pay(&self) {
        let what = self.owed.swap(0, Ordering::AcqRel);
        if what & owed::FAILURE != 0 {
            self.fail_sends();
            self.say_failed();
        }
        if what & owed::EMPTY != 0 {
            self.say_empty();
        }
    }

    /// Tells its owner that it has failed by itself, unless it was told, or that is over. In none of the operations.
    fn say_failed(&self) {
        let due = core::mem::take(&mut self.receives.lock().untold);
        if due {
            self.parts.client.raise_catastrophe();
        }
    }

    /// Tells its owner that it holds no receive of a shared queue: once for an error state, and not if that is over. In none of the
    /// operations.
    pub(super) fn say_empty(&self) {
        let mut receives = self.receives.lock();
        let due = receives.common.state == QpState::Error && !receives.told_empty;
        receives.told_empty |= due;
        drop(receives);
        if due {
            self.parts.client.raise_empty();
        }
    }

    /// What a failure on the side that receives has left, unless it was reset since.
    fn fail_sends(&self) {
        let mut sends = self.sends.lock();
        let receives = self.receives.lock();
        if receives.common.state == QpState::Error {
            sends.common.state = QpState::Error;
            self.flush_sends(&mut sends);
        }
    }
}
