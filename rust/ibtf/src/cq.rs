//! [`Cq`]: a completion queue and what comes out of it.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::sync::CallbackSlot;
use kernel::{AllocError, KArc, KBox, KVec, MayBlock};

use crate::event::CqId;
use crate::hca::Hca;
use crate::refused::told;
use crate::status::Status;

/// What happens when an armed CQ gets a completion.
pub trait CqHandler: Send + Sync + 'static {
    /// In the adapter's interrupt, in front of the handlers of every other CQ of its vector: must not block, and should leave the work to
    /// a soft interrupt. That polls until empty, arms, and polls again: completions between the last poll and the arming may not call
    /// again. Never runs twice at once for one CQ; may run without a completion being there.
    fn completion(&self);
}

impl<H: CqHandler> CqHandler for KArc<H> {
    fn completion(&self) {
        (**self).completion();
    }
}

/// What an armed CQ waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The next completion.
    Any,
    /// The next that was solicited, or failed.
    Solicited,
}

/// A completion queue. Cheap to clone; the last clone waits for a running handler and frees it (**may block**, and never in
/// that handler).
#[derive(Clone)]
pub struct Cq(KArc<Inner>);

struct Inner {
    handle: sys::ibt_cq_hdl_t,
    size: u32,
    slot: NonNull<CqSlot>,
    target: Option<KBox<KBox<dyn CqHandler>>>,
    hca: Hca,
}

// SAFETY: the handle is used by IBTF, from any thread; the slot belongs to the module's registry, which the client of `hca` keeps.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The argument of a CQ's handler; lives as long as the module's [`crate::Clients`].
pub(crate) struct CqSlot {
    calls: CallbackSlot<KBox<dyn CqHandler>>,
    taken: AtomicBool,
}

impl CqSlot {
    pub(crate) const fn claimed() -> Self {
        Self { calls: CallbackSlot::new(), taken: AtomicBool::new(true) }
    }

    pub(crate) fn claim(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }
}

impl Cq {
    /// Allocates a CQ for at least `size` completions (`ibt_alloc_cq`), not armed. **May block.**
    ///
    /// `handler` must not own what owns this CQ, or neither ever goes.
    pub fn new<H: CqHandler>(hca: &Hca, size: u32, handler: KArc<H>) -> Result<Self, Status> {
        let handler = KBox::new(handler)?.map_unsized(|handler| handler as _);
        let mut target = KBox::new(handler)?;
        let slot = hca.take_slot()?;
        let mut attributes =
            sys::ibt_cq_attr_t { cq_size: size, cq_flags: sys::IBT_CQ_NO_FLAGS, ..Default::default() };
        let (mut handle, mut real) = (ptr::null_mut(), 0);
        // SAFETY: open.
        let allocated = Status::check(unsafe {
            sys::ibt_alloc_cq(hca.handle(), &mut attributes, &mut handle, &mut real)
        });
        // SAFETY: the slot lives as long as the module's registry.
        let taken = unsafe { slot.as_ref() };
        if let Err(status) = allocated {
            taken.taken.store(false, Ordering::Release);
            return Err(status);
        }
        // SAFETY: the target is kept until the slot is shut (`Inner`); handlers are Send + Sync.
        unsafe { taken.calls.open(NonNull::from(&mut *target)) };
        let inner = Inner { handle, size: real, slot, target: Some(target), hca: hca.clone() };
        // SAFETY: the slot outlives the CQ.
        unsafe { sys::ibt_set_cq_handler(handle, Some(completion), slot.as_ptr().cast()) };
        // If this fails the value is dropped, which frees again.
        Ok(Self(KArc::new(inner)?))
    }

    /// What events call it.
    pub fn id(&self) -> CqId {
        CqId(self.0.handle.addr())
    }

