//! Races: two accesses to the same bytes by two threads, of which one writes and one is no atomic operation, with nothing between them that
//! puts one before the other. A processor or a compiler may then do what no interleaving of the two threads does, so that no seed shows
//! it.
//!
//! What a thread has done before it lets go of something is before what another does after it has taken that: a lock, a task, a wake-up,
//! an atomic operation with an order that says so. [`release`] and [`acquire`] say such things of whatever has a [`Key`]; [`Moment`] is
//! for what is handed from one to another. Accesses come from modules that were built to tell of them, and are looked up in a shadow of
//! memory with the clocks of FastTrack (Flanagan and Freund, 2009).

mod clock;
mod shadow;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use self::clock::{Clock, Left, Slot};
use self::shadow::{Accessor, Shadow};
use crate::current;
use crate::machine::{Machine, Shared};
use crate::thread::ThreadInner;

pub use self::shadow::Kind;

/// Something that is let go of by one thread and taken by another: of which sort, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub &'static str, pub u64);

/// What an atomic operation orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOrder {
    /// Nothing.
    Relaxed,
    /// What comes after it.
    Acquire,
    /// What came before it.
    Release,
    /// Both.
    Both,
}

impl AtomicOrder {
    fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::Both)
    }

    fn releases(self) -> bool {
        matches!(self, Self::Release | Self::Both)
    }
}

/// What an atomic operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicAct {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It writes what follows from what it reads.
    Update,
}

/// An access of a module: which bytes, and where its text is.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The first byte.
    pub addr: usize,
    /// Bytes.
    pub len: usize,
    /// The address behind the call that tells of it; modules lie below 4 GiB.
    pub pc: usize,
}

/// The access that another one races with.
#[derive(Clone, Debug)]
pub struct Race {
    /// The first of the bytes that both are about, or of the eight that they lie in.
    pub addr: usize,
    /// What the earlier access did.
    pub earlier: Kind,
    /// The address behind the call that told of it.
    pub pc: usize,
    /// Whose it was.
    pub thread: Arc<str>,
}

/// Everything that lay before some moment of a thread.
#[derive(Clone, Debug, Default)]
pub struct Moment(Option<Arc<Clock>>);

/// What is known of the threads and the memory of a machine.
#[derive(Default)]
pub(crate) struct Races {
    runners: Vec<Runner>,
    /// Slots of threads that have ended, the longest ago first.
    free: VecDeque<Slot>,
    left: FxHashMap<Key, Left>,
    shadow: Shadow,
}

#[derive(Default)]
struct Runner {
    clock: Clock,
    /// Whose slot it has been, each from which time on.
    names: Vec<(u32, Arc<str>)>,
    /// What relaxed loads have seen left: an acquire fence takes it.
    seen: Clock,
    /// What was known at the last release fence: relaxed stores leave it.
    fenced: Option<Clock>,
}

/// No slot yet.
pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Machine {
    /// Virtual mode: from now on races are looked for.
    pub fn watch_for_races(&self) {
        if self.is_live() {
            return;
        }
        self.0.races.lock().get_or_insert_default();
        self.0.racing.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Are races looked for?
    #[inline]
    pub fn is_racing(&self) -> bool {
        self.racing.load(Ordering::Relaxed)
    }
}

/// Runs `f` with the calling thread's slot, if races are looked for.
#[inline]
fn with<R>(f: impl FnOnce(&mut Races, Slot) -> R) -> Option<R> {
    current::with(|me| of_thread(me?, f))
}

#[inline]
fn of_thread<R>(thread: &ThreadInner, f: impl FnOnce(&mut Races, Slot) -> R) -> Option<R> {
    let shared = &thread.machine.0;
    if !shared.is_racing() {
        return None;
    }
    let mut races = shared.races.lock();
    let races = races.as_deref_mut()?;
    let slot = races.slot_of(thread);
    Some(f(races, slot))
}

/// The calling thread lets go of something.
#[inline]
pub fn release(key: Key) {
    with(|races, slot| races.release(slot, key));
}

/// The calling thread takes something.
#[inline]
pub fn acquire(key: Key) {
    with(|races, slot| races.acquire(slot, key));
}

/// The calling thread takes something and lets go of it again.
#[inline]
pub fn pass(key: Key) {
    with(|races, slot| {
        races.acquire(slot, key);
        races.release(slot, key);
    });
}

impl Moment {
    /// Now, for the calling thread.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self(with(|races, slot| races.moment(slot)))
    }

    /// What the calling thread does from now on comes after it.
    #[inline]
    pub fn is_over(&self) {
        if let Some(clock) = &self.0 {
            with(|races, slot| races.runners[usize::from(slot)].clock.join(clock));
        }
    }
}

