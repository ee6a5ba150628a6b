//! Time since boot.

use core::fmt;
use core::ops::{Add, Sub};

use illumos_sys_hdrs as sys;

/// A moment: nanoseconds since boot (`gethrtime(9F)`). Monotonic, and no relation to the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Now. **Any** context.
    pub fn now() -> Self {
        // SAFETY: reads a clock.
        let nanos = unsafe { sys::gethrtime() };
        Self(u64::try_from(nanos).unwrap_or(0))
    }

    /// The moment `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier`; zero if it is not.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

/// A span of time in nanoseconds.
///
/// Not `core::time::Duration`, whose 12 bytes and 128-bit divisions a kernel module can do without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// In clock ticks, rounded up so that waiting for them is never shorter than `self` (`drv_usectohz(9F)`).
    pub(crate) fn ticks_rounded_up(self) -> sys::clock_t {
        let micros = sys::clock_t::try_from(self.0.div_ceil(1_000)).unwrap_or(sys::clock_t::MAX / 2);
        // SAFETY: plain arithmetic on the clock rate.
        unsafe { sys::drv_usectohz(micros) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.as_millis())
    }
}

/// Sleeps for at least `span` (`delay(9F)`). **May block.**
pub fn sleep(span: Duration) {
    let ticks = span.ticks_rounded_up().max(1);
    // SAFETY: by this function's contract the thread may block.
    unsafe { sys::delay(ticks) };
}
