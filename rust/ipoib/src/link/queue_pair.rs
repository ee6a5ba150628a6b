//! The queue pair: made when the port tells where the P_Key is, and built for what it is to carry. Here it is decided which one
//! stands, and as which generation.

use core::time::Duration;

use super::generation::Generation;
use super::timers::Timer;
use super::{Action, BroadcastGroup, Link, Membership, Note, Plan, Standing, Ticket};
use crate::addr::Qpn;
use crate::paths::Severity;
use crate::time::Instant;

/// A queue pair that lasted so long was of use: the next one that fails is replaced alone, and without a pause.
pub const STEADY: Duration = Duration::from_secs(10);

/// What the queue pair carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Traffic<G> {
    /// Nothing, whether or not it is made.
    None,
    /// This, until it fails or something else is needed.
    Stands(Carried<G>),
    /// It has failed: what it carried is to be ended.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Carried<G> {
    pub(super) standing: Standing,
    pub(super) qpn: Qpn,
    /// The broadcast group, as the queue pair is attached to it; none after an attempt that failed.
    attached: Option<G>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Building<G> {
    Number,
    QueuePair(Standing, G),
    Attachment(G),
}

impl<G: Copy + PartialEq> Link<G> {
    /// What carries traffic now: the one answer to whether a queue pair is alive.
    pub fn standing(&self) -> Option<Standing> {
        match &self.traffic {
            Traffic::Stands(carried) => Some(carried.standing),
            Traffic::None | Traffic::Failed => None,
        }
    }

    /// Whether something carries traffic, or did and is still to be ended ([`Action::TearDown`]).
    pub fn has_traffic(&self) -> bool {
        !matches!(self.traffic, Traffic::None)
    }

    /// Whether this is the generation that carries traffic.
    pub fn stands(&self, generation: Generation) -> bool {
        self.standing().is_some_and(|standing| standing.generation == generation)
    }

    /// A generation of its own for something that is made beside what is built: queue pairs, or one that takes a single ring's place.
    pub fn draw(&mut self) -> Generation {
        self.generations.draw()
    }

    /// The last generation that was drawn: whoever stops the link ends all until this one.
    pub fn latest(&self) -> Option<Generation> {
        self.generations.latest()
    }

    /// Whether the answer to this request is still wanted. Whoever built a queue pair for a ticket that is not must take it
    /// down again.
    pub fn is_wanted(&self, ticket: Ticket) -> bool {
        self.building.out.is_some_and(|(out, _)| out == ticket)
    }

    /// Whether a queue pair is being made or built.
    pub fn is_building(&self) -> bool {
        matches!(self.building.out, Some((_, Building::Number | Building::QueuePair(..))))
    }

    /// The queue pairs are freed, and whoever listens with their number is gone: the link has no address until there are others.
    pub fn queue_pairs_are_freed(&mut self) {
        self.number = None;
        self.takes_connections = false;
    }

    pub(super) fn plan(&self) -> Option<Plan> {
        let port = self.port.as_ref().filter(|port| port.is_usable())?;
        let group = self.membership.as_ref()?.group;
        let BroadcastGroup { mgid, qkey, mtu, .. } = group;
        Some(Plan { mgid, pkey_index: port.pkey_index?, qkey, mtu, gid: port.gid })
    }

    /// Of what has failed, or is in a place of the P_Key table that may be another partition's.
    pub(super) fn next_tear_down(&mut self) -> Option<Action<G>> {
        match self.traffic {
            Traffic::Stands(carried) if self.pkey_is_elsewhere(carried.standing.plan) => {
                self.building.abandon();
            }
            Traffic::Failed => {}
            Traffic::Stands(_) | Traffic::None => return None,
        }
        self.tear_down()
    }

