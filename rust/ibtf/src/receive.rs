//! [`ReceiveQueue`]: buffers on their way through the adapter.

use illumos_sys_hdrs as sys;
use kernel::mblk::Home;
use kernel::{AllocError, KArc, KBox, KVec};

use crate::adapter_owned::Keep;
use crate::buffer::{self, Buffer, BufferPool, Free, Pool};
use crate::channel::UdChannel;
use crate::cq::{Completion, CompletionStatus, QueueId};
use crate::pd::Pd;
use crate::srq::Srq;
use crate::status::Status;

/// What receives are posted to: a channel, or a queue that connections share.
pub trait Target: Clone {
    /// Bytes of a buffer in front of what is received.
    const HEADROOM: u32;

    /// Its protection domain.
    fn pd(&self) -> &Pd;

    /// How many receives it holds, and its CQ.
    fn capacity(&self) -> u32;

    /// Makes sure that [`Target::keep_until_freed`] will have room.
    fn promise(&self) -> Result<(), AllocError>;

    /// A promise is not needed.
    fn keep_nothing(&self);

    /// Drops `what` when the adapter has forgotten what was posted. Needs a promise.
    fn keep_until_freed(&self, what: KBox<dyn Keep>);

    /// Posts requests whose buffers are the adapter's by now; how many were posted, if it failed.
    fn post(&self, requests: &mut [sys::ibt_recv_wr_t], posted: &mut u32) -> sys::ibt_status_t;
}

impl Target for UdChannel {
    /// The adapter leaves room for a GRH itself.
    const HEADROOM: u32 = 0;

    fn pd(&self) -> &Pd {
        self.pd()
    }

    fn capacity(&self) -> u32 {
        // A CQ that is overrun is lost, and an adapter rounds it to fewer places than the queue.
        self.sizes().receive.min(self.receive_cq().size())
    }

    fn promise(&self) -> Result<(), AllocError> {
        self.promise()
    }

    fn keep_nothing(&self) {
        self.keep_nothing();
    }

    fn keep_until_freed(&self, what: KBox<dyn Keep>) {
        self.keep_until_freed(what);
    }

    fn post(&self, requests: &mut [sys::ibt_recv_wr_t], posted: &mut u32) -> sys::ibt_status_t {
        // SAFETY: the requests are copied by the call; their buffers are the adapter's until they complete or the
        // channel is freed (`Reclaim`).
        unsafe { sys::ibt_post_recv(self.handle(), requests.as_mut_ptr(), requests.len() as u32, posted) }
    }
}

/// The receiving side of a channel, or a part of that of connections with a shared receive queue, fed from one pool.
///
/// Every method is legal in **any** context, under the driver's lock for this queue. When it is dropped, buffers that the adapter
/// still has come home as soon as the channel is freed.
pub struct ReceiveQueue<T: Target = UdChannel> {
    target: T,
    pool: KArc<Home<Pool>>,
    id: QueueId,
    /// How many the adapter may have at most, and how many more it takes.
    capacity: u32,
    room: u32,
    /// Buffers that were given back, to be posted before any that are at home: they need no locked operation.
    spare: KVec<Buffer>,
    refills: Refills,
    /// Free buffers that were taken off the pool's list all at once.
    free: Free,
    /// One request and one element for each buffer of a call.
    requests: KVec<sys::ibt_recv_wr_t>,
    elements: KVec<sys::ibt_wr_ds_t>,
    /// `None` only while dropping.
    reclaim: Option<KBox<Reclaim>>,
}

/// How often a queue was refilled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refills {
    /// At all.
    pub all: u64,
    /// With fewer free buffers than the adapter takes.
    pub short: u64,
}

/// Sends home, when dropped, what the adapter had when its channel was freed.
struct Reclaim {
    pool: KArc<Home<Pool>>,
    id: QueueId,
}

impl Keep for Reclaim {
    fn is_out_of_reach(&self) -> bool {
        !self.pool.is_registered()
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        Pool::reclaim(&self.pool, self.id);
    }
}

