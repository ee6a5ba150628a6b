//! The answers to questions for one path that ibcm keeps, and when it forgets them.

use fakekernel::Nanos;

use super::path::{Path, Wanted};

/// Answers that there is room for.
const ENTRIES: usize = 16;
/// A timer of ibcm has it forget all once in this time.
const PERIOD: Nanos = Nanos::from_secs(60);

/// The first answers since all were forgotten. What is to be forgotten is forgotten by the next question, and so is an answer to an earlier one that
/// comes before that.
#[derive(Default)]
pub(super) struct PathCache {
    entries: Vec<Entry>,
    invalid: bool,
    /// Which period the last question was asked in.
    period: u64,
}

struct Entry {
    wanted: Wanted,
    path: Path,
}

impl PathCache {
    /// The answer to the same question, if it still holds.
    pub fn get(&mut self, now: Nanos, wanted: &Wanted) -> Option<Path> {
        let before = core::mem::replace(&mut self.period, now.0 / PERIOD.0);
        if core::mem::take(&mut self.invalid) || before != self.period {
            self.entries.clear();
            return None;
        }
        self.entries.iter().find(|entry| entry.wanted == *wanted).map(|entry| entry.path.clone())
    }

    /// Keeps an answer if there is room, and none to the same question.
    pub fn put(&mut self, wanted: Wanted, path: Path) {
        let known = self.entries.iter().any(|entry| entry.wanted == wanted);
        if !known && self.entries.len() < ENTRIES {
            self.entries.push(Entry { wanted, path });
        }
    }

    /// Has the next question forget all: the subnet is not what it was.
    pub fn invalidate(&mut self) {
        self.invalid = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(guid: u64) -> Wanted {
        Wanted { dgids: vec![fabric::Gid { prefix: fabric::Gid::DEFAULT_PREFIX, guid }], ..Wanted::default() }
    }

    fn path(guid: u64) -> Path {
        Path { hca: guid, ..Path::default() }
    }

    #[test]
    fn an_answer_holds_until_the_minute_is_over() {
        let mut cache = PathCache::default();
        cache.put(to(1), path(1));
        assert_eq!(cache.get(Nanos::from_secs(59), &to(1)), Some(path(1)));
        assert_eq!(cache.get(Nanos::from_secs(59), &to(2)), None);
        assert_eq!(cache.get(Nanos::from_secs(60), &to(1)), None);
    }

    #[test]
    fn sixteen_answers_are_kept_and_no_other_takes_their_place() {
        let mut cache = PathCache::default();
        for guid in 1..=17 {
            cache.put(to(guid), path(guid));
        }
        cache.put(to(16), path(99));
        assert_eq!(cache.get(Nanos::ZERO, &to(16)), Some(path(16)));
        assert_eq!(cache.get(Nanos::ZERO, &to(17)), None);
    }

    #[test]
    fn an_answer_that_comes_after_the_purge_is_forgotten_by_the_next_question() {
        let mut cache = PathCache::default();
        cache.invalidate();
        cache.put(to(1), path(1));
        assert_eq!(cache.get(Nanos::ZERO, &to(1)), None);
        cache.put(to(1), path(2));
        assert_eq!(cache.get(Nanos::ZERO, &to(1)), Some(path(2)));
    }

    #[test]
    fn an_answer_that_comes_after_that_question_as_well_is_kept_although_it_is_out_of_date() {
        let mut cache = PathCache::default();
        cache.invalidate();
        assert_eq!(cache.get(Nanos::ZERO, &to(2)), None);
        cache.put(to(1), path(1));
        cache.put(to(1), path(2));
        assert_eq!(cache.get(Nanos::ZERO, &to(1)), Some(path(1)));
    }
}
