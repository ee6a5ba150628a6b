//! Connections with neighbours whose answers may take long: few, for all links of the module.

use core::sync::atomic::{AtomicU32, Ordering};

/// Of `ibcm`'s twelve places, which the whole computer shares, one that is to be closed keeps one for as long as such an answer takes.
const MOST: u32 = 3;

/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// One of them, as long as this lives.
pub(crate) struct LongAnswers(());

impl LongAnswers {
    /// One more, if there may be. **Any** context.
    pub(crate) fn new() -> Option<Self> {
        let more = |count| (count < MOST).then_some(count + 1);
        COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }

    /// Whether there are some.
    pub(crate) fn are_some() -> bool {
        COUNT.load(Ordering::Relaxed) != 0
    }
}

impl Drop for LongAnswers {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
