//! One thread that sends: its messages, and the adapter behind its queue.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::time::Duration;

use illumos_sys_hdrs::{ibt_channel_hdl_t, ibt_cq_hdl_t, mblk_t};
use lab_gldv3::{Packets, SendEntry};
use rustix::time::{ClockId, clock_gettime};

use crate::{Done, Lines};

/// What arrived at the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Work requests of one datagram each.
    pub packets: u64,
    /// Octets that they point to.
    pub octets: u64,
}

/// What the driver must not do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message is not in one piece, or does not begin where its memory does.
    #[error("a message is not one piece from the start of its memory")]
    Message,
    /// The queue was full though everything is completed at once.
    #[error("the driver handed a packet back")]
    HandedBack,
    /// Two threads would share it.
    #[error("the driver posts to the queue of another thread, or polls its CQ")]
    Queue,
    /// It keeps messages, or has freed others.
    #[error("the driver does not free a message that it has sent, or frees another one")]
    Freed,
    /// What it took was not posted.
    #[error("the driver took packets that never came to the adapter")]
    NotPosted,
    /// A thread ended early.
    #[error("a thread panicked")]
    Panicked,
}

/// Places of a queue: more than a driver has sends out.
const PLACES: usize = 1 << 16;

/// What a thread has to itself. Its functions find it by [`with`].
#[repr(align(128))]
pub(crate) struct Sender {
    /// Messages to send, in turn; those that are being sent are missing.
    free: VecDeque<*mut mblk_t>,
    /// All of them, sorted.
    all: Vec<*mut mblk_t>,
    /// Work requests that are done and wait to be polled.
    pub(crate) completed: VecDeque<u64>,
    now: u64,
    began: Duration,
    channel: ibt_channel_hdl_t,
    cq: ibt_cq_hdl_t,
    pub(crate) sent: Sent,
    pub(crate) lines: Lines,
    fault: Option<Fault>,
}

// SAFETY: the messages are used by the thread that has the sender alone; handles are numbers to it.
unsafe impl Send for Sender {}

thread_local! {
    static SENDER: Cell<*mut Sender> = const { Cell::new(ptr::null_mut()) };
}

/// The sender of this thread.
///
/// # Panics
///
/// On another thread. The caller is a function that a driver calls, so the process ends.
pub(crate) fn with<R>(f: impl FnOnce(&mut Sender) -> R) -> R {
    let sender = SENDER.get();
    assert!(!sender.is_null(), "a driver sends on a thread that was not told to");
    // SAFETY: set by `send` below to its own sender, which does not use it while the driver is called; this thread is the only one, and
    // `f` calls no driver.
    f(unsafe { &mut *sender })
}

impl Sender {
    /// At this time of the machine, in nanoseconds.
    pub(crate) fn new(packets: &Packets, mut completed: VecDeque<u64>, now: u64) -> Result<Self, Fault> {
        let mut all = packets.messages().to_vec();
        // No cache line of another thread's.
        let mut free = VecDeque::with_capacity(all.len().max(PLACES));
        free.extend(&all);
        all.sort_unstable();
        let whole = all.iter().all(|message| is_whole(*message));
        completed.reserve(PLACES);
        let (channel, cq) = (ptr::null_mut(), ptr::null_mut());
        let sender = Self {
            now,
            began: time(),
            free,
            all,
            completed,
            channel,
            cq,
            sent: Sent::default(),
            fault: None,
            lines: Lines::new(),
        };
        if whole { Ok(sender) } else { Err(Fault::Message) }
    }

    /// Calls the driver for each packet. Its module's imports are [`crate::functions`], or not to be called.
    /// With what has not been polled.
    pub(crate) fn send(mut self, entry: &SendEntry, packets: u64) -> Result<(Done, VecDeque<u64>), Fault> {
        self.began = time();
        let this = &raw mut self;
        SENDER.set(this);
        for _ in 0..packets {
            // SAFETY: this thread's own, and no driver is being called.
            let Some(message) = (unsafe { (*this).free.pop_front() }) else { break };
            // SAFETY: the link is started as long as whoever measures has it; the message is in nobody's hands; this thread has a sender.
            let back = unsafe { entry.call(message) };
            if !back.is_null() {
                with(|sender| {
                    sender.fail(Fault::HandedBack);
                    sender.free.push_back(back);
                });
                break;
            }
        }
        SENDER.set(ptr::null_mut());
        let took = time() - self.began;
        let missing = if self.sent.packets == packets { None } else { Some(Fault::NotPosted) };
        let fault = self.fault.or_else(|| self.check_messages()).or(missing);
        fault.map_or(Ok((Done { sent: self.sent, took, lines: self.lines }, self.completed)), Err)
    }

    fn check_messages(&self) -> Option<Fault> {
        let mut free: Vec<_> = self.free.iter().copied().collect();
        free.sort_unstable();
        (free != self.all).then_some(Fault::Freed)
    }

    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// Nanoseconds on the machine's clock, if that went on.
    pub(crate) fn time(&self) -> i64 {
        (self.now + (time() - self.began).as_nanos() as u64) as i64
    }

    /// A driver is done with a message.
    pub(crate) fn freed(&mut self, message: *mut mblk_t) {
        // SAFETY: a message that the driver gives back; nobody else has it.
        let taken = unsafe { &mut *message };
        // SAFETY: every message has a data block.
        taken.b_rptr = unsafe { (*taken.b_datap).db_base };
        self.free.push_back(message);
    }

    /// A post to a queue: to the same one each time.
    pub(crate) fn posts_to(&mut self, channel: ibt_channel_hdl_t) {
        if self.channel.is_null() {
            self.channel = channel;
        }
        if self.channel != channel {
            self.fail(Fault::Queue);
        }
    }

    /// A look into a CQ: into the same one each time.
    pub(crate) fn polls(&mut self, cq: ibt_cq_hdl_t) {
        if self.cq.is_null() {
            self.cq = cq;
        }
        if self.cq != cq {
            self.fail(Fault::Queue);
        }
    }
}

/// On a clock that only goes on.
fn time() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Whether a message can be used again once it was freed: it is one piece, and begins where its memory does.
fn is_whole(message: *mut mblk_t) -> bool {
    // SAFETY: a message that was made and is in nobody's hands.
    let message = unsafe { &*message };
    // SAFETY: every message has a data block.
    let base = unsafe { (*message.b_datap).db_base };
    message.b_cont.is_null() && message.b_next.is_null() && message.b_rptr == base
}
