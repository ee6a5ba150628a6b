//! What happens later, in order of time and, at one time, in order of arrival here.

use crate::port::Port;
use crate::wire::Frame;
use crate::{AsyncEvent, CqNum, Hca, Nanos, Qp};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) enum Later {
    /// A frame reaches the switch.
    AtSwitch { from: Arc<Port>, frame: Frame },
    /// A frame reaches a port.
    AtPort { hca: Hca, port: Arc<Port>, frame: Frame },
    /// An HCA gets round to a posted send.
    Send { hca: Hca, qp: Qp, seq: u64 },
    /// A connection has something to send again, or may.
    Requester { hca: Hca, qp: Qp, at: Nanos },
    /// A late event.
    Event { hca: Hca, event: AsyncEvent },
    /// A late completion interrupt.
    Interrupt { hca: Hca, cq: CqNum },
}

#[derive(Default)]
pub(crate) struct DelayQueue {
    waiting: BTreeMap<(Nanos, u64), Later>,
    next: u64,
}

impl DelayQueue {
    pub(crate) fn push(&mut self, due: Nanos, later: Later) {
        self.waiting.insert((due, self.next), later);
        self.next += 1;
    }

    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.waiting.keys().next().map(|&(due, _)| due)
    }

    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Later> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