/// A completed receive.
#[derive(Debug)]
pub struct Received {
    /// The buffer; its length is what the adapter wrote: 40 bytes for a GRH, which a connection has room for only, then the message. Of a
    /// failed receive the length is 0.
    pub buffer: Buffer,
    /// How it went.
    pub status: CompletionStatus,
    /// Whether the first 40 bytes are a GRH; otherwise they mean nothing.
    pub has_grh: bool,
    /// Whether the adapter has verified the IPv4 header's and the TCP or UDP checksum.
    pub checksum_ok: bool,
    /// Queue pair number of the sender, 24 bits.
    pub source_qpn: u32,
}

/// Work requests per call.
const BATCH: usize = 32;

impl<T: Target> ReceiveQueue<T> {
    /// A queue of `target`, as long as was asked for and its CQ holds, with buffers of `pool`, which is registered for receiving in the
    /// target's protection domain, or else `INVALID_PARAM`. One queue per target. **May block.**
    pub fn new(target: &T, pool: &BufferPool) -> Result<Self, Status> {
        Self::with_capacity(target, pool, u32::MAX)
    }

    /// As [`ReceiveQueue::new`], for at most so many receives: of one target there may be several, which together post no more than it
    /// holds. **May block.**
    pub fn with_capacity(target: &T, pool: &BufferPool, capacity: u32) -> Result<Self, Status> {
        let pool = pool.pool_in(target.pd()).ok_or(Status::INVALID_PARAM)?;
        let id = QueueId::next();
        let capacity = capacity.min(target.capacity());
        let reclaim = KBox::new(Reclaim { pool: pool.clone(), id })?;
        let elements = KVec::from_fn(BATCH, |_| Default::default())?;
        let requests = KVec::from_fn(BATCH, |_| sys::ibt_recv_wr_t { wr_nds: 1, ..Default::default() })?;
        let spare = KVec::with_capacity(BATCH)?;
        target.promise()?;
        Ok(Self {
            target: target.clone(),
            pool: pool.clone(),
            id,
            capacity,
            room: capacity,
            spare,
            refills: Refills::default(),
            free: Free::none(),
            requests,
            elements,
            reclaim: Some(reclaim),
        })
    }

    /// The id its completions carry.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// How many buffers the adapter has.
    pub fn posted(&self) -> u32 {
        self.capacity.saturating_sub(self.room)
    }

    /// How many buffers the adapter has at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How often it was refilled.
    pub fn refills(&self) -> Refills {
        self.refills
    }

    /// Whether the one buffer that was [received](Self::complete) and not given back yet may be lent: at most half of the pool is, so
    /// that the adapter's queue never runs dry.
    pub fn may_lend(&self) -> bool {
        // Lent are those that are neither free nor the adapter's; this one is among them.
        let free = self.pool.free_count() + self.free.len();
        let here = free + self.posted() + self.spare.len() as u32;
        2 * self.pool.count().saturating_sub(here) <= self.pool.count()
    }

    /// Posts free buffers of the pool until the adapter's queue is full or none is left; how many. An error says why it
    /// stopped early; the buffers concerned are home again.
    pub fn refill(&mut self) -> Result<u32, Status> {
        let mut total = 0;
        self.refills.all += 1;
        loop {
            let mut count = 0;
            while count < BATCH.min(self.room as usize) {
                let Some(buffer) = self.spare.pop().or_else(|| self.take_free()) else {
                    self.refills.short += 1;
                    break;
                };
                self.describe(count, buffer);
                count += 1;
            }
            self.room -= count as u32;
            let (posted, result) = self.post_described(count);
            total += posted;
            result?;
            if count < BATCH {
                return Ok(total);
            }
        }
    }

    /// Gives a buffer back that was received into and is not needed any more: the next [`ReceiveQueue::refill`] posts it. Dropping
    /// it does so as well, at the price of a few locked operations.
    #[inline(always)]
    pub fn give_back(&mut self, buffer: Buffer) {
        // As many as a call posts; more go home.
        let _ = self.spare.push_within_capacity(buffer);
    }

