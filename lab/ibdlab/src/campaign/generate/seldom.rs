//! What was seldom tried: of places, and of events in the middle of a function, those are taken where the fewest came before in this campaign.

use std::collections::{BTreeMap, HashMap};

use rand::RngExt;

use super::children::{Calls, Places};
use super::{Generator, at};
use crate::reached::hash;
use crate::run::Place;
use crate::scenario::trouble::{AllocationFails, Call, Event, FaultPoint, SaRequest, SaTrouble};

/// Functions that are called more often than this are those of packets.
const RARE: u64 = 40;
/// How long the thread that makes the call is held, in microseconds: the event itself may take as long.
const HOLDS_US: [u64; 8] = [0, 20, 200, 2_000, 2_000, 20_000, 20_000, 200_000];
/// The same of what an administrator does, who waits a second for the queue pair of a link that is being opened.
const ADMINISTRATOR_US: u64 = 1_500_000;
/// What happens to links from within and without ([`Generator::pair`]): cable, managers, P_Key, groups, calls that fail, queue pair,
/// adapter, closing, unloading, paths, joining.
const MAIN: [u32; 13] = [0, 4, 8, 9, 11, 12, 13, 18, 20, 21, 22, 28, 29];
/// Of so many that are drawn the one is taken that was tried least.
const DRAWN: usize = 4;

/// How often something was made to happen at each place, and each kind of event in the middle of each function.
#[derive(Debug, Default)]
pub struct Tried(HashMap<u32, u32>);

/// The calls of a trouble.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub calls: &'a Calls,
    pub places: &'a Places,
}

impl Tried {
    fn times(&self, what: u32) -> u32 {
        self.0.get(&what).copied().unwrap_or_default()
    }

    fn note(&mut self, what: u32) {
        *self.0.entry(what).or_default() += 1;
    }
}

impl Generator<'_> {
    /// An event and what ends it, of some that are drawn the one that was tried least in the middle of this function.
    pub(super) fn seldom_pair(&mut self, call: &Call, tried: &mut Tried) -> (Event, Option<Event>) {
        let key = |pair: &(Event, Option<Event>)| hash(&["pair", &call.call, &pair.0.kind()]);
        let mut pairs: Vec<(Event, Option<Event>)> = Vec::new();
        for _ in 0..DRAWN {
            self.kinds = if self.rng.random_range(0..4) > 0 { MAIN.to_vec() } else { Vec::new() };
            pairs.push(self.pair());
        }
        self.kinds = Vec::new();
        let least = pairs.iter().map(key).min_by_key(|key| tried.times(*key)).unwrap_or_default();
        tried.note(least);
        let first = pairs.iter().position(|pair| key(pair) == least).unwrap_or_default();
        let (event, end) = pairs.swap_remove(first);
        (if self.rng.random_range(0..4) > 0 { fitting(event, call) } else { event }, end)
    }

    /// The call, its thread held as long as this event may take.
    pub(super) fn held_for(&mut self, call: Call, event: &Event) -> Call {
        let stops = matches!(event, Event::LinkClose(_) | Event::Unload(_) | Event::HcaRemoved(_));
        let holds_us = if stops && self.rng.random() { ADMINISTRATOR_US } else { call.holds_us };
        Call { holds_us, ..call }
    }

    /// One of the calls: one from a place where little was tried, or of any function.
    pub(super) fn made_call(&mut self, host: &str, made: Made<'_>, tried: &mut Tried) -> Call {
        let none = BTreeMap::new();
        let calls = made.calls.get(host).unwrap_or(&none);
        let place = match made.places.get(host) {
            Some(places) if self.rng.random_range(0..3) > 0 => self.seldom_place(places, tried),
            _ => None,
        };
        let (call, pass) = place.unwrap_or_else(|| self.any_call(calls));
        Call {
            host: at(host.to_owned()),
            call,
            pass: u32::try_from(pass).unwrap_or(u32::MAX).max(1),
            holds_us: self.pick(&HOLDS_US),
        }
    }

    fn seldom_place(&mut self, places: &[Place], tried: &mut Tried) -> Option<(String, u64)> {
        let drawn: Vec<&Place> =
            (0..DRAWN).filter_map(|_| places.get(self.rng.random_range(0..places.len().max(1)))).collect();
        let least = drawn.into_iter().min_by_key(|place| tried.times(place.place))?;
        tried.note(least.place);
        Some((least.call.clone(), least.pass))
    }

    /// Any function as likely as another, but for those of packets.
    fn any_call(&mut self, calls: &BTreeMap<String, u64>) -> (String, u64) {
        let rare: Vec<(&String, &u64)> = calls.iter().filter(|(_, times)| **times <= RARE).collect();
        let all: Vec<(&String, &u64)> = calls.iter().collect();
        let from = if rare.is_empty() || self.rng.random_range(0..4) == 0 { &all } else { &rare };
        let (call, times) = self.pick(from);
        let pass = if *times <= RARE {
            self.rng.random_range(1..=*times)
        } else {
            // As many of each order of magnitude.
            self.rng.random_range(0.0..(*times as f64).ln()).exp() as u64
        };
        (call.clone(), pass)
    }
}

