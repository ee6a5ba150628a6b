//! What the machines' actions mean here: the work they are for somebody.

use ibtf::McgInfo;
use ipoib::debts::Debt;
use ipoib::link::{self, Status, Ticket, Up};
use ipoib::paths::{self, Next, Severity};
use ipoib::{Gid, Instant, LinkAddr, Mgid, groups};

use super::{Control, Effect, Note};
use crate::link::job_queue::Job;
use crate::link::mcg_record::McgRecord;
use crate::link::neighbour::Neighbour;
use crate::link::sa_calls::{Call, Membership};

impl Control {
    pub(super) fn link_action(&mut self, now: Instant, action: link::Action<McgInfo>) -> Option<Effect> {
        let job = match action {
            link::Action::QueryPort(ticket) => Job::QueryPort(ticket),
            link::Action::Find(ticket, mgid) => return Some(Effect::Call(Call::Find(ticket, mgid))),
            link::Action::Join(ticket, gid, mgid, group) => {
                return Some(Effect::Call(Call::JoinBroadcast(ticket, gid, mgid, group)));
            }
            link::Action::Leave { mgid, gid, joins } => {
                return Some(Effect::Call(Call::LeaveBroadcast { mgid, gid, joins }));
            }
            link::Action::Owe { mgid, gid, joins } => {
                return Some(Effect::Owe(self.debt_of_broadcast(mgid, gid, joins)));
            }
            link::Action::Make(ticket, pkey_index) => Job::Make(ticket, pkey_index),
            link::Action::Build(ticket, standing, group) => Job::Build(ticket, standing, group),
            link::Action::Attach(ticket, group) => return Some(self.attach(now, ticket, group)),
            link::Action::AskRate(gid) => return Some(Effect::Call(Call::AskRate(gid))),
            link::Action::TearDown(up_to) => {
                self.rings.clear();
                return Some(Effect::TearDown(up_to));
            }
            link::Action::Invalidate(severity) => {
                self.invalidate(now, severity);
                return None;
            }
            link::Action::Address(address) => return Some(Effect::Address(address)),
            link::Action::Announce(status) => {
                self.announced(now, status);
                return Some(Effect::Announce(self.as_the_mac_layer_sees(status)));
            }
            link::Action::Note(note) => {
                self.reason = Some(note);
                return Some(Effect::Note(Note::Link(note)));
            }
        };
        Some(Effect::Job(job))
    }

    /// Whoever remembers the broadcast group as it was before must ask again.
    fn attach(&mut self, now: Instant, ticket: Ticket, group: McgInfo) -> Effect {
        if let Some(mgid) = self.link.broadcast_group().map(|group| group.mgid) {
            self.paths.handle_event(now, paths::Event::Forget(address(mgid)));
        }
        Effect::Job(Job::AttachBroadcast(ticket, group))
    }

    fn invalidate(&mut self, now: Instant, severity: Severity) {
        self.paths.handle_event(now, paths::Event::Invalidate(severity));
        self.groups.handle_event(now, groups::Event::Renew);
    }

    fn announced(&mut self, now: Instant, status: Status) {
        if let Status::Up(_) | Status::Stopped = status {
            self.reason = None;
        }
        let event = match status {
            Status::Up(Up { scope, .. }) => groups::Event::Up(scope, self.pkey),
            // Port and SA are there: who joins or leaves need not wait for the next queue pair, which hears what this one heard.
            Status::Down(link::WaitsFor::QueuePair) => return,
            Status::Down(_) => groups::Event::Down,
            Status::Stopped => groups::Event::Stop,
        };
        self.groups.handle_event(now, event);
    }

    /// The machine of a removed adapter's link is stopped; the MAC layer, which did not stop it, hears of a port that is down.
    fn as_the_mac_layer_sees(&self, status: Status) -> Status {
        match status {
            Status::Stopped if self.removed => Status::Down(link::WaitsFor::Port),
            other => other,
        }
    }

