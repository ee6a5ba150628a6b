//! `{ at_us = 1200, port-down = { host = "bob" } }`: an instant and an event in one table.
//!
//! Serde's `flatten` would do for writing but loses the place in the file when reading, so reading is done by hand.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use super::Event;
use crate::scenario::named::Named;
use crate::scenario::range;

/// An event and when it begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedEvent {
    /// Microseconds of machine time since the step began.
    pub at_us: Spanned<u64>,
    /// What happens.
    #[serde(flatten)]
    pub event: Event,
}

impl TimedEvent {
    /// For timelines that come from no file.
    pub fn new(at_us: u64, event: Event) -> Self {
        Self { at_us: Spanned::new(0..0, at_us), event }
    }
}

impl<'de> Deserialize<'de> for TimedEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TableVisitor)
    }
}

struct TableVisitor;

impl<'de> Visitor<'de> for TableVisitor {
    type Value = TimedEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with `at_us` and one event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<TimedEvent, A::Error> {
        let (mut at_us, mut event) = (None, None);
        while let Some(key) = table.next_key::<String>()? {
            if key == "at_us" {
                at_us = Some(table.next_value::<At>()?.0);
            } else if event.is_some() {
                return Err(A::Error::custom(format_args!("`{key}` is a second event, expected one")));
            } else {
                event = Some(table.next_value_seed(Named::new(&key))?);
            }
        }
        Ok(TimedEvent {
            at_us: at_us.ok_or_else(|| A::Error::missing_field("at_us"))?,
            event: event.ok_or_else(|| A::Error::custom("an event is missing beside `at_us`"))?,
        })
    }
}

/// The instant of an event.
#[derive(Deserialize)]
#[serde(transparent)]
struct At(#[serde(deserialize_with = "range::at_us")] Spanned<u64>);
