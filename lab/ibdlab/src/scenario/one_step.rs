//! `[[step]]`: a table with one key, which names the step.
//!
//! Serde reads such a table as an enum by itself, and says of an empty one nothing that a person could use.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_spanned::Spanned;

use super::Step;
use super::named::Named;

/// Reads the steps of a file.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Spanned<Step>>, D::Error> {
    let steps = Vec::<Spanned<One>>::deserialize(from)?;
    Ok(steps.into_iter().map(|step| Spanned::new(step.span(), step.into_inner().0)).collect())
}

struct One(Step);

impl<'de> Deserialize<'de> for One {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(TableVisitor)
    }
}

struct TableVisitor;

impl<'de> Visitor<'de> for TableVisitor {
    type Value = One;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step as `ping = { from = \"alice\", to = \"10.0.0.2\", count = 3 }`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<One, A::Error> {
        let Some(name) = table.next_key::<String>()? else {
            return Err(A::Error::custom(format_args!("a [[step]] is empty: expected {}", Expected(&self))));
        };
        let step = table.next_value_seed(Named::new(&name))?;
        match table.next_key::<String>()? {
            Some(second) => Err(A::Error::custom(format_args!(
                "a [[step]] has `{name}` and `{second}`: expected a [[step]] for each"
            ))),
            None => Ok(One(step)),
        }
    }
}

/// What a visitor expects.
struct Expected<'a>(&'a TableVisitor);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}
