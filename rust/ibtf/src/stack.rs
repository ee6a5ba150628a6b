//! A stack of indices that any number of threads push and pop without a lock.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel::{AllocError, KVec};

/// Which of `0..len` are free. An index is in the stack at most once: whoever popped it may push it, once.
pub(crate) struct IndexStack {
    /// Top index in the low half (`END` for none); in the high half a count of changes, so that a stack that looks the
    /// same is the same.
    top: AtomicU64,
    below: KVec<AtomicU32>,
    len: AtomicU32,
}

const END: u32 = u32::MAX;

impl IndexStack {
    /// All of `0..len`, 0 on top.
    pub(crate) fn full(len: u32) -> Result<Self, AllocError> {
        let below = KVec::from_fn(len as usize, |index| {
            let next = index as u32 + 1;
            AtomicU32::new(if next == len { END } else { next })
        })?;
        let top = AtomicU64::new(u64::from(if len == 0 { END } else { 0 }));
        Ok(Self { top, below, len: AtomicU32::new(len) })
    }

    /// How many are in it. Never more than there are at some moment between any push and the next pop.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn pop(&self) -> Option<u32> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let index = top as u32;
            // Somebody may be popping or pushing `index` now; then this is stale, and the exchange fails.
            let below = self.below.get(index as usize)?.load(Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                changed(top, below),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.len.fetch_sub(1, Ordering::Relaxed);
                    return Some(index);
                }
                Err(now) => top = now,
            }
        }
    }

    pub(crate) fn push(&self, index: u32) {
        let Some(below) = self.below.get(index as usize) else { return };
        // Counted first, so that a pop never finds the count at zero.
        self.len.fetch_add(1, Ordering::Release);
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            below.store(top as u32, Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                changed(top, index),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

fn changed(top: u64, index: u32) -> u64 {
    (top >> 32).wrapping_add(1) << 32 | u64::from(index)
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
    fn threads_never_hold_the_same_index() {
        const LEN: u32 = 4;
        let stack = IndexStack::full(LEN).unwrap();
        let holders = [const { AtomicU32::new(0) }; LEN as usize];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
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