/// What makes any call fail, or any request, made to be about this one.
fn fitting(event: Event, call: &Call) -> Event {
    match event {
        Event::Sa(trouble) if request(&call.call).is_some() => {
            Event::Sa(SaTrouble { to: request(&call.call), from: Some(call.host.clone()), ..trouble })
        }
        Event::AllocationFails(fails) => {
            let kinds = FaultPoint::all().filter(|kind| call.call.starts_with(kind.kind().0));
            let kind = kinds.max_by_key(|kind| kind.kind().0.len());
            let fails = match kind {
                Some(kind) => AllocationFails { host: call.host.clone(), kind, after: 0, ..fails },
                None => fails,
            };
            Event::AllocationFails(fails)
        }
        event => event,
    }
}

/// What the call asks the administrator for.
fn request(call: &str) -> Option<SaRequest> {
    match call {
        "ibt_get_paths" => Some(SaRequest::Path),
        "ibt_join_mcg" => Some(SaRequest::Join),
        "ibt_leave_mcg" => Some(SaRequest::Leave),
        "ibt_query_mcg" => Some(SaRequest::ListGroups),
        _ => None,
    }
}

impl Made<'_> {
    /// Did the modules of this host make any?
    pub(super) fn has(&self, host: &str) -> bool {
        self.calls.get(host).is_some_and(|of| !of.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;
    use crate::campaign::generate::at;
    use crate::scenario::trouble::{AllocationFails, Call, Event, FaultPoint, SaDoes, SaRequest, SaTrouble};

    fn call(name: &str) -> Call {
        Call { host: at("bob".to_owned()), call: name.to_owned(), pass: 2, holds_us: 20 }
    }

    #[test]
    fn a_refusal_in_the_middle_of_a_join_is_about_the_join() {
        let refusal = SaTrouble {
            does: SaDoes::Empty,
            to: Some(SaRequest::Path),
            from: None,
            times: Some(1),
            for_ms: 10,
        };
        let fitted = fitting(Event::Sa(refusal.clone()), &call("ibt_join_mcg"));
        let Event::Sa(about) = fitted else { panic!("{fitted:?}") };
        assert_eq!(about.to, Some(SaRequest::Join));
        assert_eq!(about.from.map(|host| host.get_ref().clone()).as_deref(), Some("bob"));
        assert_eq!(fitting(Event::Sa(refusal.clone()), &call("cv_wait")), Event::Sa(refusal));
    }

    #[test]
    fn a_failure_in_the_middle_of_a_call_that_can_fail_is_its_own() {
        let kind = FaultPoint::all().find(|kind| kind.kind().0 == "kmem").expect("memory can fail");
        let fails = |after| {
            let host = at("alice".to_owned());
            Event::AllocationFails(AllocationFails { host, kind, module: None, after, times: 1 })
        };
        let fitted = fitting(fails(4), &call("ibt_alloc_cq"));
        let Event::AllocationFails(own) = fitted else { panic!("{fitted:?}") };
        assert_eq!((own.kind.kind().0, own.after, own.host.get_ref().as_str()), ("ibt_alloc_cq", 0, "bob"));
        assert_eq!(fitting(fails(4), &call("mutex_enter")), fails(4));
    }
}