    /// How many completions it holds: at least as many as were asked for. The sizes of the queues that complete here
    /// must not add up to more.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Arms it once (`ibt_enable_cq_notify`). **Any** context.
    pub fn arm(&self, what: Notify) -> Result<(), Status> {
        let what = match what {
            Notify::Any => sys::IBT_NEXT_COMPLETION,
            Notify::Solicited => sys::IBT_NEXT_SOLICITED,
        };
        // SAFETY: allocated.
        Status::check(unsafe { sys::ibt_enable_cq_notify(self.handle(), what) })
    }

    /// Takes completions, in order, into a batch, as many as it holds; how many (`ibt_poll_cq`). An empty CQ is 0.
    /// **Any** context. What is still in the batch is lost, and with it what was posted until the channel is freed: drain
    /// it first.
    pub fn poll(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        (batch.next, batch.len) = (0, 0);
        let (room, mut polled) = (batch.raw.len(), 0);
        // SAFETY: allocated; the batch has so much room.
        let result = unsafe {
            sys::ibt_poll_cq(self.handle(), batch.raw.as_mut_ptr(), room as sys::uint_t, &mut polled)
        };
        match Status::check(result) {
            Ok(()) => {
                batch.len = (polled as usize).min(room);
                Ok(batch.len)
            }
            Err(Status::CQ_EMPTY) => Ok(0),
            Err(status) => Err(status),
        }
    }

    /// Interrupts only after `count` completions or `micros` microseconds; zeros turn that off (`ibt_modify_cq`).
    /// **May block.**
    pub fn moderate(&self, count: u32, micros: u32) -> Result<(), Status> {
        // SAFETY: allocated; interrupt 0 leaves that alone.
        Status::check(unsafe { sys::ibt_modify_cq(self.handle(), count, micros, 0) })
    }

    /// Throws away what is in the batch and in the CQ; how many of these have succeeded. What was posted stays with the queues until their
    /// channel is freed. **Any** context.
    pub fn throw_away(&self, batch: &mut CompletionBatch) -> usize {
        let mut succeeded = 0;
        loop {
            while let Some(completion) = batch.take() {
                succeeded += usize::from(completion.status().is_success());
            }
            if !matches!(self.poll(batch), Ok(1..)) {
                return succeeded;
            }
        }
    }

    /// The adapter.
    pub(crate) fn hca(&self) -> &Hca {
        &self.0.hca
    }

    pub(crate) fn handle(&self) -> sys::ibt_cq_hdl_t {
        self.0.handle
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated. A call that has begun already finds the slot, which stays.
        unsafe { sys::ibt_set_cq_handler(self.handle, None, ptr::null_mut()) };
        // SAFETY: the slot lives as long as the registry, which the client of `hca` keeps.
        let slot = unsafe { self.slot.as_ref() };
        slot.calls.quiesce();
        // SAFETY: every channel on it keeps a clone, so none is left.
        let freed = Status::check(unsafe { sys::ibt_free_cq(self.handle) });
        match told("completion queue", freed) {
            Ok(()) => slot.taken.store(false, Ordering::Release),
            // The adapter keeps the CQ: never use the slot again.
            Err(_) => core::mem::forget((self.target.take(), Pin::new())),
        }
    }
}

/// # Safety
///
/// Called by IBTL with the slot given to `ibt_set_cq_handler`, while the module is loaded.
unsafe extern "C" fn completion(_cq: sys::ibt_cq_hdl_t, slot: *mut c_void) {
    // SAFETY: slots live as long as the module's registry.
    if let Some(slot) = unsafe { slot.cast::<CqSlot>().as_ref() } {
        slot.calls.call(|handler| handler.completion());
    }
}

/// Which queue a completion belongs to: a number no other queue of this module has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueId(u32);

