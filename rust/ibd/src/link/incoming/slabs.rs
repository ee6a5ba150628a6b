//! Receives that connections share, and their buffers: some at first, and more where messages come faster than they are taken.

use core::sync::atomic::AtomicU32;

use ibtf::{
    BufferPool, BufferUse, Completion, OneOfFew, PoolList, ReceiveQueue, Received, Refills, Srq, Status,
};
use ipoib::connections::LONGEST_MESSAGE;
use ipoib::header::GRH_LEN;
use kernel::{AllocError, KBox, KVec};

/// Receives of one slab, and its buffers: 8.4 MB.
const RECEIVES: u32 = 128;
/// Slabs of a link, at most.
const MOST: usize = 8;
/// Receives of a link, at most.
pub(super) const MOST_RECEIVES: u32 = RECEIVES * MOST as u32;
/// Slabs of all links of the module beside the first of each, at most: 202 MB. Whatever is lent of one counts as long as it is.
const MOST_MORE: u32 = 24;
/// Of a message, behind the room for a pseudo header.
const BUFFER: u32 = LONGEST_MESSAGE + GRH_LEN as u32;

static MORE: AtomicU32 = AtomicU32::new(0);

/// Some receives with their buffers.
pub(crate) struct Slab {
    queue: ReceiveQueue<Srq>,
    pool: BufferPool,
    /// It goes when the adapter has none of it any more.
    retires: bool,
}

impl Slab {
    /// The first of a link. **May block.**
    #[inline(never)]
    pub(super) fn first(srq: &Srq) -> Result<KBox<Self>, Status> {
        Self::new(srq, None)
    }

    /// One more; `INSUFF_RESOURCE` if all links have as many as they may. **May block.**
    #[inline(never)]
    pub(super) fn another(srq: &Srq) -> Result<KBox<Self>, Status> {
        let bounded = OneOfFew::new(&MORE, MOST_MORE).ok_or(Status::INSUFF_RESOURCE)?;
        Self::new(srq, Some(bounded))
    }

    fn new(srq: &Srq, bounded: Option<OneOfFew>) -> Result<KBox<Self>, Status> {
        let mut pool = BufferPool::new(srq.pd(), RECEIVES, BUFFER, BufferUse::Receive)?;
        if let Some(bounded) = bounded {
            pool.count_as(bounded);
        }
        let queue = ReceiveQueue::with_capacity(srq, &pool, RECEIVES)?;
        Ok(KBox::new(Self { queue, pool, retires: false })?)
    }

    pub(super) fn queue(&mut self) -> &mut ReceiveQueue<Srq> {
        &mut self.queue
    }

    /// Its buffers, to be closed.
    pub(super) fn into_pool(self) -> BufferPool {
        let Self { queue, pool, .. } = self;
        drop(queue);
        pool
    }
}

/// Whether these buffers are of one.
pub(crate) fn is_slab(pool: &BufferPool) -> bool {
    pool.buffer_size() == BUFFER
}

/// All of a queue.
pub(crate) struct Slabs {
    slabs: KVec<KBox<Slab>>,
    /// Receives that the adapter's queue holds.
    most: u32,
}

impl Slabs {
    /// Of a queue that holds so many receives.
    pub(super) fn new(first: KBox<Slab>, most: u32) -> Result<Self, AllocError> {
        let mut slabs = KVec::with_capacity(MOST)?;
        let _ = slabs.push_within_capacity(first);
        Ok(Self { slabs, most })
    }

    /// One more; it comes back if there are as many as there may be.
    pub(super) fn add(&mut self, slab: KBox<Slab>) -> Result<(), KBox<Slab>> {
        if self.may_grow() { self.slabs.push_within_capacity(slab) } else { Err(slab) }
    }

    pub(super) fn may_grow(&self) -> bool {
        self.slabs.len() < MOST && self.capacity() + RECEIVES <= self.most
    }

    /// What was to go stays. False if there was none.
    pub(super) fn keep(&mut self) -> bool {
        let retires = self.slabs.iter_mut().filter(|slab| slab.retires);
        retires.map(|slab| slab.retires = false).count() != 0
    }

    /// What posts.
    pub(crate) fn queues(&mut self) -> impl Iterator<Item = &mut ReceiveQueue<Srq>> {
        self.slabs.iter_mut().map(|slab| &mut slab.queue)
    }

    /// Whether there are more than at first.
    pub(super) fn has_grown(&self) -> bool {
        self.slabs.len() > 1
    }

    /// Receives that the adapter has at most.
    pub(super) fn capacity(&self) -> u32 {
        self.slabs.iter().map(|slab| slab.queue.capacity()).sum()
    }

    pub(super) fn posted(&self) -> u32 {
        self.slabs.iter().map(|slab| slab.queue.posted()).sum()
    }

    pub(super) fn refills(&self) -> Refills {
        let add =
            |sum: Refills, more: Refills| Refills { all: sum.all + more.all, short: sum.short + more.short };
        self.slabs.iter().map(|slab| slab.queue.refills()).fold(Refills::default(), add)
    }

    /// Posts what is free. An error is that of one slab: others may have some posted.
    pub(super) fn refill(&mut self) -> Result<(), Status> {
        let mut result = Ok(());
        for slab in self.slabs.iter_mut().filter(|slab| !slab.retires) {
            if slab.queue.posted() < slab.queue.capacity() {
                result = result.and(slab.queue.refill().map(|_| ()));
            }
        }
        result
    }

    /// What has come, and the slab that the buffer is of.
    pub(super) fn complete(&mut self, completion: Completion<'_>) -> Option<(&mut Slab, Received)> {
        let id = completion.queue();
        let slab = self.slabs.iter_mut().find(|slab| slab.queue.id() == id)?;
        let received = slab.queue.complete(completion)?;
        Some((slab, received))
    }

    /// The one that came last goes, when what the adapter has of it is used up. It has no way to give receives back.
    pub(super) fn retire_last(&mut self) {
        if let Some(last) = self.slabs.iter_mut().skip(1).filter(|slab| !slab.retires).last() {
            last.retires = true;
        }
    }

    /// One that retires, and of which the adapter has nothing.
    pub(super) fn take_empty(&mut self) -> Option<KBox<Slab>> {
        let at = self.slabs.iter().position(|slab| slab.retires && slab.queue.posted() == 0)?;
        self.slabs.swap_remove(at)
    }

    /// All buffers, to be closed.
    pub(crate) fn into_pools(mut self) -> PoolList {
        let mut pools = PoolList::default();
        while let Some(slab) = self.slabs.pop() {
            pools.push(slab.into_inner().into_pool());
        }
        pools
    }
}

#[cfg(test)]
mod tests {
    use super::{MORE, MOST_MORE};
    use ibtf::OneOfFew;
    use std::vec::Vec;

    #[test]
    fn all_links_together_have_so_many_receives_and_no_more() {
        let all: Vec<_> = (0..MOST_MORE).map_while(|_| OneOfFew::new(&MORE, MOST_MORE)).collect();
        assert_eq!(all.len() as u32, MOST_MORE);
        assert!(OneOfFew::new(&MORE, MOST_MORE).is_none());
        drop(all);
        assert!(OneOfFew::new(&MORE, MOST_MORE).is_some());
    }
}