    pub(super) fn groups_action(
        &mut self,
        now: Instant,
        action: groups::Action<McgRecord>,
    ) -> Option<Effect> {
        let call = match action {
            groups::Action::Join { group, role, outdated, .. } => Call::JoinGroup(group, role, outdated),
            groups::Action::Leave { group, roles, counted, joins, info } => {
                let Some(port) = self.joined_by(info) else {
                    let nobody = groups::Event::Left(group, groups::Left::Confirmed);
                    self.groups.handle_event(now, nobody);
                    return None;
                };
                Call::LeaveGroup(group, Membership { roles, counted, joins, port })
            }
            groups::Action::Owe { group, roles, counted, joins, info } => {
                let port = self.joined_by(info)?;
                return Some(Effect::Owe(Debt { group, port, pkey: self.pkey, roles, counted, joins }));
            }
            groups::Action::List => Call::ListGroups,
            groups::Action::Resolved(group, result) => return self.group_resolved(now, group, result),
            groups::Action::Forget(group) => {
                self.paths.handle_event(now, paths::Event::Forget(address(group)));
                return None;
            }
            groups::Action::ForgetAll => {
                self.paths.handle_event(now, paths::Event::ForgetGroups);
                return None;
            }
            groups::Action::Failed { group, role, again } => {
                let missed = role == groups::Roles::NON;
                let note = if missed { Note::Missed(group) } else { Note::JoinFailed(group, again) };
                return Some(Effect::Note(note));
            }
            groups::Action::Full => return Some(Effect::Note(Note::NoRoom)),
            groups::Action::Misses(number) => return Some(Effect::Note(Note::Misses(number))),
        };
        Some(Effect::Call(call))
    }

    /// The port's GID with which a group was joined. Who has no answer that says so has joined with the port as it is.
    fn joined_by(&self, info: Option<McgRecord>) -> Option<Gid> {
        info.map(|info| info.port()).or_else(|| self.link.port().map(|port| port.gid))
    }

    fn debt_of_broadcast(&self, group: Mgid, port: Gid, joins: u32) -> Debt {
        let full = groups::Roles::FULL;
        let counted = if joins > 0 { full } else { groups::Roles::NONE };
        Debt { group, port, pkey: self.pkey, roles: full, counted, joins }
    }

    /// What a stopped link has not left, to be ended by another one; `None` if there is nothing.
    pub(in crate::link) fn next_debt(&mut self, now: Instant) -> Option<Debt> {
        loop {
            let effect = if let Some(action) = self.link.hand_over() {
                self.link_action(now, action)
            } else {
                let action = self.groups.hand_over()?;
                self.groups_action(now, action)
            };
            if let Some(Effect::Owe(debt)) = effect {
                return Some(debt);
            }
        }
    }

    fn group_resolved(
        &mut self,
        now: Instant,
        group: Mgid,
        result: Result<groups::Resolved<McgRecord>, groups::JoinError>,
    ) -> Option<Effect> {
        let to = address(group);
        match result {
            Ok(resolved) => Some(Effect::Job(Job::MakeDest(to, resolved.info.into_info(), resolved.refresh))),
            Err(error) => {
                self.looked_up(now, to, Err(lookup_error(error)));
                None
            }
        }
    }

    /// The next address to find a way to. A neighbour with a new queue pair is where its port is, whatever the SA does.
    pub(super) fn next_lookup(&mut self, now: Instant) -> Option<Next<Neighbour>> {
        let follow = self.link.port().is_some_and(|port| port.pkey_index.is_some());
        self.paths.next_lookup(now, follow)
    }

    /// What answers a lookup, unless it is answered here.
    pub(super) fn lookup(&mut self, now: Instant, next: Next<Neighbour>) -> Option<Effect> {
        let to = match next {
            Next::Ask(to) => to,
            Next::Follow(to, way, followed) => {
                let way = self.link.port().and_then(|port| way.path(port.pkey_index?));
                return Some(match way {
                    Some(way) => Effect::Job(Job::FollowPort(to, way, followed)),
                    None => Effect::Call(Call::Lookup(to)),
                });
            }
        };
        let Some(group) = to.mgid() else { return Some(Effect::Call(Call::Lookup(to))) };
        let broadcast = self.link.broadcast_group().is_some_and(|known| address(known.mgid) == to);
        if broadcast && let Some(info) = self.link.broadcast_info() {
            return Some(Effect::Job(Job::MakeDest(to, *info, None)));
        }
        let Self { groups, paths, .. } = self;
        if let Err(error) = groups.resolve(group, |group| paths.see_use_of(&address(group))) {
            self.looked_up(now, to, Err(lookup_error(error)));
        }
        None
    }
}

/// By which a group is known to those who send: without the scope and P_Key that the link's groups have now.
pub(super) fn address(group: Mgid) -> LinkAddr {
    LinkAddr::multicast(group.canonical())
}

fn lookup_error(error: groups::JoinError) -> paths::LookupError {
    match error {
        groups::JoinError::Refused => paths::LookupError::Absent,
        groups::JoinError::Unanswered
        | groups::JoinError::NotAsked
        | groups::JoinError::Outdated
        | groups::JoinError::Unlike
        | groups::JoinError::LinkDown
        | groups::JoinError::NoRoom => paths::LookupError::Unanswered,
    }
}
