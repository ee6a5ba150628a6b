//! A thread that receives: the adapter writes datagrams, and interrupts for so many of them at a time.

use std::time::Duration;

use crate::Fault;
use crate::interrupts::interrupt;
use crate::processor::{self, Processor, Received, with};

/// Datagrams that are written while the clock stands. A driver has posted as many.
const WRITTEN: usize = 256;

impl Processor {
    /// Has the driver hand up so many packets, or a few more. What came up, and the processor time of the driver and of what it calls.
    pub(crate) fn receive(
        &mut self,
        datagram: &[u8],
        at_once: usize,
        packets: u64,
    ) -> Result<(Received, Duration), Fault> {
        let mut worked = Duration::ZERO;
        let each = at_once.clamp(1, WRITTEN);
        let of_a_turn = WRITTEN / each * each;
        let turns = packets.div_ceil(of_a_turn as u64);
        self.as_this_thread(|| {
            for _ in 0..turns {
                if let Err(fault) = with(|processor| processor.adapter.write(datagram, of_a_turn)) {
                    with(|processor| processor.fail(fault));
                    break;
                }
                let began = processor::worked();
                (0..of_a_turn / each).for_each(|_| come(each));
                worked += processor::worked() - began;
                if with(|processor| processor.has_failed()) {
                    break;
                }
            }
        });
        let missing = (self.received.packets != turns * of_a_turn as u64).then_some(Fault::NotReceived);
        self.fault().or(missing).map_or(Ok((self.received, worked)), Err)
    }
}

/// So many datagrams are there.
fn come(count: usize) {
    match with(|processor| processor.adapter.complete_receives(count)) {
        // SAFETY: the driver's, whose link is started as long as whoever measures has it; no other thread has its interrupts.
        Ok(handler) => unsafe { interrupt(handler) },
        Err(fault) => with(|processor| processor.fail(fault)),
    }
    with(|processor| {
        if processor.adapter.has_received() {
            processor.fail(Fault::Left);
        }
    });
}
