//! What the SA is asked, and what it does not answer.

use core::ffi::CStr;

use ibtf::Status;
use kernel::counter::{Counter, Gauge};

/// What the SA is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Asked {
    /// The path to an address.
    Path,
    /// Membership in a group; creates it, if need be and allowed.
    Join,
    /// An end of it.
    Leave,
    /// Which groups there are.
    Query,
}

impl Asked {
    /// As probes and the log have it.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Path => c"path",
            Self::Join => c"join",
            Self::Leave => c"leave",
            Self::Query => c"query",
        }
    }
}

pub(super) const QUESTIONS: usize = Asked::Query as usize + 1;

/// Calls to the SA; some questions about paths and groups the communication manager answers from memory.
#[derive(Default)]
pub(crate) struct SaCounters {
    pub(super) asked: [Counter; QUESTIONS],
    pub(super) failed: [Counter; QUESTIONS],
    /// `ibt_status_t` of the last failure.
    pub(super) last_failure: Gauge,
}

impl SaCounters {
    /// A call is about to be made.
    pub(crate) fn ask(&self, what: Asked) {
        self.asked[what as usize].increment();
    }

    /// And this came of it.
    pub(crate) fn note(&self, what: Asked, result: Result<(), Status>) {
        if let Err(status) = result {
            self.failed[what as usize].increment();
            self.last_failure.set(status.get().into());
        }
    }

    /// `ibt_status_t` of the last failure; 0 if there was none.
    pub(crate) fn last_failure(&self) -> u64 {
        self.last_failure.get()
    }

    /// Calls by kind, and how many of each failed.
    pub(super) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.asked.iter().chain(&self.failed)
    }
}
