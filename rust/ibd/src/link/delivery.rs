//! The receive path, from the receive CQ to mac: open from start to stop (of the receive ring, if the link has one), whatever
//! queue pairs come and go in between.
//! One thread at a time is on it, so packets go up in the order in which they came; once it is shut nobody is.

use core::sync::atomic::{AtomicBool, Ordering};

use gldv3::{Generation as RingGeneration, Mac};
use ipoib::link::Generation;
use kernel::mblk::{Mblk, MblkChain};
use kernel::softint::SoftHandler;
use kernel::sync::Monitor;
use kernel::{KArc, MayBlock};

use super::incoming::{ConnectedReceiver, ConnectionCounters};
use super::receive::{self, Receiver};

/// How much of what IP is told waits at most.
const ANSWERS: usize = 32;

/// Whether packets may go up, who brings them, and the receive side that they come from.
pub(crate) struct Delivery {
    state: Monitor<DeliveryState>,
    /// Whether an interrupt may take packets, and whether the MAC layer may: as `state` says, for whoever is inside and looks again.
    interrupt_may: AtomicBool,
    poll_may: AtomicBool,
    /// For whoever is inside: there is another receive side, or something that IP is told.
    changed: AtomicBool,
    counters: KArc<ConnectionCounters>,
}

struct DeliveryState {
    open: bool,
    /// Which run of the receive ring this is, if the link has one.
    generation: Option<RingGeneration>,
    /// The MAC layer has switched the ring's interrupt off and fetches packets itself.
    polled: bool,
    /// A thread is on the receive path.
    busy: bool,
    /// Another one was turned back meanwhile: there may be more.
    again: bool,
    /// Somebody waits until no thread is on the receive path.
    awaited: bool,
    /// The next time that the MAC layer fetches packets, those of connections come first: each second time.
    connections_first: bool,
    /// That of the queue pair that stands, and its generation.
    receiver: Option<(Generation, KArc<Receiver>)>,
    /// That of connections from neighbours, if there are any.
    connected: Option<KArc<ConnectedReceiver>>,
    /// What IP is told of packets that are too long for a neighbour.
    answers: MblkChain,
}

/// Who takes packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// An interrupt, or the thread that goes on after one. Not while the MAC layer fetches packets itself.
    Interrupt,
    /// The MAC layer.
    Poll,
}

impl DeliveryState {
    fn lets_in(&self, who: By) -> bool {
        self.open && !(who == By::Interrupt && self.polled)
    }

    /// Where packets come from now, if there is anything.
    fn sides(&self) -> Option<Sides> {
        let receiver = self.receiver.as_ref().map(|(_, receiver)| receiver.clone());
        let sides = Sides { receiver, connected: self.connected.clone() };
        (sides.receiver.is_some() || sides.connected.is_some()).then_some(sides)
    }
}

impl Delivery {
    /// Shut.
    pub(crate) fn new(counters: &KArc<ConnectionCounters>, may_block: &MayBlock) -> KArc<Self> {
        let state = DeliveryState {
            open: false,
            generation: None,
            polled: false,
            busy: false,
            again: false,
            awaited: false,
            connections_first: false,
            receiver: None,
            connected: None,
            answers: MblkChain::new(),
        };
        let not = || AtomicBool::new(false);
        let delivery = Self {
            state: Monitor::new_waiting(state, may_block),
            interrupt_may: not(),
            poll_may: not(),
            changed: not(),
            counters: counters.clone(),
        };
        KArc::new_waiting(delivery, may_block)
    }

    /// The link is started, or its receive ring is. What came in before this is looked for by the caller
    /// ([`Shared::open_delivery`](super::Shared::open_delivery)). **Any** context.
    pub(crate) fn open(&self, generation: Option<RingGeneration>) {
        let mut state = self.state.lock();
        state.open = true;
        state.generation = generation;
        state.polled = false;
        self.show(&state);
    }

