//! What was seldom tried: of places, and of events in the middle of a function, those are taken where the fewest came before in this campaign.

use std::collections::{BTreeMap, HashMap};

use rand::RngExt;

use super::children::{Calls, Places};
use super::{Generator, at};
use crate::reached::hash;
use crate::run::Place;
use crate::scenario::trouble::{Call, Event};

/// Functions that are called more often than this are those of packets.
const RARE: u64 = 40;
/// How long the thread that makes the call is held, in microseconds: the event itself may take as long, and a link that opens waits a
/// second for its queue pair.
const HOLDS_US: [u64; 9] = [0, 20, 200, 2_000, 2_000, 20_000, 20_000, 200_000, 1_500_000];
/// What happens to links from within and without ([`Generator::pair`]): cable, managers, P_Key, groups, queue pair, adapter, closing,
/// unloading, paths, joining.
const MAIN: [u32; 12] = [0, 4, 8, 9, 11, 12, 18, 20, 21, 22, 28, 29];
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
        pairs.swap_remove(first)
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

impl Made<'_> {
    /// Did the modules of this host make any?
    pub(super) fn has(&self, host: &str) -> bool {
        self.calls.get(host).is_some_and(|of| !of.is_empty())
    }
}
