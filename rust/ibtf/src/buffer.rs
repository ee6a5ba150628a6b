//! Registered buffers: [`BufferPool`] and [`Buffer`].
//!
//! A pool is one piece of memory, registered once, cut into buffers of one size. Every buffer is in one of four
//! states, and each change of hands is a state change that happens once:
//!
//! ```text
//! home --take--> CPU --post--> adapter --completion--> CPU --lend--> STREAMS --free routine--> home
//!                 CPU --drop--> home
//! ```
//!
//! Only in the CPU's state is there a [`Buffer`], and only a `Buffer` gives references to the memory.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use illumos_sys_hdrs as sys;
use kernel::mblk::{Home, LoanHome, LoanSlot, Mblk};
use kernel::module::Pin;
use kernel::{KArc, KBox, KVec, Pages};

use crate::cq::QueueId;
use crate::pd::Pd;
use crate::refused::told;
use crate::stack::{IndexStack, Taken};
use crate::status::Status;

/// What an adapter does with a pool's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferUse {
    /// It reads them.
    Send,
    /// It writes them.
    Receive,
}

/// The owner of a pool of registered buffers.
///
/// Buffers hold the pool's memory, not its registration. A pool is [closed](BufferPool::close) in two steps, which may be far
/// apart: the adapter's part goes when no queue uses the pool any more, the memory when the last lent buffer is home. A pool
/// that is dropped while a queue uses it is never freed and keeps the module loaded.
pub struct BufferPool {
    /// `None` only once closed.
    inner: Option<KArc<Home<Pool>>>,
    end: KBox<End>,
}

/// What a pool needs at its end, allocated with it.
struct End {
    registration: Option<Registration>,
    /// The pool behind this one in a [`PoolList`](crate::PoolList).
    next: Option<BufferPool>,
    /// Of a pool of which there are few: its place, which is free when this is dropped.
    few: Option<OneOfFew>,
}

