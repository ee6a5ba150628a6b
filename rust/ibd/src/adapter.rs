//! What an instance has open of its adapter, from attach until it is given back or the adapter goes, and again once an adapter that was to go stays.
//!
//! Whoever needs it takes a clone. It is given back only when the last clone is gone: then the adapter is closed, and whoever was
//! told that it goes may say so.

use ibtf::{Hca, Pd};
use kernel::sync::Mutex;
use kernel::time::{Duration, Instant, sleep};
use kernel::{Errno, MayBlock};

/// How often a wait that takes long says so.
const SAYS: Duration = Duration::from_secs(10);
/// How often an adapter that is there again is opened at most, if that fails, and the pause before the next try.
const TRIES: u32 = 50;
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// How often clones that others still have are looked for.
const AGAIN: Duration = Duration::from_millis(10);
/// How long others may take to let go. Nobody waits for the SA or a reader with one in hand.
const PATIENCE: Duration = Duration::from_millis(30_000);

/// The place of what is open, if anything is.
pub(crate) struct Held<T> {
    held: Mutex<State<T>>,
}

enum State<T> {
    /// Not yet.
    Unopened,
    /// Given back: the adapter goes.
    Nothing,
    /// The instance goes: nothing is opened any more. A value with clones left stays until the place goes.
    Over(Option<T>),
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
        Self { held: Mutex::new_waiting(State::Unopened, may_block) }
    }

    /// Opens it for the first time. **May block.**
    pub(crate) fn open(&self, open: impl FnOnce() -> Result<T, Errno>) -> Result<(), Errno> {
        *self.held.lock() = State::Changing;
        let (state, result) = match open() {
            Ok(opened) => (State::Open(opened), Ok(())),
            Err(error) => (State::Unopened, Err(error)),
        };
        *self.held.lock() = state;
        result
    }

    /// A clone of it; `None` once it goes.
    pub(crate) fn get(&self) -> Option<T> {
        match &*self.held.lock() {
            State::Open(open) => Some(open.clone()),
            _ => None,
        }
    }

    /// Opens it once more if it was given back. A value that could not be closed is as open as before. Waits while it is being given back, and tries
    /// for some seconds: an adapter that has just come may be short of something, and nothing announces it again. False if the instance
    /// comes or goes. **May block.**
    pub(crate) fn reopen(&self, mut open: impl FnMut() -> Result<T, Errno>) -> Result<bool, Errno> {
        loop {
            let mut held = self.held.lock();
            match core::mem::replace(&mut *held, State::Changing) {
                State::Nothing => break,
                State::Stuck(open) | State::Open(open) => {
                    *held = State::Open(open);
                    return Ok(true);
                }
                State::Changing => {
                    drop(held);
                    sleep(AGAIN);
                }
                none @ (State::Unopened | State::Over(_)) => {
                    *held = none;
                    return Ok(false);
                }
            }
        }
        let mut opened = open();
        for _ in 1..TRIES {
            if opened.is_err() {
                sleep(TRY_AGAIN);
                opened = open();
            }
        }
        let (state, result) = match opened {
            Ok(opened) => (State::Open(opened), Ok(true)),
            Err(error) => (State::Nothing, Err(error)),
        };
        *self.held.lock() = state;
        result
    }

    /// `close` gives it back; from then on it is not opened any more. An adapter that stays may be opened once more in between, and is given back once
    /// more. **May block.**
    pub(crate) fn end(&self, mut close: impl FnMut()) {
        loop {
            close();
            if self.shut() {
                return;
            }
        }
    }

    /// Nothing is opened any more, unless it is open.
    fn shut(&self) -> bool {
        loop {
            let mut held = self.held.lock();
            let stays = match core::mem::replace(&mut *held, State::Changing) {
                State::Unopened | State::Nothing => None,
                State::Over(stays) => stays,
                State::Stuck(open) => Some(open),
                State::Open(open) => {
                    *held = State::Open(open);
                    return false;
                }
                State::Changing => {
                    drop(held);
                    sleep(AGAIN);
                    continue;
                }
            };
            *held = State::Over(stays);
            return true;
        }
    }

    /// From now on nobody gets a clone. Waits while it is being opened or given back. **May block.**
    pub(crate) fn withdraw(&self) -> Withdrawn<'_, T> {
        loop {
            let mut held = self.held.lock();
            let (open, is_over) = match core::mem::replace(&mut *held, State::Changing) {
                State::Open(open) | State::Stuck(open) => (Some(open), false),
                State::Over(Some(open)) => (Some(open), true),
                none @ (State::Unopened | State::Nothing | State::Over(None)) => {
                    *held = none;
                    (None, false)
                }
                State::Changing => {
                    drop(held);
                    sleep(AGAIN);
                    continue;
                }
            };
            return Withdrawn { from: self, open, is_over };
        }
    }
}

/// What was open and is to be closed. Dropped instead, it is there for the next one who withdraws it.
#[must_use]
pub(crate) struct Withdrawn<'a, T> {
    from: &'a Held<T>,
    open: Option<T>,
    /// The instance goes.
    is_over: bool,
}

impl<T: Opened> Withdrawn<'_, T> {
    /// Closes it, once nobody else has a clone; `meanwhile` may help others to let go. False if somebody does not: then it stays
    /// open. **May block.**
    pub(crate) fn close(mut self, mut meanwhile: impl FnMut(&mut Overdue)) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut overdue = Overdue::begins();
        while self.open.as_ref().is_some_and(|open| !open.is_alone()) {
            if Instant::now() >= deadline {
                return false;
            }
            meanwhile(&mut overdue);
            sleep(AGAIN);
        }
        if let Some(open) = self.open.take() {
            drop(open);
            *self.from.held.lock() = if self.is_over { State::Over(None) } else { State::Nothing };
        }
        true
    }
}

impl<T> Drop for Withdrawn<'_, T> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            // The last clone must not be dropped just anywhere: closing may block.
            *self.from.held.lock() = if self.is_over { State::Over(Some(open)) } else { State::Stuck(open) };
        }
    }
}

/// A wait that the log mentions every ten seconds.
pub(crate) struct Overdue {
    begun: Instant,
    said: Instant,
}

impl Overdue {
    /// The wait begins now.
    pub(crate) fn begins() -> Self {
        let now = Instant::now();
        Self { begun: now, said: now }
    }

    /// How many seconds the wait has taken, if the log is to hear it now.
    pub(crate) fn seconds(&mut self) -> Option<u64> {
        let now = Instant::now();
        if now - self.said < SAYS {
            return None;
        }
        self.said = now;
        Some((now - self.begun).as_nanos() / 1_000_000_000)
    }
}
