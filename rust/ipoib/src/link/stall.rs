//! Sends that do not complete: when that is told, when another queue pair is tried, and when the queue pair is to blame.
//!
//! A fabric without credits and a queue pair that hangs look alike: the adapter takes sends and completes none. A second queue pair that
//! sends to the same neighbour tells them apart. If its send completes and those of the first one still do not, the fabric takes packets and
//! the first queue pair is to blame. If its send does not complete either, the fabric takes nothing, or the whole adapter hangs: another
//! queue pair would be no better, so everything waits, and nothing is lost.

use core::time::Duration;

use crate::time::Instant;

/// How long sends may still wait after another queue pair's has completed: credits came for that one just before.
pub const GRACE: Duration = Duration::from_secs(1);

/// What a look at a queue of sends has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing new.
    Nothing,
    /// No send has completed for the timeout. Tell, and [try](Look::Try) another queue pair.
    Begins,
    /// Send one packet from another queue pair; what was tried before is over.
    Try,
    /// Sends complete again, after so long. What was tried is over.
    Over(Duration),
    /// The queue pair is to blame. What was tried is over.
    Broken,
}

/// What is known of one queue of sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    /// Completions that had come when one was due, and since when none has.
    waits: Option<(u32, Instant)>,
    /// What another queue pair was tried for; `None` before it is told.
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug)]
enum Trial {
    /// Since when its send is awaited.
    Waits(Instant),
    /// When its send was seen to be complete.
    Completed(Instant),
}

impl Stall {
    /// Looks at a queue that has taken so many completions (modulo 2^32), or that awaits none (`None`). Has to look more often than `timeout`.
    pub fn look(&mut self, now: Instant, timeout: Duration, progress: Option<u32>) -> Look {
        let since = match (self.waits, progress) {
            (Some((before, since)), Some(progress)) if before == progress => since,
            (before, _) => {
                self.waits = progress.map(|progress| (progress, now));
                let told = self.trial.take().and(before);
                return told.map_or(Look::Nothing, |(_, since)| Look::Over(now - since));
            }
        };
        match self.trial {
            None if now - since >= timeout => {
                self.trial = Some(Trial::Waits(now));
                Look::Begins
            }
            Some(Trial::Waits(at)) if now - at >= timeout => {
                self.trial = Some(Trial::Waits(now));
                Look::Try
            }
            Some(Trial::Completed(at)) if now - at >= GRACE => {
                self.forget();
                Look::Broken
            }
            _ => Look::Nothing,
        }
    }

    /// The send of the other queue pair has completed.
    pub fn trial_completed(&mut self, now: Instant) {
        if let Some(trial @ Trial::Waits(_)) = &mut self.trial {
            *trial = Trial::Completed(now);
        }
    }

    /// Whether it was told that no send completes.
    pub fn is_told(&self) -> bool {
        self.trial.is_some()
    }

    /// The queue has another queue pair, or none.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn looks(stall: &mut Stall, seconds: impl IntoIterator<Item = u64>, progress: u32) -> [Look; 4] {
        let mut seconds = seconds.into_iter();
        core::array::from_fn(|_| {
            seconds.next().map_or(Look::Nothing, |at_s| stall.look(at(at_s), TIMEOUT, Some(progress)))
        })
    }

    #[test]
    fn fabric_without_credits_is_never_blamed_on_the_queue_pair() {
        let mut stall = Stall::default();
        assert_eq!(
            looks(&mut stall, [0, 10, 29, 30], 7),
            [Look::Nothing, Look::Nothing, Look::Nothing, Look::Begins]
        );
        assert_eq!(
            looks(&mut stall, [31, 59, 60, 61], 7),
            [Look::Nothing, Look::Nothing, Look::Try, Look::Nothing]
        );
        for minute in 2..100 {
            assert_eq!(stall.look(at(60 * minute), TIMEOUT, Some(7)), Look::Try);
        }
        assert!(stall.is_told());
        assert_eq!(stall.look(at(6_000), TIMEOUT, Some(8)), Look::Over(Duration::from_secs(6_000)));
        assert_eq!(
            looks(&mut stall, [6_001, 6_029, 6_030, 6_031], 8)[..3],
            [Look::Nothing, Look::Nothing, Look::Begins]
        );
    }

    #[test]
    fn queue_pair_is_to_blame_once_another_one_sends() {
        let mut stall = Stall::default();
        assert_eq!(looks(&mut stall, [0, 30, 60], 0)[1..3], [Look::Begins, Look::Try]);
        stall.trial_completed(at(61));
        assert_eq!(
            looks(&mut stall, [61, 62, 63], 0),
            [Look::Nothing, Look::Broken, Look::Nothing, Look::Nothing]
        );
    }

    #[test]
    fn credits_that_come_for_the_other_queue_pair_first_are_no_blame() {
        let mut stall = Stall::default();
        looks(&mut stall, [0, 30], 0);
        stall.trial_completed(at(31));
        assert_eq!(stall.look(at(31), TIMEOUT, Some(0)), Look::Nothing);
        assert_eq!(stall.look(at(32), TIMEOUT, None), Look::Over(Duration::from_secs(32)));
        assert!(!stall.is_told());
    }

    #[test]
    fn what_another_queue_pair_completes_before_it_is_tried_says_nothing() {
        let mut stall = Stall::default();
        stall.look(at(0), TIMEOUT, Some(0));
        stall.trial_completed(at(1));
        assert_eq!(stall.look(at(29), TIMEOUT, Some(0)), Look::Nothing);
        assert_eq!(stall.look(at(30), TIMEOUT, Some(0)), Look::Begins);
        stall.forget();
        assert_eq!(stall.look(at(90), TIMEOUT, Some(0)), Look::Nothing);
    }
}
