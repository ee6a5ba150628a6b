//! Time that does not go back.

use core::sync::atomic::{AtomicU64, Ordering};

/// The latest time that was told.
///
/// The kernel's own clock goes back by up to a second on several processors in QEMU: what a processor reads there is sometimes the time
/// at the last tick together with the cycles since the one before.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// One that has told nothing.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// That time, or the latest that was told before if that is later.
    pub fn tell(&self, time: u64) -> u64 {
        self.0.fetch_max(time, Ordering::Relaxed).max(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_tells_the_same_time_until_it_is_there_again() {
        let clock = Clock::new();
        let told = [5, 1_000_000, 13_785, 999_999, 1_000_001].map(|time| clock.tell(time));
        assert_eq!(told, [5, 1_000_000, 1_000_000, 1_000_000, 1_000_001]);
    }
}