    /// The adapter looks a packet's P_Key up by its place in the table, which may be another partition's from now on: nobody there is to
    /// reach the link, or to be reached by it. It does not wait for a broadcast group that it could be built for.
    fn pkey_is_elsewhere(&self, plan: Plan) -> bool {
        self.port.is_some_and(|port| port.active && port.pkey_index != Some(plan.pkey_index))
    }

    /// The port has the P_Key nowhere.
    pub fn has_lost_its_pkey(&self) -> bool {
        self.port.is_some_and(|port| port.active && port.pkey_index.is_none())
    }

    /// What took the place of a part of it goes with it: it was drawn later.
    fn tear_down(&mut self) -> Option<Action<G>> {
        self.traffic = Traffic::None;
        self.latest().map(Action::TearDown)
    }

    pub(super) fn next_build(&mut self) -> Option<Action<G>> {
        if !self.building.is_free(1) || self.timers.is_set(Timer::Build) {
            return None;
        }
        let (Some(plan), Some(Membership { info, .. })) = (self.plan(), self.membership) else {
            return self.next_make();
        };
        // Also if nothing stands: what stood last may have failed before the group became another one.
        if self.paths_fit.replace(plan).is_some_and(|before| before.leads_elsewhere(&plan)) {
            self.invalidate(Severity::Heavy);
        }
        let ticket = match self.traffic {
            Traffic::Stands(Carried { standing, .. }) if standing.plan != plan => return self.tear_down(),
            Traffic::Stands(Carried { attached, .. }) if attached == Some(info) => return None,
            _ => self.ticket(),
        };
        if let Traffic::Stands(_) = self.traffic {
            self.building.out = Some((ticket, Building::Attachment(info)));
            return Some(Action::Attach(ticket, info));
        }
        let standing = Standing { generation: self.draw(), plan };
        self.building.out = Some((ticket, Building::QueuePair(standing, info)));
        Some(Action::Build(ticket, standing, info))
    }

    /// Nothing can be carried yet; but the link can have its address.
    fn next_make(&mut self) -> Option<Action<G>> {
        // What is known of the port may be of an earlier start.
        let is_current = !self.port_in_doubt && self.port_query.out.is_none();
        let index = self.port?.pkey_index.filter(|_| self.number.is_none() && is_current)?;
        let ticket = self.ticket();
        self.building.out = Some((ticket, Building::Number));
        Some(Action::Make(ticket, index))
    }

    pub(super) fn built(&mut self, now: Instant, ticket: Ticket, qpn: Option<Qpn>) {
        let Some(building) = self.building.answered(ticket) else { return };
        match (building, qpn) {
            (Building::Number, Some(qpn)) => {
                self.number = Some(qpn);
                self.build_retry.reset(&mut self.timers);
            }
            (Building::QueuePair(standing, attached), Some(qpn)) => {
                self.number = Some(qpn);
                self.traffic = Traffic::Stands(Carried { standing, qpn, attached: Some(attached) });
                self.stands_since = now;
            }
            (Building::Attachment(info), Some(_)) => {
                if let Traffic::Stands(carried) = &mut self.traffic {
                    carried.attached = Some(info);
                }
                self.build_retry.reset(&mut self.timers);
            }
            (building, None) => {
                if let (Building::Attachment(_), Traffic::Stands(carried)) = (building, &mut self.traffic) {
                    carried.attached = None;
                }
                self.note(Note::BuildFailed);
                self.build_retry.failed(now, &mut self.timers, &mut self.jitter);
            }
        }
    }

    /// What stands goes and another one comes: at once the first time in a while, then after pauses that grow.
    pub(super) fn broken(&mut self, now: Instant, generation: Generation, note: Note) {
        if !self.stands(generation) {
            return;
        }
        self.traffic = Traffic::Failed;
        // It may be being attached.
        self.building.abandon();
        self.note(note);
        if now - self.stands_since >= STEADY {
            self.build_retry.reset(&mut self.timers);
        }
        self.build_retry.failed_again(now, &mut self.timers, &mut self.jitter);
    }
}
