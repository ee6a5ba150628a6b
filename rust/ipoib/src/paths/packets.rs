//! The packets that wait: one pool for all addresses, a queue per address, and a list per lane of those on their way out.

use core::ops::DerefMut;

use super::{Action, DropReason};
use crate::addr::LinkAddr;

const NONE: u32 = u32::MAX;

/// Ways out, at most.
pub const LANES: usize = 8;

/// The way by which a packet leaves: packets of one lane never wait for room on another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane(u8);

impl Lane {
    /// Lane `number`, from 0; the last one for what is too large.
    pub const fn new(number: usize) -> Self {
        Self(if number < LANES { number as u8 } else { LANES as u8 - 1 })
    }

    /// Its number, below [`LANES`].
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

/// Some of the lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes(u8);

impl Lanes {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Adds one, or takes it out.
    pub const fn set(&mut self, lane: Lane, inside: bool) {
        let bit = 1 << lane.0;
        self.0 = if inside { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether this one is among them.
    pub const fn contains(self, lane: Lane) -> bool {
        self.0 & 1 << lane.0 != 0
    }

    /// Those that are not among `others`.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The one with the least number.
    pub fn first(self) -> Option<Lane> {
        (0..LANES).map(Lane::new).find(|lane| self.contains(*lane))
    }
}

/// Room for one waiting packet.
#[derive(Debug)]
pub struct PacketSlot<P, H> {
    next: u32,
    held: Option<Held<P, H>>,
}

impl<P, H> Default for PacketSlot<P, H> {
    fn default() -> Self {
        Self { next: NONE, held: None }
    }
}

#[derive(Debug)]
struct Held<P, H> {
    to: LinkAddr,
    lane: Lane,
    packet: P,
    verdict: Option<Result<H, DropReason>>,
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
pub(super) struct Packets<P, H, T> {
    slots: T,
    free: u32,
    held: usize,
    out: [Queue; LANES],
    marker: core::marker::PhantomData<(P, H)>,
}

impl<P, H, T> Packets<P, H, T> {
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The lanes that have packets on their way out.
    pub(super) fn out(&self) -> Lanes {
        let mut lanes = Lanes::NONE;
        for (number, queue) in self.out.iter().enumerate() {
            lanes.set(Lane::new(number), !queue.is_empty());
        }
        lanes
    }
}

impl<P, H: Clone, T: DerefMut<Target = [PacketSlot<P, H>]>> Packets<P, H, T> {
    pub(super) fn new(mut slots: T) -> Self {
        let mut free = NONE;
        for (i, slot) in (0..NONE).zip(slots.iter_mut()) {
            *slot = PacketSlot { next: free, held: None };
            free = i;
        }
        Self { slots, free, held: 0, out: Default::default(), marker: core::marker::PhantomData }
    }

    /// Appends to an address's queue. `Ok` brings back the oldest packet if it had to give way, `Err` the packet itself if the
    /// pool is full of others' packets.
    pub(super) fn enqueue(
        &mut self,
        queue: &mut Queue,
        to: LinkAddr,
        (lane, packet): (Lane, P),
        limit: u16,
    ) -> Result<Option<P>, P> {
        // Groups nobody answers about must not take the room of ports.
        let crowded = to.is_multicast() && self.held >= self.slots.len() / 2;
        let full = queue.len >= limit.max(1) || self.free == NONE || crowded;
        if crowded && queue.is_empty() {
            return Err(packet);
        }
        let gave_way = if full { self.take_first(queue).map(|held| held.packet) } else { None };
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else { return Err(packet) };
        self.free = slot.next;
        slot.held = Some(Held { to, lane, packet, verdict: None });
        self.held += 1;
        append(&mut self.slots, queue, at);
        Ok(gave_way)
    }

    /// Sends behind `leaving` packets of the same address that are on their way out. Without any, or without room, the
    /// packet comes back to be sent at once.
    pub(super) fn follow(
        &mut self,
        leaving: &mut u16,
        to: LinkAddr,
        (lane, packet): (Lane, P),
        handle: H,
    ) -> Result<(), (P, H)> {
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize).filter(|_| *leaving != 0) else {
            return Err((packet, handle));
        };
        self.free = slot.next;
        slot.held = Some(Held { to, lane, packet, verdict: Some(Ok(handle)) });
        self.held += 1;
        *leaving = leaving.saturating_add(1);
        append(&mut self.slots, &mut self.out[lane.number()], at);
        Ok(())
    }

    pub(super) fn send_all(&mut self, queue: &mut Queue, handle: &H) {
        self.decide(queue, |_| Ok(handle.clone()));
    }

    pub(super) fn drop_all(&mut self, queue: &mut Queue, reason: DropReason) {
        self.decide(queue, |_| Err(reason));
    }

    fn decide(&mut self, queue: &mut Queue, verdict: impl Fn(&LinkAddr) -> Result<H, DropReason>) {
        while queue.first != NONE {
            let at = queue.first;
            let Some(slot) = self.slots.get_mut(at as usize) else { return };
            queue.first = slot.next;
            let mut lane = Lane::default();
            if let Some(held) = &mut slot.held {
                held.verdict = Some(verdict(&held.to));
                lane = held.lane;
            }
            append(&mut self.slots, &mut self.out[lane.number()], at);
        }
        *queue = Queue::default();
    }

    pub(super) fn next_out(&mut self, lane: Lane) -> Option<Action<P, H>> {
        let mut out = core::mem::take(&mut self.out[lane.number()]);
        let held = self.take_first(&mut out);
        self.out[lane.number()] = out;
        let Held { to, packet, verdict, .. } = held?;
        Some(match verdict {
            Some(Ok(handle)) => Action::Send(to, packet, handle),
            Some(Err(reason)) => Action::Drop(to, packet, reason),
            // Only decided packets are on this list.
            None => Action::Drop(to, packet, DropReason::LinkReset),
        })
    }

    fn take_first(&mut self, queue: &mut Queue) -> Option<Held<P, H>> {
        let at = queue.first;
        let slot = self.slots.get_mut(at as usize)?;
        queue.first = slot.next;
        queue.len = queue.len.saturating_sub(1);
        if queue.first == NONE {
            queue.last = NONE;
        }
        slot.next = self.free;
        self.free = at;
        self.held -= 1;
        slot.held.take()
    }
}

fn append<P, H>(slots: &mut [PacketSlot<P, H>], queue: &mut Queue, at: u32) {
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
