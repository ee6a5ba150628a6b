//! What questions for answers alone are paid from: so many at once, and one more in each `pace`.

use core::time::Duration;

use crate::time::Instant;

/// A token bucket that keeps one instant: when it would be full again.
#[derive(Debug)]
pub(super) struct Bucket {
    full_at: Instant,
    /// Time in which an empty bucket is filled.
    fills_in: Duration,
    pace: Duration,
    /// One was refused, and is to be had from then on.
    awaited: Option<Instant>,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(most: u16, pace: Duration) -> Self {
        let fills_in = pace.saturating_mul(most.max(1).into());
        Self { full_at: Instant::ZERO, fills_in, pace, awaited: None }
    }

    /// Takes one out; false if there is none, and then [`Bucket::awaited`] says when there will be.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let after = self.full_at.max(now) + self.pace;
        let lacks = (after - now).saturating_sub(self.fills_in);
        self.awaited = (!lacks.is_zero()).then(|| now + lacks);
        if lacks.is_zero() {
            self.full_at = after;
        }
        lacks.is_zero()
    }

    /// Nobody waits for one.
    pub(super) fn forget(&mut self) {
        self.awaited = None;
    }

    /// When the one that was refused last is to be had.
    pub(super) fn awaited(&self) -> Option<Instant> {
        self.awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_holds_and_then_one_in_each_pace() {
        let mut bucket = Bucket::new(200, Duration::from_millis(5));
        let at = |millis| Instant::ZERO + Duration::from_secs(9) + Duration::from_millis(millis);
        let taken = |bucket: &mut Bucket, now| (0..1_000).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, at(0)), 200);
        assert_eq!(bucket.awaited(), Some(at(5)));
        assert_eq!((1..=1_000).map(|millis| taken(&mut bucket, at(millis))).sum::<usize>(), 200);
        assert_eq!(taken(&mut bucket, at(60_000)), 200, "it holds no more");
        assert!(bucket.take(at(60_005)));
        assert_eq!(bucket.awaited(), None);
    }
}