/// A closure that comes after this moment, whichever thread runs it.
pub fn carry<R>(f: impl FnOnce() -> R + Send) -> impl FnOnce() -> R + Send {
    let moment = Moment::now();
    move || {
        moment.is_over();
        f()
    }
}

/// The calling thread reads or writes; what it races with.
pub fn access(access: Access, kind: Kind) -> Option<Race> {
    with(|races, slot| races.access(slot, access, kind)).flatten()
}

/// The calling thread does an atomic operation; what it races with.
pub fn atomic(access: Access, act: AtomicAct, order: AtomicOrder) -> Option<Race> {
    with(|races, slot| races.atomic(slot, access, act, order)).flatten()
}

/// A fence of the calling thread.
pub fn fence(order: AtomicOrder) {
    with(|races, slot| races.fence(slot, order));
}

/// The calling thread frees memory: what of it others may still be using.
pub fn freed(access: Access) -> Option<Race> {
    with(|races, slot| races.freed(slot, access)).flatten()
}

/// The memory is nobody's, or somebody's who has not used it yet.
pub fn forget_memory(addr: usize, len: usize) {
    with(|races, _| races.shadow.clear(addr, len));
}

/// The calling thread makes another one.
pub(crate) fn begin(thread: &ThreadInner) {
    let moment = Moment::now();
    of_thread(thread, |races, slot| {
        if let Some(clock) = &moment.0 {
            races.runners[usize::from(slot)].clock.join(clock);
        }
    });
}

/// The calling thread ends.
pub(crate) fn end() {
    current::with(|me| {
        if let Some(me) = me {
            of_thread(me, |races, slot| {
                races.release(slot, thread_key(me.did));
                races.free.push_back(slot);
            });
        }
    });
}

/// The calling thread has waited for the end of the one with this number.
pub fn joined(did: u64) {
    acquire(thread_key(did));
}

/// The calling thread wakes another one.
pub(crate) fn wake(thread: &ThreadInner) {
    let moment = Moment::now();
    if let Some(clock) = &moment.0 {
        of_thread(thread, |races, slot| races.runners[usize::from(slot)].clock.join(clock));
    }
}

fn thread_key(did: u64) -> Key {
    Key("thread", did)
}

impl Races {
    fn slot_of(&mut self, thread: &ThreadInner) -> Slot {
        match thread.race_slot.load(Ordering::Relaxed) {
            NO_SLOT => {
                let slot = self.take_slot(thread.name.clone());
                thread.race_slot.store(slot.into(), Ordering::Relaxed);
                slot
            }
            slot => slot as Slot,
        }
    }

    fn take_slot(&mut self, name: Arc<str>) -> Slot {
        /// So many stay unused for a while, so that an ended thread's accesses are not taken for those of the next one.
        const LEAST_FREE: usize = 64;
        let slot = match self.free.len() > LEAST_FREE || self.runners.len() >= usize::from(Slot::MAX) {
            true => self.free.pop_front().unwrap_or(0),
            false => {
                self.runners.push(Runner::default());
                (self.runners.len() - 1) as Slot
            }
        };
        let runner = &mut self.runners[usize::from(slot)];
        let time = runner.clock.of(slot) + 1;
        *runner = Runner { names: std::mem::take(&mut runner.names), ..Runner::default() };
        runner.clock.set(slot, time);
        runner.names.push((time, name));
        slot
    }