    /// The link is stopped, or its receive ring is: when this returns nobody hands packets up. **May block**, as long as IP holds the
    /// thread that does.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock();
        state.open = false;
        self.show(&state);
        while state.busy {
            state.awaited = true;
            state.wait();
        }
        let untold = core::mem::take(&mut state.answers);
        drop(state);
        drop(untold);
    }

    /// Whether the MAC layer fetches packets itself, from now on. A thread that is on the receive path takes no more then. **Any** context.
    pub(crate) fn set_polled(&self, polled: bool) {
        let mut state = self.state.lock();
        state.polled = polled;
        self.show(&state);
    }

    /// For whoever is inside. Nothing depends on when he sees it: the lock decides who comes in, and who has to be waited for.
    fn show(&self, state: &DeliveryState) {
        self.interrupt_may.store(state.lets_in(By::Interrupt), Ordering::Relaxed);
        self.poll_may.store(state.lets_in(By::Poll), Ordering::Relaxed);
    }

    /// Packets come from this receive side from now on. Whether IP is to be told something that waited for one: then the caller has the
    /// backlog's thread look. **Any** context.
    #[must_use]
    pub(crate) fn put(&self, generation: Generation, receiver: &KArc<Receiver>) -> bool {
        let mut state = self.state.lock();
        let before = state.receiver.replace((generation, receiver.clone()));
        self.changed.store(true, Ordering::Relaxed);
        let tells = !state.answers.is_empty();
        drop(state);
        drop(before);
        tells
    }

    /// Where they come from, until it is closed. **Any** context.
    pub(crate) fn receiver(&self) -> Option<KArc<Receiver>> {
        self.state.lock().receiver.as_ref().map(|(_, receiver)| receiver.clone())
    }

    /// Packets do not come from a generation up to this one any more. **Any** context.
    pub(crate) fn remove(&self, up_to: Option<Generation>) {
        let mut state = self.state.lock();
        let gone = state.receiver.take_if(|(generation, _)| Some(*generation) <= up_to);
        drop(state);
        drop(gone);
    }

    /// Messages of connections come from this receive side from now on, whether or not datagrams come from one. As [`Delivery::put`].
    #[must_use]
    pub(crate) fn put_connected(&self, connected: &KArc<ConnectedReceiver>) -> bool {
        let mut state = self.state.lock();
        let before = state.connected.replace(connected.clone());
        self.changed.store(true, Ordering::Relaxed);
        let tells = !state.answers.is_empty();
        drop(state);
        drop(before);
        tells
    }

    /// They do not come from this one any more. **Any** context.
    pub(crate) fn remove_connected(&self, connected: &ConnectedReceiver) {
        let mut state = self.state.lock();
        let gone = state.connected.take_if(|stands| core::ptr::eq(&raw const **stands, connected));
        drop(state);
        drop(gone);
    }

    /// Where they come from. **Any** context.
    pub(crate) fn connected(&self) -> Option<KArc<ConnectedReceiver>> {
        self.state.lock().connected.clone()
    }

    /// Has the next thread on the receive path hand up what IP is told; comes back if too much of that waits, or the path is shut. The caller has the
    /// backlog's thread look. **Any** context.
    pub(crate) fn tell(&self, answer: Mblk) -> Option<Mblk> {
        let mut state = self.state.lock();
        if !state.open || state.answers.len() >= ANSWERS {
            return Some(answer);
        }
        state.answers.push_back(answer);
        self.changed.store(true, Ordering::Relaxed);
        None
    }

    /// Whether IP is to be told something, and there is a receive side with which somebody can come in to do so. **Any** context.
    pub(crate) fn has_answers(&self) -> bool {
        let state = self.state.lock();
        !state.answers.is_empty() && state.sides().is_some()
    }

    /// `None` while it is shut, not open to `who`, or busy, and without a receive side; the thread on the receive path then looks again. **Any**
    /// context.
    pub(crate) fn enter(&self, who: By) -> Option<Delivering<'_>> {
        let mut state = self.state.lock();
        if !state.lets_in(who) {
            return None;
        }
        if state.busy {
            state.again = true;
            return None;
        }
        let sides = state.sides()?;
        state.busy = true;
        let connections_first = who == By::Poll && state.connections_first;
        state.connections_first ^= who == By::Poll;
        Some(Delivering { delivery: self, who, generation: state.generation, connections_first, sides })
    }
}

impl SoftHandler for Delivery {
    fn run(&self) {
        receive::interrupted(self);
    }
}

