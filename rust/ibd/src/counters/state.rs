//! How a link is, and what it has been through.

use core::ffi::CStr;
use ipoib::link::{self, BroadcastState, WaitsFor};
use kernel::counter::{Counter, Gauge};
use kernel::time::Instant;

use super::Shown;

/// How the link is, for whoever reads statistics; the control thread writes it.
#[derive(Default)]
pub(crate) struct State {
    link: Gauge,
    broadcast: Gauge,
}

impl State {
    pub(crate) fn show(&self, link: LinkState, broadcast: BroadcastState) {
        self.link.set(link as u64);
        self.broadcast.set(broadcast as u64);
    }

    /// The numbers of the kstats `link_state` and `broadcast_state`.
    pub(super) fn numbers(&self) -> [u64; 2] {
        self.gauges().map(Gauge::get)
    }

    /// In the same order.
    pub(super) fn gauges(&self) -> [&Gauge; 2] {
        [&self.link, &self.broadcast]
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
    /// Up, but no send has completed for long.
    SendsWait = 6,
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
    /// Also of a link whose sends do not complete.
    pub(crate) fn of(status: link::Status, sends_wait: bool) -> Self {
        match status.into() {
            Self::Up if sends_wait => Self::SendsWait,
            state => state,
        }
    }

    /// As properties, probes and the log have it.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Stopped => c"stopped",
            Self::Port => c"waits for port",
            Self::PKey => c"waits for P_Key",
            Self::BroadcastGroup => c"waits for broadcast group",
            Self::QueuePair => c"waits for queue pair",
            Self::Up => c"up",
            Self::SendsWait => c"up, sends wait",
        }
    }
}

/// What a link has been through since it was attached.
#[derive(Default)]
pub(crate) struct History {
    ups: Counter,
    /// What it waited for when it was last down, and since when it is as it is, in nanoseconds of `gethrtime(9F)`.
    last_down: Gauge,
    since: Gauge,
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
            LinkState::Up | LinkState::SendsWait => self.ups.increment(),
            down => self.last_down.set(down as u64),
        }
        self.since.set(now.as_nanos());
    }

    /// In the order of [`super::HISTORY`].
    pub(crate) fn show(&self, shown: &mut Shown<'_>) {
        shown.put([self.ups.get(), self.last_down.get(), self.since.get()]);
        shown.put(self.queue_pairs().map(Counter::get));
    }

    /// The first of them, the next two, and the others.
    pub(super) fn all(&self) -> (&Counter, [&Gauge; 2], [&Counter; 4]) {
        (&self.ups, [&self.last_down, &self.since], self.queue_pairs())
    }

    fn queue_pairs(&self) -> [&Counter; 4] {
        [&self.made, &self.started, &self.failed, &self.stalled]
    }
}
