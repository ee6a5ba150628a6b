//! The embedded subnet administrator: answers as OpenSM 3.3.23 answers.
//!
//! A machine without clock or I/O. Feed it MADs with [`Sa::receive`], take MADs out with [`Sa::poll_send`] until there is
//! none, ask [`Sa::poll_timeout`] when to call [`Sa::handle_timeout`]. The subnet manager tells it about ports
//! ([`Sa::set_ports`]) and partitions ([`Sa::configure`]).

mod beyond;
mod found;
mod groups;
mod inform;
mod mc_member;
mod path;
mod port;
mod query;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::{FaultAction, FaultScript, Garbled};
use crate::mad::{Attribute, DATA_LEN, Mad, Method, RmppKind, SaMad, Status};
use crate::partition::Partition;
use crate::records::{ClassPortInfo, Notice, Record, Trap};
use crate::rmpp::{Sender, Step, segments};
use crate::types::{Gid, Guid, JoinState, Lid, Nanos, PKey, QKey, Qpn};

pub use beyond::Beyond;
use found::Found;
use groups::Groups;
pub use groups::{Ever, Kept};
use inform::Subscription;
use path::Query;
pub use port::Endport;
use service::Service;

/// How a subnet administrator is set up; the defaults are OpenSM's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaConfig {
    /// The subnet's prefix.
    pub prefix: u64,
    /// The SM_Key of trusted requesters.
    pub sa_key: u64,
    /// An `ib_time_t`: packet lifetime of every path.
    pub subnet_timeout: u8,
    /// An `ib_time_t`: the longest an answer takes, announced in ClassPortInfo.
    pub resp_time: u8,
    /// The multicast LIDs there are.
    pub mlids: std::ops::RangeInclusive<Lid>,
}

impl Default for SaConfig {
    fn default() -> Self {
        Self {
            prefix: Gid::DEFAULT_PREFIX,
            sa_key: 1,
            subnet_timeout: 18,
            resp_time: 16,
            mlids: Lid::FIRST_MULTICAST..=Lid(Lid::FIRST_MULTICAST.0 + 1023),
        }
    }
}

/// Where a MAD comes from and an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The port.
    pub lid: Lid,
    /// The queue pair.
    pub qpn: Qpn,
}

/// A MAD to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub to: Address,
    /// What.
    pub mad: Mad,
}

/// What went in and came out, since the administrator started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// MADs received.
    pub received: u64,
    /// Of these, no subnet administration MADs.
    pub malformed: u64,
    /// Requests dropped: not in service yet, wrong SM_Key, unknown requester, unknown attribute or method.
    pub dropped: u64,
    /// Requests a fault was made for.
    pub faulted: u64,
    /// Refusals sent.
    pub refused: u64,
    /// Reports sent.
    pub reports: u64,
    /// Reports answered.
    pub reports_answered: u64,
}

/// Why a request is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// Answered with this status.
    Status(Status),
    /// Not answered.
    Silence,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

type Verdict = Result<Found, Refusal>;

/// Who may hear of an event.
enum Audience {
    /// Holders of a group's P_Key.
    Partition(PKey),
    /// Ports that share a partition with this one.
    ReachableFrom(Guid),
}

/// The subnet administrator.
#[derive(Debug)]
pub struct Sa {
    config: SaConfig,
    issuer: (Lid, Gid),
    in_service: bool,
    ports: BTreeMap<Guid, Endport>,
    beyond: Option<Beyond>,
    groups: Groups,
    subscriptions: Vec<Subscription>,
    services: Vec<Service>,
    transfers: BTreeMap<(Address, u64), Sender>,
    outbox: BTreeMap<(Nanos, u64), Outgoing>,
    serial: u64,
    reports: u64,
    reroute: BTreeSet<Lid>,
    faults: FaultScript,
    counters: Counters,
    lied: bool,
}

/// OpenSM's first transaction of a report.
const FIRST_REPORT: u64 = 0x02da_b000;

impl Sa {
    /// An administrator that knows no port and answers nobody until [`set_ports`](Self::set_ports).
    pub fn new(config: SaConfig) -> Self {
        Self {
            groups: Groups::new(config.mlids.clone()),
            config,
            issuer: (Lid::NONE, Gid::ZERO),
            in_service: false,
            ports: BTreeMap::new(),
            beyond: None,
            subscriptions: Vec::new(),
            services: Vec::new(),
            transfers: BTreeMap::new(),
            outbox: BTreeMap::new(),
            serial: 0,
            reports: FIRST_REPORT,
            reroute: BTreeSet::new(),
            faults: FaultScript::default(),
            counters: Counters::default(),
            lied: false,
        }
    }

    /// What went in and came out.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What to do wrong.
    pub const fn faults(&mut self) -> &mut FaultScript {
        &mut self.faults
    }

