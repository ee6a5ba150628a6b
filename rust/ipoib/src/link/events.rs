//! What a link is told and what it asks for: the words between [`Link`](super::Link) and whoever drives it.

use core::time::Duration;

use super::generation::Generation;
use crate::addr::{Gid, LinkAddr, Mgid, Qpn};
use crate::backoff::Backoff;
use crate::numbers::{Mlid, Mtu, PKey, QKey, Rate, Scope};
use crate::paths::Severity;

/// What the machine is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The link's partition; the full member's form.
    pub pkey: PKey,
    /// Whether to create a broadcast group that nobody has.
    pub create: bool,
    /// After a failed search, join or build.
    pub retry: Backoff,
    /// How often a port that is not usable is asked.
    pub poll: Backoff,
    /// How often the broadcast group is joined again, because an SM that lost the membership need not say so.
    pub verify: Duration,
    /// How long after a change of the SM a link that is in its broadcast group joins again, and at least half of it: a new SM makes
    /// itself known in several ways, one behind the other, and to every host. Short, as the SM may have forgotten the memberships.
    pub renew: Duration,
    /// How long an answer about the broadcast group is waited for; `None`: as long as whoever asks waits.
    pub answer: Option<Duration>,
    /// Failed searches and joins that are followed by the shortest pause before the pauses grow.
    pub quick: u32,
}

impl Config {
    /// The usual bounds.
    pub const fn new(pkey: PKey) -> Self {
        let retry = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
        let poll = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let (verify, renew) = (Duration::from_secs(900), Duration::from_millis(8));
        Self { pkey, create: true, retry, poll, verify, renew, answer: None, quick: 0 }
    }
}

/// Names one request, so that its answer can be told from a later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(super) u32);

/// The port as a query shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether its state is ACTIVE.
    pub active: bool,
    /// GID at index 0.
    pub gid: Gid,
    /// Base LID; 0 while the port has none.
    pub lid: u16,
    /// How many low bits of its LIDs are the port's to choose.
    pub lmc: u8,
    /// The SM's LID; 0 while the port has none.
    pub sm_lid: u16,
    /// Where the P_Key is in the port's table.
    pub pkey_index: Option<u16>,
    /// What the port can carry.
    pub mtu: Mtu,
    /// Payload bits per second; 0 if the port does not tell, and the broadcast group's rate counts.
    pub speed: u64,
    /// It may be faster than it can tell: the SA is asked.
    pub speed_is_least: bool,
}

impl Port {
    pub(super) fn is_usable(&self) -> bool {
        self.active && self.pkey_index.is_some()
    }

    /// Whether the SA's paths and their handles are as good for the other: a link that trains anew may carry more or less.
    pub(super) fn leads_as(&self, other: &Self) -> bool {
        (self.lid, self.mtu, self.speed) == (other.lid, other.mtu, other.speed)
    }
}

/// The broadcast group as its member record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastGroup {
    /// Its MGID, scope and P_Key included.
    pub mgid: Mgid,
    /// The scope every group of the link has.
    pub scope: Scope,
    /// Where its frames go.
    pub mlid: Mlid,
    /// The key of every datagram on the link.
    pub qkey: QKey,
    /// The link's MTU.
    pub mtu: Mtu,
    /// `None` if the record has none.
    pub rate: Option<Rate>,
    /// Service level, 0..=15.
    pub sl: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit, which a group that this link makes has, too.
    pub hop_limit: u8,
}

/// What a queue pair must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The broadcast group, whose scope every group of the link has.
    pub mgid: Mgid,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// Queue key.
    pub qkey: QKey,
    /// The link's MTU, for buffers.
    pub mtu: Mtu,
    /// The port's GID, which is in the link's address.
    pub gid: Gid,
}

impl Plan {
    /// Whether what is known about the ways to others is of no use for the other plan. Where the P_Key is in the port's table is
    /// nobody else's concern.
    pub(super) fn leads_elsewhere(&self, other: &Self) -> bool {
        Self { pkey_index: other.pkey_index, ..*self } != *other
    }
}

/// A queue pair that carries traffic, or is to: what for, and as which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which one it is.
    pub generation: Generation,
    /// What it fits.
    pub plan: Plan,
}

/// Why a request failed; the number is the status for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaError {
    /// The SA said no.
    Refused(i32),
    /// The SA said nothing, or nothing that makes sense. It may have done what it was asked.
    Unanswered(i32),
    /// The SA was not asked.
    NotAsked(i32),
    /// The SA granted the join in a record that makes no sense: what it did has to be undone one day.
    Unusable,
}

impl SaError {
    /// Whether nothing came from the SA.
    pub(super) const fn is_silence(self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::NotAsked(_))
    }
}

