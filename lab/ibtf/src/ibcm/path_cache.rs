//! The last answers to questions for one path.

use std::collections::VecDeque;

use fakekernel::Nanos;

use super::path::{Path, Wanted};

/// Answers kept.
const ENTRIES: usize = 16;
/// How long an answer holds.
const LIFETIME: Nanos = Nanos::from_secs(60);

/// The last answers; the oldest goes first.
#[derive(Default)]
pub(super) struct PathCache(VecDeque<Entry>);

struct Entry {
    wanted: Wanted,
    path: Path,
    since: Nanos,
}

impl PathCache {
    /// The answer to the same question, if it still holds.
    pub fn get(&mut self, now: Nanos, wanted: &Wanted) -> Option<Path> {
        self.0.retain(|entry| now - entry.since < LIFETIME);
        self.0.iter().find(|entry| entry.wanted == *wanted).map(|entry| entry.path.clone())
    }

    pub fn put(&mut self, now: Nanos, wanted: Wanted, path: Path) {
        self.0.retain(|entry| entry.wanted != wanted);
        if self.0.len() == ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back(Entry { wanted, path, since: now });
    }

    /// Forgets all: the subnet is not what it was.
    pub fn clear(&mut self) {
        self.0.clear();
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
    fn an_answer_holds_for_a_minute() {
        let mut cache = PathCache::default();
        cache.put(Nanos::ZERO, to(1), path(1));
        assert_eq!(cache.get(Nanos::from_secs(59), &to(1)), Some(path(1)));
        assert_eq!(cache.get(Nanos::from_secs(59), &to(2)), None);
        assert_eq!(cache.get(Nanos::from_secs(60), &to(1)), None);
    }

    #[test]
    fn the_seventeenth_answer_drives_the_oldest_out() {
        let mut cache = PathCache::default();
        for guid in 1..=17 {
            cache.put(Nanos(guid), to(guid), path(guid));
        }
        assert_eq!(cache.get(Nanos(20), &to(1)), None);
        assert_eq!(cache.get(Nanos(20), &to(2)), Some(path(2)));
        cache.put(Nanos(21), to(2), path(3));
        assert_eq!(cache.get(Nanos(22), &to(2)), Some(path(3)), "a newer answer replaces the old one");
        cache.clear();
        assert_eq!(cache.get(Nanos(22), &to(2)), None);
    }
}
