//! To the adapter and back: what is staged is posted, and what is over is taken, by whoever sends or by the soft interrupt of the queue.

use ibtf::{Cq, Notify, Payload, PostFailure, Refused, Status};
use kernel::mblk::MblkChain;
use kernel::softint::SoftHandler;

use super::frame::Wire;
use super::stage::SendSide;
use super::{AfterUnlock, State, Transmitter};
use crate::counters::TxDrop;
use ipoib::link::Why;

/// Room that must have come back before the MAC layer is told, as a fraction of the ring.
const RESUME: u32 = 8;

impl Transmitter {
    /// Posts what is staged and counts it.
    #[inline(never)]
    pub(super) fn post(&self, state: &mut State, after: &mut AfterUnlock) {
        self.post_here(state, after);
    }

    /// As [`Transmitter::post`], in the caller's own text.
    #[inline(always)]
    pub(super) fn post_here(&self, state: &mut State, after: &mut AfterUnlock) {
        let State { side, staged, .. } = state;
        let Some(open) = side.get_mut() else { return };
        let result = open.queue.post(|_, refused| {
            staged.take_out(refused.cookie.cast, refused.cookie.packets, refused.cookie.bytes);
            self.refused(refused, after);
        });
        // What went on connections is counted as well, and may be all there is.
        let posted = !matches!(result, Ok(0));
        // A queue that is full and has sends out will have room.
        if let Err(PostFailure { why, .. }) = result
            && (why != Status::CHAN_FULL || open.queue.outstanding() == 0)
        {
            after.rare().broken = side.generation();
        }
        self.counters.sent(staged, posted);
        staged.clear();
    }

    /// The adapter did not take a packet.
    #[inline(never)]
    fn refused(&self, refused: Refused<Wire>, after: &mut AfterUnlock) {
        let of_this_one = refused.why.is_of_one_request();
        let reason = if of_this_one { TxDrop::Refused } else { TxDrop::PostFailed };
        self.counters.dropped(reason);
        if of_this_one {
            after.rare().refused = Some(refused.why);
        }
        free_packet(refused.payload, &mut after.free);
    }

    /// Takes the completions there are; how many.
    #[inline(never)]
    pub(super) fn reclaim(&self, state: &mut State, after: &mut AfterUnlock) -> usize {
        let State { side, completions, .. } = state;
        let Some((generation, open)) = side.running() else { return 0 };
        let mut taken = 0;
        loop {
            match open.queue.channel().send_cq().poll(completions) {
                Ok(0) => break,
                Ok(polled) => taken += polled,
                Err(_) => {
                    after.rare().broken = Some(generation);
                    break;
                }
            }
            let SendSide { queue, spare, buffer_size, .. } = &mut *open;
            while let Some(completion) = completions.take() {
                let Some(mut over) = queue.complete(completion) else { continue };
                while let Some(sent) = queue.next_over(&mut over) {
                    if !sent.status.is_success() {
                        self.counters.failed.increment();
                        after.erred(generation, sent.status);
                    }
                    match sent.payload {
                        Payload::Packet(packet) => after.free.push_back(packet),
                        Payload::Buffer(buffer) => SendSide::put_back(spare, *buffer_size, buffer),
                    }
                }
            }
        }
        let room = open.queue.room();
        let ring = room + open.queue.outstanding();
        if room > ring / RESUME {
            let (resume, behind) = (core::mem::take(&mut state.refused), core::mem::take(&mut state.behind));
            if resume | behind {
                let rare = after.rare();
                rare.resume |= resume;
                rare.wake_control |= behind;
            }
        }
        taken
    }

    fn arm(&self) -> bool {
        let state = self.state.lock();
        let cq: Option<&Cq> = state.side.get().map(|open| open.queue.channel().send_cq());
        let armed = cq.map(|cq| cq.arm(Notify::Any).is_ok());
        let generation = state.side.generation();
        drop(state);
        if armed == Some(false) {
            // Nobody would call again.
            self.broken(generation, Why::Failed);
        }
        armed == Some(true)
    }
}

impl SoftHandler for Transmitter {
    /// Takes everything there is, arms, and looks once more.
    fn run(&self) {
        let mut armed = false;
        loop {
            let mut after = AfterUnlock::default();
            let mut state = self.state.lock();
            let taken = self.reclaim(&mut state, &mut after);
            drop(state);
            self.finish(after);
            match (taken, armed) {
                (0, true) => return,
                (0, false) if !self.arm() => return,
                (0, false) => armed = true,
                _ => armed = false,
            }
        }
    }
}

/// A packet that was sent from where it is goes to those to be freed; a buffer goes home.
fn free_packet(payload: Payload, free: &mut MblkChain) {
    if let Payload::Packet(packet) = payload {
        free.push_back(packet);
    }
}
