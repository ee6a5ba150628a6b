//! How long whoever wants a link gone waits for what its stop has left to do.

use core::time::Duration;

use ipoib::Instant;

/// How long detach waits for what a stop has left to do before it says that the link is busy.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2000);
/// How long it waits if all that is left are connections, or if one group after the other is left: for some seconds IBTL keeps the queue pair of a connection
/// that was closed, and an SA that answers is worth waiting for.
const LONGEST: Duration = Duration::from_secs(20);

/// That of a detach and of the deletion of a partition.
pub(crate) struct Patience {
    begun: Instant,
    /// When nothing but connections was left last, or a group was left.
    progress: Instant,
    /// The fewest groups that were to be left so far.
    groups: usize,
}

impl Patience {
    pub(crate) fn begins(now: Instant) -> Self {
        Self { begun: now, progress: now, groups: usize::MAX }
    }

    /// Whether to wait on, if something is left: nothing but connections, or something else, so many groups among it. The former may come and go in between, as
    /// what the control thread does every few seconds and a question about a neighbour do.
    pub(crate) fn lasts(&mut self, now: Instant, are_connections: bool, groups: usize) -> bool {
        if are_connections || groups < self.groups {
            self.progress = now;
        }
        self.groups = self.groups.min(groups);
        now < self.begun + LONGEST && now < self.progress + PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::Patience;
    use core::time::Duration;
    use ipoib::Instant;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// When it ends, if it is asked every ten milliseconds.
    fn ends(are_connections: impl Fn(u64) -> bool) -> u64 {
        let mut patience = Patience::begins(at(0));
        (0..).map(|n| 10 * n).find(|now| !patience.lasts(at(*now), are_connections(*now), 0)).unwrap_or(0)
    }

    #[test]
    fn connections_are_waited_for_longer_than_anything_else() {
        assert_eq!((ends(|_| true), ends(|_| false)), (20_000, 2_000));
    }

    #[test]
    fn groups_that_are_left_one_after_the_other_are_waited_for() {
        let mut patience = Patience::begins(at(0));
        let groups = |n: u64| 100_usize.saturating_sub(n as usize / 150);
        let ends = (0..).map(|n| 10 * n).find(|now| !patience.lasts(at(*now), false, groups(*now)));
        assert_eq!(ends, Some(15_000 + 2_000), "the last one was left after 15 s");
    }

    #[test]
    fn what_is_left_beside_connections_for_a_moment_does_not_end_the_wait_for_them() {
        assert_eq!(ends(|now| now != 10_000), 20_000);
        assert_eq!(ends(|now| now % 2_000 < 100), 20_000);
        assert_eq!(ends(|now| now < 10_000), 9_990 + 2_000);
    }
}
