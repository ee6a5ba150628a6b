//! How a link is, and what it has been through.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ipoib::link::{self, BroadcastState, WaitsFor};
use kernel::counter::Counter;
use kernel::time::Instant;

use super::Shown;

/// How the link is, for whoever reads statistics; the control thread writes it.
#[derive(Default)]
pub(crate) struct State {
    link: AtomicU32,
    broadcast: AtomicU32,
}

impl State {
    pub(crate) fn show(&self, link: LinkState, broadcast: BroadcastState) {
        self.link.store(link as u32, Ordering::Relaxed);
        self.broadcast.store(broadcast as u32, Ordering::Relaxed);
    }

    /// The numbers of the kstats `link_state` and `broadcast_state`.
    pub(super) fn numbers(&self) -> [u64; 2] {
        [&self.link, &self.broadcast].map(|state| state.load(Ordering::Relaxed).into())
    }
}

/// What a link is or waits for; the numbers are those of the kstat `link_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum LinkState {
    Stopped = 0,
    Port = 1,
    PKey = 2,
    BroadcastGroup = 3,
    QueuePair = 4,
    Up = 5,
}

impl From<link::Status> for LinkState {
    fn from(status: link::Status) -> Self {
        match status {
            link::Status::Stopped => Self::Stopped,
            link::Status::Down(WaitsFor::Port) => Self::Port,
            link::Status::Down(WaitsFor::PKey) => Self::PKey,
            link::Status::Down(WaitsFor::BroadcastGroup) => Self::BroadcastGroup,
            link::Status::Down(WaitsFor::QueuePair) => Self::QueuePair,
            link::Status::Up(_) => Self::Up,
        }
    }
}

impl LinkState {
    /// As properties, probes and the log have it.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Stopped => c"stopped",
            Self::Port => c"waits for port",
            Self::PKey => c"waits for P_Key",
            Self::BroadcastGroup => c"waits for broadcast group",
            Self::QueuePair => c"waits for queue pair",
            Self::Up => c"up",
        }
    }
}

/// What a link has been through since it was attached.
#[derive(Default)]
pub(crate) struct History {
    ups: Counter,
    /// What it waited for when it was last down, and since when it is as it is, in nanoseconds of `gethrtime(9F)`.
    last_down: AtomicU32,
    since: AtomicU64,
    /// Queue pairs made; those that began to carry packets; and those that failed, or completed no sends.
    pub(crate) made: Counter,
    pub(crate) started: Counter,
    pub(crate) failed: Counter,
    pub(crate) stalled: Counter,
}

impl History {
    /// The link has come to another state. By the control thread alone.
    pub(crate) fn note(&self, state: LinkState, now: Instant) {
        match state {
            LinkState::Up => self.ups.increment(),
            down => self.last_down.store(down as u32, Ordering::Relaxed),
        }
        self.since.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// In the order of [`super::HISTORY`].
    pub(crate) fn show(&self, shown: &mut Shown<'_>) {
        shown.put([self.ups.get(), self.last_down.load(Ordering::Relaxed).into()]);
        shown.put([self.since.load(Ordering::Relaxed)]);
        shown.put([&self.made, &self.started, &self.failed, &self.stalled].map(Counter::get));
    }
}
