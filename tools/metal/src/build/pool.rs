//! Work on all processors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Error, Result, anyhow};

/// After so many failures nothing new is begun: who has broken a header need not see it 1,300 times.
const ENOUGH: usize = 5;

/// Does `work` on each of `items`, on as many threads as there are processors; the results are in the order of the items.
///
/// # Errors
///
/// What failed, one below the other.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let failures: Mutex<Vec<Error>> = Mutex::new(Vec::new());
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            match work(item) {
                Ok(result) => results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result)),
                Err(error) => {
                    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                    failures.push(error);
                    stop.store(failures.len() >= ENOUGH, Ordering::Relaxed);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failures.is_empty() {
        let said: Vec<String> = failures.iter().map(|error| format!("{error:#}")).collect();
        return Err(anyhow!(said.join("\n")));
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn results_come_in_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(each(&items, |n| Ok(n * 2)).unwrap(), (0..100).map(|n| n * 2).collect::<Vec<_>>());
    }

    #[test]
    fn every_failure_is_told_until_there_are_enough() {
        let some = |n: &u32| if n % 10 == 3 { bail!("item {n}") } else { Ok(()) };
        let error = each(&(0..20).collect::<Vec<_>>(), some).unwrap_err().to_string();
        assert!(error.contains("item 3") && error.contains("item 13"), "{error}");
        let error =
            each(&(0..1000).collect::<Vec<_>>(), |n: &u32| bail!("item {n}") as Result<()>).unwrap_err();
        assert!(error.to_string().lines().count() < 100);
    }
}
