//! What can happen.

use std::net::IpAddr;

use fakekernel::FaultKind;
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use super::{HcaClone, LinkRetrains, Malformed, SaGarbled, Strangers};
use crate::scenario::{Membership, Nothing};

/// Something that happens to a world. Whatever of it still holds when the timeline ends is undone then.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A host's cable is pulled.
    PortDown(OnHost),
    /// It is plugged in again.
    PortUp(OnHost),
    /// A host's link trains anew, to fewer or slower lanes or a smaller MTU, for a time.
    LinkRetrains(LinkRetrains),
    /// The switch restarts: every link is down for a time.
    SwitchReboot(ForMs),
    /// The subnet manager dies: nobody answers.
    SmStop(Nothing),
    /// A new subnet manager takes over, which knows nobody and asks everybody to register anew.
    SmRestart(SmComesBack),
    /// Another subnet manager takes over at another LID, which knows nobody either.
    SmFailover(SmMoves),
    /// The subnet manager forgets every membership and subscription and asks for them anew.
    RegistrationsLost(Nothing),
    /// The subnet gets another prefix: every port's GID changes.
    SubnetPrefix(SubnetPrefix),
    /// The subnet administrator does something wrong for a time.
    Sa(SaTrouble),
    /// A host's P_Key goes from its port's table.
    PkeyRemoved(OnHost),
    /// It is in the table again, at this index.
    PkeyAdded(PkeyAt),
    /// A host's port has its P_Key as a limited member, as a full one, or both.
    Membership(MembershipTo),
    /// The broadcast groups are gone, whoever was in them; the subnet manager reports it.
    GroupDeleted(Nothing),
    /// The subnet manager makes the broadcast groups again that it is configured with.
    GroupCreated(Nothing),
    /// Some allocations and other fallible calls of a host's modules fail.
    AllocationFails(AllocationFails),
    /// There is no kernel memory for a host's modules for a time: what does not wait for memory fails, and what waits goes on afterwards.
    MemoryShort(MemoryShort),
    /// A host's link loses, doubles, reorders, damages or delays packets for a time, both ways.
    Link(LinkFaulty),
    /// The next messages of a kind that a host's communication manager sends are lost: those that make and end connections.
    CmLost(CmLost),
    /// A host's completion interrupts come late for a time.
    InterruptsLate(Delayed),
    /// Each command of a host to its adapter takes long for a time: making, changing and freeing of queues and memory regions.
    CommandsSlow(Delayed),
    /// A host's adapter sends, and completes none of it, for a time: queue pairs that sent meanwhile are of no use any more.
    SendsHang(HostForMs),
    /// The fabric gives a host's port no credits for a time: what it sends waits. Nothing is lost, and the port receives.
    NoCredits(HostForMs),
    /// The next datagram that a host sends fails, and with it what its queue pair is to send behind it.
    SendFails(OnHost),
    /// A host's queue pair goes to the error state, as failing hardware has it.
    QpBreaks(OnHost),
    /// One of the host's queue pairs does so, counted round among those of its adapter.
    OneQpBreaks(QpOf),
    /// A packet arrives that nobody should send.
    Packet(PacketTo),
    /// A packet of any content arrives.
    RawPacket(RawPacketTo),
    /// Strangers ask for a host's addresses for a time, in names that they do not have.
    Strangers(Strangers),
    /// A host's adapter is pulled, or its driver is detached.
    HcaRemoved(HcaGoes),
    /// The pulled adapter is back; the host's modules are loaded anew for it.
    HcaAdded(OnHost),
    /// A host's adapter is replaced by one that was flashed like another host's: its first port has the GUID of that one's.
    HcaCloned(HcaClone),
    /// IP closes the link, which stops the driver.
    LinkClose(OnHost),
    /// IP opens it again.
    LinkOpen(OnHost),
    /// Another one opens the link and closes it again, again and again, whatever happens to it.
    LinkVisited(Visits),
    /// A host's link is closed, its instance detached, its modules unloaded.
    Unload(OnHost),
    /// The modules are loaded and attached again, the link opened.
    Load(OnHost),
    /// The link is closed and its partition deleted (`dladm delete-part`), while others go on sending to it; of an `ibd` only the
    /// former.
    PartDeleted(OnHost),
    /// The partition is created again, and the link opened.
    PartCreated(OnHost),
    /// A second reader of the link turns promiscuous mode on or off.
    Promiscuous(PromiscuousMode),
    /// A host listens to a group.
    GroupJoin(GroupOf),
    /// It listens no longer.
    GroupLeave(GroupOf),
    /// Somebody reads every property and statistic of a host's link.
    PropertyRead(OnHost),
    /// An administrator sets a private property of a host's link.
    PropertySet(PropertyTo),
    /// Somebody asks how every other host, some that are not there, and groups are reached.
    PathAsk(OnHost),
}

