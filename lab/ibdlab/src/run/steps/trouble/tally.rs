//! How often the modules of each host called each function of their kernel meanwhile: the calls that an event can wait for.

use std::collections::BTreeMap;

use fakekernel::Site;
use serde::{Deserialize, Serialize};

use super::hand::Hand;
use crate::reached::hash;
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Claim, Event};

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

/// By which a driver asks the subnet administrator.
const QUESTIONS: [&str; 4] = ["ibt_join_mcg", "ibt_leave_mcg", "ibt_query_mcg", "ibt_get_paths"];

/// The host whose modules have asked the subnet administrator most, and how often.
pub fn most_curious(calls: &BTreeMap<String, Calls>) -> (&str, u64) {
    let questions = |calls: &Calls| QUESTIONS.iter().filter_map(|function| calls.get(*function)).sum::<u64>();
    let asked = calls.iter().map(|(host, calls)| (host.as_str(), questions(calls)));
    asked.max_by_key(|(_, questions)| *questions).unwrap_or_default()
}

/// The most that a host may ask beside what all hosts do, for the groups that it joins in a step: whatever else happens, it may have to join each
/// again, and for each join of a group there is a leave in the end, most of which IBTF only counts.
pub fn questions_of_groups(step: &TroubleStep, host: &str) -> u64 {
    let joins = |event: &Event| matches!(event, Event::GroupJoin(of) if of.host.get_ref() == host);
    let of_groups = |event: &Event| matches!(event, Event::GroupJoin(_) | Event::GroupLeave(_));
    let count =
        |wanted: &dyn Fn(&Event) -> bool| step.event.iter().filter(|timed| wanted(&timed.event)).count();
    let (groups, others) = (count(&joins), step.event.len() - count(&of_groups));
    (2 * groups * (1 + others)) as u64
}

/// Questions for answers to strangers that a link may ask at once, and then in each second.
const FOR_STRANGERS: u64 = 200;

/// The most that a host may ask beside that for strangers at absent ports: each time that a link is made anew it may ask as much
/// as the first one.
pub fn questions_for_strangers(step: &TroubleStep, host: &str) -> u64 {
    let is_of_host = |event: &Event| event.host().is_some_and(|named| named.get_ref() == host);
    let events = || step.event.iter().map(|timed| &timed.event).filter(|event| is_of_host(event));
    let is_flood =
        |event: &Event| matches!(event, Event::Strangers(flood) if flood.claim == Claim::AbsentPorts);
    let makes_anew =
        |event: &&Event| matches!(event, Event::Load(_) | Event::HcaAdded(_) | Event::PartCreated(_));
    if events().any(is_flood) { FOR_STRANGERS * (1 + events().filter(makes_anew).count() as u64) } else { 0 }
}

/// What a link asks each time that it is opened and closed: for its group, to join it, to leave it, and once for a neighbour.
const OF_A_VISIT: u64 = 4;

/// The most that a host may ask beside that because another client of its link opens and closes it all the time.
pub fn questions_of_visits(step: &TroubleStep, host: &str) -> u64 {
    let visits = step.event.iter().filter_map(|timed| match &timed.event {
        Event::LinkVisited(visits) if visits.host.get_ref() == host => Some(visits),
        _ => None,
    });
    visits.map(|visits| OF_A_VISIT * (visits.for_ms * 1_000 / (2 * visits.every_us).max(1))).sum()
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
    use std::collections::BTreeMap;

    use super::{Calls, Place, most_curious, questions_for_strangers, questions_of_groups};
    use crate::scenario::TroubleStep;

    #[test]
    fn a_place_survives_its_text_form_and_a_text_that_is_none_is_refused() {
        let place = Place { call: "mutex_enter".to_owned(), pass: 12, place: 0xab };
        assert_eq!(String::from(place.clone()), "mutex_enter 12 ab");
        assert_eq!(Place::try_from("mutex_enter 12 ab".to_owned()), Ok(place));
        assert!(Place::try_from("mutex_enter 12".to_owned()).is_err());
    }

    #[test]
    fn who_asks_most_is_known_by_name_whatever_else_others_call() {
        let host = |name: &str, calls: &[(&str, u64)]| {
            let calls: Calls =
                calls.iter().map(|(function, times)| ((*function).to_owned(), *times)).collect();
            (name.to_owned(), calls)
        };
        let calls = BTreeMap::from([
            host("alice", &[("mutex_enter", 9_000), ("ibt_join_mcg", 2)]),
            host(
                "bob",
                &[("ibt_join_mcg", 3), ("ibt_leave_mcg", 1), ("ibt_query_mcg", 1), ("ibt_get_paths", 2)],
            ),
        ]);
        assert_eq!(most_curious(&calls), ("bob", 7));
        assert_eq!(most_curious(&BTreeMap::new()), ("", 0));
    }

    #[test]
    fn a_host_in_forty_groups_may_ask_about_each_whenever_something_else_happens() {
        let event = |kind: &str| format!("[[event]]\nat_us = 0\n[event.{kind}]\n");
        let join = format!("{}host = \"bob\"\ngroup = \"239.1.1.1\"\n", event("group-join"));
        let leave = join.replace("join", "leave");
        let quiet = format!(
            "within_ms = 1\nsettle_ms = 1\necho_every_us = 1\n{}",
            join.repeat(40) + &leave.repeat(40)
        );
        let step: TroubleStep = toml::from_str(&quiet).unwrap();
        assert_eq!((questions_of_groups(&step, "bob"), questions_of_groups(&step, "alice")), (80, 0));
        let step: TroubleStep = toml::from_str(&(quiet + &event("registrations-lost").repeat(4))).unwrap();
        assert_eq!((questions_of_groups(&step, "bob"), questions_of_groups(&step, "alice")), (400, 0));
    }

    #[test]
    fn each_link_that_is_made_anew_may_ask_about_strangers_again() {
        let quiet = "within_ms = 1\nsettle_ms = 1\necho_every_us = 1\n";
        let flood = "[[event]]\nat_us = 0\n[event.strangers]\nhost = \"bob\"\nclaim = \"absent-ports\"\nper_second = 1\nfor_ms = 1\n";
        let load = "[[event]]\nat_us = 0\n[event.load]\nhost = \"bob\"\n";
        let most = |text: &str, host: &str| {
            let step: TroubleStep = toml::from_str(&(quiet.to_owned() + text)).expect("a timeline");
            questions_for_strangers(&step, host)
        };
        assert_eq!(most(&(flood.to_owned() + load + load), "bob"), 600);
        assert_eq!((most(&(flood.to_owned() + load), "alice"), most(load, "bob")), (0, 0));
    }
}
