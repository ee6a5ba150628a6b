//! [`PoolList`]: pools on their way to being closed.

use crate::buffer::BufferPool;

/// Pools that wait to be [closed](BufferPool::close). A pool is put in it without any memory.
#[derive(Default)]
pub struct PoolList {
    first: Option<BufferPool>,
    len: usize,
}

impl PoolList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many are like this. **Any** context.
    pub fn count(&self, is_it: impl Fn(&BufferPool) -> bool) -> usize {
        core::iter::successors(self.first.as_ref(), |pool| pool.next().as_ref())
            .filter(|pool| is_it(pool))
            .count()
    }

    /// Adds one. **Any** context.
    pub fn push(&mut self, mut pool: BufferPool) {
        *pool.next_mut() = self.first.take();
        self.first = Some(pool);
        self.len += 1;
    }

    /// How many buffers of them are lent to STREAMS. Looks at each.
    pub fn lent(&self) -> u32 {
        core::iter::successors(self.first.as_ref(), |pool| pool.next().as_ref()).map(BufferPool::lent).sum()
    }

    /// Takes the one out that was added last. **Any** context.
    pub fn pop(&mut self) -> Option<BufferPool> {
        let mut pool = self.first.take()?;
        self.first = pool.next_mut().take();
        self.len -= 1;
        Some(pool)
    }
}

impl Drop for PoolList {
    fn drop(&mut self) {
        // One after the other: each would drop the next on the same stack.
        while self.pop().is_some() {}
    }
}