    /// Takes a completion of this queue; `None` if it is not (or no buffer of it is out), which an adapter's driver
    /// should never do.
    #[inline(always)]
    pub fn complete(&mut self, completion: Completion<'_>) -> Option<Received> {
        if completion.queue() != self.id {
            return None;
        }
        let status = completion.status();
        let raw = completion.0;
        // Of a failed receive only id and status are defined.
        let len = if status.is_success() { raw.wc_bytes_xfer.saturating_add(T::HEADROOM) } else { 0 };
        let buffer = buffer::from_adapter(&self.pool, self.id, completion.number(), len)?;
        self.room += 1;
        let flag = |flag| status.is_success() && raw.wc_flags & flag != 0;
        Some(Received {
            buffer,
            status,
            has_grh: flag(sys::IBT_WC_GRH_PRESENT),
            checksum_ok: flag(sys::IBT_WC_CKSUM_OK) && raw.wc_cksum == 0xffff,
            source_qpn: raw.wc_qpn & sys::IB_QPN_MASK,
        })
    }

    /// One of the free buffers at hand, or of all that came home since the last time.
    #[inline]
    fn take_free(&mut self) -> Option<Buffer> {
        if self.free.len() == 0 {
            self.free = buffer::take_all(&self.pool);
        }
        buffer::take_one(&self.pool, &mut self.free)
    }

    /// Makes the request for a buffer, which is the adapter's from now on.
    #[inline(always)]
    fn describe(&mut self, place: usize, buffer: Buffer) {
        let capacity = buffer.capacity();
        let (index, mut described) = buffer.into_adapter(self.id, capacity);
        described.ds_va += u64::from(T::HEADROOM);
        described.ds_len = capacity.saturating_sub(T::HEADROOM);
        // There are as many of both as a batch has places.
        if let (Some(element), Some(request)) = (self.elements.get_mut(place), self.requests.get_mut(place)) {
            *element = described;
            request.wr_id = self.id.work_request(index);
            request.wr_sgl = element;
        }
    }

    /// Posts so many, for which there is room: how many were posted, and why no more.
    fn post_described(&mut self, count: usize) -> (u32, Result<(), Status>) {
        if count == 0 {
            // IBTF does not check for it.
            return (0, Ok(()));
        }
        let mut posted = 0;
        let result = match self.requests.get_mut(..count) {
            Some(requests) => Status::check(self.target.post(requests, &mut posted)),
            // There are as many as a batch has places.
            None => Err(Status::INVALID_PARAM),
        };
        if result.is_ok() {
            return (count as u32, Ok(()));
        }
        for request in self.requests.iter().take(count).skip(posted as usize) {
            // Not accepted: never seen by the adapter.
            drop(buffer::from_adapter(&self.pool, self.id, request.wr_id as u32, 0));
            self.room += 1;
        }
        (posted, result)
    }
}

// SAFETY: requests point at elements of the same queue, and nowhere else.
unsafe impl<T: Target + Send> Send for ReceiveQueue<T> {}
// SAFETY: through a shared reference only numbers are read.
unsafe impl<T: Target + Sync> Sync for ReceiveQueue<T> {}

impl ReceiveQueue<Srq> {
    /// Whether this is the queue that it posts to.
    pub(crate) fn posts_to(&self, srq: &Srq) -> bool {
        self.target.is(srq)
    }
}

impl<T: Target> Drop for ReceiveQueue<T> {
    fn drop(&mut self) {
        buffer::put_back(&self.pool, &mut self.free);
        match self.reclaim.take() {
            // The adapter has nothing of it.
            Some(_) if self.posted() == 0 => self.target.keep_nothing(),
            Some(reclaim) => self.target.keep_until_freed(reclaim.map_unsized(|reclaim| reclaim as _)),
            None => {}
        }
    }
}
