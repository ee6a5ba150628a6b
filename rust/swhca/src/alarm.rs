//! The clock of connections: a thread that comes back to a queue pair when it has waited long enough.

use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::time::Instant;
use kernel::{AllocError, KArc, KVec, MayBlock};

use crate::qp::Qp;

/// Queue pairs that wait, each once, and until when.
pub(crate) struct Waiting {
    entries: KVec<(Instant, KArc<Qp>)>,
    /// Queue pairs that may wait.
    seats: usize,
}

/// The clock of all adapters.
pub(crate) struct Alarms(KArc<Monitor<Waiting>>);

/// Room for a queue pair that may wait, as long as this is there.
pub(crate) struct Seat(KArc<Alarms>);

impl Alarms {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let waiting = Waiting { entries: KVec::new(), seats: 0 };
        Self(KArc::new_waiting(Monitor::new_waiting(waiting, may_block), may_block))
    }

    /// Starts the thread. **May block.**
    pub(crate) fn serve(&self, may_block: &MayBlock) -> Worker<Waiting> {
        Worker::spawn(c"swhca_rc", self.0.clone(), may_block, run)
    }

    /// Room for one more. **May block.**
    pub(crate) fn seat(this: &KArc<Self>) -> Result<Seat, AllocError> {
        let mut waiting = this.0.lock();
        let more = (waiting.seats + 1).saturating_sub(waiting.entries.len());
        waiting.entries.reserve(more)?;
        waiting.seats += 1;
        Ok(Seat(this.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.lock().seats -= 1;
    }
}

impl Seat {
    /// Comes back to a queue pair, which has this seat, then or earlier. **Any** context.
    pub(crate) fn set(&self, qp: &KArc<Qp>, when: Instant) {
        let mut waiting = self.0.0.lock();
        match waiting.entries.iter_mut().find(|(_, other)| KArc::ptr_eq(other, qp)) {
            Some((due, _)) => *due = when.min(*due),
            // There is room for everybody.
            None => drop(waiting.entries.push_within_capacity((when, qp.clone()))),
        }
        drop(waiting);
        self.0.0.notify_one();
    }

    /// Does not come back to it any more; who is with it just now goes on.
    pub(crate) fn cancel(&self, qp: &Qp) {
        let mut waiting = self.0.0.lock();
        let mine = waiting.entries.iter().position(|(_, other)| core::ptr::eq(&raw const **other, qp));
        let taken = mine.and_then(|index| waiting.entries.swap_remove(index));
        drop(waiting);
        drop(taken);
    }
}

fn run(parker: &Parker<'_, Waiting>) {
    let mut waiting = parker.lock();
    while !parker.should_stop() {
        let first = waiting.entries.iter().enumerate().min_by_key(|(_, (due, _))| *due);
        let first = first.map(|(index, (due, _))| (index, *due));
        let Some((index, _)) = first.filter(|(_, due)| *due <= Instant::now()) else {
            parker.wait_until(&mut waiting, first.map(|(_, due)| due));
            continue;
        };
        let taken = waiting.entries.swap_remove(index);
        drop(waiting);
        if let Some((_, qp)) = taken {
            Qp::ring(&qp);
        }
        waiting = parker.lock();
    }
}
