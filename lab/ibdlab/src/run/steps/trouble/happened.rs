//! What became of a timeline's events: when each really took place, and what it met.

use std::collections::BTreeMap;

use fakekernel::Nanos;
use serde::{Deserialize, Serialize};

/// An event that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Happened {
    /// Its place in the step's list of events, from 0.
    pub event: usize,
    /// Microseconds of machine time since the step began: when it began, and when it was done. What takes no time ends as it begins.
    pub from_us: u64,
    pub until_us: u64,
}

/// Notes what takes place.
#[derive(Debug)]
pub struct Notes {
    begun: Nanos,
    happened: BTreeMap<usize, Happened>,
}

impl Notes {
    pub fn new(begun: Nanos) -> Self {
        Self { begun, happened: BTreeMap::new() }
    }

    /// An event took place from one instant to another.
    pub fn add(&mut self, event: usize, from: Nanos, until: Nanos) {
        let [from_us, until_us] = [from, until].map(|at| at.since(self.begun).0 / 1_000);
        self.happened.insert(event, Happened { event, from_us, until_us });
    }

    /// It came to nothing: no call failed, no request was met.
    pub fn take_back(&mut self, event: usize) {
        self.happened.remove(&event);
    }

    /// In the order of the list.
    pub fn all(self) -> Vec<Happened> {
        self.happened.into_values().collect()
    }
}
