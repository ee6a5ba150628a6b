//! Notifications: bits that coalesce in a mask, and one thread per mac that delivers them (`M/mac_provider.c`).

use std::sync::Arc;

use fakekernel::genunix::Level;
use fakekernel::{Ctx, HostMutex, Thread, WaitQueue, cx};

use super::Mac;
use crate::types::LinkState;

/// What a notification is about, by its number (`mac_notify_type_t`): the order of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Note {
    Link = 0,
    Unicst = 1,
    Tx = 2,
    DevPromisc = 3,
    FastpathFlush = 4,
    SduSize = 5,
    Dest = 6,
    Margin = 7,
    CapabChg = 8,
    LowLink = 9,
    AllowedIps = 10,
}

impl Note {
    pub(crate) const ALL: [Self; 11] = [
        Self::Link,
        Self::Unicst,
        Self::Tx,
        Self::DevPromisc,
        Self::FastpathFlush,
        Self::SduSize,
        Self::Dest,
        Self::Margin,
        Self::CapabChg,
        Self::LowLink,
        Self::AllowedIps,
    ];

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// What is to be delivered, and by whom.
#[derive(Debug)]
pub(super) struct Notes {
    state: HostMutex<State>,
    posted: WaitQueue,
    thread: HostMutex<Option<Thread>>,
}

#[derive(Debug, Default)]
struct State {
    mask: u32,
    stop: bool,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self {
            state: HostMutex::new(State::default()),
            posted: WaitQueue::new("notifications of a mac"),
            thread: HostMutex::new(None),
        }
    }
}

impl Mac {
    /// Asks for a notification; returns at once. Nothing happens on a disabled mac.
    pub(crate) fn post(&self, note: Note) {
        let mut state = self.notes.state.lock();
        if !state.stop {
            state.mask |= note.bit();
            drop(state);
            self.notes.posted.wake_all();
        }
    }

    pub(super) fn start_notes(self: &Arc<Self>) {
        let mac = self.clone();
        let thread =
            self.kernel.spawn(&format!("mac_notify {}", self.name), Ctx::Kernel, move || mac.deliver_notes());
        *self.notes.thread.lock() = Some(thread);
    }

    /// From now on nothing is posted; what is under way is finished.
    pub(super) fn ask_notes_to_stop(&self) {
        self.notes.state.lock().stop = true;
        self.notes.posted.wake_all();
    }

    /// As [`Mac::ask_notes_to_stop`], and waits for the thread. Not inside the perimeter, which the thread may want.
    pub(super) fn stop_notes(&self) {
        self.ask_notes_to_stop();
        let thread = self.notes.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }

    fn deliver_notes(&self) {
        loop {
            let mut state = self.notes.state.lock();
            while state.mask == 0 && !state.stop {
                state = self.notes.posted.wait(state);
            }
            if state.stop {
                return;
            }
            let mut mask = std::mem::take(&mut state.mask);
            drop(state);
            if mask & Note::LowLink.bit() != 0 && self.take_low_state() {
                mask |= Note::Link.bit();
            }
            for note in Note::ALL {
                if mask & note.bit() != 0 {
                    self.deliver(note);
                }
            }
        }
    }

    fn deliver(&self, note: Note) {
        let client = self.client.lock().clone();
        let Some(client) = client else { return };
        if note == Note::Link && self.state.lock().link_state == LinkState::Up {
            let _inside = self.perimeter.enter();
            client.recompute_fanout();
        }
        client.notify(note);
    }

    /// Copies the driver's link state to the clients'; logs the change; whether there was one.
    fn take_low_state(&self) -> bool {
        let (old, new) = {
            let mut state = self.state.lock();
            let new = state.low_state;
            (std::mem::replace(&mut state.link_state, new), new)
        };
        if old == new {
            return false;
        }
        let text = match new {
            LinkState::Up => match self.plugin.link_details(&self.kernel, self.as_handle()) {
                Some(details) => format!("!{} link up, {details}", self.name),
                None => format!("!{} link up", self.name),
            },
            LinkState::Down if old != LinkState::Unknown => format!("!{} link down", self.name),
            LinkState::Down | LinkState::Unknown => return true,
        };
        self.kernel.genunix().cmn_err(&cx(), Level::Notice, &text);
        true
    }
}
