//! A thread that sends: message after message to the driver, which is interrupted as soon as as many sends have completed as it asked for.

use std::collections::VecDeque;

use fakekernel::genunix::HashShown;
use illumos_sys_hdrs::mblk_t;
use lab_gldv3::SendEntry;

use crate::adapter::Completion;
use crate::interrupts::interrupt;
use crate::processor::{Processor, with};
use crate::{Done, Fault, threads};

/// How often a message is offered.
const ATTEMPTS: usize = 8;

/// What is there for whoever calls the driver next.
pub(crate) struct Left {
    /// What has not been polled.
    pub(crate) completed: VecDeque<Completion>,
    /// The driver's hashes, if this changed them.
    pub(crate) hashes: Vec<HashShown>,
}

impl Processor {
    /// Calls the driver for each packet. Its module's imports are [`crate::functions`], or not to be called.
    pub(crate) fn send(mut self, entry: &SendEntry, packets: u64) -> Result<(Done, Left), Fault> {
        let (took, worked) = self.as_this_thread(|| {
            for _ in 0..packets {
                let Some(message) = with(|processor| processor.messages.next()) else { break };
                let back = offer(entry, message);
                if !back.is_null() {
                    with(|processor| {
                        processor.fail(Fault::HandedBack);
                        processor.messages.put_back(back);
                    });
                    break;
                }
                complete(usize::MAX);
            }
            // The rest calls when its time is over.
            complete(1);
        });
        let missing = if self.adapter.sent.packets == packets { None } else { Some(Fault::NotPosted) };
        let done = Done { sent: self.adapter.sent, took, worked, lines: std::mem::take(&mut self.lines) };
        let left = Left {
            completed: std::mem::take(&mut self.adapter.sends.waiting),
            hashes: self.hashes.split_off(0),
        };
        self.fault().or(missing).map_or(Ok((done, left)), Err)
    }
}

/// Hands a message over, again each time that the driver's thread has done something. What comes back in the end.
fn offer(entry: &SendEntry, message: *mut mblk_t) -> *mut mblk_t {
    // SAFETY: the link is started as long as whoever measures has it; the message is in nobody's hands.
    let mut back = unsafe { entry.call(message) };
    for _ in 0..ATTEMPTS {
        // SAFETY: outside the driver, which lets go of its locks before it returns.
        if back.is_null() || !unsafe { threads::run() } {
            break;
        }
        // SAFETY: as above.
        back = unsafe { entry.call(back) };
    }
    back
}

/// Interrupts if at least so many sends have completed, or as many as the driver wants.
fn complete(at_most: usize) {
    while let Some(handler) = with(|processor| processor.adapter.sends_due(at_most)) {
        // SAFETY: the driver's, whose link is started as long as whoever measures has it; no other thread has its interrupts.
        unsafe { interrupt(handler) };
    }
}