impl QueueId {
    pub(crate) fn next() -> Self {
        // A queue is made per link start; 32 bits last.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The id of work request `number` of this queue.
    pub(crate) fn work_request(self, number: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(number)
    }
}

/// Completions, polled and not yet handed to their queues. Make it once and keep it: it lives on the heap.
pub struct CompletionBatch {
    raw: KVec<sys::ibt_wc_t>,
    next: usize,
    len: usize,
}

impl CompletionBatch {
    /// An empty batch for up to `capacity` completions of 64 bytes; at least one.
    pub fn new(capacity: usize) -> Result<Self, AllocError> {
        Ok(Self { raw: KVec::from_fn(capacity.max(1), |_| Default::default())?, next: 0, len: 0 })
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(capacity: usize, may_block: &MayBlock) -> Self {
        let raw = KVec::from_fn_waiting(capacity.max(1), may_block, |_| Default::default());
        Self { raw, next: 0, len: 0 }
    }

    /// How many are in it.
    pub fn remaining(&self) -> usize {
        self.len - self.next
    }

    /// The next one, unless its message is longer than `bytes`: then it stays the next one.
    #[inline]
    pub fn next_within(&mut self, bytes: usize) -> Option<Completion<'_>> {
        if self.next >= self.len {
            return None;
        }
        let raw = self.raw.get(self.next)?;
        if bytes_of(raw) > bytes {
            return None;
        }
        self.next += 1;
        Some(Completion(raw))
    }

    /// The next one.
    #[inline]
    pub fn take(&mut self) -> Option<Completion<'_>> {
        self.next_within(usize::MAX)
    }
}

/// One completion. Cannot be copied: it is the right to get back what was posted, once.
pub struct Completion<'a>(pub(crate) &'a sys::ibt_wc_t);

impl Completion<'_> {
    /// The queue to hand it to.
    pub fn queue(&self) -> QueueId {
        QueueId((self.0.wc_id >> 32) as u32)
    }

    pub(crate) fn number(&self) -> u32 {
        self.0.wc_id as u32
    }

    /// How it went.
    pub fn status(&self) -> CompletionStatus {
        CompletionStatus(self.0.wc_status)
    }

    /// Bytes received, a GRH's 40 included; 0 if it failed.
    pub fn bytes(&self) -> usize {
        bytes_of(self.0)
    }
}

/// Of a failed receive only id and status are defined.
fn bytes_of(raw: &sys::ibt_wc_t) -> usize {
    if CompletionStatus(raw.wc_status).is_success() { raw.wc_bytes_xfer as usize } else { 0 }
}

/// How a work request ended (`ibt_wc_status_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompletionStatus(u8);

impl CompletionStatus {
    /// Done.
    pub const SUCCESS: Self = Self(sys::IBT_WC_SUCCESS);
    /// The message is longer than the MTU, or than the buffer.
    pub const LOCAL_LEN_ERR: Self = Self(sys::IBT_WC_LOCAL_LEN_ERR);
    /// The work request makes no sense to the adapter.
    pub const LOCAL_CHAN_OP_ERR: Self = Self(sys::IBT_WC_LOCAL_CHAN_OP_ERR);
    /// Its memory is not registered for that.
    pub const LOCAL_PROTECT_ERR: Self = Self(sys::IBT_WC_LOCAL_PROTECT_ERR);
    /// The channel was flushed, or had failed before.
    pub const FLUSHED: Self = Self(sys::IBT_WC_WR_FLUSHED_ERR);

    /// Whether it is [`CompletionStatus::SUCCESS`].
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl core::fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::SUCCESS => f.write_str("SUCCESS"),
            Self::LOCAL_LEN_ERR => f.write_str("LOCAL_LEN_ERR"),
            Self::LOCAL_CHAN_OP_ERR => f.write_str("LOCAL_CHAN_OP_ERR"),
            Self::LOCAL_PROTECT_ERR => f.write_str("LOCAL_PROTECT_ERR"),
            Self::FLUSHED => f.write_str("WR_FLUSHED_ERR"),
            Self(other) => write!(f, "completion status {other}"),
        }
    }
}

impl core::fmt::Debug for CompletionStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
