//! A stack of indices that any number of threads push and pop without a lock.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel::{AllocError, KVec};

/// Which of `0..len` are free. An index is in the stack at most once: whoever popped it may push it, once.
pub(crate) struct IndexStack {
    /// A [`Top`]: one exchange changes it and the number of those below, too.
    top: AtomicU64,
    below: KVec<AtomicU32>,
}

/// Bits of an index, and of a number of them.
const BITS: u32 = 18;
const MASK: u32 = (1 << BITS) - 1;
/// Below the last one.
const END: u32 = MASK;

/// What is on top, how many there are, and how often both have changed, so that a stack that looks the same is the same: it would take
/// 2^28 changes within one pop to mistake another one for it.
#[derive(Clone, Copy)]
struct Top(u64);

impl Top {
    fn index(self) -> u32 {
        self.0 as u32 & MASK
    }

    fn len(self) -> u32 {
        (self.0 >> BITS) as u32 & MASK
    }

    /// After one more change.
    fn changed(self, index: u32, len: u32) -> Self {
        let changes = (self.0 >> (2 * BITS)).wrapping_add(1);
        Self(changes << (2 * BITS) | u64::from(len & MASK) << BITS | u64::from(index & MASK))
    }
}

/// What [`IndexStack::take_all`] took: indices that are in no stack, each with the one below it where it was.
pub(crate) struct Taken {
    first: u32,
    len: u32,
}

impl Taken {
    pub(crate) const fn none() -> Self {
        Self { first: END, len: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

impl IndexStack {
    /// How many it has room for.
    pub(crate) const MOST: u32 = END;

    /// All of `0..len`, 0 on top; no more than [`IndexStack::MOST`].
    pub(crate) fn full(len: u32) -> Result<Self, AllocError> {
        let len = len.min(Self::MOST);
        let below = KVec::from_fn(len as usize, |index| {
            let next = index as u32 + 1;
            AtomicU32::new(if next == len { END } else { next })
        })?;
        let top = Top(0).changed(if len == 0 { END } else { 0 }, len);
        Ok(Self { top: AtomicU64::new(top.0), below })
    }

    /// How many are in it.
    pub(crate) fn len(&self) -> u32 {
        Top(self.top.load(Ordering::Acquire)).len()
    }

    pub(crate) fn pop(&self) -> Option<u32> {
        let mut top = Top(self.top.load(Ordering::Acquire));
        loop {
            let index = top.index();
            // Somebody may be popping or pushing `index` now; then this is stale, and the exchange fails.
            let below = self.below.get(index as usize)?.load(Ordering::Relaxed);
            let next = top.changed(below, top.len().wrapping_sub(1));
            match self.top.compare_exchange_weak(top.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(now) => top = Top(now),
            }
        }
    }

    /// Takes all there are. From then on nobody else looks at them: the top is another one, and has changed.
    pub(crate) fn take_all(&self) -> Taken {
        let mut top = Top(self.top.load(Ordering::Acquire));
        loop {
            if top.len() == 0 {
                return Taken::none();
            }
            let next = top.changed(END, 0);
            match self.top.compare_exchange_weak(top.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Taken { first: top.index(), len: top.len() },
                Err(now) => top = Top(now),
            }
        }
    }

    /// The next of those that were taken from this stack.
    #[inline]
    pub(crate) fn next(&self, taken: &mut Taken) -> Option<u32> {
        let index = taken.first;
        let below = self.below.get(index as usize)?;
        taken.first = below.load(Ordering::Relaxed);
        taken.len -= 1;
        Some(index)
    }

    pub(crate) fn push(&self, index: u32) {
        let Some(below) = self.below.get(index as usize) else { return };
        let mut top = Top(self.top.load(Ordering::Relaxed));
        loop {
            below.store(top.index(), Ordering::Relaxed);
            let next = top.changed(index, top.len() + 1);
            match self.top.compare_exchange_weak(top.0, next.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = Top(now),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::IndexStack;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn every_index_is_given_out_once() {
        let stack = IndexStack::full(3).unwrap();
        assert_eq!([stack.pop(), stack.pop(), stack.pop(), stack.pop()], [Some(0), Some(1), Some(2), None]);
        stack.push(1);
        assert_eq!((stack.len(), stack.pop(), stack.pop()), (1, Some(1), None));
    }

    #[test]
    fn all_are_taken_at_once_and_can_be_pushed_again() {
        let stack = IndexStack::full(3).unwrap();
        let mut taken = stack.take_all();
        assert_eq!((taken.len(), stack.len(), stack.pop()), (3, 0, None));
        assert_eq!(stack.next(&mut taken), Some(0));
        stack.push(0);
        assert_eq!(
            [stack.next(&mut taken), stack.next(&mut taken), stack.next(&mut taken)],
            [Some(1), Some(2), None]
        );
        assert_eq!((taken.len(), stack.take_all().len(), stack.take_all().len()), (0, 1, 0));
    }

    #[test]
    fn threads_never_hold_the_same_index() {
        const LEN: u32 = 4;
        let stack = IndexStack::full(LEN).unwrap();
        let holders = [const { AtomicU32::new(0) }; LEN as usize];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
                        let Some(index) = stack.pop() else { continue };
                        assert_eq!(holders[index as usize].fetch_add(1, Ordering::SeqCst), 0);
                        holders[index as usize].fetch_sub(1, Ordering::SeqCst);
                        stack.push(index);
                    }
                });
            }
        });
        assert_eq!(stack.len(), LEN);
    }
}
