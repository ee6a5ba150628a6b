//! Two ports with one GUID.

use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

/// An adapter that was flashed like another one. When the timeline is over the host has its own adapter again.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HcaClone {
    pub host: Spanned<String>,
    /// Whose port GUID it has.
    pub of: Spanned<String>,
}
