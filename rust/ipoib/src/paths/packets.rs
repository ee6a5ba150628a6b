//! The packets that wait: one pool for all addresses, a queue per address, and a list per transmit queue of those to be sent now.

use core::ops::DerefMut;

use super::{Cause, DropReason};
use crate::addr::LinkAddr;

const NONE: u32 = u32::MAX;

/// Ways out, at most.
pub const TX_QUEUES: usize = 8;

/// The way by which a packet leaves: packets of one transmit queue never wait for room on another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxQueue(u8);

impl TxQueue {
    /// TxQueue `number`, from 0; the last one for what is too large.
    pub const fn new(number: usize) -> Self {
        Self(if number < TX_QUEUES { number as u8 } else { TX_QUEUES as u8 - 1 })
    }

    /// Its number, below [`TX_QUEUES`].
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// Some of the transmit queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxQueues(u8);

impl TxQueues {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Adds one, or takes it out.
    pub const fn set(&mut self, tx_queue: TxQueue, inside: bool) {
        let bit = 1 << tx_queue.0;
        self.0 = if inside { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether this one is among them.
    pub const fn contains(self, tx_queue: TxQueue) -> bool {
        self.0 & 1 << tx_queue.0 != 0
    }

    /// Those that are not among `others`.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// All there are.
    pub fn all() -> impl Iterator<Item = TxQueue> {
        (0..TX_QUEUES).map(TxQueue::new)
    }

    /// The one with the least number.
    pub fn first(self) -> Option<TxQueue> {
        Self::all().find(|tx_queue| self.contains(*tx_queue))
    }
}

/// Room for one waiting packet.
#[derive(Debug)]
pub struct PacketSlot<P> {
    next: u32,
    held: Option<Held<P>>,
}

impl<P> Default for PacketSlot<P> {
    fn default() -> Self {
        Self { next: NONE, held: None }
    }
}

#[derive(Debug)]
struct Held<P> {
    to: LinkAddr,
    cause: Cause,
    tx_queue: TxQueue,
    packet: P,
    verdict: Option<Verdict>,
}

/// What is to become of a packet. Which handle it is sent with is the address's to say when it leaves: a handle kept with the packet
/// would outlive what is known about the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Send,
    Drop(DropReason),
}

/// A packet between two lists.
pub(super) struct Taken(u32);

/// A packet that leaves.
pub(super) struct Leaving<P> {
    pub(super) to: LinkAddr,
    pub(super) packet: P,
    pub(super) verdict: Verdict,
}

/// A list through the pool.
#[derive(Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    len: u16,
}

impl Default for Queue {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(super) fn len(&self) -> u16 {
        self.len
    }
}

#[derive(Debug)]
pub(super) struct Packets<P, T> {
    slots: T,
    free: u32,
    held: usize,
    /// Of these, by their cause: to ports, and to groups.
    by_cause: [usize; 2 * Cause::ALL],
    out: [Queue; TX_QUEUES],
    marker: core::marker::PhantomData<P>,
}

impl<P, T> Packets<P, T> {
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Those that only answer.
    pub(super) fn answers_held(&self) -> usize {
        self.by_cause[Cause::Newcomer as usize] + self.by_cause[Cause::Stranger as usize]
    }

    /// The transmit queues that have packets to send now.
    pub(super) fn out(&self) -> TxQueues {
        let mut lanes = TxQueues::NONE;
        for (number, queue) in self.out.iter().enumerate() {
            lanes.set(TxQueue::new(number), !queue.is_empty());
        }
        lanes
    }
}

impl<P, T: DerefMut<Target = [PacketSlot<P>]>> Packets<P, T> {
    pub(super) fn new(mut slots: T) -> Self {
        let mut free = NONE;
        for (i, slot) in (0..NONE).zip(slots.iter_mut()) {
            *slot = PacketSlot { next: free, held: None };
            free = i;
        }
        Self {
            slots,
            free,
            held: 0,
            by_cause: [0; 2 * Cause::ALL],
            out: Default::default(),
            marker: core::marker::PhantomData,
        }
    }

    /// Whether half of the room, or more, is taken.
    pub(super) fn is_crowded(&self) -> bool {
        self.held >= self.slots.len() / 2
    }

    /// Answers take a quarter of the room at most, those to strangers and those to newcomers each, and questions to groups as well; what goes
    /// to addresses that have proved nothing leaves a quarter.
    pub(super) fn have_room_for(&self, to: &LinkAddr, cause: Cause) -> bool {
        let quarter = self.slots.len() / 4;
        self.by_cause[part_of(to, cause)]
            < match cause {
                Cause::Own => usize::MAX,
                Cause::Unproved => self.slots.len() - quarter,
                Cause::Newcomer | Cause::Stranger => quarter.max(1),
            }
    }

