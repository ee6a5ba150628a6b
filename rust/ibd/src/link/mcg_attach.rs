//! The groups that the link hears, whichever queue pair it has: what its queue pair is attached to is brought in line with that.
//!
//! An adapter keeps one attachment of a queue pair to a group, however often it was asked for, and forgets it at the first
//! detach. So at most one thread attaches or detaches a group at a time; whoever finds it busy leaves the rest to that one.

use core::cmp::Reverse;

use ibtf::{Attachment, McgInfo, Status};
use ipoib::link::Generation;
use ipoib::{Mgid, groups};
use kernel::{AllocError, KVec, log};

use super::Shared;
use super::mcg_places::{Rank, has_no_place};
use crate::{node, now};

/// The groups, and the attachments to them. `A` is an attachment, which detaches when it is dropped: never under a lock.
pub(crate) struct Attachments<A>(KVec<Entry<A>>);

struct Entry<A> {
    mgid: Mgid,
    /// How the group is reached, and who wants to hear it; `None` if it is not to be attached to any more.
    wanted: Option<(McgInfo, Rank)>,
    /// The queue pair that is attached, by its generation, and the group's multicast LID then.
    attached: Option<(Generation, u16, A)>,
    /// A thread is attaching or detaching it.
    busy: bool,
}

/// What brings a group in line. Report the end of it with [`Attachments::ended`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<A> {
    /// Attach the queue pair that stands.
    Attach(Mgid, McgInfo, Rank),
    /// Drop this.
    Detach(Mgid, A),
}

/// The group of a record.
fn group_of(info: &McgInfo) -> Option<Mgid> {
    Mgid::new(node::gid(info.address.dgid))
}

impl<A> Attachments<A> {
    pub(crate) fn new() -> Self {
        Self(KVec::new())
    }

    /// The group is to be attached to, as this record says. `false` if it names no group.
    pub(crate) fn add(&mut self, info: &McgInfo, rank: Rank) -> Result<bool, AllocError> {
        let Some(mgid) = group_of(info) else { return Ok(false) };
        match self.find(mgid) {
            Some(entry) => {
                let before = entry.wanted.map_or(rank, |(_, before)| before);
                entry.wanted = Some((*info, rank.max(before)));
            }
            None => self.0.push(Entry { mgid, wanted: Some((*info, rank)), attached: None, busy: false })?,
        }
        Ok(true)
    }

    /// The group is not to be attached to any more.
    pub(crate) fn remove(&mut self, mgid: Mgid) {
        if let Some(entry) = self.find(mgid) {
            entry.wanted = None;
        }
    }

