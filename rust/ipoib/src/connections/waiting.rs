//! Packets that wait until their connection is made: one pool, and a queue through it for each neighbour.

use core::marker::PhantomData;
use core::ops::DerefMut;

const NONE: u32 = u32::MAX;

/// Room for one packet that waits.
#[derive(Debug)]
pub struct WaitingSlot<P> {
    next: u32,
    held: Option<(P, u32)>,
}

impl<P> Default for WaitingSlot<P> {
    fn default() -> Self {
        Self { next: NONE, held: None }
    }
}

/// The packets of one neighbour, the oldest first.
#[derive(Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { first: NONE, last: NONE, packets: 0, bytes: 0 }
    }
}

impl Queue {
    pub(super) const fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// The pool.
#[derive(Debug)]
pub(super) struct Waiting<P, W> {
    slots: W,
    free: u32,
    holds: PhantomData<P>,
}

impl<P, W: DerefMut<Target = [WaitingSlot<P>]>> Waiting<P, W> {
    pub(super) fn new(mut slots: W) -> Self {
        let mut free = NONE;
        for (at, slot) in (0..NONE).zip(slots.iter_mut()) {
            *slot = WaitingSlot { next: free, held: None };
            free = at;
        }
        Self { slots, free, holds: PhantomData }
    }

    /// Puts a packet of `bytes` at the end of a queue. It comes back if the pool is full.
    pub(super) fn push(&mut self, queue: &mut Queue, packet: P, bytes: u32) -> Result<(), P> {
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else { return Err(packet) };
        self.free = slot.next;
        *slot = WaitingSlot { next: NONE, held: Some((packet, bytes)) };
        match self.slots.get_mut(queue.last as usize) {
            Some(last) => last.next = at,
            None => queue.first = at,
        }
        queue.last = at;
        queue.packets += 1;
        queue.bytes = queue.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Takes the oldest packet of a queue, and its bytes.
    pub(super) fn pop(&mut self, queue: &mut Queue) -> Option<(P, u32)> {
        let at = queue.first;
        let slot = self.slots.get_mut(at as usize)?;
        queue.first = slot.next;
        if queue.first == NONE {
            queue.last = NONE;
        }
        slot.next = self.free;
        self.free = at;
        let (packet, bytes) = slot.held.take()?;
        queue.packets -= 1;
        queue.bytes = queue.bytes.saturating_sub(bytes);
        Some((packet, bytes))
    }
}