    /// The subnet manager's port, which reports name as their issuer.
    pub const fn set_issuer(&mut self, lid: Lid, gid: Gid) {
        self.issuer = (lid, gid);
    }

    /// The ports with a link, after a sweep, and from the first one on the administrator is in service. Ports that are gone
    /// lose their memberships at once and are reported (traps 65 and 67), new ones are reported (trap 64); subscriptions
    /// stay.
    pub fn set_ports(&mut self, now: Nanos, ports: Vec<Endport>) {
        let present: BTreeMap<Guid, Endport> = ports.into_iter().map(|port| (port.guid(), port)).collect();
        let gone: Vec<Guid> = self.ports.keys().filter(|guid| !present.contains_key(guid)).copied().collect();
        let new: Vec<Guid> = present.keys().filter(|guid| !self.ports.contains_key(guid)).copied().collect();
        for guid in gone {
            self.report(now, Trap::GidOutOfService, self.gid_of(guid), &Audience::ReachableFrom(guid));
            self.drop_memberships(now, guid);
            self.ports.remove(&guid);
        }
        self.ports = present;
        self.in_service = true;
        for guid in new {
            self.report(now, Trap::GidInService, self.gid_of(guid), &Audience::ReachableFrom(guid));
        }
    }

    /// The partitions. Permanent groups that exist keep their parameters; those no longer named go, or become ordinary groups
    /// while they have full members.
    pub fn configure(&mut self, partitions: &[Partition]) {
        let lifetime = self.config.subnet_timeout;
        let records = partitions.iter().flat_map(|partition| {
            partition.groups.iter().map(|group| group.record(partition.p_key, lifetime))
        });
        self.reroute.extend(self.groups.set_permanent(records.collect()));
    }

    /// Takes a MAD that arrived from `from`.
    pub fn receive(&mut self, now: Nanos, from: Address, mad: &Mad) {
        self.counters.received += 1;
        let Ok(mad) = SaMad::parse(mad) else {
            self.counters.malformed += 1;
            return;
        };
        if !self.in_service || (mad.sm_key != 0 && mad.sm_key != self.config.sa_key) {
            self.counters.dropped += 1;
            return;
        }
        match mad.rmpp.kind {
            RmppKind::Ack | RmppKind::Stop | RmppKind::Abort => self.continue_transfer(now, from, &mad),
            _ if mad.method == Method::REPORT_RESP => self.counters.reports_answered += 1,
            _ if mad.method.is_response() => self.counters.dropped += 1,
            _ => self.request(now, from, &mad),
        }
    }