    /// No group is to be attached to any more.
    pub(crate) fn remove_all(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.wanted = None);
    }

    /// What is to be done about a group, or about any, so that the queue pair of this generation is attached to
    /// what is wanted, and no other one to anything; `None` if nothing, or if somebody else does it. What is detached leaves places to what is
    /// attached, and what promiscuous mode alone hears comes last.
    pub(crate) fn next(&mut self, queue_pair: Option<Generation>, only: Option<Mgid>) -> Option<Step<A>> {
        loop {
            let steps = self.0.iter().enumerate().filter(|(_, entry)| {
                only.is_none_or(|mgid| entry.mgid == mgid) && entry.has_a_step(queue_pair)
            });
            let (at, _) = steps.min_by_key(|(_, entry)| entry.turn())?;
            let entry = self.0.get_mut(at)?;
            let step = match (entry.attached.take(), entry.wanted) {
                (Some((.., attachment)), _) => Step::Detach(entry.mgid, attachment),
                (None, Some((info, rank))) => Step::Attach(entry.mgid, info, rank),
                (None, None) => {
                    self.0.swap_remove(at);
                    continue;
                }
            };
            entry.busy = true;
            return Some(step);
        }
    }

    /// A step has ended: with an attachment of that queue pair to the group under that multicast LID, or with none. What comes back is
    /// to be dropped without a lock.
    pub(crate) fn ended(&mut self, mgid: Mgid, attached: Option<(Generation, u16, A)>) -> Option<A> {
        let Some(entry) = self.find(mgid) else { return attached.map(|(.., attachment)| attachment) };
        entry.busy = false;
        match attached {
            Some(attached) => entry.attached.replace(attached).map(|(.., before)| before),
            None => None,
        }
    }

    /// The attachment of that queue pair to the group, and the group's multicast LID then. Whoever attaches it without having taken this
    /// has two for one of the adapter's, which the first detach ends. To be dropped, or given back ([`Attachments::adopt`]), without a lock.
    pub(crate) fn take(&mut self, info: &McgInfo, queue_pair: Generation) -> Option<(u16, A)> {
        let entry = group_of(info).and_then(|mgid| self.find(mgid))?;
        let attached = entry.attached.take_if(|(generation, ..)| *generation == queue_pair);
        attached.map(|(_, mlid, attachment)| (mlid, attachment))
    }

    /// The group is to be attached to, and a queue pair that does not stand yet is attached to it already. What comes back is to be dropped
    /// without a lock; an error has the attachment itself.
    pub(crate) fn adopt(
        &mut self,
        info: &McgInfo,
        queue_pair: Generation,
        attachment: A,
    ) -> Result<Option<A>, A> {
        if !matches!(self.add(info, Rank::Broadcast), Ok(true)) {
            return Err(attachment);
        }
        match group_of(info).and_then(|mgid| self.find(mgid)) {
            Some(entry) => {
                let attached = (queue_pair, info.address.dlid, attachment);
                Ok(entry.attached.replace(attached).map(|(.., before)| before))
            }
            None => Err(attachment),
        }
    }

    /// A group that only promiscuous mode hears gives its place up: its attachment is to be dropped without a lock, and then that is to be
    /// [reported](Self::ended).
    pub(crate) fn give_up_a_place(&mut self) -> Option<(Mgid, A)> {
        let entry = self.0.iter_mut().find(|entry| entry.is_overheard())?;
        let (.., attachment) = entry.attached.take()?;
        (entry.wanted, entry.busy) = (None, true);
        Some((entry.mgid, attachment))
    }

    /// Who wants to hear a group.
    pub(crate) fn rank(&mut self, mgid: Mgid) -> Option<Rank> {
        self.find(mgid)?.wanted.map(|(_, rank)| rank)
    }

    fn find(&mut self, mgid: Mgid) -> Option<&mut Entry<A>> {
        self.0.iter_mut().find(|entry| entry.mgid == mgid)
    }
}

impl<A> Entry<A> {
    fn has_a_step(&self, queue_pair: Option<Generation>) -> bool {
        match (&self.wanted, &self.attached) {
            _ if self.busy => false,
            (None, _) => true,
            (Some((info, _)), Some((generation, mlid, _))) => {
                queue_pair != Some(*generation) || *mlid != info.address.dlid
            }
            (Some(_), None) => queue_pair.is_some(),
        }
    }

    /// The smallest comes first.
    fn turn(&self) -> (bool, Reverse<Option<Rank>>) {
        (self.attached.is_none(), Reverse(self.wanted.map(|(_, rank)| rank)))
    }

    /// Whether it has a place for promiscuous mode alone.
    fn is_overheard(&self) -> bool {
        let rank = self.wanted.map(|(_, rank)| rank);
        !self.busy && self.attached.is_some() && rank == Some(Rank::Overheard)
    }
}

impl Shared {
    /// Lets a group in from now on, whatever queue pair the link has or gets. **May block.**
    pub(super) fn attach_group(&self, group: &McgInfo, rank: Rank) -> Result<(), Status> {
        let mgid = group_of(group).ok_or(Status::MC_MGID_INVALID)?;
        let mut control = self.control.lock();
        let added = control.attachments.add(group, rank);
        drop(control);
        added?;
        self.update_attachments(Some(mgid))
    }

    /// Lets a group in no more. **May block.**
    pub(super) fn detach_group(&self, mgid: Mgid) {
        self.control.lock().attachments.remove(mgid);
        if self.update_attachments(Some(mgid)).is_err() {
            // Wanted again meanwhile, and left to this thread.
            self.tell(|control| control.groups.handle_event(now(), groups::Event::Deaf(mgid)));
        }
    }

