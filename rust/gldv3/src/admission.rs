//! [`Admission`]: calls inside, and a moment after which none comes in.

use crate::atomic::{AtomicUsize, Ordering};

/// How many calls are inside, and whether more may come in.
pub(crate) struct Admission(AtomicUsize);

/// No more calls come in.
const CLOSED: usize = 1 << 63;

impl Admission {
    /// Closed, with nobody inside.
    pub(crate) fn closed() -> Self {
        Self(AtomicUsize::new(CLOSED))
    }

    /// A call comes in; `None` if it may not. **Any** context.
    pub(crate) fn enter(&self) -> Option<Admitted<'_>> {
        let admitted = Admitted(self);
        // Counted first, then looked: a close that misses the count is seen here, and the other way round.
        if self.0.fetch_add(1, Ordering::SeqCst) & CLOSED != 0 { None } else { Some(admitted) }
    }

    /// Lets calls in from now on.
    pub(crate) fn open(&self) {
        self.0.fetch_and(!CLOSED, Ordering::SeqCst);
    }

    /// Lets no more calls in, if none is inside; whether it did.
    pub(crate) fn close(&self) -> bool {
        self.0.compare_exchange(0, CLOSED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// One call inside.
pub(crate) struct Admitted<'a>(&'a Admission);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
