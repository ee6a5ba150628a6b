//! A thread's messages. What is freed is used again: by whoever sends, in turn, and by `allocb`, the last first, as a kernel's caches
//! do it. A message around somebody else's memory has no other than a block of its own, from another list.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::ptr;

use illumos_sys_hdrs::{dblk_t, frtn_t, mblk_t};
use lab_gldv3::Packets;

use crate::Fault;
use crate::processor::with;

/// More than a driver has at once, so that lists do not grow.
const PLACES: usize = 1 << 16;

/// Bytes of a link address.
pub(crate) const ADDRESS: usize = 20;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Messages {
    /// Those that are in nobody's hands.
    free: VecDeque<*mut mblk_t>,
    /// All of them, sorted.
    all: Vec<*mut mblk_t>,
    /// Blocks for what is lent.
    shells: Vec<*mut mblk_t>,
    /// How many there are when nothing is lent.
    at_rest: usize,
    /// Where what is sent goes, in turn; none: where each message says.
    to: Vec<[u8; ADDRESS]>,
    next: usize,
}

impl Messages {
    /// Uses these: of the second the blocks alone.
    pub(crate) fn new(packets: &Packets, shells: &Packets) -> Result<Self, Fault> {
        let mut all = packets.messages().to_vec();
        // No cache line of another thread's.
        let mut free = VecDeque::with_capacity(all.len().max(PLACES));
        free.extend(&all);
        all.sort_unstable();
        let whole = all.iter().all(|message| is_whole(*message));
        let at_rest = shells.messages().len();
        let mut list = Vec::with_capacity(at_rest.max(PLACES));
        list.extend(shells.messages());
        if whole {
            Ok(Self { free, all, shells: list, at_rest, ..Self::default() })
        } else {
            Err(Fault::Message)
        }
    }

    /// The next one to send.
    pub(crate) fn next(&mut self) -> Option<*mut mblk_t> {
        let message = self.free.pop_front()?;
        if let Some(to) = self.to.get(self.next) {
            self.next = if self.next + 1 == self.to.len() { 0 } else { self.next + 1 };
            // SAFETY: a free message, which is this thread's.
            let place = unsafe { (*message).b_rptr }.wrapping_add(ADDRESS);
            // SAFETY: in front of a packet are the places for two addresses, of which this is the second.
            unsafe { place.cast::<[u8; ADDRESS]>().write(*to) };
        }
        Some(message)
    }

    /// Has what is sent go to these in turn.
    pub(crate) fn send_to(&mut self, addresses: &[[u8; ADDRESS]]) {
        self.to = addresses.to_vec();
    }

    /// One that was not taken.
    pub(crate) fn put_back(&mut self, message: *mut mblk_t) {
        self.free.push_back(message);
    }

    /// `allocb`: of that many bytes at least. None if there is none.
    pub(crate) fn allocate(&mut self, size: usize) -> *mut mblk_t {
        let Some(message) = self.free.pop_back() else { return ptr::null_mut() };
        // SAFETY: a free message, which is this thread's.
        let block = unsafe { &mut *message };
        // SAFETY: every message has a data block.
        let data = unsafe { &*block.b_datap };
        assert!(data.db_lim.addr() - data.db_base.addr() >= size, "a message of {size} bytes");
        (block.b_rptr, block.b_wptr) = (data.db_base, data.db_base);
        message
    }

    /// `desballoc`: none if there is none.
    pub(crate) fn lend(&mut self, base: *mut u8, size: usize, routine: *mut frtn_t) -> *mut mblk_t {
        let Some(message) = self.shells.pop() else { return ptr::null_mut() };
        // SAFETY: a free block, which is this thread's.
        let block = unsafe { &mut *message };
        // SAFETY: every message has a data block.
        let data = unsafe { &mut *block.b_datap };
        (data.db_frtnp, data.db_base, data.db_lim) = (routine, base, base.wrapping_add(size));
        (block.b_rptr, block.b_wptr) = (base, base);
        (block.b_next, block.b_cont) = (ptr::null_mut(), ptr::null_mut());
        message
    }