impl Event {
    /// The name that a scenario file has for what it is.
    pub fn kind(&self) -> String {
        // An event is a table of one entry, its kind.
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_object().and_then(|event| event.keys().next()).cloned().unwrap_or_default()
    }

    /// The host it names.
    pub fn host(&self) -> Option<&Spanned<String>> {
        match self {
            Self::PortDown(on)
            | Self::PortUp(on)
            | Self::PkeyRemoved(on)
            | Self::QpBreaks(on)
            | Self::SendFails(on)
            | Self::HcaAdded(on)
            | Self::LinkClose(on)
            | Self::LinkOpen(on)
            | Self::Unload(on)
            | Self::Load(on)
            | Self::PartDeleted(on)
            | Self::PartCreated(on)
            | Self::PropertyRead(on)
            | Self::PathAsk(on) => Some(&on.host),
            Self::LinkRetrains(link) => Some(&link.host),
            Self::HcaCloned(clone) => Some(&clone.host),
            Self::HcaRemoved(goes) => Some(&goes.host),
            Self::LinkVisited(visits) => Some(&visits.host),
            Self::OneQpBreaks(of) => Some(&of.host),
            Self::PropertySet(set) => Some(&set.host),
            Self::SendsHang(on) | Self::NoCredits(on) => Some(&on.host),
            Self::PkeyAdded(at) => Some(&at.host),
            Self::Membership(to) => Some(&to.host),
            Self::AllocationFails(fails) => Some(&fails.host),
            Self::MemoryShort(short) => Some(&short.host),
            Self::Link(link) => Some(&link.host),
            Self::CmLost(lost) => Some(&lost.host),
            Self::InterruptsLate(late) | Self::CommandsSlow(late) => Some(&late.host),
            Self::Packet(packet) => Some(&packet.to),
            Self::RawPacket(packet) => Some(&packet.to),
            Self::Strangers(strangers) => Some(&strangers.host),
            Self::Promiscuous(mode) => Some(&mode.host),
            Self::GroupJoin(group) | Self::GroupLeave(group) => Some(&group.host),
            Self::Sa(sa) => sa.from.as_ref(),
            Self::SwitchReboot(_)
            | Self::SmStop(_)
            | Self::SmRestart(_)
            | Self::SmFailover(_)
            | Self::RegistrationsLost(_)
            | Self::SubnetPrefix(_)
            | Self::GroupDeleted(_)
            | Self::GroupCreated(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OnHost {
    pub host: Spanned<String>,
}

impl OnHost {
    /// On this host; for timelines that come from no file.
    pub fn named(host: &str) -> Self {
        Self { host: Spanned::new(0..0, host.to_owned()) }
    }
}

/// How an adapter goes: it is out of its place at once, or nothing is pulled before all of IBTF's clients have let go of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HcaGoes {
    pub host: Spanned<String>,
    /// The driver of the adapter is detached first, which IBTF refuses if a client or the communication manager keeps the adapter: then all
    /// clients hear that it is there, as before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orderly: bool,
    /// The same, and another client keeps it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refused: bool,
}

impl HcaGoes {
    /// It is pulled; for timelines that come from no file.
    pub fn pulled(host: &str) -> Self {
        Self { host: OnHost::named(host).host, orderly: false, refused: false }
    }
}

/// A second hand beside the one that has the host.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Visits {
    pub host: Spanned<String>,
    /// How long in all, in milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
    /// How long the link is open each time, and closed after it, in microseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::visits_every_us")]
    pub every_us: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QpOf {
    pub host: Spanned<String>,
    #[serde(deserialize_with = "crate::scenario::range::number")]
    pub number: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PropertyTo {
    pub host: Spanned<String>,
    /// With the underscore in front.
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostForMs {
    pub host: Spanned<String>,
    /// Milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForMs {
    /// Milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmComesBack {
    /// It gives out multicast LIDs from so much later on than the standard begins.
    #[serde(default, deserialize_with = "crate::scenario::range::mlids_later")]
    pub mlids_later: u16,
    /// It gives the ports other LIDs, from so much later on; 0: they keep those that they have.
    #[serde(default, deserialize_with = "crate::scenario::range::lids_later")]
    pub lids_later: u16,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmMoves {
    /// Its LID: 1 to 0xbfff, and nobody else's.
    #[serde(deserialize_with = "crate::scenario::range::lid")]
    pub lid: Spanned<u16>,
    /// As for [`SmComesBack`].
    #[serde(default, deserialize_with = "crate::scenario::range::mlids_later")]
    pub mlids_later: u16,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SubnetPrefix {
    /// The upper half of every GID; not zero.
    #[serde(deserialize_with = "crate::scenario::range::prefix")]
    pub prefix: Spanned<u64>,
}

/// What the subnet administrator does wrong, to whom, and how long.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SaTrouble {
    pub does: SaDoes,
    /// Only to requests of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SaRequest>,
    /// Only to this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Spanned<String>>,
    /// Only so many times.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::scenario::range::sa_times"
    )]
    pub times: Option<u32>,
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaDoes {
    /// It does not answer, and does nothing.
    Silent,
    /// It does what it is asked, and the answer is lost.
    LosesAnswer,
    /// It says that there is nothing.
    Empty,
    /// It answers so many milliseconds later.
    #[serde(deserialize_with = "crate::scenario::range::late")]
    Late(u64),
    /// It refuses with this status.
    Refuses(SaStatus),
    /// It does what it is asked, and something in its answer is wrong: about a path, or about a group.
    Lies(SaLie),
    /// It does what it is asked, and the segments of its answer are wrong.
    Garbles(SaGarbled),
}

/// What is wrong with each record of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaLie {
    /// Another port or group than was asked for.
    OtherGid,
    /// LID 0.
    NoLid,
    /// A multicast LID for a port, a unicast one for a group.
    LidOfOtherKind,
    /// The LID of another port or group.
    OtherLid,
    /// 4096 bytes.
    LargestMtu,
    /// A rate that no code names.
    UnknownRate,
    /// Service level 15.
    OtherSl,
    /// Another Q_Key than the group's.
    OtherQkey,
    /// A P_Key that no port has.
    ForeignPkey,
    /// A path that leads there and not back.
    OneWay,
    /// Another port's or group's record in front of the one that was asked for.
    TwoRecords,
}

impl SaLie {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::OtherGid,
        Self::NoLid,
        Self::LidOfOtherKind,
        Self::OtherLid,
        Self::LargestMtu,
        Self::UnknownRate,
        Self::OtherSl,
        Self::OtherQkey,
        Self::ForeignPkey,
        Self::OneWay,
        Self::TwoRecords,
    ];
}

/// A status of subnet administration (InfiniBand Architecture volume 1, 15.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaStatus {
    Busy,
    UnsupportedMethod,
    InvalidField,
    NoResources,
    ReqInvalid,
    NoRecords,
    TooManyRecords,
    ReqInvalidGid,
    ReqInsufficientComponents,
    ReqDenied,
}

impl SaStatus {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Busy,
        Self::UnsupportedMethod,
        Self::InvalidField,
        Self::NoResources,
        Self::ReqInvalid,
        Self::NoRecords,
        Self::TooManyRecords,
        Self::ReqInvalidGid,
        Self::ReqInsufficientComponents,
        Self::ReqDenied,
    ];
}

/// A kind of request to subnet administration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaRequest {
    /// A path to a port.
    Path,
    /// To be a member of a group, or to create it.
    Join,
    /// To be one no longer.
    Leave,
    /// Which groups there are.
    ListGroups,
    /// To be told of events.
    Subscribe,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PkeyAt {
    pub host: Spanned<String>,
    /// Place in the port's table, from 0.
    #[serde(deserialize_with = "crate::scenario::range::index")]
    pub index: Spanned<u16>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MembershipTo {
    pub host: Spanned<String>,
    pub to: Membership,
}

/// So many calls of a kind succeed, then so many fail.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AllocationFails {
    pub host: Spanned<String>,
    pub kind: FaultPoint,
    /// Only those of this module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Calls that succeed first.
    #[serde(default, deserialize_with = "crate::scenario::range::after")]
    pub after: u64,
    /// Calls that fail then.
    #[serde(deserialize_with = "crate::scenario::range::times")]
    pub times: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryShort {
    pub host: Spanned<String>,
    /// Only for this module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CmLost {
    pub host: Spanned<String>,
    pub message: CmMessage,
    /// So many of them.
    #[serde(deserialize_with = "crate::scenario::range::cm_times")]
    pub times: u32,
}

/// A message of communication management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CmMessage {
    Req,
    Mra,
    Rej,
    Rep,
    Rtu,
    Dreq,
    Drep,
}

impl CmMessage {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Req, Self::Mra, Self::Rej, Self::Rep, Self::Rtu, Self::Dreq, Self::Drep];