/// One of a number of pools that is bounded, as long as this lives.
pub struct OneOfFew(&'static AtomicU32);

impl OneOfFew {
    /// One more, if `count` allows for that: `most` of them. **Any** context.
    pub fn new(count: &'static AtomicU32, most: u32) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(count))
    }
}

impl Drop for OneOfFew {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The adapter's right to a pool's memory.
struct Registration {
    region: sys::ibt_mr_hdl_t,
    pd: Pd,
}

// SAFETY: the region's handle is used once, to deregister it.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

/// # Invariants
///
/// `memory` holds `cells.len()` buffers of `stride` bytes each, all initialised. A cell's `state` says who may touch
/// the buffer: `HOME` nobody, `CPU` the one [`Buffer`] with that index, `ADAPTER` the adapter, `LENT` the holders of
/// the message. Whoever is in the list of free buffers is `HOME`.
pub(crate) struct Pool {
    memory: Pages,
    stride: usize,
    size: u32,
    /// The local key, once registered.
    key: AtomicU32,
    /// The adapter may use the memory.
    registered: AtomicBool,
    cells: KVec<Cell>,
    free: IndexStack,
}

struct Cell {
    slot: LoanSlot<Pool>,
    /// The queue whose work request the buffer is in, while `ADAPTER`.
    owner: AtomicU64,
    state: AtomicU8,
}

const HOME: u8 = 0;
const CPU: u8 = 1;
const ADAPTER: u8 = 2;
const LENT: u8 = 3;

/// Buffers begin on a cache line.
const ALIGN: usize = 64;

impl BufferPool {
    /// Allocates and registers `count` buffers, 262,143 at most, of `size` bytes (rounded up to 64). **May block.**
    pub fn new(pd: &Pd, count: u32, size: u32, used_for: BufferUse) -> Result<Self, Status> {
        let stride = (size as usize).checked_next_multiple_of(ALIGN).ok_or(Status::INVALID_PARAM)?;
        let bytes = stride.checked_mul(count as usize).ok_or(Status::INVALID_PARAM)?;
        if count == 0 || count > IndexStack::MOST || size == 0 {
            return Err(Status::INVALID_PARAM);
        }
        let memory = Pages::new(bytes).ok_or(Status::INSUFF_KERNEL_RESOURCE)?;
        let cells = KVec::from_fn(count as usize, |_| Cell {
            slot: LoanSlot::new(),
            owner: AtomicU64::new(0),
            state: AtomicU8::new(HOME),
        })?;
        let pool = KArc::new(Home::new(Pool {
            memory,
            stride,
            size,
            key: AtomicU32::new(0),
            registered: AtomicBool::new(true),
            cells,
            free: IndexStack::full(count)?,
        }))?;
        let mut end = KBox::new(End { registration: None, next: None, few: None })?;
        let (region, key) = register(pd, &pool.memory, used_for)?;
        pool.key.store(key, Ordering::Relaxed);
        end.registration = Some(Registration { region, pd: pd.clone() });
        Ok(Self { inner: Some(pool), end })
    }

    /// Takes a free buffer. **Any** context.
    pub fn take(&self) -> Option<Buffer> {
        self.inner.as_ref().and_then(take)
    }

    /// How many buffers there are.
    pub fn count(&self) -> u32 {
        self.inner.as_ref().map_or(0, |pool| pool.count())
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.inner.as_ref().map_or(0, |pool| pool.free_count())
    }

    /// How many are lent to STREAMS. Looks at each.
    pub fn lent(&self) -> u32 {
        self.inner.as_ref().map_or(0, |pool| pool.lent_count())
    }

    /// The size of a buffer in bytes.
    pub fn buffer_size(&self) -> u32 {
        self.inner.as_ref().map_or(0, |pool| pool.size)
    }

    /// There are few of these: it is one of them until it is closed, whatever is lent.
    pub fn count_as(&mut self, one: OneOfFew) {
        self.end.few = Some(one);
    }

    /// Deregisters the memory if no queue uses the pool, whatever is lent, and then frees it if all buffers are home. Hands
    /// back what is left. **May block.**
    pub fn close(mut self) -> Result<(), Self> {
        if self.try_close() { Ok(()) } else { Err(self) }
    }

    /// The pool behind this one in a [`PoolList`](crate::PoolList).
    pub(crate) fn next(&self) -> &Option<BufferPool> {
        &self.end.next
    }

    pub(crate) fn next_mut(&mut self) -> &mut Option<BufferPool> {
        &mut self.end.next
    }

    /// `None` if its memory is not registered in this protection domain.
    pub(crate) fn pool_in(&self, pd: &Pd) -> Option<&KArc<Home<Pool>>> {
        let registration = self.end.registration.as_ref()?;
        self.inner.as_ref().filter(|_| registration.pd.is(pd))
    }

    fn try_close(&mut self) -> bool {
        self.deregister();
        if self.end.registration.is_some() || self.inner.as_ref().is_some_and(|pool| !KArc::is_unique(pool)) {
            return false;
        }
        self.inner = None;
        true
    }

    fn deregister(&mut self) {
        let (Some(pool), Some(Registration { region, pd })) = (&self.inner, &self.end.registration) else {
            return;
        };
        // Queues, and buffers in anybody's hands but STREAMS', have references of their own. One that comes home at this moment may have
        // its reference still: then this is tried again.
        if KArc::count(pool) > 1 + self.lent() as usize {
            return;
        }
        // SAFETY: registered once, and no queue is left whose work requests refer to it. Whoever takes a buffer of a pool that was
        // handed back by `close` names a key that the adapter does not know any more, and the adapter refuses it.
        let result = unsafe { sys::ibt_deregister_mr(pd.hca().handle(), *region) };
        if Status::check(result).is_ok() {
            self.end.registration = None;
        }
    }

    /// Takes the memory away from the adapter, although a queue may still have work requests for it: a request that names the region fails
    /// then, and nothing is read or written. Whether the adapter gave it up. **May block.**
    pub fn take_away(&mut self) -> bool {
        if let Some(Registration { region, pd }) = &self.end.registration {
            // SAFETY: registered once. What the adapter still has of it fails from now on, since the key is no region's.
            let result = unsafe { sys::ibt_deregister_mr(pd.hca().handle(), *region) };
            if told("memory region", Status::check(result)).is_ok() {
                self.end.registration = None;
                if let Some(pool) = &self.inner {
                    pool.registered.store(false, Ordering::Release);
                }
            }
        }
        self.end.registration.is_none()
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        self.deregister();
        if self.end.registration.is_some() {
            // A queue still has memory of this pool: it must stay, and so must the text.
            let _ = told("pool of buffers", Err(Status::MR_IN_USE));
            core::mem::forget((self.inner.take(), self.end.registration.take(), Pin::new()));
        }
    }
}

fn register(pd: &Pd, memory: &Pages, used_for: BufferUse) -> Result<(sys::ibt_mr_hdl_t, u32), Status> {
    let mut attributes = sys::ibt_mr_attr_t {
        mr_vaddr: memory.base().as_ptr() as u64,
        mr_len: memory.len() as u64,
        mr_as: ptr::null_mut(),
        mr_flags: match used_for {
            BufferUse::Send => sys::IBT_MR_SLEEP,
            BufferUse::Receive => sys::IBT_MR_ENABLE_LOCAL_WRITE,
        },
    };
    let (mut region, mut described) = (ptr::null_mut(), sys::ibt_mr_desc_t::default());
    // SAFETY: kernel memory that stays until it is deregistered; adapter and protection domain belong together.
    Status::check(unsafe {
        sys::ibt_register_mr(pd.hca().handle(), pd.handle(), &mut attributes, &mut region, &mut described)
    })?;
    Ok((region, described.md_lkey))
}

/// Takes a free buffer of `pool`.
pub(crate) fn take(pool: &KArc<Home<Pool>>) -> Option<Buffer> {
    let index = pool.free.pop()?;
    pool.taken(pool, index)
}

/// Free buffers that were taken off a pool's list together, for one who takes them from there. They go back by [`put_back`].
pub(crate) type Free = Taken;

/// All free buffers of `pool`.
pub(crate) fn take_all(pool: &Pool) -> Free {
    pool.free.take_all()
}

/// One of those, for the CPU.
#[inline]
pub(crate) fn take_one(pool: &KArc<Home<Pool>>, free: &mut Free) -> Option<Buffer> {
    let index = pool.free.next(free)?;
    pool.taken(pool, index)
}

/// Has them be in the list again.
pub(crate) fn put_back(pool: &Pool, free: &mut Free) {
    while let Some(index) = pool.free.next(free) {
        pool.free.push(index);
    }
}

impl Pool {
    /// Buffer `index`, whose state the caller has just taken away from somebody, is free.
    fn push(&self, index: u32) {
        if let Some(cell) = self.cells.get(index as usize) {
            cell.state.store(HOME, Ordering::Relaxed);
            self.free.push(index);
        }
    }

    /// Buffer `index`, which was free and in the list no more, is the CPU's.
    #[inline]
    fn taken(&self, this: &KArc<Home<Self>>, index: u32) -> Option<Buffer> {
        self.cells.get(index as usize)?.state.store(CPU, Ordering::Relaxed);
        Some(Buffer { pool: this.clone(), index, len: 0 })
    }

    /// Whether the adapter may use the memory, for all that is known.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Acquire)
    }

    /// How many buffers there are.
    pub(crate) fn count(&self) -> u32 {
        self.cells.len() as u32
    }

    /// How many are lent.
    fn lent_count(&self) -> u32 {
        let lent = |cell: &&Cell| cell.state.load(Ordering::Acquire) == LENT;
        self.cells.iter().filter(lent).count() as u32
    }

    /// How many are free.
    pub(crate) fn free_count(&self) -> u32 {
        self.free.len()
    }

    fn start(&self, index: u32) -> NonNull<u8> {
        let offset = index as usize * self.stride;
        // SAFETY: an index below the number of buffers, hence inside the memory.
        unsafe { self.memory.base().add(offset) }
    }

    /// Takes back every buffer that is in a work request of `owner`. For a channel that is freed: the adapter has
    /// forgotten it.
    pub(crate) fn reclaim(this: &KArc<Home<Self>>, owner: QueueId) {
        for index in 0..this.cells.len() as u32 {
            if let Some(buffer) = from_adapter(this, owner, index, 0) {
                drop(buffer);
            }
        }
    }
}

/// Buffer `index` came back from the adapter; `None` unless it was in a work request of `owner`.
#[inline(always)]
pub(crate) fn from_adapter(pool: &KArc<Home<Pool>>, owner: QueueId, index: u32, len: u32) -> Option<Buffer> {
    let cell = pool.cells.get(index as usize)?;
    // Who asks in the name of a queue is alone: the queue itself, through `&mut`, or what is left of it, so nothing has to be locked.
    if cell.owner.load(Ordering::Relaxed) != owner.work_request(index)
        || cell.state.load(Ordering::Acquire) != ADAPTER
    {
        return None;
    }
    cell.state.store(CPU, Ordering::Relaxed);
    // The reference that `into_adapter` gave up.
    // SAFETY: into_raw was called once when this buffer was posted, and the state above, which nobody else looks at in this queue's name,
    // lets one caller through.
    let pool = unsafe { KArc::from_raw(KArc::as_ptr(pool)) };
    Some(Buffer { index, len: len.min(pool.size), pool })
}

/// A registered buffer in the CPU's hands. Dropping it sends it home (**any** context).
pub struct Buffer {
    pool: KArc<Home<Pool>>,
    index: u32,
    len: u32,
}

impl Buffer {
    /// The bytes that count: what was received, or what is to be sent.
    pub fn bytes(&self) -> &[u8] {
        self.whole().get(..self.len as usize).unwrap_or_default()
    }

    /// The same, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len as usize;
        self.whole_mut().get_mut(..len).unwrap_or_default()
    }

    /// All the bytes there are, to write.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        // SAFETY: in the CPU's state the buffer is this value's alone; it is initialised and inside the memory.
        unsafe {
            core::slice::from_raw_parts_mut(self.pool.start(self.index).as_ptr(), self.pool.size as usize)
        }
    }

    /// Copies `bytes` there, which are those that count then; `false` if there is no room for them.
    #[inline]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.whole_mut().get_mut(..bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.len = bytes.len() as u32;
        true
    }

    /// Says how many bytes count; at most as many as there are.
    pub fn set_len(&mut self, len: u32) {
        self.len = len.min(self.pool.size);
    }

    /// How many bytes count.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether none do.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lends the bytes from `start` on to STREAMS as a packet; the buffer comes home when it is freed. Hands the buffer
    /// back if `start` is past the end or there is no memory. **Any** context.
    pub fn lend(self, start: u32) -> Result<Mblk, Self> {
        let Some(len) = self.len.checked_sub(start) else { return Err(self) };
        let Some(cell) = self.pool.cells.get(self.index as usize) else { return Err(self) };
        // SAFETY: `start` is at most `len`, hence inside the buffer.
        let bytes = unsafe { self.pool.start(self.index).add(start as usize) };
        cell.state.store(LENT, Ordering::Relaxed);
        let slot = NonNull::from(&cell.slot);
        let (pool, index, whole) = self.give_up();
        // SAFETY: `pool` keeps its cells where they are, and goes into the loan, or comes back.
        let slot = unsafe { slot.as_ref() };
        // SAFETY: the buffer was given up; bytes and slot stay as long as the pool; the slot is this buffer's, and was in the CPU's state
        // until now.
        unsafe { slot.lend(pool, index, bytes, len as usize) }.map_err(|pool| {
            if let Some(cell) = pool.cells.get(index as usize) {
                cell.state.store(CPU, Ordering::Relaxed);
            }
            Self { pool, index, len: whole }
        })
    }

    /// Forgets the value without sending the buffer home: its reference to the pool, its index, and how many bytes count.
    fn give_up(self) -> (KArc<Home<Pool>>, u32, u32) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the reference is read out once.
        (unsafe { ptr::read(&this.pool) }, this.index, this.len)
    }

    /// Hands the buffer to the adapter for work request `owner`/index; the pool's reference stays taken until
    /// [`from_adapter`]. The returned element describes `len` bytes.
    #[inline(always)]
    pub(crate) fn into_adapter(self, owner: QueueId, len: u32) -> (u32, sys::ibt_wr_ds_t) {
        let element = self.element(0, len);
        let this = core::mem::ManuallyDrop::new(self);
        if let Some(cell) = this.pool.cells.get(this.index as usize) {
            cell.owner.store(owner.work_request(this.index), Ordering::Relaxed);
            cell.state.store(ADAPTER, Ordering::Release);
        }
        (this.index, element)
    }

    /// Describes `len` bytes from `start` on to the adapter.
    pub(crate) fn element(&self, start: u32, len: u32) -> sys::ibt_wr_ds_t {
        sys::ibt_wr_ds_t {
            ds_va: self.pool.start(self.index).as_ptr() as u64 + u64::from(start),
            ds_key: self.pool.key.load(Ordering::Relaxed),
            ds_len: len,
        }
    }

    /// Bytes it has room for: those of every buffer of its pool.
    pub fn capacity(&self) -> u32 {
        self.pool.size
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.pool.start(self.index).as_ptr()
    }

    fn whole(&self) -> &[u8] {
        // SAFETY: as in `whole_mut`.
        unsafe { core::slice::from_raw_parts(self.pool.start(self.index).as_ptr(), self.pool.size as usize) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.push(self.index);
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.index, self.len)
    }
}

impl LoanHome for Pool {
    fn returned(&self, index: u32) {
        self.push(index);
    }
}
