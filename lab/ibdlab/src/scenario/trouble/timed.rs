//! `{ at_us = 1200, port-down = { host = "bob" } }`: when, and an event, in one table.
//!
//! `{ on = { host = "bob", call = "ibt_post_send", pass = 3, holds_us = 50 }, port-down = { host = "bob" } }` happens while a module of the
//! host makes that call. With `at_us` beside it calls count from then on.
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
    /// It then waits for a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Call>,
    /// What happens.
    #[serde(flatten)]
    pub event: Event,
}

/// A call that modules of a host make into their kernel.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub host: Spanned<String>,
    /// The function's name.
    pub call: String,
    /// Which one it is: the first is 1.
    #[serde(default = "first", deserialize_with = "range::pass")]
    pub pass: u32,
    /// The thread that makes it has no processor for so long, in microseconds of machine time, before the function begins.
    #[serde(default, deserialize_with = "range::holds_us")]
    pub holds_us: u64,
}

fn first() -> u32 {
    1
}

impl TimedEvent {
    /// For timelines that come from no file.
    pub fn new(at_us: u64, event: Event) -> Self {
        Self { at_us: Spanned::new(0..0, at_us), on: None, event }
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
        f.write_str("a table with `at_us` or `on` and one event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<TimedEvent, A::Error> {
        let (mut at_us, mut on, mut event) = (None, None, None);
        while let Some(key) = table.next_key::<String>()? {
            if key == "at_us" {
                at_us = Some(table.next_value::<At>()?.0);
            } else if key == "on" {
                on = Some(table.next_value::<Call>()?);
            } else if event.is_some() {
                return Err(A::Error::custom(format_args!("`{key}` is a second event, expected one")));
            } else {
                event = Some(table.next_value_seed(Named::new(&key))?);
            }
        }
        Ok(TimedEvent {
            at_us: match (at_us, &on) {
                (Some(at_us), _) => at_us,
                (None, Some(_)) => Spanned::new(0..0, 0),
                (None, None) => return Err(A::Error::custom("expected `at_us` or `on` beside the event")),
            },
            on,
            event: event.ok_or_else(|| A::Error::custom("an event is missing beside `at_us` or `on`"))?,
        })
    }
}

/// The instant of an event.
#[derive(Deserialize)]
#[serde(transparent)]
struct At(#[serde(deserialize_with = "range::at_us")] Spanned<u64>);
