//! Scenarios whose runs reached something that no run before them had: what others are made of.
//!
//! A run tells what it has reached ([`Reached`]). One that reached something new is kept, with what its calls were; and of those that are
//! kept the ones are taken more often that have reached what few others have.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::generate::Told;
use crate::reached::Reached;
use crate::scenario::Scenario;

/// The most that are kept.
const MOST: usize = 256;
/// Of so many that are drawn the rarest is taken.
const DRAWN: usize = 4;

/// A scenario that was run.
#[derive(Debug)]
pub struct Parent {
    pub scenario: Scenario,
    pub told: Told,
}

/// One that is kept.
#[derive(Debug)]
struct Kept {
    parent: Arc<Parent>,
    /// What it was the first to reach.
    news: Vec<u32>,
    /// On which objects it was run: on others its calls are other ones.
    objects: PathBuf,
    /// How often something was made of it.
    taken: u32,
}

/// Those of a campaign.
#[derive(Debug, Default)]
pub struct Corpus {
    /// By how many runs each was reached.
    times: HashMap<u32, u32>,
    kept: Vec<Kept>,
}

impl Corpus {
    /// A run on these objects has reached this: whether something of it is new.
    pub fn note(&mut self, reached: &Reached, parent: &Arc<Parent>, objects: &Path) -> bool {
        let mut news = Vec::new();
        for number in &reached.0 {
            let times = self.times.entry(*number).or_default();
            *times = times.saturating_add(1);
            if *times == 1 {
                news.push(*number);
            }
        }
        if news.is_empty() {
            return false;
        }
        if !parent.told.is_empty() {
            self.kept.push(Kept { parent: parent.clone(), news, objects: objects.to_owned(), taken: 0 });
        }
        if self.kept.len() > MOST {
            self.drop_one();
        }
        true
    }

    /// Different things that were reached.
    pub fn reached(&self) -> usize {
        self.times.len()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// One of those that were run on these objects.
    pub fn take(&mut self, objects: &Path, rng: &mut ChaCha8Rng) -> Option<Arc<Parent>> {
        let of: Vec<usize> = (0..self.kept.len()).filter(|n| self.kept[*n].objects == objects).collect();
        let drawn = (0..DRAWN).filter_map(|_| of.get(rng.random_range(0..of.len().max(1))).copied());
        let best = drawn.max_by(|a, b| self.worth(*a).total_cmp(&self.worth(*b)))?;
        self.kept[best].taken += 1;
        Some(self.kept[best].parent.clone())
    }

    /// Any of them: for a part of its timeline.
    pub fn any(&self, rng: &mut ChaCha8Rng) -> Option<Arc<Parent>> {
        let kept = self.kept.get(rng.random_range(0..self.kept.len().max(1)))?;
        Some(kept.parent.clone())
    }

    /// How rare what it reached has stayed, less of one that was taken before.
    fn worth(&self, n: usize) -> f64 {
        let kept = &self.kept[n];
        let times = |number: &u32| f64::from(self.times.get(number).copied().unwrap_or(1));
        kept.news.iter().map(|number| times(number).recip()).sum::<f64>() / f64::from(1 + kept.taken)
    }

    fn drop_one(&mut self) {
        let least = (0..self.kept.len()).min_by(|a, b| self.worth(*a).total_cmp(&self.worth(*b)));
        least.map(|n| self.kept.remove(n));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::{Corpus, MOST, Parent};
    use crate::campaign::Search;
    use crate::campaign::generate::Told;
    use crate::reached::Reached;

    fn parent(seed: u64) -> Arc<Parent> {
        let mut scenario = Search::Schedules.scenario(1, 1);
        scenario.seed = seed;
        Arc::new(Parent { scenario, told: Told::for_tests() })
    }

    fn ours() -> &'static Path {
        Path::new("kernel")
    }

    fn reached(numbers: impl IntoIterator<Item = u32>) -> Reached {
        Reached(numbers.into_iter().collect::<BTreeSet<u32>>())
    }

    #[test]
    fn a_run_that_reached_nothing_new_is_not_kept() {
        let mut corpus = Corpus::default();
        assert!(corpus.note(&reached([1, 2]), &parent(1), ours()));
        assert!(!corpus.note(&reached([2, 1]), &parent(2), ours()));
        assert!(corpus.note(&reached([1, 3]), &parent(3), ours()));
        assert_eq!((corpus.len(), corpus.reached()), (2, 3));
    }

    #[test]
    fn what_reached_rare_things_is_taken_more_often_and_only_for_its_own_objects() {
        let mut corpus = Corpus::default();
        corpus.note(&reached([1]), &parent(1), ours());
        for _ in 0..100 {
            corpus.note(&reached([1]), &parent(2), ours());
        }
        corpus.note(&reached([2, 3]), &parent(3), ours());
        corpus.note(&reached([4]), &parent(4), Path::new("races"));
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let taken: Vec<u64> =
            (0..40).filter_map(|_| Some(corpus.take(ours(), &mut rng)?.scenario.seed)).collect();
        let rare = taken.iter().filter(|seed| **seed == 3).count();
        assert_eq!(taken.len(), 40);
        assert!(taken.iter().all(|seed| [1, 3].contains(seed)) && rare > 30, "{taken:?}");
        assert!(corpus.take(Path::new("atomics"), &mut rng).is_none());
    }

    #[test]
    fn a_full_corpus_lets_the_commonest_go() {
        let mut corpus = Corpus::default();
        corpus.note(&reached([0]), &parent(0), ours());
        for _ in 0..10 {
            corpus.note(&reached([0]), &parent(0), ours());
        }
        for n in 1..=MOST as u32 {
            corpus.note(&reached([n]), &parent(n.into()), ours());
        }
        assert_eq!(corpus.len(), MOST);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let taken: Vec<u64> =
            (0..4_000).filter_map(|_| Some(corpus.take(ours(), &mut rng)?.scenario.seed)).collect();
        assert!(!taken.contains(&0));
    }
}