    /// Its attribute (InfiniBand Architecture volume 1, 12.6).
    pub const fn attribute(self) -> u16 {
        0x10 + self as u16
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFaulty {
    pub host: Spanned<String>,
    /// Packets in a million that vanish.
    #[serde(default, deserialize_with = "crate::scenario::range::loss")]
    pub loss: u32,
    /// ... that come twice.
    #[serde(default, deserialize_with = "crate::scenario::range::duplicate")]
    pub duplicate: u32,
    /// ... that are damaged on the wire.
    #[serde(default, deserialize_with = "crate::scenario::range::corrupt")]
    pub corrupt: u32,
    /// ... that are damaged inside the switch, whose checksum then fits.
    #[serde(default, deserialize_with = "crate::scenario::range::corrupt_inside")]
    pub corrupt_inside: u32,
    /// ... that are held back while others pass.
    #[serde(default, deserialize_with = "crate::scenario::range::reorder")]
    pub reorder: u32,
    /// How long they are held back, in microseconds.
    #[serde(default, deserialize_with = "crate::scenario::range::reorder_by_us")]
    pub reorder_by_us: u64,
    /// Latency of every packet, in microseconds.
    #[serde(default, deserialize_with = "crate::scenario::range::delay_us")]
    pub delay_us: u64,
    /// Up to so much more.
    #[serde(default, deserialize_with = "crate::scenario::range::jitter_us")]
    pub jitter_us: u64,
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delayed {
    pub host: Spanned<String>,
    /// At least.
    #[serde(default, deserialize_with = "crate::scenario::range::from_us")]
    pub from_us: u64,
    /// At most.
    #[serde(deserialize_with = "crate::scenario::range::to_us")]
    pub to_us: u64,
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PacketTo {
    pub to: Spanned<String>,
    pub kind: Malformed,
}

/// IPoIB header and what follows it, as they are.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawPacketTo {
    pub to: Spanned<String>,
    /// To the link's broadcast group instead of the host alone.
    #[serde(default)]
    pub broadcast: bool,
    /// Bytes as hexadecimal digits, two each.
    pub bytes: String,
}

impl RawPacketTo {
    /// The bytes.
    pub fn payload(&self) -> Vec<u8> {
        let digits: Vec<u8> = self.bytes.chars().map_while(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PromiscuousMode {
    pub host: Spanned<String>,
    pub on: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOf {
    pub host: Spanned<String>,
    pub group: Spanned<IpAddr>,
}

/// A kind of call that can be made to fail, by its name: an allocator, or a function of IBTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct FaultPoint(FaultKind);

impl FaultPoint {
    /// Every one that the lab knows of.
    pub fn all() -> impl Iterator<Item = Self> {
        let framework = lab_gldv3::FAULT_KINDS.into_iter().chain(lab_ibtf::FAULT_KINDS);
        FaultKind::KERNEL.into_iter().chain(framework).map(Self)
    }

    pub const fn kind(self) -> FaultKind {
        self.0
    }
}

impl TryFrom<String> for FaultPoint {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::all().find(|point| point.0.0 == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(|point| point.0.0).collect();
            format!("`{name}` is nothing that can fail, expected one of {}", known.join(", "))
        })
    }
}

impl From<FaultPoint> for &'static str {
    fn from(point: FaultPoint) -> Self {
        point.0.0
    }
}
