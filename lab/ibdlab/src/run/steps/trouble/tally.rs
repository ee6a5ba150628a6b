//! How often the modules of each host called each function of their kernel meanwhile: the calls that an event can wait for.

use std::collections::BTreeMap;

use super::hand::Hand;

/// Calls by function.
pub type Calls = BTreeMap<String, u64>;

/// What had been called when a timeline began, by host.
pub struct Tally(Vec<Calls>);

impl Tally {
    pub fn begin(hands: &[Hand]) -> Self {
        Self(hands.iter().map(|hand| hand.kernel.calls()).collect())
    }

    /// What has been called since, by the host's name: no function that was not.
    pub fn end(self, hands: &[Hand]) -> BTreeMap<String, Calls> {
        let since = |(hand, before): (&Hand, Calls)| (hand.name.clone(), since(hand.kernel.calls(), &before));
        hands.iter().zip(self.0).map(since).collect()
    }
}

fn since(mut now: Calls, before: &Calls) -> Calls {
    for (function, times) in before {
        if let Some(calls) = now.get_mut(function) {
            *calls -= times;
        }
    }
    now.retain(|_, times| *times > 0);
    now
}