    fn freed(&mut self, message: *mut mblk_t) {
        // SAFETY: a message that its owner gives back; nobody else has it.
        let block = unsafe { &mut *message };
        // SAFETY: every message has a data block.
        block.b_rptr = unsafe { (*block.b_datap).db_base };
        (block.b_next, block.b_cont) = (ptr::null_mut(), ptr::null_mut());
        self.free.push_back(message);
    }

    /// What was lent is home.
    fn returned(&mut self, message: *mut mblk_t) {
        // SAFETY: as above; the routine has run, so the memory is its owner's.
        let block = unsafe { &mut *message };
        // SAFETY: every message has a data block.
        let data = unsafe { &mut *block.b_datap };
        data.db_frtnp = ptr::null_mut();
        // As one without memory has it: right behind itself.
        data.db_base = block.b_datap.wrapping_add(1).cast();
        data.db_lim = data.db_base;
        (block.b_rptr, block.b_wptr) = (data.db_base, data.db_base);
        self.shells.push(message);
    }

    /// Whether something is missing.
    pub(crate) fn check(&self) -> Option<Fault> {
        let mut free: Vec<_> = self.free.iter().copied().collect();
        free.sort_unstable();
        (free != self.all || self.shells.len() != self.at_rest).then_some(Fault::Freed)
    }

    /// The blocks for what is lent, which may be others than at first.
    pub(crate) fn into_shells(self) -> Vec<*mut mblk_t> {
        self.shells
    }
}

/// `freemsg`.
///
/// # Safety
///
/// The message is the caller's. On a thread that has a [`Processor`](crate::processor::Processor), and no [`with`] around this: it may call
/// the driver.
pub(crate) unsafe fn free(message: *mut mblk_t) {
    let mut next = message;
    while !next.is_null() {
        let this = next;
        // SAFETY: the caller's.
        let block = unsafe { &*this };
        next = block.b_cont;
        // SAFETY: every message has a data block.
        let routine = unsafe { (*block.b_datap).db_frtnp };
        if routine.is_null() {
            with(|processor| processor.messages.freed(this));
            continue;
        }
        // SAFETY: desballoc(9F): the structure lives until the last free, which is this one.
        let routine = unsafe { routine.read() };
        if let Some(function) = routine.free_func {
            // SAFETY: free_rtn(9S): the function takes the argument beside it; the header declares it without arguments.
            let function = unsafe {
                std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn(*mut c_char)>(function)
            };
            // SAFETY: the lender gave both for each other.
            unsafe { function(routine.free_arg) };
        }
        with(|processor| processor.messages.returned(this));
    }
}

/// What the MAC layer does with what comes up: it counts and frees.
///
/// # Safety
///
/// As for [`free`], of each message of the chain.
pub(crate) unsafe fn take(chain: *mut mblk_t) {
    let mut next = chain;
    while !next.is_null() {
        let this = next;
        // SAFETY: the caller's.
        let block = unsafe { &mut *this };
        next = std::mem::replace(&mut block.b_next, ptr::null_mut());
        let octets = block.b_wptr.addr() - block.b_rptr.addr();
        with(|processor| {
            processor.received.packets += 1;
            processor.received.octets += octets as u64;
        });
        // SAFETY: by this function's contract.
        unsafe { free(this) };
    }
}

/// A message's data block.
pub(crate) fn data<'a>(message: *mut mblk_t) -> &'a dblk_t {
    // SAFETY: a message that the driver asks about, and has.
    let block = unsafe { &*message };
    // SAFETY: every message has a data block.
    unsafe { &*block.b_datap }
}

/// Whether a message can be used again once it was freed: it is one piece, and begins where its memory does.
fn is_whole(message: *mut mblk_t) -> bool {
    let base = data(message).db_base;
    // SAFETY: a message that was made and is in nobody's hands.
    let block = unsafe { &*message };
    block.b_cont.is_null() && block.b_next.is_null() && block.b_rptr == base
}
