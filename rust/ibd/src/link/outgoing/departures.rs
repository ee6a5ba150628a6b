//! From the CQs of connections that the link sends on to one soft interrupt.
//!
//! Every connection has a CQ. Its handler, in the adapter's interrupt, sets the connection's bit and triggers; the soft interrupt looks at those
//! whose bits are set.

use core::sync::atomic::{AtomicU64, Ordering};

use ibtf::CqHandler;
use kernel::softint::SoftHandler;
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec};

use super::{NEIGHBOURS, Pipe};
use crate::link::control::Control;
use crate::link::interrupts::Trigger;
use crate::now;

const WORDS: usize = NEIGHBOURS / 64;

/// See the module's text. One to a link, from attach to detach.
pub(crate) struct Departures {
    ready: [AtomicU64; WORDS],
    pipes: Mutex<KVec<Option<Pipe>>>,
    control: KArc<Monitor<Control>>,
}

/// What the CQ of a connection calls; its place comes free when it goes.
pub(super) struct Bell {
    place: usize,
    trigger: KArc<Trigger<Departures>>,
}

impl Departures {
    pub(crate) fn new(control: &KArc<Monitor<Control>>) -> Result<KArc<Self>, AllocError> {
        let ready = [const { AtomicU64::new(0) }; WORDS];
        KArc::new(Self { ready, pipes: Mutex::new(KVec::new())?, control: control.clone() })
    }

    /// A place that no connection has, and what its CQ is to call. Only the thread that opens connections asks. **May block.**
    pub(super) fn bell(&self, trigger: &KArc<Trigger<Self>>) -> Result<Option<KArc<Bell>>, AllocError> {
        let pipes = self.pipes.lock();
        let place = match pipes.iter().position(Option::is_none) {
            Some(place) => place,
            None => pipes.len(),
        };
        drop(pipes);
        if place >= NEIGHBOURS {
            return Ok(None);
        }
        KArc::new(Bell { place, trigger: trigger.clone() }).map(Some)
    }

    /// The connection in this place. Only the thread that opens connections puts some.
    pub(super) fn enter(&self, bell: &Bell, pipe: &Pipe) -> Result<(), AllocError> {
        let mut pipes = self.pipes.lock();
        if let Some(place) = pipes.get_mut(bell.place) {
            *place = Some(pipe.clone());
            return Ok(());
        }
        pipes.push(Some(pipe.clone()))
    }

    /// It is closed.
    pub(super) fn leave(&self, pipe: &Pipe) {
        let mut pipes = self.pipes.lock();
        let number = pipe.connection().number;
        let is_it =
            |place: &&mut Option<Pipe>| place.as_ref().is_some_and(|pipe| pipe.connection().number == number);
        let gone = pipes.iter_mut().find(is_it).and_then(Option::take);
        drop(pipes);
        drop(gone);
    }

    fn look_at(&self, place: usize) {
        let pipe = self.pipes.lock().get(place).cloned().flatten();
        if let Some(pipe) = pipe
            && !pipe.completed()
        {
            self.lost(&pipe);
        }
    }

    /// A connection carries nothing any more. With no lock of a connection held.
    pub(crate) fn lost(&self, pipe: &Pipe) {
        let mut control = self.control.lock();
        control.tell_visits(|visits| visits.lost(pipe.connection(), now()));
        drop(control);
        self.control.notify_all();
    }
}

impl CqHandler for Bell {
    fn completion(&self) {
        let departures = self.trigger.handler();
        if let Some(word) = departures.ready.get(self.place / 64) {
            word.fetch_or(1 << (self.place % 64), Ordering::Release);
        }
        self.trigger.completion();
    }
}

impl SoftHandler for Departures {
    fn run(&self) {
        for (n, word) in self.ready.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                self.look_at(64 * n + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}
