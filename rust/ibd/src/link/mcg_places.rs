//! Who has the places that the adapter has for groups. All ports and clients of an adapter share them; hermon has 256.
//!
//! A group that IP wants to hear takes the place of one that only promiscuous mode hears: of this link at once, and of each other link of the
//! module on this adapter as soon as that one sees to it. What other clients of the adapter have stays theirs.

use ibtf::{Attachment, McgInfo, Status, UdChannel};
use ipoib::groups::{Event, Roles};

use super::Shared;
use crate::now;

/// Who wants to hear a group; the greatest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Promiscuous mode.
    Overheard,
    /// IP, or another client of the MAC layer.
    Wanted,
    /// The link itself, which is not up without its broadcast group.
    Broadcast,
}

impl Rank {
    /// Of a group that is joined in this role.
    pub(super) fn of(role: Roles) -> Self {
        if role == Roles::NON { Self::Overheard } else { Self::Wanted }
    }
}

/// Places that one attempt frees, at most: another thread may take the one that was freed, and the adapter may lack something else.
const FREED: usize = 4;

/// Whether this is how an adapter says that it has no place for a group.
pub(super) fn has_no_place(status: Status) -> bool {
    status == Status::INSUFF_RESOURCE
}

impl Shared {
    /// Attaches a queue pair to a group, in the place of one that only promiscuous mode hears if there is no other. **May block.**
    #[inline(never)]
    pub(super) fn attach_in_place(
        &self,
        channel: &UdChannel,
        group: &McgInfo,
        rank: Rank,
    ) -> Result<Attachment, Status> {
        let mut result = channel.attach(group);
        if rank == Rank::Overheard {
            return result;
        }
        for _ in 0..FREED {
            let Err(status) = &result else { return result };
            if !has_no_place(*status) || !self.free_a_place() {
                break;
            }
            result = channel.attach(group);
        }
        if result.as_ref().is_err_and(|status| has_no_place(*status)) {
            self.pool.ask_for_places(self.number, self.node.hca);
        }
        result
    }

    /// `false` if promiscuous mode has none.
    #[inline(never)]
    fn free_a_place(&self) -> bool {
        let freed = self.control.lock().attachments.give_up_a_place();
        let Some((mgid, attachment)) = freed else { return false };
        drop(attachment);
        self.ended(mgid, None);
        self.tell(|control| control.groups.handle_event(now(), Event::Displaced(mgid)));
        true
    }

    /// Another link of the adapter wants to hear a group: one that only promiscuous mode hears is left soon.
    pub(crate) fn leave_a_place(&self) {
        self.tell(|control| control.groups.handle_event(now(), Event::PlaceWanted));
    }
}
