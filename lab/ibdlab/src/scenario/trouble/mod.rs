//! Trouble: a timeline of things that happen to a running world, under traffic.
//!
//! ```toml
//! [step.trouble]
//! within_ms = 200
//! event = [
//!     { at_us = 1_200, port-down = { host = "bob" } },
//!     { at_us = 5_000, port-up = { host = "bob" } },
//!     { at_us = 7_000, allocation-fails = { host = "bob", kind = "kmem", after = 3, times = 2 } },
//!     { on = { host = "bob", call = "ibt_alloc_ud_channel", holds_us = 100 }, link-close = { host = "bob" } },
//! ]
//! ```
//!
//! When the timeline is over every cause goes away, and then the links have `settle_ms` to be as good as new without help.
//! Everything here can be written as well as read, so that a timeline that was found can be kept.

mod clone;
mod event;
mod garbled;
mod malformed;
mod retrains;
mod strangers;
mod timed;

use serde::{Deserialize, Serialize};

use super::TcpStep;

pub use clone::HcaClone;
pub use event::{
    AllocationFails, CmLost, CmMessage, Delayed, Event, FaultPoint, ForMs, GroupOf, HcaGoes, HostForMs,
    LinkFaulty, MembershipTo, MemoryShort, OnHost, PacketTo, PkeyAt, PromiscuousMode, PropertyTo, QpOf,
    RawPacketTo, SaDoes, SaLie, SaRequest, SaStatus, SaTrouble, SmComesBack, SmMoves, SubnetPrefix, Visits,
};
pub use garbled::SaGarbled;
pub use malformed::Malformed;
pub use retrains::LinkRetrains;
pub use strangers::{Claim, Strangers};
pub use timed::{Call, TimedEvent};

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TroubleStep {
    /// How long there is traffic and trouble, in milliseconds of machine time; every event begins within it.
    #[serde(deserialize_with = "crate::scenario::range::trouble_within_ms")]
    pub within_ms: u64,
    /// How long links, addresses and memberships may take afterwards, in milliseconds of machine time.
    #[serde(default = "default_settle", deserialize_with = "crate::scenario::range::settle_ms")]
    pub settle_ms: u64,
    /// The least time from one echo between two addresses to the next, in microseconds of machine time.
    #[serde(default = "default_echo_every", deserialize_with = "crate::scenario::range::echo_every_us")]
    pub echo_every_us: u64,
    /// Threads of each host that send frames of their own beside its IP, to addresses of now and of before.
    #[serde(default, skip_serializing_if = "is_none", deserialize_with = "crate::scenario::range::senders")]
    pub senders: u8,
    /// Threads lose their processor in the middle of a driver's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallSpec>,
    /// A transfer that begins with the trouble, and of which every byte has to arrive: its two hosts keep their links meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpStep>,
    /// In any order; events of one instant happen in the order of the file.
    pub event: Vec<TimedEvent>,
}

/// Threads that have no processor for a while, at places in the modules that are rarely passed as well as at those that are passed
/// all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StallSpec {
    /// One in so many that pass a place first; of those who pass it as the `n`th, one in `n` times as many.
    #[serde(deserialize_with = "crate::scenario::range::stall_one_in")]
    pub one_in: u32,
    /// In microseconds of machine time; the shortest has one, and there are as many of each order of magnitude.
    #[serde(deserialize_with = "crate::scenario::range::longest_us")]
    pub longest_us: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(senders: &u8) -> bool {
    *senders == 0
}

fn default_echo_every() -> u64 {
    100
}

/// One call to a silent SA takes IBTF up to 240 s, and a link may have one out when the trouble ends.
fn default_settle() -> u64 {
    300_000
}
