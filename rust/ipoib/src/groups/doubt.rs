//! Times in which the link's broadcast group is in doubt.
//!
//! A join names what the broadcast group has: Q_Key, service level, rate and MTU. One that makes its group gives the group all of that. After another SM has
//! come, the broadcast group may be another one, and a group that is made like the old one can keep a port out that the new one lets in.
//! So nothing is joined until the broadcast group is known again. Leaves and listings name nothing of it, and go on.

use core::ops::DerefMut;

use super::{Asker, GroupSlot, Groups, JoinError, Operation};
use crate::table::Id;
use crate::time::Instant;

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    /// Says whether the broadcast group is in doubt; the same twice changes nothing. When the doubt ends, all that waits for it is joined at once.
    pub fn set_doubt(&mut self, now: Instant, in_doubt: bool) {
        match (self.doubt, in_doubt) {
            (None, true) => self.doubt = Some(self.doubt_is_told_at(now)),
            (Some(_), false) => {
                self.doubt = None;
                self.for_each(Self::work);
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Senders do not wait longer for the doubt to end than they would for a silent SA.
    pub(super) fn tell_of_doubt(&mut self, now: Instant) {
        if self.doubt.is_some_and(|at| at <= now) {
            self.doubt = Some(self.doubt_is_told_at(now));
            self.for_each(Self::unanswered_for_doubt);
        }
    }

    fn unanswered_for_doubt(&mut self, id: Id) {
        let waits = self.table.get(id).is_some_and(|group| {
            group.operation == Operation::None && (group.asker == Asker::Waits || group.stands_in)
        });
        if waits {
            self.conclude(id, Err(JoinError::Unanswered));
        }
    }

    fn doubt_is_told_at(&self, now: Instant) -> Instant {
        now + self.config.answer.unwrap_or(self.config.retry.longest)
    }
}