    /// Attaches the queue pair that stands to what is to be attached to, and detaches what is not, or not by that one: for one group,
    /// whose failure is the result, or for all, and whoever wants one that cannot be attached is told. **May block.**
    #[inline(never)]
    pub(super) fn update_attachments(&self, only: Option<Mgid>) -> Result<(), Status> {
        let mut result = Ok(());
        loop {
            let mut control = self.control.lock();
            let standing =
                control.queue_pairs.as_ref().map(|pairs| (pairs.generation(), pairs.first().clone()));
            let generation = standing.as_ref().map(|(generation, _)| *generation);
            let step = control.attachments.next(generation, only);
            drop(control);
            match (step, standing) {
                (None, _) => return result,
                (Some(Step::Detach(mgid, attachment)), _) => {
                    drop(attachment);
                    self.ended(mgid, None);
                }
                (Some(Step::Attach(mgid, info, rank)), Some((generation, channel))) => {
                    match self.attach_in_place(&channel, &info, rank) {
                        Ok(attachment) => {
                            self.ended(mgid, Some((generation, info.address.dlid, attachment)));
                            if only.is_some() {
                                // What failed was another queue pair.
                                result = Ok(());
                            }
                        }
                        Err(status) => {
                            self.attach_failed(mgid, generation, status, only.is_none());
                            result = Err(status);
                        }
                    }
                }
                // There is no such step without a queue pair.
                (Some(Step::Attach(mgid, ..)), None) => self.ended(mgid, None),
            }
        }
    }

    pub(super) fn ended(&self, mgid: Mgid, attached: Option<(Generation, u16, Attachment)>) {
        let left = self.control.lock().attachments.ended(mgid, attached);
        // Without the lock.
        drop(left);
    }

