//! What is known about one address.

use super::packets::Queue;
use super::{Cause, DenialEpoch, DropReason, Handle};
use crate::addr::LinkAddr;
use crate::table::{Key, mix};
use crate::time::Instant;

/// What is known about one address; opaque.
#[derive(Debug)]
pub struct Path<H> {
    pub(super) state: State<H>,
    pub(super) trust: Trust,
    pub(super) lookup: Lookup,
    /// What it was first looked up for. No more is believed of it until the SA has spoken, or a frame from its own GID came.
    pub(super) cause: Cause,
    /// What the lookup that is out is counted as.
    pub(super) out_for: Cause,
    /// The SA was asked about this very address.
    pub(super) told: bool,
    /// Addresses of its GID, if it is the first one in their chain (`of_port`).
    pub(super) siblings: u32,
    /// Which of the SMs since the table was made has told the handle, and which one was there when the lookup began.
    pub(super) told_by: u32,
    pub(super) asked_of: u32,
    /// Somebody asked without a packet: looked up, then kept, although none waits.
    pub(super) asked: bool,
    /// When the SA told the way.
    pub(super) since: Instant,
    /// When the handle was made for this address.
    pub(super) made: Instant,
    pub(super) packets: Queue,
    /// Packets decided to be sent that have not been taken by [`next_packet`](super::Paths::next_packet); no later packet may overtake them. None unless
    /// there is a handle.
    pub(super) leaving: u16,
    pub(super) failures: u32,
    /// The SA has said that there is no path, and nothing has spoken for one since.
    pub(super) absent: bool,
    /// The table was asked about it, or has seen that its handle was used, since it was last found idle or not.
    pub(super) used: bool,
}

#[derive(Debug)]
pub(super) enum State<H> {
    Unresolved,
    Ready(H),
    Failed { until: Instant, reason: DropReason },
}

/// What is thought of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The SM that is there has told it.
    Full,
    /// But it has reported since that the port comes or goes; or the address follows another one that was in doubt.
    Reported,
    /// The SM has changed since.
    Doubted,
    /// The new SM knew no path when it was asked: perhaps it had not looked around yet. The next such answer counts.
    Missed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    None,
    /// On the list `URGENT`, `BACKGROUND`, `UNPROVED`, `NEWCOMERS`, `STRANGERS`, or one of groups.
    Wanted,
    /// Another address of its GID is being asked about, whose answer it shares.
    Shares,
    Out,
    /// Out, but what it will answer is out of date.
    OutOfDate,
}

impl Key for LinkAddr {
    fn hash(&self, seed: u64) -> u64 {
        let gid = self.gid();
        let first = u64::from(self.flags()) << 24 | u64::from(self.qpn().get());
        mix(mix(mix(seed, first), gid.prefix), gid.guid)
    }

    /// Addresses of one GID, whatever their queue pairs.
    fn kin_hash(&self, seed: u64) -> u64 {
        let gid = self.gid();
        mix(mix(seed, gid.prefix), gid.guid)
    }
}

impl<H: Handle> Path<H> {
    /// Nothing is known of it.
    pub(super) fn new(cause: Cause, siblings: u32) -> Self {
        Self {
            state: State::Unresolved,
            trust: Trust::Full,
            lookup: Lookup::None,
            cause,
            out_for: Cause::Own,
            told: false,
            siblings,
            told_by: 0,
            asked_of: 0,
            asked: false,
            since: Instant::ZERO,
            made: Instant::ZERO,
            packets: Queue::default(),
            leaving: 0,
            failures: 0,
            absent: false,
            used: false,
        }
    }

    /// Has neither packets nor a lookup that is out: it may be forgotten.
    pub(super) fn rests(&self) -> bool {
        let is_out = matches!(self.lookup, Lookup::Out | Lookup::OutOfDate);
        !is_out && self.packets.is_empty() && self.leaving == 0
    }

    pub(super) fn has_idle_handle(&self) -> bool {
        matches!(self.state, State::Ready(_)) && self.rests()
    }

    /// What is known from now on. The only place where that changes: a handle that is not known any more is withdrawn.
    pub(super) fn know(&mut self, denial_epoch: &DenialEpoch, state: State<H>) {
        match core::mem::replace(&mut self.state, state) {
            State::Ready(handle) => handle.validity().withdraw(),
            State::Failed { .. } => denial_epoch.add(),
            State::Unresolved => {}
        }
    }

    /// A failure is held against it no longer: the next packet has it looked up.
    pub(super) fn expire_denials(&mut self, denial_epoch: &DenialEpoch) {
        if let State::Failed { until, .. } = &mut self.state {
            *until = Instant::ZERO;
            denial_epoch.add();
        }
    }

    /// What failed before says nothing about the next lookup.
    pub(super) fn forgive(&mut self) {
        self.failures = 0;
        self.absent = false;
    }

    /// Whether it was used since this was last asked, by the table or without it.
    pub(super) fn take_use(&mut self) -> bool {
        self.see_use();
        core::mem::take(&mut self.used)
    }

    /// Whether its handle was used without the table since this was last asked.
    pub(super) fn see_use(&mut self) -> bool {
        let used = matches!(&self.state, State::Ready(handle) if handle.validity().take_use());
        self.used |= used;
        used
    }
}