    /// The next MAD that is due to be sent; call until `None`.
    pub fn poll_send(&mut self, now: Nanos) -> Option<Outgoing> {
        let entry = self.outbox.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_send`](Self::poll_send) have something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let answer = self.outbox.first_key_value().map(|((due, _), _)| *due);
        let transfer = self.transfers.values().map(Sender::deadline).min();
        answer.into_iter().chain(transfer).min()
    }

    /// Sends again what nobody acknowledged. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let due: Vec<_> = self
            .transfers
            .iter()
            .filter(|(_, sender)| sender.deadline() <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            if let Some(sender) = self.transfers.get_mut(&key) {
                let step = sender.handle_timeout(now);
                self.apply(now, key, step);
            }
        }
    }

    /// The multicast LIDs whose set of ports changed since the last call, in order.
    pub fn take_reroutes(&mut self) -> BTreeSet<Lid> {
        std::mem::take(&mut self.reroute)
    }

    /// The ports with a member of the group at `mlid`, in whatever join state.
    pub fn members_at(&self, mlid: Lid) -> Vec<Guid> {
        self.groups.at(mlid).map(|group| group.members.keys().copied().collect()).unwrap_or_default()
    }

    /// The groups there are, with the ports in each; for reports and tests.
    pub fn groups(&self) -> impl Iterator<Item = (&crate::records::McMemberRecord, Vec<Guid>)> {
        self.groups.iter().map(|group| (&group.record, group.members.keys().copied().collect()))
    }

    /// Each record that a group has had, also of an administrator before this one; for reports and tests.
    pub const fn ever(&mut self) -> &mut Ever {
        self.groups.ever()
    }

    /// Has it ever said of a group what is not so?
    pub const fn has_lied(&self) -> bool {
        self.lied
    }

    /// Of an administrator before this one.
    pub(crate) const fn set_lied(&mut self, lied: bool) {
        self.lied = lied;
    }

    /// What each member of each group is, with the group's MGID; for reports and tests.
    pub fn memberships(&self) -> impl Iterator<Item = (Gid, Guid, JoinState)> {
        self.groups.iter().flat_map(|group| {
            group.members.iter().map(|(port, member)| (group.record.mgid, *port, member.join_state))
        })
    }

    /// Of the memberships that there are, what a fault has done to keep each; nothing if its port has joined to hear the group since, and
    /// not asked to leave it again.
    pub fn kept_by_faults(&self) -> impl Iterator<Item = (Gid, Guid, Kept)> {
        self.groups.iter().flat_map(|group| {
            group.members.iter().map(|(port, member)| {
                let kept = Kept { refusals: member.refusals, denied: member.denied };
                (group.record.mgid, *port, if member.is_back { Kept::default() } else { kept })
            })
        })
    }

    fn gid_of(&self, guid: Guid) -> Gid {
        Gid::of_port(self.config.prefix, guid)
    }

    fn port_at(&self, lid: Lid) -> Option<&Endport> {
        self.ports.values().find(|port| port.has_lid(lid))
    }

    fn request(&mut self, now: Nanos, from: Address, mad: &SaMad) {
        let fault = self.faults.decide(now, from.lid, mad);
        self.counters.faulted += u64::from(fault.is_some());
        match fault {
            None => self.answer(now, from, mad),
            Some(FaultAction::Silent) => {}
            Some(FaultAction::LoseAnswer) => drop(self.process(now, from, mad)),
            Some(FaultAction::Delay(span)) => {
                let verdict = self.process(now, from, mad);
                self.respond(now.after(span), from, mad, verdict);
            }
            Some(FaultAction::Refuse(status)) => {
                self.remember_refused(from, mad, status);
                self.respond(now, from, mad, Err(status.into()));
            }
            Some(FaultAction::Overwrite { at, bytes }) => {
                let verdict = self.process(now, from, mad).map(|found| found.overwritten(at, bytes));
                self.respond(now, from, mad, verdict);
            }
            Some(FaultAction::Lie(lie)) => {
                self.lied |= mad.attribute == Attribute::MC_MEMBER_RECORD;
                let other = self.issuer.0;
                let verdict = self.process(now, from, mad).map(|found| found.told(mad.attribute, lie, other));
                self.respond(now, from, mad, verdict);
            }
            Some(FaultAction::Garble(garbled)) => match (mad.method, self.process(now, from, mad)) {
                (Method::GET_TABLE, Ok(found)) => self.send_table(now, from, mad, &found, Some(garbled)),
                (_, verdict) => self.respond(now, from, mad, verdict),
            },
            Some(FaultAction::Redirect(lid)) => {
                let info = ClassPortInfo {
                    redirect_lid: lid,
                    redirect_qpn: Qpn::GSI,
                    redirect_q_key: QKey::GSI,
                    redirect_p_key: PKey::DEFAULT_FULL,
                    ..ClassPortInfo::default()
                };
                let mad = mad.respond(Status::REDIRECT).with_record(&info).emit();
                self.post(now, Outgoing { to: from, mad });
            }
            Some(FaultAction::Empty) => {
                let nothing = Found { attribute_offset: 0, count: 0, data: Vec::new() };
                // Who is told that it has left has left.
                let verdict = match mad.method {
                    Method::DELETE => self.process(now, from, mad).map(|_| nothing),
                    _ => Ok(nothing),
                };
                self.respond(now, from, mad, verdict);
            }
        }
    }

    fn answer(&mut self, now: Nanos, from: Address, mad: &SaMad) {
        let verdict = self.process(now, from, mad);
        self.respond(now, from, mad, verdict);
    }

    /// What is asked, by attribute and method. What OpenSM has no handler for it drops without a word.
    fn process(&mut self, now: Nanos, from: Address, mad: &SaMad) -> Verdict {
        if (mad.attribute, mad.method) == (Attribute::CLASS_PORT_INFO, Method::GET) {
            return Ok(self.class_port_info());
        }
        if (mad.attribute, mad.method) == (Attribute::INFORM_INFO, Method::SET) {
            return self.inform(from, mad);
        }
        let Some(requester) = self.port_at(from.lid).map(Endport::guid) else { return Err(Refusal::Silence) };
        match (mad.attribute, mad.method) {
            (Attribute::MC_MEMBER_RECORD, Method::SET) => self.join(now, requester, mad),
            (Attribute::MC_MEMBER_RECORD, Method::DELETE) => self.leave(now, requester, mad),
            (Attribute::MC_MEMBER_RECORD, Method::GET | Method::GET_TABLE) => {
                self.query_groups(requester, mad)
            }
            (Attribute::PATH_RECORD, Method::GET | Method::GET_TABLE) => self.paths(requester, mad),
            (Attribute::NODE_RECORD, Method::GET | Method::GET_TABLE) => self.query_nodes(requester, mad),
            (Attribute::PORT_INFO_RECORD, Method::GET | Method::GET_TABLE) => {
                self.query_ports(requester, mad)
            }
            (Attribute::P_KEY_TABLE_RECORD, Method::GET | Method::GET_TABLE) => {
                self.query_p_keys(requester, mad)
            }
            (Attribute::SERVICE_RECORD, Method::SET) => self.set_service(now, requester, mad),
            (Attribute::SERVICE_RECORD, Method::DELETE) => self.delete_service(requester, mad),
            (Attribute::SERVICE_RECORD, Method::GET | Method::GET_TABLE) => {
                self.query_services(now, requester, mad)
            }
            _ => Err(Refusal::Silence),
        }
    }

    fn respond(&mut self, due: Nanos, to: Address, request: &SaMad, verdict: Verdict) {
        match verdict {
            Err(Refusal::Silence) => self.counters.dropped += 1,
            Err(Refusal::Status(status)) => self.refuse(due, to, request, status),
            Ok(found) if request.method == Method::GET_TABLE => {
                self.send_table(due, to, request, &found, None)
            }
            Ok(found) if request.method == Method::GET && found.count == 0 => {
                self.refuse(due, to, request, Status::NO_RECORDS);
            }
            Ok(found) if request.method == Method::GET && found.count > 1 => {
                self.refuse(due, to, request, Status::TOO_MANY_RECORDS);
            }
            Ok(found) => {
                let header = request.respond(Status::SUCCESS).with_data(&found.data);
                let mad = SaMad { attribute_offset: found.attribute_offset, ..header };
                self.post(due, Outgoing { to, mad: mad.emit() });
            }
        }
    }

    fn refuse(&mut self, due: Nanos, to: Address, request: &SaMad, status: Status) {
        self.counters.refused += 1;
        let mut mad = request.respond(status);
        if request.method == Method::GET_TABLE {
            mad.attribute_offset = 0;
        }
        self.post(due, Outgoing { to, mad: mad.emit() });
    }

    /// A table is segmented, however short it is.
    fn send_table(
        &mut self,
        due: Nanos,
        to: Address,
        request: &SaMad,
        found: &Found,
        garbled: Option<Garbled>,
    ) {
        let attribute_offset = if found.count == 0 { 0 } else { found.attribute_offset };
        let header = SaMad { attribute_offset, ..request.respond(Status::SUCCESS) };
        let mut segments = segments(&header, &found.data);
        if let Some(garbled) = garbled {
            garbled.garble(&mut segments);
        }
        let (sender, step) = Sender::start_with(due, segments);
        let key = (to, request.transaction);
        self.transfers.insert(key, sender);
        self.apply(due, key, step);
    }

    fn continue_transfer(&mut self, now: Nanos, from: Address, mad: &SaMad) {
        let key = (from, mad.transaction);
        if let Some(sender) = self.transfers.get_mut(&key) {
            let step = sender.receive(now, mad);
            self.apply(now, key, step);
        }
    }

    fn apply(&mut self, due: Nanos, key: (Address, u64), step: Step) {
        for mad in step.send {
            self.post(due, Outgoing { to: key.0, mad });
        }
        if step.finished {
            self.transfers.remove(&key);
        }
    }

    fn post(&mut self, due: Nanos, outgoing: Outgoing) {
        self.serial += 1;
        self.outbox.insert((due, self.serial), outgoing);
    }

    /// Tells subscribers of an event.
    fn report(&mut self, now: Nanos, trap: Trap, subject: Gid, audience: &Audience) {
        let notice = Notice::of(trap, subject, self.issuer.0, self.issuer.1);
        let admitted = |subscriber: &Subscription| {
            self.port_at(subscriber.address.lid).is_some_and(|port| match audience {
                Audience::Partition(p_key) => port.holds(*p_key),
                Audience::ReachableFrom(guid) => {
                    self.ports.get(guid).is_some_and(|source| source.is_reachable_from(port))
                }
            })
        };
        let to: Vec<Address> = (self.subscriptions.iter())
            .filter(|subscription| subscription.wants(&notice) && admitted(subscription))
            .map(|subscription| subscription.address)
            .collect();
        for to in to {
            self.reports = (self.reports + 1) & 0xffff_ffff;
            let report = SaMad::request(Method::REPORT, Attribute::NOTICE, self.reports, 0);
            let mad = SaMad { modifier: 0, ..report.with_record(&notice) }.emit();
            self.counters.reports += 1;
            self.post(now, Outgoing { to, mad });
        }
    }
}

/// A refusal with `status` unless `ok`.
fn require(ok: bool, status: Status) -> Result<(), Refusal> {
    if ok { Ok(()) } else { Err(Refusal::Status(status)) }
}

/// The record of a request. There is room for any record in a MAD.
fn record_of<R: Record>(mad: &SaMad) -> Result<R, Refusal> {
    const { assert!(R::LEN <= DATA_LEN) };
    mad.record().ok_or(Refusal::Silence)
}
