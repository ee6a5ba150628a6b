//! What a run tolerated.

use std::collections::BTreeMap;

use crate::host_mutex::HostMutex;
use crate::rule::Rule;

/// A tolerated or suppressed case, and how often it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The rule.
    pub rule: Rule,
    /// Module.
    pub module: String,
    /// Kernel function or entry point.
    pub call: String,
    /// Detail of the first case.
    pub detail: String,
    /// Number of the entry of [`crate::Suppressions`] that covers it; `None` when the rule itself tolerates it.
    pub suppressed: Option<usize>,
    /// How often.
    pub count: u64,
}

/// The notes of a run, one per rule, module, call and suppression.
#[derive(Debug, Default)]
pub struct Notes(HostMutex<BTreeMap<Key, Note>>);

type Key = (Rule, String, String, Option<usize>);

impl Notes {
    /// One more case. `detail` is asked for once per rule, module, call and suppression.
    pub fn add_with(
        &self,
        rule: Rule,
        module: &str,
        call: &str,
        detail: impl FnOnce() -> String,
        suppressed: Option<usize>,
    ) {
        let mut notes = self.0.lock();
        let note =
            notes.entry((rule, module.to_owned(), call.to_owned(), suppressed)).or_insert_with(|| Note {
                rule,
                module: module.to_owned(),
                call: call.to_owned(),
                detail: detail(),
                suppressed,
                count: 0,
            });
        note.count += 1;
    }

    pub(crate) fn all(&self) -> Vec<Note> {
        self.0.lock().values().cloned().collect()
    }
}