    /// Appends to an address's queue. `Ok` brings back the oldest packet if it had to give way, `Err` the packet itself if the
    /// pool is full of others' packets.
    pub(super) fn enqueue(
        &mut self,
        queue: &mut Queue,
        (to, cause): (LinkAddr, Cause),
        (tx_queue, packet): (TxQueue, P),
        limit: u16,
    ) -> Result<Option<P>, P> {
        // Groups nobody answers about must not take the room of ports, and answers not that of what IP begins.
        let no_room = !self.have_room_for(&to, cause);
        let crowded = to.is_multicast() && self.is_crowded() || no_room;
        let full = queue.len >= limit.max(1) || self.free == NONE || crowded;
        // One of the same cause gives way, if there is one.
        if crowded && queue.is_empty() || no_room && self.cause_of_first(queue) != Some(cause) {
            return Err(packet);
        }
        let gave_way = if full { self.take_first(queue).map(|held| held.packet) } else { None };
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else { return Err(packet) };
        self.free = slot.next;
        slot.held = Some(Held { to, cause, tx_queue, packet, verdict: None });
        self.count(&to, cause);
        append(&mut self.slots, queue, at);
        Ok(gave_way)
    }

    /// Sends a packet behind those of its transmit queue that are to be sent now. It comes back if the pool is full.
    pub(super) fn follow(
        &mut self,
        (to, cause): (LinkAddr, Cause),
        (tx_queue, packet): (TxQueue, P),
    ) -> Result<(), P> {
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else { return Err(packet) };
        self.free = slot.next;
        slot.held = Some(Held { to, cause, tx_queue, packet, verdict: Some(Verdict::Send) });
        self.count(&to, cause);
        append(&mut self.slots, &mut self.out[tx_queue.number()], at);
        Ok(())
    }

    /// Lets all of an address's packets go.
    pub(super) fn decide(&mut self, queue: &mut Queue, verdict: Verdict) {
        while let Some(at) = next_of(&self.slots, queue) {
            let mut tx_queue = TxQueue::default();
            if let Some(held) = self.slots.get_mut(at as usize).and_then(|slot| slot.held.as_mut()) {
                held.verdict = Some(verdict);
                tx_queue = held.tx_queue;
            }
            append(&mut self.slots, &mut self.out[tx_queue.number()], at);
        }
    }

    /// Takes a whole transmit queue, to be looked through with [`Packets::take_on`].
    pub(super) fn take_out(&mut self, tx_queue: TxQueue) -> Queue {
        core::mem::take(&mut self.out[tx_queue.number()])
    }

    /// Takes the next one of a transmit queue's, whose it is, and what is to become of it; it goes on in [`Packets::wait_again`] or
    /// [`Packets::leave`].
    pub(super) fn take_on(&mut self, tx_queue: &mut Queue) -> Option<(Taken, LinkAddr, Verdict)> {
        let at = next_of(&self.slots, tx_queue)?;
        let held = self.slots.get(at as usize)?.held.as_ref()?;
        Some((Taken(at), held.to, held.verdict?))
    }

    /// It waits at the end of its address's queue, undecided.
    pub(super) fn wait_again(&mut self, queue: &mut Queue, Taken(at): Taken) {
        if let Some(held) = self.slots.get_mut(at as usize).and_then(|slot| slot.held.as_mut()) {
            held.verdict = None;
        }
        append(&mut self.slots, queue, at);
    }

    /// It goes to the end of its transmit queue.
    pub(super) fn leave(&mut self, tx_queue: TxQueue, Taken(at): Taken) {
        append(&mut self.slots, &mut self.out[tx_queue.number()], at);
    }

    pub(super) fn next_out(&mut self, tx_queue: TxQueue) -> Option<Leaving<P>> {
        let mut out = self.take_out(tx_queue);
        let held = self.take_first(&mut out);
        self.out[tx_queue.number()] = out;
        let Held { to, packet, verdict, .. } = held?;
        // Only decided packets are on this list.
        Some(Leaving { to, packet, verdict: verdict.unwrap_or(Verdict::Drop(DropReason::LinkReset)) })
    }

    fn take_first(&mut self, queue: &mut Queue) -> Option<Held<P>> {
        let at = next_of(&self.slots, queue)?;
        let slot = self.slots.get_mut(at as usize)?;
        slot.next = self.free;
        self.free = at;
        let held = slot.held.take()?;
        self.held -= 1;
        self.by_cause[part_of(&held.to, held.cause)] -= 1;
        Some(held)
    }

    fn cause_of_first(&self, queue: &Queue) -> Option<Cause> {
        self.slots.get(queue.first as usize)?.held.as_ref().map(|held| held.cause)
    }

    fn count(&mut self, to: &LinkAddr, cause: Cause) {
        self.held += 1;
        self.by_cause[part_of(to, cause)] += 1;
    }
}

/// Which of the counts by cause.
fn part_of(to: &LinkAddr, cause: Cause) -> usize {
    cause as usize + if to.is_multicast() { Cause::ALL } else { 0 }
}

/// Takes the first one off a list.
fn next_of<P>(slots: &[PacketSlot<P>], queue: &mut Queue) -> Option<u32> {
    let at = queue.first;
    queue.first = slots.get(at as usize)?.next;
    queue.len = queue.len.saturating_sub(1);
    if queue.first == NONE {
        queue.last = NONE;
    }
    Some(at)
}

fn append<P>(slots: &mut [PacketSlot<P>], queue: &mut Queue, at: u32) {
    if let Some(slot) = slots.get_mut(at as usize) {
        slot.next = NONE;
    }
    match slots.get_mut(queue.last as usize) {
        Some(last) => last.next = at,
        None => queue.first = at,
    }
    queue.last = at;
    queue.len = queue.len.saturating_add(1);
}
