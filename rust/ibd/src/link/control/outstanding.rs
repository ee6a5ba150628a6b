//! What of a link's machines is not at rest.

use core::fmt;

use super::Control;

/// What of a link's machines is not at rest.
pub(crate) struct Outstanding {
    link: bool,
    /// Something of it that is not the SA's to answer.
    link_here: bool,
    groups: bool,
    /// Groups that are to be left, without a question out.
    groups_here: bool,
    /// Groups that the port is in, or may be.
    memberships: usize,
    lookups: usize,
    packets: usize,
    questions: usize,
    queue_pair: bool,
    connections: bool,
    effect: bool,
}

impl Control {
    /// What is held and which answers are awaited.
    pub(crate) fn outstanding(&self) -> Outstanding {
        Outstanding {
            link: !self.link.is_idle(),
            link_here: !self.link.waits_for_the_sa_alone(),
            groups: !self.groups.is_idle(),
            groups_here: !self.groups.waits_for_answers_alone(),
            memberships: self.groups.held(),
            lookups: self.paths.lookups_in_flight(),
            packets: self.paths.packets_held(),
            questions: self.questions.open(),
            queue_pair: self.queue_pairs.is_some(),
            connections: self.incoming.as_ref().is_some_and(|incoming| !incoming.is_idle()),
            effect: self.carries_out,
        }
    }
}

impl Outstanding {
    /// Nothing but connections that were closed.
    pub(crate) fn is_connections(&self) -> bool {
        Self { connections: false, ..*self }.is_nothing()
    }

    /// Nothing but answers of the SA's that are awaited.
    pub(crate) fn is_questions(&self) -> bool {
        !self.groups_here
            && !self.link_here
            && Self { link: false, groups: false, lookups: 0, ..*self }.is_nothing()
    }

    pub(crate) fn memberships(&self) -> usize {
        self.memberships
    }

    pub(crate) fn is_nothing(&self) -> bool {
        let waiting = self.lookups + self.packets + self.questions;
        !self.link && !self.groups && waiting == 0 && !self.queue_pair && !self.connections && !self.effect
    }
}

impl Outstanding {
    /// Adds what an administrator can do something about.
    pub(in crate::link) fn list(&self, reasons: &mut Reasons<'_, '_>) -> fmt::Result {
        let Self { lookups, packets, questions, .. } = *self;
        // What the control thread is at, too: most of it is the link's.
        reasons.add(self.link || self.effect, format_args!("the SA to answer about the broadcast group"))?;
        let groups = self.memberships.max(1);
        reasons.add(self.groups, format_args!("the SA to answer about {groups} groups"))?;
        reasons.add(lookups != 0, format_args!("the SA to answer about {lookups} paths"))?;
        reasons.add(packets != 0, format_args!("{packets} packets without a path"))?;
        reasons.add(questions != 0, format_args!("{questions} questions of ibdpath"))?;
        reasons.add(self.queue_pair, format_args!("the adapter to free the queue pair"))?;
        reasons.add(self.connections, format_args!("neighbours to let go of connections"))
    }
}

/// A list for a message.
pub(in crate::link) struct Reasons<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    some: bool,
}

impl<'a, 'b> Reasons<'a, 'b> {
    pub(in crate::link) fn new(to: &'a mut fmt::Formatter<'b>) -> Self {
        Self { to, some: false }
    }

    /// Adds one if it holds.
    pub(in crate::link) fn add(&mut self, holds: bool, reason: fmt::Arguments<'_>) -> fmt::Result {
        if !holds {
            return Ok(());
        }
        let comma = if core::mem::replace(&mut self.some, true) { ", " } else { "" };
        write!(self.to, "{comma}{reason}")
    }
}
