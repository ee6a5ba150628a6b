//! The way up: open from start to stop (of the receive ring, if the link has one), whatever queue pairs come and go in between.
//! One thread at a time is on it, so packets go up in the order in which they came; once it is shut nobody is.

use gldv3::{Generation, Mac};
use kernel::mblk::MblkChain;
use kernel::sync::Monitor;
use kernel::{AllocError, KArc};

/// Whether packets may go up, and who brings them.
pub(crate) struct Upward {
    open: bool,
    /// Which run of the receive ring this is, if the link has one.
    generation: Option<Generation>,
    /// The MAC layer has switched the ring's interrupt off and fetches packets itself.
    fetched: bool,
    /// A thread is on the way.
    busy: bool,
    /// Another one was turned back meanwhile: there may be more.
    again: bool,
}

/// Who takes packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// An interrupt, or the thread that goes on after one. Not while the MAC layer fetches packets itself.
    Interrupt,
    /// The MAC layer.
    Fetch,
}

impl Upward {
    /// Shut.
    pub(crate) fn new() -> Result<KArc<Monitor<Self>>, AllocError> {
        let shut = Self { open: false, generation: None, fetched: false, busy: false, again: false };
        KArc::new(Monitor::new(shut)?)
    }

    fn lets_in(&self, who: By) -> bool {
        self.open && !(who == By::Interrupt && self.fetched)
    }
}

/// The link is started, or its receive ring is. What came in before is looked for by whoever calls this. **Any** context.
pub(crate) fn open(upward: &Monitor<Upward>, generation: Option<Generation>) {
    let mut state = upward.lock();
    state.open = true;
    state.generation = generation;
    state.fetched = false;
}

/// The link is stopped, or its receive ring is: when this returns nobody hands packets up. **May block**, as long as IP holds the
/// thread that does.
pub(crate) fn shut(upward: &Monitor<Upward>) {
    let mut state = upward.lock();
    state.open = false;
    while state.busy {
        state.wait();
    }
}

/// Whether the MAC layer fetches packets itself, from now on. Whoever is on the way takes no more then. **Any** context.
pub(crate) fn set_fetched(upward: &Monitor<Upward>, fetched: bool) {
    upward.lock().fetched = fetched;
}

/// A thread takes packets and hands them up, until it [leaves](Inside::leave).
#[must_use]
pub(crate) struct Inside<'a> {
    upward: &'a Monitor<Upward>,
    who: By,
    generation: Option<Generation>,
}

/// `None` while it is shut, not open to `who`, or busy; whoever is on it then looks again. **Any** context.
pub(crate) fn enter(upward: &Monitor<Upward>, who: By) -> Option<Inside<'_>> {
    let mut state = upward.lock();
    if !state.lets_in(who) {
        return None;
    }
    if state.busy {
        state.again = true;
        return None;
    }
    state.busy = true;
    Some(Inside { upward, who, generation: state.generation })
}

impl Inside<'_> {
    /// Whether more may be taken.
    pub(crate) fn goes_on(&self) -> bool {
        self.upward.lock().lets_in(self.who)
    }

    /// Hands packets up.
    pub(crate) fn hand_up(&self, mac: &Mac, packets: MblkChain) {
        match self.generation {
            _ if packets.is_empty() => {}
            Some(generation) => mac.receive_on_ring(generation, packets),
            None => mac.receive(packets),
        }
    }

    /// Leaves; whether somebody was turned back meanwhile.
    #[must_use]
    pub(crate) fn leave(self) -> bool {
        let mut state = self.upward.lock();
        state.busy = false;
        let again = core::mem::take(&mut state.again);
        drop(state);
        self.upward.notify_all();
        again
    }
}