/// Something happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<G> {
    /// The MAC layer starts the link.
    Start,
    /// The MAC layer stops the link. Its queue pair is taken down by whoever says so.
    Stop,
    /// Something about the port may have changed.
    PortEvent,
    /// The port came up, after a time in which the SM may have forgotten it.
    Renew,
    /// The SM asks for registrations anew, or changed; often both, one after the other.
    SmChanged,
    /// Answers [`Action::QueryPort`]; `None` if the query failed.
    Port(Ticket, Option<Port>),
    /// Answers [`Action::Find`]; `Ok(None)` if there is no such group.
    Found(Ticket, Result<Option<BroadcastGroup>, SaError>),
    /// Answers [`Action::Join`], with the GID and the group that it named: the group, and what is needed to hear it and to send there.
    Joined(Ticket, Gid, Mgid, Result<(BroadcastGroup, G), SaError>),
    /// Answers [`Action::Leave`].
    Left {
        /// As in the action.
        mgid: Mgid,
        /// As in the action.
        gid: Gid,
        /// Joins that are still to be undone, because IBTF was not asked; 0 if it was, and the SA has not confirmed.
        owed: Option<u32>,
    },
    /// Answers [`Action::Make`], [`Action::Build`] and [`Action::Attach`]; `None` if it failed.
    Built(Ticket, Option<Qpn>),
    /// What was built as this generation no longer works. Of one that does not stand it says nothing.
    Broken(Generation),
    /// It takes sends and does not complete them.
    Stalled(Generation),
    /// Answers [`Action::AskRate`]; `None` if the SA does not tell.
    Rate(Gid, Option<Rate>),
    /// A trap says that a group exists.
    Appeared(Mgid),
    /// A trap says that a group is gone.
    Gone(Mgid),
}

/// What to do. Every request but `Owe` and the last five is answered, always and once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<G> {
    /// Ask the port.
    QueryPort(Ticket),
    /// Ask the SA for the broadcast group with this MGID.
    Find(Ticket, Mgid),
    /// Join as a full member with this port GID, with every parameter of the record given.
    Join(Ticket, Gid, Mgid, Option<BroadcastGroup>),
    /// Leave as often as was joined.
    Leave {
        /// The group.
        mgid: Mgid,
        /// The port GID it was joined with.
        gid: Gid,
        /// Successful joins to undo. 0: the SA may have granted one that nobody answered, and IBTF counts none.
        joins: u32,
    },
    /// Nothing more is done about joins that a leave has not undone: another one owes them from now on. Nothing is answered.
    Owe {
        /// The group.
        mgid: Mgid,
        /// The port GID it was joined with.
        gid: Gid,
        /// Joins to undo, as for [`Action::Leave`].
        joins: u32,
    },
    /// Make a queue pair at this index of the P_Key, which carries nothing yet: its number is the link's, whatever comes.
    Make(Ticket, u16),
    /// Have the queue pair that is made, or another one if it is of no use, carry this as a new generation: give it buffers and attach
    /// it to the broadcast group.
    Build(Ticket, Standing, G),
    /// The broadcast group is reached in another way than before: attach the queue pair to it as it is now.
    Attach(Ticket, G),
    /// Ask the SA how fast the way from the port with this GID to itself is. No answer is waited for.
    AskRate(Gid),
    /// End the traffic of the queue pair, which is this generation and those that took the place of a part of it, and free it. Whatever
    /// was drawn until now is over.
    TearDown(Generation),
    /// Tell paths and groups.
    Invalidate(Severity),
    /// Tell the MAC layer the link's address. In front of the status that goes with it.
    Address(LinkAddr),
    /// Tell the MAC layer.
    Announce(Status),
    /// Tell the log.
    Note(Note),
}

/// What the MAC layer and the log are told about the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody wants it.
    Stopped,
    /// It is wanted and waits.
    Down(WaitsFor),
    /// It carries traffic.
    Up(Up),
}

/// What a link that is not up waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The port to become active.
    Port,
    /// The P_Key to come into the port's table.
    PKey,
    /// The broadcast group to be found and joined.
    BroadcastGroup,
    /// Queue pair and buffers.
    QueuePair,
}

/// A link that carries traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Up {
    /// Its address.
    pub address: LinkAddr,
    /// Its MTU.
    pub mtu: Mtu,
    /// Payload bits per second.
    pub speed: u64,
    /// Its groups' scope.
    pub scope: Scope,
}

/// How far the membership in the broadcast group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BroadcastState {
    /// Nothing is asked now.
    None = 0,
    /// The SA is asked for the group.
    Searching = 1,
    /// The SA is asked to join or create it.
    Joining = 2,
    /// The port is a member.
    Joined = 3,
    /// The port was a member, which the SM may have forgotten: it joins again.
    Renewing = 4,
}

/// Something an administrator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// There is no broadcast group, and none may be created.
    BroadcastAbsent,
    /// There is no broadcast group, and creating it failed.
    CreateFailed(SaError),
    /// The broadcast group was found and could not be joined.
    JoinFailed(SaError),
    /// Two broadcast groups exist in two scopes: the link has left the first and is in the second.
    Moved(Mgid, Mgid),
    /// The broadcast group's MTU, and the port's which is smaller.
    MtuTooLarge(Mtu, Mtu),
    /// Queue pair or buffers could not be had.
    BuildFailed,
    /// The queue pair failed; it is replaced.
    Broken,
    /// The same, because it did not complete sends.
    Stalled,
}
