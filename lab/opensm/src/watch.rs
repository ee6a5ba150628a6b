//! Whether the subnet manager is still the one it was, told from its SMInfo.
//!
//! ibsim's ports do not offer client re-registration, so a new OpenSM says nothing to anybody. But it answers Get(SMInfo) at
//! its LID, and its ActCount, the number of SMPs it has sent, begins anew.

use sm::Guid;
use sm::records::SmInfo;

/// What came of one Get(SMInfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The manager's answer.
    Answer(SmInfo),
    /// Nobody is attached at its LID.
    Nobody,
    /// No answer in time.
    Silence,
    /// No port is in a state to ask from, which says nothing about the manager.
    NoPort,
}

/// What a poll means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmEvent {
    /// The first master since the watch began.
    First(Guid),
    /// Another master than before: everything that was registered with the old one is gone.
    New(Guid),
    /// The master is there no more, or does not answer.
    Gone,
}

/// Polls without an answer in time before the manager counts as gone: one may be lost, or the machine busy.
const SILENCES: u32 = 3;
/// SMInfo's state of a master.
const MASTER: u8 = 3;

/// Takes polls, tells changes.
#[derive(Clone, Debug, Default)]
pub struct SmWatch {
    master: Option<SmInfo>,
    silences: u32,
    /// It was master, and is gone.
    gone: bool,
}

impl SmWatch {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The master of the last answer, unless it is gone.
    pub fn master(&self) -> Option<Guid> {
        self.master.filter(|_| !self.gone).map(|info| info.guid)
    }

    /// Takes a poll's outcome.
    pub fn poll(&mut self, poll: Poll) -> Option<SmEvent> {
        match poll {
            Poll::Answer(info) if info.state == MASTER => self.answered(info),
            // It is there and is not master yet: what was master is not any more.
            Poll::Answer(_) | Poll::Nobody => self.lost(),
            Poll::NoPort => None,
            Poll::Silence => {
                self.silences += 1;
                if self.silences >= SILENCES { self.lost() } else { None }
            }
        }
    }

    fn answered(&mut self, info: SmInfo) -> Option<SmEvent> {
        self.silences = 0;
        let gone = std::mem::take(&mut self.gone);
        let before = self.master.replace(info);
        let same = |old: SmInfo| !gone && old.guid == info.guid && old.act_count <= info.act_count;
        match before {
            None => Some(SmEvent::First(info.guid)),
            Some(old) if same(old) => None,
            Some(_) => Some(SmEvent::New(info.guid)),
        }
    }

    fn lost(&mut self) -> Option<SmEvent> {
        self.silences = 0;
        let had = self.master.is_some() && !self.gone;
        self.gone |= had;
        had.then_some(SmEvent::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(guid: u64, act_count: u32) -> Poll {
        Poll::Answer(SmInfo { guid: Guid(guid), act_count, state: MASTER, ..SmInfo::default() })
    }

    #[test]
    fn a_manager_that_goes_on_counting_is_the_same_one() {
        let mut watch = SmWatch::new();
        assert_eq!(watch.poll(Poll::Nobody), None, "not there yet");
        assert_eq!(watch.poll(master(1, 10)), Some(SmEvent::First(Guid(1))));
        assert_eq!(watch.poll(master(1, 10)), None);
        assert_eq!(watch.poll(master(1, 11)), None);
        assert_eq!(watch.master(), Some(Guid(1)));
    }

    #[test]
    fn a_count_that_goes_down_is_a_new_manager() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        assert_eq!(watch.poll(master(1, 9)), Some(SmEvent::New(Guid(1))));
        assert_eq!(watch.poll(master(1, 10)), None);
    }

    #[test]
    fn another_guid_is_a_new_manager_whatever_it_counts() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        assert_eq!(watch.poll(master(2, 99)), Some(SmEvent::New(Guid(2))));
    }

    #[test]
    fn one_that_was_away_is_new_although_it_counts_on() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        assert_eq!(watch.poll(Poll::Nobody), Some(SmEvent::Gone));
        assert_eq!(watch.poll(Poll::Nobody), None, "told once");
        assert_eq!(watch.master(), None);
        assert_eq!(watch.poll(master(1, 50)), Some(SmEvent::New(Guid(1))));
    }

    #[test]
    fn a_lost_poll_is_no_lost_manager_and_three_are() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        assert_eq!(watch.poll(Poll::Silence), None);
        assert_eq!(watch.poll(Poll::Silence), None);
        assert_eq!(watch.poll(master(1, 11)), None);
        watch.poll(Poll::Silence);
        watch.poll(Poll::Silence);
        assert_eq!(watch.poll(Poll::Silence), Some(SmEvent::Gone));
    }

    #[test]
    fn ports_without_links_say_nothing_about_the_manager() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        for _ in 0..10 {
            assert_eq!(watch.poll(Poll::NoPort), None);
        }
        assert_eq!(watch.poll(master(1, 11)), None);
    }

    #[test]
    fn one_that_is_only_discovering_is_no_master() {
        let mut watch = SmWatch::new();
        watch.poll(master(1, 10));
        let discovering = Poll::Answer(SmInfo { guid: Guid(1), act_count: 3, state: 1, ..SmInfo::default() });
        assert_eq!(watch.poll(discovering), Some(SmEvent::Gone));
        assert_eq!(watch.poll(master(1, 12)), Some(SmEvent::New(Guid(1))));
    }
}
