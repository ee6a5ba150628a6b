//! From the CQs of connections that the link sends on to one soft interrupt.
//!
//! Every connection has a CQ. Its handler, in the adapter's interrupt, sets the connection's bit and triggers; the soft interrupt looks at those
//! whose bits are set.

use core::sync::atomic::{AtomicU64, Ordering};

use ibtf::CqHandler;
use kernel::softint::SoftHandler;
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec, MayBlock};

use super::{ConnectedSender, NEIGHBOURS};
use crate::link::control::Control;
use crate::link::interrupts::Trigger;
use crate::now;

const WORDS: usize = NEIGHBOURS / 64;

/// See the module's text. One to a link, from attach to detach.
pub(crate) struct SendCompletions {
    ready: [AtomicU64; WORDS],
    senders: Mutex<KVec<Option<ConnectedSender>>>,
    control: KArc<Monitor<Control>>,
}

/// What the CQ of a connection calls; its place comes free when it goes.
pub(super) struct Notifier {
    place: usize,
    trigger: KArc<Trigger<SendCompletions>>,
}

impl SendCompletions {
    pub(crate) fn new(control: &KArc<Monitor<Control>>, may_block: &MayBlock) -> KArc<Self> {
        let ready = [const { AtomicU64::new(0) }; WORDS];
        let senders = Mutex::new_waiting(KVec::new(), may_block);
        KArc::new_waiting(Self { ready, senders, control: control.clone() }, may_block)
    }

    /// A place that no connection has, and what its CQ is to call. Only the thread that opens connections asks. **May block.**
    pub(super) fn notifier(
        &self,
        trigger: &KArc<Trigger<Self>>,
    ) -> Result<Option<KArc<Notifier>>, AllocError> {
        let senders = self.senders.lock();
        let place = match senders.iter().position(Option::is_none) {
            Some(place) => place,
            None => senders.len(),
        };
        drop(senders);
        if place >= NEIGHBOURS {
            return Ok(None);
        }
        KArc::new(Notifier { place, trigger: trigger.clone() }).map(Some)
    }

    /// The connection in this place. Only the thread that opens connections puts some.
    pub(super) fn enter(&self, notifier: &Notifier, sender: &ConnectedSender) -> Result<(), AllocError> {
        let mut senders = self.senders.lock();
        if let Some(place) = senders.get_mut(notifier.place) {
            *place = Some(sender.clone());
            return Ok(());
        }
        senders.push(Some(sender.clone()))
    }

    /// It is closed.
    pub(super) fn leave(&self, sender: &ConnectedSender) {
        let mut senders = self.senders.lock();
        let number = sender.connection().number;
        let is_it = |place: &&mut Option<ConnectedSender>| {
            place.as_ref().is_some_and(|sender| sender.connection().number == number)
        };
        let gone = senders.iter_mut().find(is_it).and_then(Option::take);
        drop(senders);
        drop(gone);
    }

    fn look_at(&self, place: usize) {
        let sender = self.senders.lock().get(place).cloned().flatten();
        if let Some(sender) = sender
            && !sender.completed()
        {
            self.lost(&sender);
        }
    }

    /// A connection carries nothing any more. With no lock of a connection held.
    pub(crate) fn lost(&self, sender: &ConnectedSender) {
        let mut control = self.control.lock();
        control.tell_outgoing(|outgoing| outgoing.lost(sender.connection(), now()));
        drop(control);
        self.control.notify_all();
    }
}

impl CqHandler for Notifier {
    fn completion(&self) {
        let send_completions = self.trigger.handler();
        if let Some(word) = send_completions.ready.get(self.place / 64) {
            word.fetch_or(1 << (self.place % 64), Ordering::Release);
        }
        self.trigger.completion();
    }
}

impl SoftHandler for SendCompletions {
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
