//! The port: when it is asked, and what follows from what it says.

use super::Ticket;
use super::{Action, Link, Membership, Note, Port, Status};
use crate::paths::Severity;
use crate::time::Instant;

impl<G: Copy + PartialEq> Link<G> {
    pub(super) fn next_port_query(&mut self) -> Option<Action<G>> {
        if !self.port_in_doubt || !self.port_query.is_free(1) {
            return None;
        }
        let ticket = self.ticket();
        self.port_in_doubt = false;
        self.port_query.out = Some((ticket, ()));
        Some(Action::QueryPort(ticket))
    }

    pub(super) fn port_answered(&mut self, now: Instant, ticket: Ticket, port: Option<Port>) {
        if self.port_query.answered(ticket).is_none() || !self.running {
            // A query of an earlier start says nothing about the port now.
            self.port_in_doubt |= self.running;
            return;
        }
        let before = core::mem::replace(&mut self.port, port);
        if let Some(port) = port.filter(|port| port.active || self.gid.is_none()) {
            self.gid = Some(port.gid);
        }
        self.speed.port_answered(port.as_ref());
        match port {
            Some(port) if port.is_usable() => {
                self.poll.reset(&mut self.timers);
                self.port_changed(now, before, port);
            }
            _ => {
                self.poll.failed(now, &mut self.timers, &mut self.jitter);
                self.stale();
            }
        }
    }

    /// A usable port: what differs from before says how much has to be done again.
    pub(super) fn port_changed(&mut self, now: Instant, before: Option<Port>, port: Port) {
        let moved = self.membership.is_some_and(|membership| membership.gid != port.gid);
        if moved {
            // The membership was another GID's.
            self.membership = None;
            self.search_anew();
        }
        // A port that is down has no LID.
        let is_same = self.usable.replace(port).is_some_and(|before| before.leads_as(&port));
        match before {
            Some(_) if !is_same => self.renew(Severity::Normal),
            // The ways to others are most likely what they were, and an SA that has just brought the port up may be slow to say so.
            Some(before) if !before.is_usable() => self.renew(Severity::Light),
            Some(before) if before.sm_lid != port.sm_lid => self.renew_soon(now),
            None => self.renew(Severity::Normal),
            Some(_) => {}
        }
        self.outgrow(now, port);
    }

    /// A port that has become smaller than its group is out of it: the queue pair fails at the first packet that is too long for the port.
    fn outgrow(&mut self, now: Instant, port: Port) {
        let outgrown = self.membership.filter(|membership| port.mtu < membership.group.mtu);
        if let Some(Membership { group, .. }) = outgrown {
            self.note(Note::MtuTooLarge(group.mtu, port.mtu));
            self.membership = None;
            self.lost_group = true;
            self.search_anew();
            self.sa_retry.failed(now, &mut self.timers, &mut self.jitter);
        }
    }

    /// Once the link is up: nothing waits for the answer.
    pub(super) fn next_rate_question(&mut self, status: Status) -> Option<Action<G>> {
        let port = self.port.as_ref().filter(|_| matches!(status, Status::Up(_)))?;
        self.speed.question(port).map(Action::AskRate)
    }

    pub(super) fn doubt_port(&mut self) {
        self.port_in_doubt = true;
        self.poll.reset(&mut self.timers);
        self.build_retry.reset(&mut self.timers);
    }
}
