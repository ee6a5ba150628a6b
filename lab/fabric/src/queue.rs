//! A work queue: requests complete in the order they were posted, each exactly once.

use crate::Error;
use crate::cq::{Added, Completion, Cq, Cqe};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One piece of memory of a work request. Pieces of length 0 are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address.
    pub va: u64,
    /// Key of the region it lies in.
    pub lkey: u32,
    /// Bytes.
    pub len: u32,
}

impl Sge {
    /// The address behind the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.va.saturating_add(self.len.into())
    }
}

/// A receive work request. The first 40 bytes of the buffer are for the GRH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// Given back in the completion.
    pub id: u64,
    /// Filled in order.
    pub sgl: Vec<Sge>,
}

/// How a request ended, before it is its turn to be reported.
pub(crate) struct Done {
    pub(crate) completion: Completion,
    /// Report it; errors are always reported.
    pub(crate) signalled: bool,
    pub(crate) solicited: bool,
}

enum Stage<W> {
    /// Waits to be taken.
    Posted(W),
    /// Being carried out by whoever took it.
    Taken,
    Done(Done),
}

/// Slots that a completion gives back, and to which counter.
pub(crate) type Freed = (u32, Arc<AtomicU32>);

struct Entry<W> {
    stage: Stage<W>,
    wr_id: u64,
    /// Whose slot it occupies: this queue's, or the SRQ's it came from.
    owner: Arc<AtomicU32>,
}

pub(crate) struct WorkQueue<W> {
    entries: VecDeque<Entry<W>>,
    /// Sequence number of the first entry.
    head: u64,
    depth: u32,
    /// Slots not yet given back by a poll.
    used: Arc<AtomicU32>,
    /// Slots of unsignalled requests that the next reported one gives back.
    silent: u32,
    /// Completions made.
    reported: u64,
}

impl<W> WorkQueue<W> {
    pub(crate) fn new(depth: u32) -> Self {
        let used = Arc::new(AtomicU32::new(0));
        WorkQueue { entries: VecDeque::new(), head: 0, depth, used, silent: 0, reported: 0 }
    }

    fn push(&mut self, stage: Stage<W>, wr_id: u64) -> Result<u64, Error> {
        if self.used.load(Ordering::Acquire) >= self.depth {
            return Err(Error::ChanFull);
        }
        self.used.fetch_add(1, Ordering::AcqRel);
        let owner = self.used.clone();
        self.entries.push_back(Entry { stage, wr_id, owner });
        Ok(self.head + self.entries.len() as u64 - 1)
    }

    /// Adds a request that waits to be taken.
    pub(crate) fn post(&mut self, work: W, wr_id: u64) -> Result<u64, Error> {
        self.push(Stage::Posted(work), wr_id)
    }

    /// Adds a request that the caller is already carrying out.
    pub(crate) fn reserve(&mut self, wr_id: u64) -> Result<u64, Error> {
        self.push(Stage::Taken, wr_id)
    }

    /// Takes and ends a request in one, when no other is under way: the slots that its completion gives back, if it is
    /// reported. `None` when others are.
    pub(crate) fn pass(&mut self, signalled: bool) -> Option<Result<Option<Freed>, Error>> {
        if !self.entries.is_empty() {
            return None;
        }
        if self.used.load(Ordering::Acquire) >= self.depth {
            return Some(Err(Error::ChanFull));
        }
        self.used.fetch_add(1, Ordering::AcqRel);
        self.head += 1;
        if !signalled {
            self.silent += 1;
            return Some(Ok(None));
        }
        let slots = std::mem::take(&mut self.silent) + 1;
        self.reported += 1;
        Some(Ok(Some((slots, self.used.clone()))))
    }

