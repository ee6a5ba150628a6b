//! [`AdapterOwned`]: what an adapter may still be using when the queue that it was posted to is gone.

use kernel::module::Pin;
use kernel::sync::Mutex;
use kernel::{AllocError, KBox, KVec};

/// Something that only has to be kept.
pub trait Keep: Send + Sync {
    /// Whether the adapter cannot reach it any more, whatever it still has of it.
    fn is_out_of_reach(&self) -> bool {
        false
    }
}

/// What a channel or a shared receive queue keeps until the adapter has forgotten it.
pub(crate) struct AdapterOwned(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    kept: KVec<KBox<dyn Keep>>,
    promised: usize,
}

impl AdapterOwned {
    pub(crate) fn new() -> Result<Self, AllocError> {
        Ok(Self(Mutex::new(Kept::default())?))
    }

    /// Makes sure that [`AdapterOwned::keep`] will have room.
    pub(crate) fn promise(&self) -> Result<(), AllocError> {
        let mut adapter_owned = self.0.lock();
        let promised = adapter_owned.promised + 1;
        adapter_owned.kept.reserve(promised)?;
        adapter_owned.promised = promised;
        Ok(())
    }

    /// A promise is not needed.
    pub(crate) fn keep_nothing(&self) {
        let mut adapter_owned = self.0.lock();
        adapter_owned.promised = adapter_owned.promised.saturating_sub(1);
    }

    /// Drops `what` with the rest. Needs a promise.
    pub(crate) fn keep(&self, what: KBox<dyn Keep>) {
        let mut adapter_owned = self.0.lock();
        adapter_owned.promised = adapter_owned.promised.saturating_sub(1);
        if let Err(what) = adapter_owned.kept.push_within_capacity(what) {
            // Cannot be, there is a promise. If it were, the adapter may be using it: it must not be freed.
            core::mem::forget((what, Pin::new()));
        }
    }

    /// Whether the adapter can reach nothing of it.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.0.lock().kept.iter().all(|kept| kept.is_out_of_reach())
    }

    /// The adapter may still use what was posted: keeps it for ever, and the text its free routines are in.
    pub(crate) fn forget_all(&mut self) {
        let kept = core::mem::take(&mut self.0.get_mut().kept);
        core::mem::forget((kept, Pin::new()));
    }
}
