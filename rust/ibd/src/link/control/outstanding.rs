//! What of a link's machines is not at rest.

use super::Control;

/// What of a link's machines is not at rest.
pub(crate) struct Outstanding {
    link: bool,
    /// Something of it that is not the SA's to answer.
    link_here: bool,
    groups: bool,
    /// Groups of which nothing is out, and which are to be left.
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

impl core::fmt::Display for Outstanding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} link, {} groups, {} lookups, {} packets, {} questions, {} queue pair, {} connections",
            // What the control thread is at, too: most of it is the link's.
            u8::from(self.link || self.effect),
            self.memberships.max(usize::from(self.groups)),
            self.lookups,
            self.packets,
            self.questions,
            u8::from(self.queue_pair),
            u8::from(self.connections)
        )
    }
}