    /// Adds a request taken from another queue, whose slot it keeps.
    pub(crate) fn adopt(&mut self, wr_id: u64, owner: Arc<AtomicU32>) -> u64 {
        self.entries.push_back(Entry { stage: Stage::Taken, wr_id, owner });
        self.head + self.entries.len() as u64 - 1
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let index = usize::try_from(seq.checked_sub(self.head)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    /// Lets a reserved request wait.
    pub(crate) fn park(&mut self, seq: u64, work: W) {
        if let Some(i) = self.index(seq) {
            self.entries[i].stage = Stage::Posted(work);
        }
    }

    /// Takes the oldest waiting request.
    pub(crate) fn take(&mut self) -> Option<(u64, W)> {
        // Requests are taken in order, so those that wait are the tail.
        let first = self.entries.partition_point(|e| !matches!(e.stage, Stage::Posted(_)));
        let entry = self.entries.get_mut(first)?;
        match std::mem::replace(&mut entry.stage, Stage::Taken) {
            Stage::Posted(work) => Some((self.head + first as u64, work)),
            other => {
                entry.stage = other;
                None
            }
        }
    }

    /// Takes one particular waiting request; `None` if it was flushed or is gone.
    pub(crate) fn take_at(&mut self, seq: u64) -> Option<W> {
        let i = self.index(seq)?;
        match std::mem::replace(&mut self.entries[i].stage, Stage::Taken) {
            Stage::Posted(work) => Some(work),
            other => {
                self.entries[i].stage = other;
                None
            }
        }
    }

    /// Ends a taken request. Ignored if the queue was cleared meanwhile.
    pub(crate) fn finish(&mut self, seq: u64, done: Done) {
        if let Some(i) = self.index(seq) {
            self.entries[i].stage = Stage::Done(done);
        }
    }

    /// Ends every waiting request.
    pub(crate) fn flush(&mut self, done: impl Fn(u64) -> Done) {
        for entry in &mut self.entries {
            if matches!(entry.stage, Stage::Posted(_)) {
                entry.stage = Stage::Done(done(entry.wr_id));
            }
        }
    }

    /// Reports what is finished, in order, up to the first request that is not.
    pub(crate) fn report(&mut self, cq: &Cq, mut added: impl FnMut(Added)) {
        while let Some(Entry { stage: Stage::Done(_), .. }) = self.entries.front() {
            let Some(Entry { stage: Stage::Done(done), owner, .. }) = self.entries.pop_front() else { break };
            self.head += 1;
            if !done.signalled {
                self.silent += 1;
                continue;
            }
            let slots = std::mem::take(&mut self.silent) + 1;
            self.reported += 1;
            added(cq.add(Cqe { completion: done.completion, solicited: done.solicited, slots, owner }));
        }
    }

    /// Forgets everything, as RESET does.
    pub(crate) fn clear(&mut self) {
        self.head += self.entries.len() as u64;
        self.entries.clear();
        self.silent = 0;
        // Completions of before the reset give back slots of the counter they name, which is no longer ours.
        self.used = Arc::new(AtomicU32::new(0));
    }

    /// Requests that wait to be taken, the oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &W> {
        self.entries.iter().filter_map(|entry| match &entry.stage {
            Stage::Posted(work) => Some(work),
            Stage::Taken | Stage::Done(_) => None,
        })
    }

    /// Takes the oldest waiting request, wherever it is in the queue, if it is wanted.
    pub(crate) fn take_waiting_if(&mut self, wanted: impl Fn(&W) -> bool) -> Option<(u64, W)> {
        let waits = |entry: &Entry<W>| matches!(entry.stage, Stage::Posted(_));
        let first = self.entries.iter().position(waits)?;
        let entry = self.entries.get_mut(first)?;
        match std::mem::replace(&mut entry.stage, Stage::Taken) {
            Stage::Posted(work) if wanted(&work) => Some((self.head + first as u64, work)),
            other => {
                entry.stage = other;
                None
            }
        }
    }

    /// Takes back every request that waits to be taken, and its slot: the oldest first.
    pub(crate) fn take_waiting(&mut self) -> Vec<W> {
        let first = self.entries.partition_point(|e| !matches!(e.stage, Stage::Posted(_)));
        let taken = self.entries.split_off(first).into_iter().filter_map(|entry| match entry.stage {
            Stage::Posted(work) => {
                entry.owner.fetch_sub(1, Ordering::AcqRel);
                Some(work)
            }
            Stage::Taken | Stage::Done(_) => None,
        });
        taken.collect()
    }

    /// Slots not yet given back by a poll.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    /// Completions made so far.
    pub(crate) fn reported(&self) -> u64 {
        self.reported
    }

    /// Some request is being carried out right now.
    pub(crate) fn busy(&self) -> bool {
        self.entries.iter().any(|e| matches!(e.stage, Stage::Taken))
    }
}
