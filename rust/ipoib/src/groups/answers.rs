//! Who has to be told what: answers to those who want to send, changes to those who remember, failures for the log.

use core::ops::DerefMut;

use super::{Action, Asker, Group, GroupSlot, Groups, JoinError, Mode, NOTICES, Resolved, SENT, StandIn};
use crate::addr::Mgid;
use crate::table::Id;
use crate::time::Instant;

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    pub(super) fn notice(&mut self, id: Id) {
        if !self.table.is_listed(NOTICES, id) {
            self.table.push_back(NOTICES, id);
        }
    }

    /// Somebody wants to send: answer from what is held, or see that it gets held.
    pub(super) fn ask(&mut self, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        group.asker = Asker::Waits;
        if self.see_that_it_is_held(id) {
            self.answer(id, Ok(StandIn::No));
        }
    }

    /// Whether one can send to the group now; if not, it is joined for sending. A failed join that waits for its retry is
    /// tried at once: whoever asks has a back-off of its own.
    fn see_that_it_is_held(&mut self, id: Id) -> bool {
        let Some(group) = self.table.get_mut(id) else { return false };
        group.used = true;
        group.send |= group.full == 0 && !group.non;
        let (sends, ready) = (group.send, group.is_ready());
        self.keep(id);
        if sends {
            self.table.push_back(SENT, id);
        }
        if !ready {
            self.try_now(id);
        }
        ready
    }

    /// Answers whoever waits for this group, if anybody does.
    pub(super) fn answer(&mut self, id: Id, answer: Result<StandIn, JoinError>) {
        let Some(group) = self.table.get_mut(id) else { return };
        if !matches!(group.asker, Asker::Waits | Asker::Redirected) {
            // An answer not taken yet must not promise what no longer holds.
            if let (Asker::Answer(old), Err(_)) = (&mut group.asker, answer) {
                *old = answer;
            }
            return;
        }
        group.asker = Asker::Answer(answer);
        // Whoever is told to forget before takes this answer for outdated.
        group.remembered |= answer == Ok(StandIn::No) && !group.forget;
        self.notice(id);
    }

    /// The way to the group that somebody may remember leads there no more.
    pub(super) fn tell_to_forget(&mut self, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        if core::mem::take(&mut group.remembered) {
            group.forget = true;
            self.notice(id);
        }
    }

    /// The send-only join was refused: no port has created the group. Its packets go to the all-routers group. Where the SA has refused that a
    /// while ago, it is not asked again for each group that any host makes IP send to.
    pub(super) fn redirect(&mut self, now: Instant, id: Id, to: Mgid) {
        let routers = self.all_routers(to).filter(|routers| routers.canonical() != to.canonical());
        let Some(routers) = routers else { return self.conclude(id, Err(JoinError::Refused)) };
        let is_ready = |id| self.table.get(id).is_some_and(Group::is_ready);
        if self.absent.contains(now, routers) && !self.table.find(&routers.canonical()).is_some_and(is_ready)
        {
            return self.conclude(id, Err(JoinError::Refused));
        }
        match self.place_to_stand_in(routers) {
            Err(error) => self.answer(id, Err(error)),
            Ok(routers) if self.see_that_it_is_held(routers) => self.answer(id, Ok(StandIn::AllRouters)),
            Ok(routers) => {
                if let Some(group) = self.table.get_mut(id) {
                    group.asker = Asker::Redirected;
                }
                if let Some(routers) = self.table.get_mut(routers) {
                    routers.stands_in = true;
                }
            }
        }
    }

    /// Answers whoever waits for this group, and for the groups it stands in for if it is an all-routers group.
    pub(super) fn conclude(&mut self, id: Id, answer: Result<StandIn, JoinError>) {
        self.answer(id, answer);
        let Some(key) = self.table.key(id) else { return };
        let stood_in = self.table.get_mut(id).is_some_and(|group| core::mem::take(&mut group.stands_in));
        if !stood_in {
            return;
        }
        let answer = answer.map(|_| StandIn::AllRouters);
        let mut from = 0;
        while let Some((at, other)) = self.table.next_from(from) {
            from = at + 1;
            let same_protocol = self.table.key(other).is_some_and(|k| k.signature() == key.signature());
            if same_protocol && self.table.get(other).is_some_and(|group| group.asker == Asker::Redirected) {
                self.answer(other, answer);
            }
        }
    }

    pub(super) fn all_routers(&self, of: Mgid) -> Option<Mgid> {
        let Mode::Up(scope, pkey) = self.mode else { return None };
        Some(Mgid::all_routers(of.signature()?, scope, pkey))
    }

    pub(super) fn next_notice(&mut self) -> Option<Action<G>> {
        while let Some(id) = self.table.front(NOTICES) {
            let key = self.table.key(id)?;
            let notice = self.notice_of(id, key);
            if !self.table.get(id).is_some_and(|group| group.has_notice()) {
                self.table.unlist(NOTICES, id);
                self.work(id);
            }
            if notice.is_some() {
                return notice;
            }
        }
        None
    }

    fn notice_of(&mut self, id: Id, key: Mgid) -> Option<Action<G>> {
        let group = self.table.get_mut(id)?;
        if core::mem::take(&mut group.forget) {
            return Some(Action::Forget(key));
        }
        if let Some((role, again)) = group.failed.take() {
            return Some(Action::Failed { group: self.on_wire(key), role, again });
        }
        if !matches!(group.asker, Asker::Answer(_)) {
            return None;
        }
        let Asker::Answer(answer) = core::mem::replace(&mut group.asker, Asker::None) else { return None };
        Some(Action::Resolved(key, self.resolution(id, key, answer)))
    }

    fn resolution(
        &self,
        id: Id,
        key: Mgid,
        answer: Result<StandIn, JoinError>,
    ) -> Result<Resolved<G>, JoinError> {
        let (from, refresh) = match answer? {
            StandIn::No => (Some(id), None),
            StandIn::AllRouters => {
                let routers = self.all_routers(key).and_then(|routers| self.table.find(&routers.canonical()));
                (routers, Some(self.config.stand_in))
            }
        };
        let held = from.and_then(|id| self.table.get(id)).and_then(|group| group.held.as_ref());
        let info = held.and_then(|held| held.info.clone()).ok_or(JoinError::Unanswered)?;
        Ok(Resolved { info, refresh })
    }

    /// A group's key as it goes on the wire of the link as it is now.
    pub(super) fn on_wire(&self, key: Mgid) -> Mgid {
        match self.mode {
            Mode::Up(scope, pkey) => key.on_link(scope, pkey),
            Mode::Down | Mode::Stopped => key,
        }
    }
}
