//! Runs scenarios of `tests/data` under many seeds.
#![allow(dead_code)] // Each test file uses its part.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ibdlab::run::{Options, run};
use ibdlab::scenario::{Scenario, load};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A scenario of the tests.
pub fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

/// The modules of the build, or those in `PROTO`: with a fault in them (`tools/search-strength.sh --seeds`).
pub fn proto() -> PathBuf {
    std::env::var_os("PROTO").map_or_else(|| root().join("proto/kernel"), PathBuf::from)
}

/// Virtual time, with the modules of the build.
pub fn options(seed: u64) -> Options {
    Options::new(seed, proto())
}

/// How many seeds of so many: a twentieth, or all if `WHOLE` is set, as `make nightly` does.
pub fn some_of(all: u64) -> u64 {
    if std::env::var_os("WHOLE").is_some() { all } else { all.div_ceil(20) }
}

/// Runs seeds `1..=count`; the failures, each with what it said.
pub fn failures(file: &str, count: u64) -> Vec<String> {
    failures_of(file, count, |_, _| {})
}

/// As [`failures`] of a scenario that is changed first, by its seed.
pub fn failures_of(file: &str, count: u64, change: fn(&mut Scenario, u64)) -> Vec<String> {
    let file = data(file);
    let next = AtomicU64::new(1);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > count {
                        return;
                    }
                    if let Err(why) = one_of(&file, seed, change) {
                        failures
                            .lock()
                            .expect("no worker panics with it")
                            .push(format!("seed {seed}: {why}"));
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no worker panics with it")
}

pub fn one(file: &Path, seed: u64) -> Result<(), String> {
    one_of(file, seed, |_, _| {})
}

fn one_of(file: &Path, seed: u64, change: fn(&mut Scenario, u64)) -> Result<(), String> {
    let mut scenario = load(file).map_err(|error| error.to_string())?;
    change(&mut scenario, seed);
    let report = run(scenario, options(seed), |_| {}).map_err(|error| format!("{error:#}"))?;
    report
        .steps
        .iter()
        .find(|step| !step.ok)
        .map_or(Ok(()), |step| Err(format!("{}: {}", step.step, step.text)))
}
