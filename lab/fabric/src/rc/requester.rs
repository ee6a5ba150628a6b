//! The sending half of a connection: a pure machine that is told acknowledgements and the time, and says which packet goes next.
//!
//! Packets are counted from 0 without end; their number on the wire is the first one's and this count, in 24 bits.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::PSN_MASK;
use super::timer::{ack_time, rnr_time};
use super::{ReadyToReceive, ReadyToSend};
use crate::wire::{Aeth, NakCode, RcOpcode, Syndrome};
use crate::{CompletionStatus, Mtu, Nanos};

/// Packets that may be under way: half of all numbers, less one.
const WINDOW: u64 = (1 << 23) - 1;
/// So often is without end.
const FOR_EVER: u8 = 7;

/// A message to be sent.
pub(crate) struct Message {
    /// Its place in the send queue.
    pub(crate) seq: u64,
    pub(crate) wr_id: u64,
    pub(crate) signalled: bool,
    pub(crate) solicited: bool,
    pub(crate) immediate: Option<u32>,
    /// Its bytes, or why they could not be had.
    pub(crate) bytes: Result<Arc<Vec<u8>>, CompletionStatus>,
    /// It does not leave before.
    pub(crate) not_before: Nanos,
}

struct Queued {
    message: Message,
    first: u64,
    packets: u64,
}

/// A message that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) seq: u64,
    pub(crate) wr_id: u64,
    pub(crate) signalled: bool,
}

/// A packet to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) psn: u32,
    pub(crate) opcode: RcOpcode,
    pub(crate) solicited: bool,
    pub(crate) immediate: Option<u32>,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
}

impl Segment {
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This packet goes.
    Send(Segment),
    /// The oldest message failed, and the connection with it.
    Fail(Ended, CompletionStatus),
    /// Nothing, until an acknowledgement comes or this time.
    Wait(Option<Nanos>),
}

/// What an acknowledgement brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// These messages have arrived.
    pub(crate) arrived: Vec<Ended>,
    /// The oldest one of the rest has failed.
    pub(crate) failed: Option<(Ended, CompletionStatus)>,
}

/// The machine.
pub(crate) struct Requester {
    messages: VecDeque<Queued>,
    /// Of the first packet.
    psn: u32,
    mtu: usize,
    timeout: Option<Nanos>,
    retry: u8,
    rnr_retry: u8,
    /// The oldest packet that is not acknowledged, the next one to go, the one behind the last that ever went, and the one behind the
    /// last there is.
    oldest: u64,
    next: u64,
    gone: u64,
    end: u64,
    retries_left: u8,
    rnr_left: u8,
    /// An acknowledgement is due.
    deadline: Option<Nanos>,
    /// The peer has no receive.
    not_ready: Option<Nanos>,
}

impl Requester {
    pub(crate) fn new() -> Self {
        Requester {
            messages: VecDeque::new(),
            psn: 0,
            mtu: Mtu::M256.bytes(),
            timeout: None,
            retry: 0,
            rnr_retry: 0,
            oldest: 0,
            next: 0,
            gone: 0,
            end: 0,
            retries_left: 0,
            rnr_left: 0,
            deadline: None,
            not_ready: None,
        }
    }

    /// The connection goes to RTS; nothing was posted before.
    pub(crate) fn start(&mut self, receive: &ReadyToReceive, send: &ReadyToSend) {
        *self = Requester {
            psn: send.first_psn & PSN_MASK,
            mtu: receive.path_mtu.bytes(),
            timeout: ack_time(send.ack_timeout),
            retry: send.retry & 7,
            rnr_retry: send.rnr_retry & 7,
            retries_left: send.retry & 7,
            rnr_left: send.rnr_retry & 7,
            ..Requester::new()
        };
    }

    /// One more message.
    pub(crate) fn push(&mut self, message: Message) {
        let len = message.bytes.as_ref().map_or(0, |bytes| bytes.len());
        let packets = len.div_ceil(self.mtu).max(1) as u64;
        self.messages.push_back(Queued { message, first: self.end, packets });
        self.end += packets;
    }

    /// Messages that are not acknowledged.
    pub(crate) fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// Everything that is not acknowledged is given up.
    pub(crate) fn abandon(&mut self) -> Vec<Ended> {
        self.deadline = None;
        self.not_ready = None;
        (self.oldest, self.next, self.gone) = (self.end, self.end, self.end);
        self.messages.drain(..).map(|queued| queued.ended()).collect()
    }

    /// The oldest message, given up.
    pub(crate) fn give_up(&mut self) -> Option<Ended> {
        self.messages.pop_front().map(|queued| queued.ended())
    }

    fn psn_of(&self, packet: u64) -> u32 {
        self.psn.wrapping_add(packet as u32) & PSN_MASK
    }

