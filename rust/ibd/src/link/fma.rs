//! What fault management is told of a link: faults of the adapter's that the driver could only work around, and what they leave of the
//! link's service.
//!
//! A queue pair that fails once is replaced and is no fault; nor is anything that a cable, the subnet manager or a neighbour does,
//! or a want of memory. What is a fault is reported at once, and then once a minute at most, with how often it came: an adapter that fails
//! again and again fills no log. The node of a port is degraded as long as the last of its links that said anything says so.

use kernel::MayBlock;
use kernel::fm::{Class, Impact};
use kernel::sync::Mutex;
use kernel::time::{Duration, Instant};

use super::Shared;

/// The least time between two reports of one kind.
const PAUSE: Duration = Duration::from_secs(60);

/// What an adapter has done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Fault {
    /// A queue pair failed soon after another one, or its CQ is lost.
    Broken,
    /// A queue pair has completed no sends for long.
    Stalled,
}

const KINDS: usize = Fault::Stalled as usize + 1;

impl Fault {
    fn class(self) -> Class {
        match self {
            Self::Broken => Class::InvalidState,
            Self::Stalled => Class::Stall,
        }
    }
}

/// What was told of a link, and when.
pub(super) struct Faults(Mutex<Told>);

#[derive(Default)]
struct Told {
    kinds: [Kind; KINDS],
    /// The node was said to be degraded, and not to be restored since.
    degraded: bool,
}

#[derive(Clone, Copy, Default)]
struct Kind {
    last: Option<Instant>,
    /// Faults since the last report.
    count: u32,
}

impl Kind {
    /// How many there were since the last report, this one among them, if another report is due.
    fn count(&mut self, now: Instant) -> Option<u32> {
        self.count = self.count.saturating_add(1);
        if self.last.is_some_and(|last| now - last < PAUSE) {
            return None;
        }
        self.last = Some(now);
        Some(core::mem::take(&mut self.count))
    }
}

impl Faults {
    pub(super) fn new(may_block: &MayBlock) -> Self {
        Self(Mutex::new_waiting(Told::default(), may_block))
    }
}

impl Shared {
    /// The adapter has done something wrong that the link could not do without. **May block.**
    #[inline(never)]
    pub(super) fn report(&self, fault: Fault) {
        let mut told = self.faults.0.lock();
        let due = told.kinds[fault as usize].count(Instant::now());
        let degrade = !core::mem::replace(&mut told.degraded, true);
        drop(told);
        if let Some(count) = due {
            // `fmdump -eV` shows them.
            self.dip.post_ereport(fault.class(), [(c"link", self.number as u32), (c"count", count)]);
        }
        if degrade {
            self.dip.service_impact(Impact::Degraded);
            // It may be well again since, and have said so before this.
            if !self.faults.0.lock().degraded {
                self.dip.service_impact(Impact::Restored);
            }
        }
    }

    /// The link is up again, or goes, or the one ring that was not well is. **Any** context.
    #[inline(never)]
    pub(super) fn restored(&self) {
        if core::mem::take(&mut self.faults.0.lock().degraded) {
            self.dip.service_impact(Impact::Restored);
        }
    }

    /// The adapter that was gone is there again. **Any** context.
    pub(super) fn found(&self) {
        self.dip.service_impact(Impact::Restored);
    }

    /// The adapter is gone, and the link with it. **Any** context.
    pub(super) fn lost(&self) {
        self.dip.service_impact(Impact::Lost);
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use kernel::time::Instant;

    #[test]
    fn the_first_fault_is_reported_at_once_and_the_others_once_a_minute_by_their_number() {
        let mut kind = Kind::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        assert_eq!(kind.count(at(5)), Some(1));
        assert_eq!([20, 40, 64].map(|now| kind.count(at(now))), [None; 3]);
        assert_eq!(kind.count(at(65)), Some(4));
        assert_eq!(kind.count(at(1_000)), Some(1));
    }
}
