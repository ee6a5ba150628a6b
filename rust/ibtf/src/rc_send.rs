//! [`MessageQueue`]: what is being sent on a connection.

use illumos_sys_hdrs as sys;
use kernel::KBox;

use crate::buffer::Buffer;
use crate::cq::{Completion, CompletionStatus, QueueId};
use crate::rc::RcChannel;
use crate::ring::Ring;
use crate::send::Over;
use crate::status::Status;

/// The sends of a connection, each of one registered buffer; they complete in order.
///
/// **Any** context; under the driver's lock for this queue. When it is dropped, what the adapter still has is kept until the channel is
/// freed.
pub struct MessageQueue {
    /// `None` only while dropping.
    ring: Option<KBox<Ring<Buffer>>>,
    /// Sends since the last one that completes by itself.
    unsignalled: u32,
    /// Those in the adapter that do.
    expected: u32,
    signal_every: u32,
    capacity: u32,
    id: QueueId,
    channel: RcChannel,
}

impl MessageQueue {
    /// The queue of a channel that [sends](RcChannel::sending), one to a channel, as long as the channel's. At least every
    /// `signal_every`th send completes by itself, and one of those that are out always. **May block.**
    pub fn new(channel: &RcChannel, signal_every: u32) -> Result<Self, Status> {
        let capacity = channel.sends();
        if capacity == 0 || capacity > 1 << 20 {
            return Err(Status::INVALID_PARAM);
        }
        let ring = KBox::new(Ring::new(capacity)?)?;
        channel.promise()?;
        Ok(Self {
            ring: Some(ring),
            unsignalled: 0,
            expected: 0,
            signal_every: signal_every.clamp(1, capacity.div_ceil(2)),
            capacity,
            id: QueueId::next(),
            channel: channel.clone(),
        })
    }

    /// The channel.
    pub fn channel(&self) -> &RcChannel {
        &self.channel
    }

    /// How many can be posted before one must complete.
    pub fn room(&self) -> u32 {
        self.capacity.saturating_sub(self.outstanding())
    }

    /// How many the adapter has.
    pub fn outstanding(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| ring.len())
    }

    /// Whether a completion is to come.
    pub fn expects(&self) -> bool {
        self.expected != 0
    }

    /// Posts the bytes of a buffer as one message (`ibt_post_send`), to complete by itself if `signal`. The buffer comes back with what
    /// the adapter says; `CHAN_FULL` without room.
    pub fn post(&mut self, buffer: Buffer, signal: bool) -> Result<(), (Buffer, Status)> {
        let Some(ring) = self.ring.as_mut().filter(|ring| ring.len() < self.capacity) else {
            return Err((buffer, Status::CHAN_FULL));
        };
        let mut element = buffer.element(0, buffer.len());
        let signal = signal || self.expected == 0 || self.unsignalled + 1 >= self.signal_every;
        let mut request = sys::ibt_send_wr_t {
            wr_id: self.id.work_request(ring.next_number()),
            wr_flags: if signal { sys::IBT_WR_SEND_SIGNAL } else { sys::IBT_WR_NO_FLAGS },
            wr_trans: sys::IBT_RC_SRV,
            wr_opcode: sys::IBT_WRC_SEND,
            wr_nds: 1,
            wr_sgl: &mut element,
            ..Default::default()
        };
        if let Err(buffer) = ring.push(buffer) {
            return Err((buffer, Status::CHAN_FULL));
        }
        // SAFETY: request and element are copied by the call; the buffer is kept by the ring until it completes, or until the channel is
        // freed.
        let posted = Status::check(unsafe {
            sys::ibt_post_send(self.channel.handle(), &mut request, 1, core::ptr::null_mut())
        });
        if let Err(why) = posted {
            let mut refused = None;
            ring.take_back(1, |buffer| refused = Some(buffer));
            // It was the last one.
            return refused.map_or(Ok(()), |buffer| Err((buffer, why)));
        }
        if signal {
            (self.unsignalled, self.expected) = (0, self.expected + 1);
        } else {
            self.unsignalled += 1;
        }
        Ok(())
    }

    /// Takes a completion of this queue: everything up to and including the send it names is over, and to be [taken](Self::next_over).
    /// `None` if it names no send of this queue.
    pub fn complete(&mut self, completion: Completion<'_>) -> Option<Over> {
        let (ring, last) = (self.ring.as_ref()?, completion.number());
        if completion.queue() != self.id || !ring.is_among(last, ring.len()) {
            return None;
        }
        // One in error counts too, signalled or not.
        self.expected = self.expected.saturating_sub(1);
        Some(Over::until(last, completion.status()))
    }

    /// The next send that is over, in order. What is not taken is over with the next completion.
    pub fn next_over(&mut self, over: &mut Over) -> Option<(Buffer, CompletionStatus)> {
        if over.finished {
            return None;
        }
        let (number, buffer) = self.ring.as_mut()?.pop()?;
        over.finished = number == over.last;
        Some((buffer, if over.finished { over.status } else { CompletionStatus::SUCCESS }))
    }
}

impl Drop for MessageQueue {
    fn drop(&mut self) {
        match self.ring.take() {
            Some(ring) if ring.len() == 0 => self.channel.keep_nothing(),
            Some(ring) => self.channel.keep_until_freed(ring.map_unsized(|ring| ring as _)),
            None => {}
        }
    }
}
