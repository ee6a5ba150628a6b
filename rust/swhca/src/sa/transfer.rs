//! Answers that take more than one segment (RMPP, IBA 13.6): the sender's side.
//!
//! The receiver says how far ahead it can take segments; until it has said so, that is one.

use kernel::KVec;

use super::Requester;
use crate::mad::{self, DATA, DATA_LEN, Mad};

/// Bytes in front of a segment's data that count as its payload.
const SA_HEADER: u32 = 20;
/// Nanoseconds until a segment that nobody acknowledges is sent again, and how often that is done.
const PATIENCE: u64 = 50_000_000;
const TRIES: u8 = 40;

/// Types of segments.
const ACKNOWLEDGED: u8 = 2;

/// An answer on its way.
pub(super) struct Transfer {
    pub(super) to: Requester,
    /// What all segments begin with.
    head: [u8; DATA],
    records: KVec<u8>,
    acknowledged: u32,
    window: u32,
    sent: u32,
    due: u64,
    tries: u8,
}

impl Transfer {
    /// Of an answer whose first segment is sent by somebody else, at the moment `now`.
    pub(super) fn new(to: Requester, first: &Mad, records: KVec<u8>, now: u64) -> Self {
        let mut head = [0; DATA];
        mad::put(&mut head, 0, &first.0);
        Self { to, head, records, acknowledged: 0, window: 1, sent: 1, due: now + PATIENCE, tries: 0 }
    }

    fn segments(&self) -> u32 {
        self.records.len().div_ceil(DATA_LEN) as u32
    }

    /// Whether a message is about this one: from whom it is for, and of its transaction.
    pub(super) fn is_meant(&self, message: &Mad, from: Requester) -> bool {
        from == self.to && mad::be64(&message.0, 8) == mad::be64(&self.head, 8)
    }

    /// Hears the receiver. Whatever is no acknowledgement ends it.
    pub(super) fn hear(&mut self, message: &Mad, now: u64) {
        let (last, window) = (mad::be32(&message.0, 28), mad::be32(&message.0, 32));
        if message.0[25] != ACKNOWLEDGED || last > self.sent {
            self.tries = TRIES;
            return;
        }
        if last > self.acknowledged {
            self.acknowledged = last;
            self.tries = 0;
        }
        self.window = self.window.max(window);
        self.due = now + PATIENCE;
    }

    pub(super) fn is_over(&self) -> bool {
        self.acknowledged >= self.segments() || self.tries >= TRIES
    }

    /// When something is to be done if the receiver says nothing.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Writes the next segment that may be sent now; false if none may.
    pub(super) fn next(&mut self, now: u64, mad: &mut Mad) -> bool {
        if !self.is_over() && now >= self.due {
            self.tries += 1;
            self.sent = self.acknowledged;
            self.due = now + PATIENCE;
        }
        let limit = self.window.max(self.acknowledged + 1).min(self.segments());
        if self.is_over() || self.sent >= limit {
            return false;
        }
        self.sent += 1;
        self.write(self.sent, mad);
        self.due = now + PATIENCE;
        true
    }

    fn write(&self, number: u32, mad: &mut Mad) {
        let at = (number as usize - 1) * DATA_LEN;
        let data = self.records.get(at..).unwrap_or_default();
        let data = data.get(..DATA_LEN).unwrap_or(data);
        mad.0.fill(0);
        mad::put(&mut mad.0, 0, &self.head);
        mad::put(mad.data_mut(), 0, data);
        let (first, last) = (number == 1, number == self.segments());
        let len = match (first, last) {
            (true, _) => self.records.len() as u32 + SA_HEADER * self.segments(),
            (_, true) => data.len() as u32 + SA_HEADER,
            _ => DATA_LEN as u32 + SA_HEADER,
        };
        mad.set_segment(number, first, last, len);
    }
}