    /// What the thread does from now on is not before what it has left.
    fn tick(&mut self, slot: Slot) {
        let clock = &mut self.runners[usize::from(slot)].clock;
        clock.set(slot, clock.of(slot) + 1);
    }

    fn release(&mut self, slot: Slot, key: Key) {
        self.left.entry(key).or_default().add(slot, &self.runners[usize::from(slot)].clock);
        self.tick(slot);
    }

    fn acquire(&mut self, slot: Slot, key: Key) {
        if let Some(left) = self.left.get(&key) {
            left.give_to(&mut self.runners[usize::from(slot)].clock);
        }
    }

    fn moment(&mut self, slot: Slot) -> Arc<Clock> {
        let clock = Arc::new(self.runners[usize::from(slot)].clock.clone());
        self.tick(slot);
        clock
    }

    fn access(&mut self, slot: Slot, access: Access, kind: Kind) -> Option<Race> {
        let clock = &self.runners[usize::from(slot)].clock;
        let by = Accessor { slot, clock, pc: access.pc as u32, kind };
        let found = self.shadow.access(access.addr, access.len, &by);
        found.map(|found| self.race(found))
    }

    fn freed(&self, slot: Slot, access: Access) -> Option<Race> {
        let clock = &self.runners[usize::from(slot)].clock;
        let kind = Kind { writes: true, atomic: false };
        let by = Accessor { slot, clock, pc: access.pc as u32, kind };
        self.shadow.outstanding(access.addr, access.len, &by).map(|found| self.race(found))
    }

    fn race(&self, (addr, cell): (usize, shadow::Cell)) -> Race {
        let names = &self.runners[usize::from(cell.slot)].names;
        let own = names.iter().rev().find(|(from, _)| *from <= cell.time);
        let thread = own.map_or_else(|| "a thread".into(), |(_, name)| name.clone());
        Race { addr, earlier: cell.kind(), pc: cell.pc as usize, thread }
    }

    /// What an atomic operation puts before what (C++20, 6.9.2.2): whoever reads what a release wrote, or what was made of it by updates
    /// alone, comes after that release, and the operation itself lies before what it releases. Operations run one after the
    /// other, so each reads what the last one wrote.
    fn atomic(&mut self, slot: Slot, access: Access, act: AtomicAct, order: AtomicOrder) -> Option<Race> {
        if act != AtomicAct::Store {
            let runner = &mut self.runners[usize::from(slot)];
            let to = if order.acquires() { &mut runner.clock } else { &mut runner.seen };
            self.shadow.left(access.addr).give_to(to);
        }
        let found = self.access(slot, access, Kind { writes: act != AtomicAct::Load, atomic: true });
        if act != AtomicAct::Load {
            self.leave(slot, access.addr, act, order);
        }
        found
    }

    fn leave(&mut self, slot: Slot, addr: usize, act: AtomicAct, order: AtomicOrder) {
        let left = self.shadow.left(addr);
        let runner = &mut self.runners[usize::from(slot)];
        let leaves = if order.releases() { Some(&runner.clock) } else { runner.fenced.as_ref() };
        match (leaves, act) {
            (Some(clock), AtomicAct::Update) => left.add(slot, clock),
            (Some(clock), _) => left.put(slot, clock),
            (None, AtomicAct::Update) => {}
            (None, _) => *left = Left::default(),
        }
        if order.releases() {
            self.tick(slot);
        }
    }

    fn fence(&mut self, slot: Slot, order: AtomicOrder) {
        let runner = &mut self.runners[usize::from(slot)];
        if order.acquires() {
            runner.clock.join(&runner.seen);
        }
        if order.releases() {
            runner.fenced = Some(runner.clock.clone());
            self.tick(slot);
        }
    }
}

#[cfg(test)]
mod tests;
