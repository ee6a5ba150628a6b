//! How long whoever wants a link gone waits for what its stop has left to do.

use core::time::Duration;

use ipoib::Instant;

/// How long detach waits for what a stop has left to do before it says that the link is busy.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2000);
/// How long the deletion of a partition waits if all that is left are connections: for some seconds IBTL keeps the queue pair of one
/// that was closed.
const CONNECTIONS: Duration = Duration::from_secs(20);

/// That of the deletion of a partition.
pub(crate) struct Patience {
    begun: Instant,
    /// When nothing but connections was left last.
    only_connections: Instant,
}

impl Patience {
    pub(crate) fn begins(now: Instant) -> Self {
        Self { begun: now, only_connections: now }
    }

    /// Whether to wait on, if something is left: nothing but connections, or something else. That may come and go in between, as what the control
    /// thread does every few seconds and a question about a neighbour do.
    pub(crate) fn lasts(&mut self, now: Instant, are_connections: bool) -> bool {
        if are_connections {
            self.only_connections = now;
        }
        now < self.begun + CONNECTIONS && now < self.only_connections + PATIENCE
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
        (0..).map(|n| 10 * n).find(|now| !patience.lasts(at(*now), are_connections(*now))).unwrap_or(0)
    }

    #[test]
    fn connections_are_waited_for_longer_than_anything_else() {
        assert_eq!((ends(|_| true), ends(|_| false)), (20_000, 2_000));
    }

    #[test]
    fn what_is_left_beside_connections_for_a_moment_does_not_end_the_wait_for_them() {
        assert_eq!(ends(|now| now != 10_000), 20_000);
        assert_eq!(ends(|now| now % 2_000 < 100), 20_000);
        assert_eq!(ends(|now| now < 10_000), 9_990 + 2_000);
    }
}
