//! Answers of the SA that come in wrong segments.

use serde::{Deserialize, Serialize};
use sm::fault::Garbled;

/// What is wrong with the segments of an answer that is a list: see [`Garbled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaGarbled {
    Missing,
    Twice,
    Length,
    Number,
    Abort,
}

impl SaGarbled {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Missing, Self::Twice, Self::Length, Self::Number, Self::Abort];

    /// As the SA is told.
    pub const fn told(self) -> Garbled {
        match self {
            Self::Missing => Garbled::Missing,
            Self::Twice => Garbled::Twice,
            Self::Length => Garbled::Length,
            Self::Number => Garbled::Number,
            Self::Abort => Garbled::Abort,
        }
    }
}
