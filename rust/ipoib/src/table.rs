//! A bounded map from keys to values with deadlines and lists, in memory that its creator hands in.
//!
//! Everything is O(1) but a change of deadline, which is O(log n). Nothing is ever allocated: an array of [`Slot`]s carries the
//! hash chains, the heap of deadlines, and `LISTS` doubly linked lists that an entry may be on.

use core::marker::PhantomData;
use core::ops::DerefMut;

use crate::time::Instant;

mod siblings;

const NONE: u32 = u32::MAX;

/// Room for one entry. Create as many as the map shall hold at most, with [`Slot::default`].
#[derive(Debug)]
pub struct Slot<K, V, const LISTS: usize> {
    /// First entry whose hash selects this slot's number.
    bucket: u32,
    /// The entry at this slot's place in the heap of deadlines.
    heap: u32,
    /// Next in the hash chain, or next free slot.
    next: u32,
    /// First entry whose siblings's hash selects this slot's number.
    kin_bucket: u32,
    /// The entry's place in that chain.
    siblings: Link,
    links: [Option<Link>; LISTS],
    deadline: Option<Deadline>,
    entry: Option<(K, V)>,
}

impl<K, V, const LISTS: usize> Default for Slot<K, V, LISTS> {
    fn default() -> Self {
        Self {
            bucket: NONE,
            heap: NONE,
            next: NONE,
            kin_bucket: NONE,
            siblings: Link::ALONE,
            links: [None; LISTS],
            deadline: None,
            entry: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Link {
    const ALONE: Self = Self { before: NONE, after: NONE };
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    place: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// An entry of the map that made it, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u32);

/// What a key must offer: 64 bits that depend on all of it and on `seed`, so that nobody outside can choose keys that collide.
pub(crate) trait Key: Copy + Eq {
    fn hash(&self, seed: u64) -> u64;

    /// The same of what a key has in common with its siblings, which [`Table::siblings`] finds; all there is, if keys have none.
    fn kin_hash(&self, seed: u64) -> u64 {
        self.hash(seed)
    }
}

/// Folds a word into a hash: the two halves of a 128-bit product, which depend on every bit of both factors.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}

#[derive(Debug)]
pub(crate) struct Table<K, V, S, const LISTS: usize> {
    slots: S,
    seed: u64,
    free: u32,
    len: u32,
    timers: u32,
    lists: [Ends; LISTS],
    holds: PhantomData<(K, V)>,
    /// Slots looked at.
    #[cfg(test)]
    visits: core::cell::Cell<usize>,
}

impl<K: Key, V, S, const LISTS: usize> Table<K, V, S, LISTS>
where
    S: DerefMut<Target = [Slot<K, V, LISTS>]>,
{
    /// An empty map of at most `slots.len()` entries (and never more than `u32::MAX` - 1).
    pub(crate) fn new(mut slots: S, seed: u64) -> Self {
        let capacity = slots.len().min(NONE as usize) as u32;
        for (i, slot) in (0..capacity).zip(slots.iter_mut()) {
            *slot = Slot { next: if i + 1 == capacity { NONE } else { i + 1 }, ..Slot::default() };
        }
        let free = if capacity == 0 { NONE } else { 0 };
        let lists = [Ends { first: NONE, last: NONE }; LISTS];
        Self {
            slots,
            seed,
            free,
            len: 0,
            timers: 0,
            lists,
            holds: PhantomData,
            #[cfg(test)]
            visits: core::cell::Cell::new(0),
        }
    }

    /// Moves everything into an array that is longer, or gives the array back unused. Lists, deadlines and [`Id`]s stay. Takes
    /// time in proportion to `slots`; gives back the old array, empty.
    pub(crate) fn grow(&mut self, slots: S) -> S {
        if slots.len() <= self.slots.len() || slots.len() > NONE as usize {
            return slots;
        }
        let mut old = core::mem::replace(&mut self.slots, slots);
        for (place, slot) in self.slots.iter_mut().zip(old.iter_mut()) {
            *place = Slot { bucket: NONE, kin_bucket: NONE, ..core::mem::take(slot) };
        }
        self.chain_anew();
        old
    }

    /// Fills every hash chain, and the list of free slots from the front.
    fn chain_anew(&mut self) {
        self.free = NONE;
        for at in (0..self.slots.len() as u32).rev() {
            match self.key(Id(at)) {
                Some(key) => self.chain(at, &key),
                None => {
                    self.slot_mut(at).next = self.free;
                    self.free = at;
                }
            }
        }
    }

    fn chain(&mut self, at: u32, key: &K) {
        let bucket = self.bucket_of(key);
        self.slot_mut(at).next = self.slot(bucket).bucket;
        self.slot_mut(bucket).bucket = at;
        self.chain_kin(at, key);
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Slots looked at so far: what something costs, whatever the machine.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> usize {
        self.visits.get()
    }

    fn slot(&self, at: u32) -> &Slot<K, V, LISTS> {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
        &self.slots[at as usize]
    }

    fn slot_mut(&mut self, at: u32) -> &mut Slot<K, V, LISTS> {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
        &mut self.slots[at as usize]
    }

    fn bucket_of(&self, key: &K) -> u32 {
        self.number_of(key.hash(self.seed))
    }

    /// The slot that a hash selects.
    fn number_of(&self, hash: u64) -> u32 {
        (hash % self.slots.len().max(1) as u64) as u32
    }

    pub(crate) fn find(&self, key: &K) -> Option<Id> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.slot(self.bucket_of(key)).bucket;
        while at != NONE {
            let slot = self.slot(at);
            if matches!(&slot.entry, Some((k, _)) if k == key) {
                return Some(Id(at));
            }
            at = slot.next;
        }
        None
    }

    /// Adds an entry whose key is not in the map. `None`, and the value dropped, if there is no room.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<Id> {
        let at = self.free;
        if at == NONE {
            return None;
        }
        self.free = self.slot(at).next;
        self.slot_mut(at).entry = Some((key, value));
        self.chain(at, &key);
        self.len += 1;
        Some(Id(at))
    }

    /// Takes an entry out, off its lists and without its deadline.
    pub(crate) fn remove(&mut self, id: Id) -> Option<(K, V)> {
        self.set_deadline(id, None);
        for list in 0..LISTS {
            self.unlist(list, id);
        }
        let (key, value) = self.slot_mut(id.0).entry.take()?;
        self.unchain(self.bucket_of(&key), id.0);
        self.unchain_kin(id.0, &key);
        self.slot_mut(id.0).next = self.free;
        self.free = id.0;
        self.len -= 1;
        Some((key, value))
    }

    fn unchain(&mut self, bucket: u32, at: u32) {
        let after = self.slot(at).next;
        let mut here = self.slot(bucket).bucket;
        if here == at {
            self.slot_mut(bucket).bucket = after;
            return;
        }
        while here != NONE {
            let next = self.slot(here).next;
            if next == at {
                self.slot_mut(here).next = after;
                return;
            }
            here = next;
        }
    }

    pub(crate) fn key(&self, id: Id) -> Option<K> {
        self.slot(id.0).entry.as_ref().map(|(key, _)| *key)
    }

    pub(crate) fn get(&self, id: Id) -> Option<&V> {
        self.slot(id.0).entry.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut V> {
        self.slot_mut(id.0).entry.as_mut().map(|(_, value)| value)
    }

    /// The first entry at or behind place `from` of the array, and its place; walks the whole map by `from = place + 1`.
    pub(crate) fn next_from(&self, from: usize) -> Option<(usize, Id)> {
        self.next_until(from, self.slots.len())
    }

    /// The same, in front of place `end`.
    pub(crate) fn next_until(&self, from: usize, end: usize) -> Option<(usize, Id)> {
        let slots = self.slots.len().min(end) as u32;
        let at = (from as u32..slots).find(|&at| self.slot(at).entry.is_some())?;
        Some((at as usize, Id(at)))
    }

    pub(crate) fn is_listed(&self, list: usize, id: Id) -> bool {
        self.slot(id.0).links[list].is_some()
    }

    /// Puts an entry at the end of a list, wherever it was in it.
    pub(crate) fn push_back(&mut self, list: usize, id: Id) {
        self.unlist(list, id);
        let last = self.lists[list].last;
        self.slot_mut(id.0).links[list] = Some(Link { before: last, after: NONE });
        match last {
            NONE => self.lists[list].first = id.0,
            _ => self.link_mut(list, last, |link| link.after = id.0),
        }
        self.lists[list].last = id.0;
    }

    pub(crate) fn unlist(&mut self, list: usize, id: Id) {
        let Some(Link { before, after }) = self.slot_mut(id.0).links[list].take() else { return };
        match before {
            NONE => self.lists[list].first = after,
            _ => self.link_mut(list, before, |link| link.after = after),
        }
        match after {
            NONE => self.lists[list].last = before,
            _ => self.link_mut(list, after, |link| link.before = before),
        }
    }

    fn link_mut(&mut self, list: usize, at: u32, change: impl FnOnce(&mut Link)) {
        if let Some(link) = &mut self.slot_mut(at).links[list] {
            change(link);
        }
    }

    pub(crate) fn front(&self, list: usize) -> Option<Id> {
        let first = self.lists[list].first;
        (first != NONE).then_some(Id(first))
    }

    /// The one behind `id`, which is on the list.
    pub(crate) fn next_listed(&self, list: usize, id: Id) -> Option<Id> {
        let after = self.slot(id.0).links[list]?.after;
        (after != NONE).then_some(Id(after))
    }

    pub(crate) fn pop_front(&mut self, list: usize) -> Option<Id> {
        let id = self.front(list)?;
        self.unlist(list, id);
        Some(id)
    }

    /// Sets, moves or clears an entry's one deadline.
    pub(crate) fn set_deadline(&mut self, id: Id, at: Option<Instant>) {
        if let Some(Deadline { place, .. }) = self.slot_mut(id.0).deadline.take() {
            self.heap_remove(place);
        }
        let Some(at) = at else { return };
        let place = self.timers;
        self.timers += 1;
        self.slot_mut(id.0).deadline = Some(Deadline { at, place });
        self.slot_mut(place).heap = id.0;
        self.sift_up(place);
    }

    pub(crate) fn deadline(&self, id: Id) -> Option<Instant> {
        self.slot(id.0).deadline.map(|deadline| deadline.at)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.timers == 0 { None } else { self.deadline_at(0) }
    }

    /// Takes the earliest deadline that has come, and clears it.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Id> {
        if self.next_deadline()? > now {
            return None;
        }
        let id = Id(self.slot(0).heap);
        self.set_deadline(id, None);
        Some(id)
    }

    fn deadline_at(&self, place: u32) -> Option<Instant> {
        self.slot(self.slot(place).heap).deadline.map(|d| d.at)
    }

    fn heap_remove(&mut self, place: u32) {
        self.timers -= 1;
        let last = self.timers;
        if place == last {
            return;
        }
        let moved = self.slot(last).heap;
        self.heap_put(place, moved);
        self.sift_up(place);
        self.sift_down(place);
    }

    fn heap_put(&mut self, place: u32, owner: u32) {
        self.slot_mut(place).heap = owner;
        if let Some(deadline) = &mut self.slot_mut(owner).deadline {
            deadline.place = place;
        }
    }

    fn heap_swap(&mut self, a: u32, b: u32) {
        let (owner_a, owner_b) = (self.slot(a).heap, self.slot(b).heap);
        self.heap_put(a, owner_b);
        self.heap_put(b, owner_a);
    }

    fn sift_up(&mut self, mut place: u32) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.deadline_at(parent) <= self.deadline_at(place) {
                return;
            }
            self.heap_swap(parent, place);
            place = parent;
        }
    }

    fn sift_down(&mut self, mut place: u32) {
        loop {
            let left = 2 * place + 1;
            let Some(child) = (left..self.timers.min(left + 2)).min_by_key(|&c| self.deadline_at(c)) else {
                return;
            };
            if self.deadline_at(place) <= self.deadline_at(child) {
                return;
            }
            self.heap_swap(place, child);
            place = child;
        }
    }
}

#[cfg(test)]
mod tests;
