//! Statistics counters.

use core::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows.
///
/// Give every queue its own and add them up when somebody asks ([`sum`]): a counter shared by all processors costs
/// more than the packet. Not ordered with anything else. **Any** context.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// `n` more, by the only one who writes it now: something that the caller holds, or is, keeps others away. Nothing is locked for it.
    pub fn add_alone(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that anybody may change to another one. Not ordered with anything else. **Any** context.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is this from now on.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Not less than this from now on; what it is then.
    pub fn raise(&self, value: u64) -> u64 {
        self.0.fetch_max(value, Ordering::Relaxed).max(value)
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sum over several counters; each is read once, so the sum may be of slightly different moments.
pub fn sum<'a>(counters: impl IntoIterator<Item = &'a Counter>) -> u64 {
    counters.into_iter().fold(0, |total, counter| total.wrapping_add(counter.get()))
}

/// A value on a cache line of its own, for per-queue cells kept in one array.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CacheLine<T>(pub T);

impl<T> core::ops::Deref for CacheLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheLine, Counter, sum};

    #[test]
    fn queues_add_up() {
        let cells = [CacheLine(Counter::new()), CacheLine(Counter::new())];
        cells[0].add(40);
        cells[1].increment();
        cells[1].increment();
        assert_eq!(sum(cells.iter().map(|cell| &cell.0)), 42);
    }
}
