//! What an instance has open of its adapter, from attach until it is given back or the adapter is pulled, whichever is first.
//!
//! Whoever needs it takes a clone. It is given back only when the last clone is gone: then the adapter is closed, and whoever was
//! told that it goes may say so.

use ibtf::{Hca, Pd};
use kernel::sync::Mutex;
use kernel::time::{Duration, Instant, sleep};
use kernel::{Errno, MayBlock};

/// How often clones that others still have are looked for.
const AGAIN: Duration = Duration::from_millis(10);
/// How long others may take to let go. Nobody waits for the SA or a reader with one in hand.
const PATIENCE: Duration = Duration::from_millis(30_000);

/// The place of what is open, if anything is.
pub(crate) struct Held<T> {
    held: Mutex<State<T>>,
}

enum State<T> {
    /// Not yet, or not any more.
    Nothing,
    /// Being opened, or being given back: whoever wants it gone waits.
    Changing,
    Open(T),
    /// To be given back, but somebody has not let go of it.
    Stuck(T),
}

/// Something that is closed when its last clone is dropped.
pub(crate) trait Opened: Clone {
    /// Whether nobody else has any of it.
    fn is_alone(&self) -> bool;
}

impl Opened for Hca {
    fn is_alone(&self) -> bool {
        self.clones() == 1
    }
}

impl Opened for (Hca, Pd) {
    fn is_alone(&self) -> bool {
        let (hca, pd) = self;
        // The protection domain has one of the adapter.
        pd.clones() == 1 && hca.clones() == 2
    }
}

impl<T: Opened> Held<T> {
    /// Nothing is open.
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        Self { held: Mutex::new_waiting(State::Nothing, may_block) }
    }

    /// Opens it. **May block.**
    pub(crate) fn open(&self, open: impl FnOnce() -> Result<T, Errno>) -> Result<(), Errno> {
        *self.held.lock() = State::Changing;
        let (state, result) = match open() {
            Ok(opened) => (State::Open(opened), Ok(())),
            Err(error) => (State::Nothing, Err(error)),
        };
        *self.held.lock() = state;
        result
    }

    /// A clone of it; `None` once it goes.
    pub(crate) fn get(&self) -> Option<T> {
        match &*self.held.lock() {
            State::Open(open) => Some(open.clone()),
            State::Nothing | State::Changing | State::Stuck(_) => None,
        }
    }

    /// From now on nobody gets a clone. Waits while it is being opened or given back. **May block.**
    pub(crate) fn withdraw(&self) -> Withdrawn<'_, T> {
        loop {
            let mut held = self.held.lock();
            let open = match core::mem::replace(&mut *held, State::Changing) {
                State::Open(open) | State::Stuck(open) => Some(open),
                State::Nothing => {
                    *held = State::Nothing;
                    None
                }
                State::Changing => {
                    drop(held);
                    sleep(AGAIN);
                    continue;
                }
            };
            return Withdrawn { from: self, open };
        }
    }
}

/// What was open and is to be closed. Dropped instead, it is there for the next one who withdraws it.
#[must_use]
pub(crate) struct Withdrawn<'a, T> {
    from: &'a Held<T>,
    open: Option<T>,
}

impl<T: Opened> Withdrawn<'_, T> {
    /// Closes it, once nobody else has a clone; `meanwhile` may help others to let go. False if somebody does not: then it stays
    /// open. **May block.**
    pub(crate) fn close(mut self, mut meanwhile: impl FnMut()) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.open.as_ref().is_some_and(|open| !open.is_alone()) {
            if Instant::now() >= deadline {
                return false;
            }
            meanwhile();
            sleep(AGAIN);
        }
        if let Some(open) = self.open.take() {
            drop(open);
            *self.from.held.lock() = State::Nothing;
        }
        true
    }
}

impl<T> Drop for Withdrawn<'_, T> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            // The last clone must not be dropped just anywhere: closing may block.
            *self.from.held.lock() = State::Stuck(open);
        }
    }
}