    /// The adapter has no room for the group, or another reason: it is tried again when it is joined again.
    #[inline(never)]
    fn attach_failed(&self, mgid: Mgid, generation: Generation, status: Status, tell: bool) {
        let rank = self.control.lock().attachments.rank(mgid);
        let is_overheard = rank.is_none_or(|rank| rank == Rank::Overheard);
        let gives_up = is_overheard && has_no_place(status);
        if !gives_up {
            log!(note, self.name, "cannot attach the queue pair to group {mgid:?}: {status}");
        }
        self.tell(|control| {
            // A queue pair that is gone by now says nothing about the next one.
            if control.queue_pairs.as_ref().is_some_and(|pairs| pairs.generation() == generation) {
                control.attachments.remove(mgid);
                if tell {
                    let (displaced, deaf) = (groups::Event::Displaced(mgid), groups::Event::Deaf(mgid));
                    control.groups.handle_event(now(), if gives_up { displaced } else { deaf });
                }
            }
            // Nothing was attached that could come back.
            let _ = control.attachments.ended(mgid, None);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generation with this number.
    fn qp(number: u64) -> Generation {
        let mut all = ipoib::link::Generations::default();
        (1..number).for_each(|_| _ = all.draw());
        all.draw()
    }

    fn group(n: u64, mlid: u16) -> (Mgid, McgInfo) {
        let gid = ibtf::Gid { prefix: 0xff12_401b_ffff_0000, guid: n };
        let mut info = McgInfo::default();
        (info.address.dgid, info.address.dlid) = (gid, mlid);
        (group_of(&info).unwrap(), info)
    }

    fn attached(
        attachments: &mut Attachments<u32>,
        mgid: Mgid,
        generation: Generation,
        mlid: u16,
        attachment: u32,
    ) {
        assert_eq!(attachments.ended(mgid, Some((generation, mlid, attachment))), None);
    }

    #[test]
    fn groups_of_a_queue_pair_that_is_gone_are_those_of_the_next_one() {
        let (mut attachments, (mgid, info)) = (Attachments::new(), group(1, 0xc001));
        assert_eq!(attachments.add(&info, Rank::Wanted), Ok(true));
        assert_eq!(attachments.next(None, None), None, "there is nothing to attach");
        assert_eq!(attachments.next(Some(qp(7)), None), Some(Step::Attach(mgid, info, Rank::Wanted)));
        assert_eq!(attachments.next(Some(qp(7)), None), None, "somebody is at it");
        attached(&mut attachments, mgid, qp(7), 0xc001, 70);
        assert_eq!(attachments.next(Some(qp(7)), None), None);
        assert_eq!(attachments.next(None, None), Some(Step::Detach(mgid, 70)));
        assert_eq!(attachments.ended(mgid, None), None);
        assert_eq!(attachments.next(None, None), None);
        assert_eq!(attachments.next(Some(qp(8)), None), Some(Step::Attach(mgid, info, Rank::Wanted)));
    }

    #[test]
    fn whoever_finds_a_group_busy_leaves_what_is_wanted_to_that_one() {
        let (mut attachments, (mgid, info)) = (Attachments::new(), group(1, 0xc001));
        attachments.add(&info, Rank::Wanted).unwrap();
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), Some(Step::Attach(mgid, info, Rank::Wanted)));
        attachments.remove(mgid);
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), None);
        attached(&mut attachments, mgid, qp(7), 0xc001, 70);
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), Some(Step::Detach(mgid, 70)));
        attachments.add(&info, Rank::Wanted).unwrap();
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), None, "a detach under way would undo it");
        assert_eq!(attachments.ended(mgid, None), None);
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), Some(Step::Attach(mgid, info, Rank::Wanted)));
    }

    #[test]
    fn what_a_queue_pair_is_attached_to_already_is_taken_and_given_back_when_it_is_built() {
        let (mut attachments, (mgid, info)) = (Attachments::new(), group(1, 0xc001));
        assert_eq!(attachments.take(&info, qp(7)), None);
        assert_eq!(attachments.adopt(&info, qp(7), 70), Ok(None));
        assert_eq!(attachments.take(&info, qp(8)), None, "of another queue pair");
        assert_eq!(attachments.take(&info, qp(7)), Some((0xc001, 70)));
        assert_eq!(attachments.adopt(&info, qp(7), 70), Ok(None), "nothing is left to be detached");
        assert_eq!(attachments.next(Some(qp(7)), Some(mgid)), None);
    }

    #[test]
    fn a_group_that_moves_is_detached_where_it_was() {
        let (mut attachments, (mgid, before)) = (Attachments::new(), group(1, 0xc001));
        assert_eq!(attachments.adopt(&before, qp(7), 70), Ok(None));
        let (_, after) = group(1, 0xc002);
        attachments.add(&after, Rank::Broadcast).unwrap();
        assert_eq!(attachments.next(Some(qp(7)), None), Some(Step::Detach(mgid, 70)));
        attachments.ended(mgid, None);
        assert_eq!(attachments.next(Some(qp(7)), None), Some(Step::Attach(mgid, after, Rank::Broadcast)));
    }

    #[test]
    fn groups_that_are_wanted_no_more_leave_nothing_behind() {
        let mut attachments = Attachments::new();
        for n in 1..=3 {
            assert_eq!(attachments.adopt(&group(n, 0xc001).1, qp(7), n), Ok(None));
        }
        attachments.remove_all();
        let mut detached = 0;
        while let Some(Step::Detach(mgid, _)) = attachments.next(Some(qp(7)), None) {
            attachments.ended(mgid, None);
            detached += 1;
        }
        assert_eq!((detached, attachments.0.len()), (3, 0));
    }

    #[test]
    fn a_place_is_given_up_by_a_group_that_only_promiscuous_mode_hears() {
        let mut attachments = Attachments::new();
        for (n, rank) in [(1, Rank::Wanted), (2, Rank::Overheard), (3, Rank::Overheard)] {
            let (mgid, info) = group(n, 0xc001);
            attachments.add(&info, rank).unwrap();
            assert!(attachments.next(Some(qp(7)), Some(mgid)).is_some());
            attached(&mut attachments, mgid, qp(7), 0xc001, n as u32);
        }
        // Wanted by IP as well by now, and that stays so whichever join is answered last.
        attachments.add(&group(2, 0xc001).1, Rank::Wanted).unwrap();
        attachments.add(&group(2, 0xc001).1, Rank::Overheard).unwrap();
        let (third, _) = group(3, 0xc001);
        assert_eq!(attachments.give_up_a_place(), Some((third, 3)));
        assert_eq!(attachments.give_up_a_place(), None, "somebody is at it, and the others are wanted");
        assert_eq!(attachments.ended(third, None), None);
        assert_eq!(attachments.next(Some(qp(7)), None), None);
    }

    #[test]
    fn a_new_queue_pair_is_attached_to_what_ip_wants_before_what_is_overheard() {
        let mut attachments: Attachments<u32> = Attachments::new();
        for (n, rank) in [(1, Rank::Overheard), (2, Rank::Wanted), (3, Rank::Broadcast)] {
            attachments.add(&group(n, 0xc001).1, rank).unwrap();
        }
        let mut order = Vec::new();
        while let Some(Step::Attach(.., rank)) = attachments.next(Some(qp(7)), None) {
            order.push(rank);
        }
        assert_eq!(order, [Rank::Broadcast, Rank::Wanted, Rank::Overheard]);
    }
}
