//! How often the modules of each host called each function of their kernel meanwhile: the calls that an event can wait for.

use std::collections::BTreeMap;

use fakekernel::Site;
use serde::{Deserialize, Serialize};

use super::hand::Hand;
use crate::reached::hash;

/// Calls by function.
pub type Calls = BTreeMap<String, u64>;

/// A place in a module that a call came from. As text: the function, which of the host's calls of it this was, and a number for the place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place {
    pub call: String,
    /// Since the timeline began: the first is 1.
    pub pass: u64,
    pub place: u32,
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        format!("{} {} {:x}", place.call, place.pass, place.place)
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.split(' ');
        let place = (|| {
            let (call, pass, place) = (words.next()?, words.next()?, words.next()?);
            let (pass, place) = (pass.parse().ok()?, u32::from_str_radix(place, 16).ok()?);
            Some(Self { call: call.to_owned(), pass, place })
        })();
        place.ok_or_else(|| format!("expected FUNCTION NUMBER PLACE, not {text:?}"))
    }
}

/// What had been called when a timeline began, by host.
pub struct Tally(Vec<Calls>);

impl Tally {
    pub fn begin(hands: &[Hand]) -> Self {
        hands.iter().for_each(|hand| hand.kernel.note_sites());
        Self(hands.iter().map(|hand| hand.kernel.calls()).collect())
    }

    /// The places that calls came from since, by the host's name.
    pub fn places(&self, hands: &[Hand]) -> BTreeMap<String, Vec<Place>> {
        let of = |(hand, before): (&Hand, &Calls)| {
            let place = |site: Site| {
                let pass = site.pass.checked_sub(before.get(&site.call).copied().unwrap_or(0))?;
                let place = hash(&["place", site.module, &site.call, &site.offset.to_string()]);
                Some(Place { call: site.call, pass, place })
            };
            (hand.name.clone(), hand.kernel.noted_sites().into_iter().filter_map(place).collect())
        };
        hands.iter().zip(&self.0).map(of).collect()
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

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn a_place_survives_its_text_form_and_a_text_that_is_none_is_refused() {
        let place = Place { call: "mutex_enter".to_owned(), pass: 12, place: 0xab };
        assert_eq!(String::from(place.clone()), "mutex_enter 12 ab");
        assert_eq!(Place::try_from("mutex_enter 12 ab".to_owned()), Ok(place));
        assert!(Place::try_from("mutex_enter 12".to_owned()).is_err());
    }
}
