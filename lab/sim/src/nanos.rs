//! Time as the machine tells it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds since the machine's boot (or a span of that many).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Clock ticks per second of every host (`hz`, the kernel's default).
pub const HZ: u64 = 100;

impl Nanos {
    /// Boot, and the empty span.
    pub const ZERO: Self = Self(0);
    /// Later than anything: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);
    /// One clock tick.
    pub const TICK: Self = Self(1_000_000_000 / HZ);

    /// A span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// A span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// A span of `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// A span of `n` clock ticks; at least one tick, as the kernel's callouts have it.
    pub const fn from_ticks(n: i64) -> Self {
        let n = if n < 1 { 1 } else { n as u64 };
        Self(n.saturating_mul(Self::TICK.0))
    }

    /// Whole clock ticks, rounded down: `ddi_get_lbolt` for an instant.
    pub const fn ticks(self) -> i64 {
        (self.0 / Self::TICK.0) as i64
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `self - earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self.since(rhs)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn a_timeout_of_no_ticks_is_one_tick() {
        assert_eq!(Nanos::from_ticks(0), Nanos::TICK);
        assert_eq!(Nanos::from_ticks(-5), Nanos::TICK);
        assert_eq!(Nanos::from_ticks(3).ticks(), 3);
    }
}
