//! What a run has reached, as a set of numbers that two runs can be compared by: blocks of the modules and how often they were run, places
//! that calls were made from, and what links went through, as their probes tell it.
//!
//! Each number is a hash of what it stands for, so nobody has to know beforehand what there is. That two things have one number is as
//! unlikely as it is harmless.

use std::collections::{BTreeMap, BTreeSet};

use fakekernel::{Machine, ProbeArgument, ProbeHit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::StepReport;
use crate::run::{Happened, Place};
use crate::scenario::{Scenario, Step};

/// The set. As text: eight hexadecimal digits each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Reached(pub BTreeSet<u32>);

impl From<Reached> for String {
    fn from(reached: Reached) -> Self {
        reached.0.into_iter().map(|number| format!("{number:08x}")).collect()
    }
}

impl From<String> for Reached {
    /// What is no hexadecimal number is left out.
    fn from(text: String) -> Self {
        let numbers = text.as_bytes().chunks(8).filter_map(|digits| std::str::from_utf8(digits).ok());
        Self(numbers.filter_map(|digits| u32::from_str_radix(digits, 16).ok()).collect())
    }
}

impl Reached {
    /// What a machine and the steps of a scenario on it tell.
    pub fn of(machine: &Machine, scenario: &Scenario, steps: &[StepReport]) -> Self {
        let mut reached = Self::default();
        reached.blocks(&machine.coverage());
        let (hits, _) = machine.probe_hits();
        let history = reached.links(&hits);
        for (step, report) in scenario.step.iter().zip(steps) {
            let fact = |name: &str| report.facts.get(name).unwrap_or(&Value::Null);
            reached.calls(fact("calls"));
            reached.places(fact("sites"));
            if let Step::Trouble(trouble) = step.get_ref() {
                let happened = Vec::<Happened>::deserialize(fact("happened")).unwrap_or_default();
                for at in happened {
                    let Some(timed) = trouble.event.get(at.event) else { continue };
                    let host = timed.event.host().map(|host| host.get_ref().as_str());
                    let when = report.at_us + at.from_us;
                    for state in history.at(host, when) {
                        reached.add(&["event", &timed.event.kind(), &state]);
                    }
                }
            }
        }
        reached
    }

    fn add(&mut self, parts: &[&str]) {
        self.0.insert(hash(parts));
    }

    /// Each block that was run, with how often, in classes: a loop that goes round once more is nothing new, one that never did is.
    fn blocks(&mut self, counters: &BTreeMap<String, Vec<u8>>) {
        for (module, counts) in counters {
            for (block, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let count = class(u64::from(*count)).to_string();
                self.add(&["block", module, &block.to_string(), &count]);
            }
        }
    }

    /// How often each function was called on a host, in classes.
    fn calls(&mut self, fact: &Value) {
        let hosts = BTreeMap::<String, BTreeMap<String, u64>>::deserialize(fact).unwrap_or_default();
        for (function, times) in hosts.into_values().flatten() {
            self.add(&["call", &function, &class(times).to_string()]);
        }
    }

    /// Where calls came from.
    fn places(&mut self, fact: &Value) {
        let hosts = BTreeMap::<String, Vec<Place>>::deserialize(fact).unwrap_or_default();
        self.0.extend(hosts.into_values().flatten().map(|place| place.place));
    }

    /// What links went through: each state, each step from one to the next, and what came in which state.
    fn links(&mut self, hits: &[ProbeHit]) -> History {
        let mut history = History::default();
        let mut links: BTreeMap<(&str, u64), Link> = BTreeMap::new();
        for hit in hits {
            let ProbeArgument::Number(number) = hit.arguments[0] else { continue };
            let link = links.entry((&hit.host, number)).or_default();
            let (before, last) = (link.state(), link.last.clone());
            let what = link.take(hit);
            let after = link.state();
            let times = link.times.get(&what).copied().unwrap_or_default();
            self.add(&["in", &before, &what]);
            self.add(&["after", &last, &what]);
            self.add(&["times", &what, &class(times).to_string()]);
            if before != after {
                self.add(&["from", &before, &after]);
                history.0.entry((hit.host.clone(), number)).or_default().push((hit.at.0 / 1_000, after));
            }
        }
        history
    }
}

/// The states of each host's links: from when on, and which.
#[derive(Default)]
struct History(BTreeMap<(String, u64), Vec<(u64, String)>>);

impl History {
    /// The states that links of a host, or of all, are in at this instant.
    fn at(&self, host: Option<&str>, us: u64) -> Vec<String> {
        let links = self.0.iter().filter(|((of, _), _)| host.is_none_or(|host| host == of));
        let state = |states: &Vec<(u64, String)>| {
            let later = states.partition_point(|(from, _)| *from <= us);
            later.checked_sub(1).map(|now| states[now].1.clone())
        };
        links.filter_map(|(_, states)| state(states)).collect()
    }
}

/// What the probes have said of a link.
#[derive(Default)]
struct Link {
    /// The control thread's word for it.
    named: String,
    /// Queue pairs that carry traffic, and whether one has to be replaced.
    pairs: u32,
    broken: bool,
    /// Requests to the administrator that are out, by kind.
    out: BTreeMap<String, u32>,
    full: bool,
    last: String,
    times: BTreeMap<String, u64>,
}

impl Link {
    /// The tuple of its machines' states.
    fn state(&self) -> String {
        let out: Vec<String> =
            self.out.iter().map(|(what, number)| format!("{what}{}", (*number).min(2))).collect();
        format!("{} {} {} {} {}", self.named, self.pairs.min(2), self.broken, self.full, out.join(" "))
    }

    /// Something happened to it: what, in words.
    fn take(&mut self, hit: &ProbeHit) -> String {
        let texts = hit.arguments.iter().filter_map(|argument| match argument {
            ProbeArgument::Text(text) => Some(text.as_str()),
            ProbeArgument::Number(_) => None,
        });
        let word = texts.clone().next().unwrap_or_default().to_owned();
        match hit.name.as_str() {
            "ibd-link-state" => self.named.clone_from(&word),
            "ibd-qp-up" => (self.pairs, self.broken) = (self.pairs + 1, false),
            "ibd-qp-down" => self.pairs = self.pairs.saturating_sub(1),
            "ibd-qp-broken" => self.broken = true,
            "ibd-sa-ask" => *self.out.entry(word.clone()).or_default() += 1,
            "ibd-sa-answer" => {
                let out = self.out.entry(word.clone()).or_default();
                *out = out.saturating_sub(1);
            }
            "ibd-tx-full" => self.full = true,
            "ibd-tx-resume" => self.full = false,
            _ => {}
        }
        let status = match (&hit.arguments[3], hit.name.as_str()) {
            (ProbeArgument::Number(status), "ibd-sa-answer") => status.to_string(),
            _ => String::new(),
        };
        let what = format!("{} {word} {status}", hit.name);
        *self.times.entry(what.clone()).or_default() += 1;
        self.last.clone_from(&what);
        what
    }
}

/// 1, 2, 3, 4 to 7, 8 to 15, and so on.
fn class(count: u64) -> u32 {
    if count < 4 { count as u32 } else { 2 + count.ilog2() }
}

/// FNV-1a of the parts, each with its end.
pub fn hash(parts: &[&str]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use fakekernel::{Nanos, ProbeArgument, ProbeHit};

    use super::{Reached, class, hash};

    fn hit(us: u64, host: &str, name: &str, text: &str, last: u64) -> ProbeHit {
        let text = ProbeArgument::Text(text.to_owned());
        let arguments =
            [ProbeArgument::Number(7), text, ProbeArgument::Number(us), ProbeArgument::Number(last)];
        ProbeHit {
            at: Nanos(us * 1_000),
            host: host.to_owned(),
            module: "ibd".to_owned(),
            name: name.to_owned(),
            arguments,
        }
    }

    fn reached(hits: &[ProbeHit]) -> Reached {
        let mut reached = Reached::default();
        reached.links(hits);
        reached
    }

    #[test]
    fn what_is_reached_survives_its_text_form() {
        let reached = reached(&[hit(1, "alice", "ibd-link-state", "up", 0)]);
        let text = serde_json::to_string(&reached).unwrap();
        assert_eq!(serde_json::from_str::<Reached>(&text).unwrap(), reached);
        assert!(!reached.0.is_empty());
    }

    #[test]
    fn a_refusal_while_the_queue_pair_is_down_is_another_thing_than_one_while_it_is_up() {
        let ask = || hit(3, "alice", "ibd-sa-ask", "join", 0);
        let up = || hit(1, "alice", "ibd-qp-up", "", 0);
        let refused = |status| hit(4, "alice", "ibd-sa-answer", "join", status);
        let one = reached(&[up(), ask(), refused(9)]);
        let same =
            reached(&[hit(100, "bob", "ibd-qp-up", "", 0), hit(101, "bob", "ibd-sa-ask", "join", 5), {
                hit(102, "bob", "ibd-sa-answer", "join", 9)
            }]);
        assert_eq!(one, same, "neither instants nor hosts count");
        assert_ne!(one, reached(&[ask(), refused(9)]));
        assert_ne!(one, reached(&[up(), ask(), refused(0)]));
    }

    #[test]
    fn a_host_is_in_the_state_that_its_link_came_to_last() {
        let mut reached = Reached::default();
        let up = |us, host| hit(us, host, "ibd-link-state", "up", 0);
        let history =
            reached.links(&[up(5, "alice"), hit(9, "alice", "ibd-link-state", "down", 0), up(7, "bob")]);
        assert!(history.at(Some("alice"), 4).is_empty());
        assert!(history.at(Some("alice"), 8)[0].starts_with("up"));
        assert!(history.at(Some("alice"), 9)[0].starts_with("down"));
        assert_eq!(history.at(None, 20).len(), 2);
    }

    #[test]
    fn counts_are_told_apart_by_order_of_magnitude() {
        let classes: Vec<u32> = [1, 2, 3, 4, 7, 8, 15, 16].map(class).into();
        assert_eq!(classes, [1, 2, 3, 4, 4, 5, 5, 6]);
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
