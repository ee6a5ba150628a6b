//! `{ at_us = 1200, port-down = { host = "bob" } }`: an instant and an event in one table.
//!
//! Serde's `flatten` would do for writing but loses the place in the file when reading, so reading is done by hand.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use super::Event;

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
                at_us = Some(table.next_value()?);
            } else if event.is_some() {
                return Err(A::Error::custom(format_args!("`{key}` is a second event, expected one")));
            } else {
                event = Some(table.next_value_seed(Named(&key))?);
            }
        }
        Ok(TimedEvent {
            at_us: at_us.ok_or_else(|| A::Error::missing_field("at_us"))?,
            event: event.ok_or_else(|| A::Error::custom("an event is missing beside `at_us`"))?,
        })
    }
}

/// Reads a value as the event of this name.
struct Named<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Event, D::Error> {
        Event::deserialize(Variant { name: self.0, value })
    }
}

/// A variant's name and its content, as serde wants to see an enum.
struct Variant<'a, D> {
    name: &'a str,
    value: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Variant<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, D: Deserializer<'de>> EnumAccess<'de> for Variant<'_, D> {
    type Error = D::Error;
    type Variant = Content<D>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Content<D>), D::Error> {
        let variant = seed.deserialize(StrDeserializer::new(self.name))?;
        Ok((variant, Content(self.value)))
    }
}

struct Content<D>(D);

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Content<D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        Err(D::Error::custom("expected a table"))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, D::Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct("", fields, visitor)
    }
}