    /// What to do now. Called until it says to wait.
    pub(crate) fn step(&mut self, now: Nanos) -> Step {
        if let Some(Queued { message: Message { bytes: Err(status), .. }, .. }) = self.messages.front() {
            return self.fail(*status);
        }
        if self.not_ready.is_some_and(|until| now < until) {
            return Step::Wait(self.not_ready);
        }
        self.not_ready = None;
        if self.deadline.is_some_and(|due| now >= due) {
            if self.retries_left == 0 {
                return self.fail(CompletionStatus::TransportTimeout);
            }
            self.retries_left -= 1;
            self.resend_from(self.oldest);
        }
        match self.next_segment(now) {
            Ok(segment) => {
                self.next += 1;
                self.gone = self.gone.max(self.next);
                if self.deadline.is_none() {
                    self.deadline = self.timeout.map(|timeout| now.after(timeout));
                }
                Step::Send(segment)
            }
            Err(not_before) => Step::Wait(earlier(not_before, self.deadline)),
        }
    }

    /// The next packet, or when there may be one.
    fn next_segment(&self, now: Nanos) -> Result<Segment, Option<Nanos>> {
        if self.next >= self.end || self.next - self.oldest >= WINDOW {
            return Err(None);
        }
        let at = self.messages.partition_point(|queued| queued.first + queued.packets <= self.next);
        let queued = self.messages.get(at).ok_or(None)?;
        let Ok(bytes) = &queued.message.bytes else { return Err(None) };
        if queued.message.not_before > now {
            return Err(Some(queued.message.not_before));
        }
        let place = self.next - queued.first;
        let (first, last) = (place == 0, place + 1 == queued.packets);
        let start = place as usize * self.mtu;
        Ok(Segment {
            psn: self.psn_of(self.next),
            opcode: RcOpcode::of_send(first, last, queued.message.immediate.is_some()),
            solicited: last && queued.message.solicited,
            immediate: queued.message.immediate.filter(|_| last),
            bytes: bytes.clone(),
            range: start..(start + self.mtu).min(bytes.len()),
        })
    }

    fn resend_from(&mut self, packet: u64) {
        self.next = packet;
        self.deadline = None;
    }

    fn fail(&mut self, status: CompletionStatus) -> Step {
        match self.messages.pop_front() {
            Some(queued) => Step::Fail(queued.ended(), status),
            None => Step::Wait(None),
        }
    }

    /// The peer says something of the packet with this number.
    pub(crate) fn acknowledged(&mut self, psn: u32, aeth: Aeth, now: Nanos) -> Acknowledged {
        let ahead = psn.wrapping_sub(self.psn_of(self.oldest)) & PSN_MASK;
        let packet = self.oldest + u64::from(ahead);
        // Of a packet before the oldest one, or of one that never went: an old copy, or somebody's error.
        if u64::from(ahead) > WINDOW || packet >= self.gone {
            return Acknowledged::default();
        }
        let before = self.oldest;
        let behind = if aeth.syndrome == Syndrome::Ack { packet + 1 } else { packet };
        let arrived = self.advance(behind, now);
        let progress = self.oldest > before;
        let failed = match aeth.syndrome {
            Syndrome::Ack => None,
            Syndrome::NotReady(code) => self.peer_not_ready(packet, code, now),
            Syndrome::Nak(NakCode::Sequence) => self.missed(packet, progress),
            Syndrome::Nak(NakCode::InvalidRequest) => Some(CompletionStatus::RemoteInvalidRequest),
            Syndrome::Nak(NakCode::RemoteAccess) => Some(CompletionStatus::RemoteAccess),
            Syndrome::Nak(NakCode::RemoteOperation) => Some(CompletionStatus::RemoteOperation),
        };
        let failed = failed.and_then(|status| Some((self.messages.pop_front()?.ended(), status)));
        Acknowledged { arrived, failed }
    }

    /// All packets before this one have arrived.
    fn advance(&mut self, behind: u64, now: Nanos) -> Vec<Ended> {
        if behind <= self.oldest {
            return Vec::new();
        }
        self.oldest = behind;
        self.next = self.next.max(behind);
        (self.retries_left, self.rnr_left) = (self.retry, self.rnr_retry);
        let waits = self.oldest < self.next;
        self.deadline = self.timeout.filter(|_| waits).map(|timeout| now.after(timeout));
        let mut arrived = Vec::new();
        while let Some(queued) = self.messages.pop_front_if(|queued| queued.first + queued.packets <= behind)
        {
            arrived.push(queued.ended());
        }
        arrived
    }

    fn peer_not_ready(&mut self, packet: u64, code: u8, now: Nanos) -> Option<CompletionStatus> {
        if self.rnr_left == 0 {
            return Some(CompletionStatus::RnrTimeout);
        }
        if self.rnr_retry != FOR_EVER {
            self.rnr_left -= 1;
        }
        self.resend_from(packet);
        self.not_ready = Some(now.after(rnr_time(code)));
        None
    }

    fn missed(&mut self, packet: u64, progress: bool) -> Option<CompletionStatus> {
        if !progress {
            if self.retries_left == 0 {
                return Some(CompletionStatus::TransportTimeout);
            }
            self.retries_left -= 1;
        }
        self.resend_from(packet);
        None
    }
}

impl Queued {
    fn ended(&self) -> Ended {
        let Message { seq, wr_id, signalled, .. } = self.message;
        Ended { seq, wr_id, signalled }
    }
}

fn earlier(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
#[path = "requester_tests.rs"]
mod tests;
