//! Where a host's modules make their calls: each place of theirs that a call comes from, and which call of its function it was then.
//!
//! A function's name says little of those that are called all the time: `mutex_enter` is one call in a thousand places. A place that is passed
//! seldom is found here, and whoever wants something to happen there names the function and the number ([`crate::Moment`]).

use std::sync::atomic::{AtomicBool, Ordering};

use sim::HostMutex;

use crate::loader::gate::Import;

/// Passes of one place that are noted.
const NOTED: u8 = 2;
/// Counters of passes; of places that share one only the first are noted.
const COUNTERS: usize = 1 << 14;

/// A place that a call came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function that was called.
    pub call: String,
    /// Which of the host's calls of it this was, from the boot on: the first is 1.
    pub pass: u64,
    /// The module that called, and how far within it.
    pub module: &'static str,
    /// Equal in two loads of an object.
    pub offset: usize,
}

/// Those of one host.
#[derive(Default)]
pub(crate) struct Sites {
    on: AtomicBool,
    state: HostMutex<State>,
}

#[derive(Default)]
struct State {
    passes: Vec<u8>,
    noted: Vec<Site>,
}

impl Sites {
    pub(crate) fn begin(&self) {
        *self.state.lock() = State { passes: vec![0; COUNTERS], noted: Vec::new() };
        self.on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) -> Vec<Site> {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.state.lock()).noted
    }

    /// A module calls; `place` is the return address within it.
    #[inline]
    pub(crate) fn pass(&self, import: &Import, place: usize) {
        if self.on.load(Ordering::Relaxed) {
            self.note(import, place);
        }
    }

    fn note(&self, import: &Import, place: usize) {
        let mut state = self.state.lock();
        let hash = (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let Some(passes) = state.passes.get_mut(hash as usize % COUNTERS) else { return };
        if *passes == NOTED {
            return;
        }
        *passes += 1;
        let site = Site {
            call: import.name.clone(),
            pass: import.kernel.calls_of(&import.name),
            module: import.module_name,
            offset: import.offset_of(place),
        };
        state.noted.push(site);
    }
}