/// Where packets come from: at least one of them.
pub(crate) struct Sides {
    /// Datagrams, unless the queue pair is being replaced.
    pub(crate) receiver: Option<KArc<Receiver>>,
    /// Messages of connections, if there are any.
    pub(crate) connected: Option<KArc<ConnectedReceiver>>,
}

/// A thread takes packets and hands them up, until it [leaves](Delivering::leave).
#[must_use]
pub(crate) struct Delivering<'a> {
    delivery: &'a Delivery,
    who: By,
    generation: Option<RingGeneration>,
    connections_first: bool,
    sides: Sides,
}

/// No thread is on the receive path.
#[must_use]
pub(crate) struct Left {
    /// Somebody was turned back meanwhile, and nobody has looked for what he came for.
    pub(crate) again: bool,
    /// Where packets came from.
    pub(crate) sides: Sides,
}

impl<'a> Delivering<'a> {
    /// Where packets come from.
    pub(crate) fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Whether packets of connections come before datagrams this time.
    pub(crate) fn connections_first(&self) -> bool {
        self.connections_first
    }

    /// Whether more may be taken.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.who {
            By::Interrupt => self.delivery.interrupt_may.load(Ordering::Relaxed),
            By::Poll => self.delivery.poll_may.load(Ordering::Relaxed),
        }
    }

    /// Takes packets from the receive sides that stand by now, if there are others, and comes with what IP is to be told, which goes up at once.
    /// No locked instruction unless there is something: what is seen too late is not lost, because whoever changed something looks
    /// whether anything is left to do, or has the backlog's thread look.
    pub(crate) fn look_again(&mut self) -> Option<MblkChain> {
        self.delivery.changed.load(Ordering::Relaxed).then(|| self.take_changes())
    }

    #[cold]
    #[inline(never)]
    fn take_changes(&mut self) -> MblkChain {
        let mut state = self.delivery.state.lock();
        let sides = state.sides();
        let answers =
            if state.lets_in(self.who) { core::mem::take(&mut state.answers) } else { MblkChain::new() };
        // What may not go up now is there for whoever may hand it up.
        self.delivery.changed.store(!state.answers.is_empty(), Ordering::Relaxed);
        drop(state);
        if let Some(sides) = sides {
            self.sides = sides;
        }
        self.delivery.counters.too_big.add(answers.len() as u64);
        answers
    }

    /// What IP is to be told, as much as fits the room, which it lessens; it goes up at once.
    pub(crate) fn answers_within(&self, room: &mut usize) -> MblkChain {
        let mut fits = MblkChain::new();
        if !self.delivery.changed.load(Ordering::Relaxed) {
            return fits;
        }
        let mut state = self.delivery.state.lock();
        while let Some(answer) = state.answers.pop_front() {
            let Some(left) = room.checked_sub(answer.len()) else {
                state.answers.push_front(answer);
                break;
            };
            *room = left;
            fits.push_back(answer);
        }
        self.delivery.changed.store(!state.answers.is_empty(), Ordering::Relaxed);
        drop(state);
        self.delivery.counters.too_big.add(fits.len() as u64);
        fits
    }

    /// Hands packets up.
    pub(crate) fn deliver(&self, mac: &Mac, packets: MblkChain) {
        match self.generation {
            _ if packets.is_empty() => {}
            Some(generation) => mac.receive_on_ring(generation, packets),
            None => mac.receive(packets),
        }
    }

    /// Leaves. If somebody was turned back meanwhile and `may_stay`, the thread stays inside, to look again: at the receive side that
    /// stands by now.
    pub(crate) fn leave(mut self, may_stay: bool) -> Result<Left, Self> {
        let mut state = self.delivery.state.lock();
        let again = core::mem::take(&mut state.again);
        if again
            && may_stay
            && state.lets_in(self.who)
            && let Some(sides) = state.sides()
        {
            self.generation = state.generation;
            drop(state);
            self.sides = sides;
            return Err(self);
        }
        state.busy = false;
        let awaited = core::mem::take(&mut state.awaited);
        drop(state);
        if awaited {
            self.delivery.state.notify_all();
        }
        Ok(Left { again, sides: self.sides })
    }
}
