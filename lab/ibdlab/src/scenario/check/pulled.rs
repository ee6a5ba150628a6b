//! Hosts whose adapter a step has pulled: no step asks anything of them until a trouble has put all adapters back.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_spanned::Spanned;

use super::outside::{named, receiver};
use super::{Checked, Fault};
use crate::scenario::{HostSpec, Scenario, Step};

/// The hosts without an adapter.
#[derive(Default)]
pub struct Pulled<'a>(BTreeSet<&'a str>);

impl<'a> Pulled<'a> {
    /// The step asks nothing of a host whose adapter is pulled by then; it may pull one.
    pub fn check(&mut self, scenario: &Scenario, step: &'a Spanned<Step>) -> Checked {
        let mut asked: Vec<(&str, Range<usize>)> = match step.get_ref() {
            Step::Up(_) => scenario.host.iter().map(|host| (name_of(host.get_ref()), step.span())).collect(),
            Step::MembershipChanges(change) => vec![(change.host.get_ref(), change.host.span())],
            step => named(step).into_iter().map(|name| (name.get_ref().as_str(), name.span())).collect(),
        };
        asked.extend(receiver(scenario, step.get_ref())?.map(|(host, span)| (name_of(host), span)));
        if let Some((name, span)) = asked.into_iter().find(|(name, _)| self.0.contains(name)) {
            let message =
                format!("`{name}` has no adapter: a step `hca-removal` before this one has pulled it");
            return Err(Fault { span, message });
        }
        match step.get_ref() {
            Step::HcaRemoval(removal) => drop(self.0.insert(removal.host.get_ref())),
            Step::Trouble(_) => self.0.clear(),
            _ => {}
        }
        Ok(())
    }
}

fn name_of(host: &HostSpec) -> &str {
    host.name.get_ref()
}
