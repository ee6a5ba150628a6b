//! What a neighbour has opened.

use core::time::Duration;

use super::EACH;
use super::room::LidCheck;
use crate::time::Instant;

/// One on which nothing comes for so long is not in use, where its own neighbour asks for another one.
pub(super) const SOON: Duration = Duration::from_millis(200);
/// One that was in use so long ago still is.
const LATELY: Duration = Duration::from_secs(10);

/// What a neighbour has opened.
#[derive(Debug, Default)]
pub struct Peer {
    pub(super) connections: [Option<Accepted>; EACH],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) number: u64,
    /// Where the acknowledgements go: the base LID of a port.
    pub(super) lid: u16,
    /// What spoke for the neighbour when it asked.
    pub(super) check: LidCheck,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Offered { since: Instant },
    Up(Up),
    Draining { told: bool },
}

/// One that stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Up {
    /// How far the neighbour had sent, and when that was first seen.
    pub(super) sent: Option<(u32, Instant)>,
    pub(super) look: Look,
    /// It goes if it is not in use and room is short, whatever else its neighbour has.
    pub(super) gives_way: bool,
    /// The same, and it was somebody without a claim to this very place who asked.
    everywhere: bool,
    /// It goes if it is not in use for [`SOON`].
    soon: bool,
    /// When it was last looked at twice and something had come each time.
    used: Option<Instant>,
}

/// Why one that stands is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Its neighbour has one too many.
    OneTooMany,
    OneTooManySoon,
    /// Somebody wants a place of its neighbour's, or of its port's.
    Place,
    PlaceSoon,
    /// Somebody wants any place.
    AnyPlace,
}

/// Whether one that stands is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    No,
    /// From then on; `again` if something had come on it since it was looked at before.
    Due { at: Instant, again: bool },
    /// The link does.
    Out { again: bool },
}

impl Peer {
    pub(super) fn all(&self) -> impl Iterator<Item = &Accepted> {
        self.connections.iter().flatten()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Accepted> {
        self.connections.iter_mut().flatten()
    }

    pub(super) fn standing(&self) -> usize {
        self.all().filter(|one| one.is_up()).count()
    }
}

impl Accepted {
    pub(super) fn is_live(&self) -> bool {
        !self.is_draining()
    }

    pub(super) fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining { .. })
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    pub(super) fn is_marked_everywhere(&self) -> bool {
        matches!(self.state, State::Up(Up { gives_way: true, everywhere: true, .. }))
    }

    /// Whether it was looked at a short while ago, and found in use.
    pub(super) fn was_in_use(&self, now: Instant) -> bool {
        matches!(self.state, State::Up(Up { used: Some(used), look: Look::No, .. }) if now - used <= LATELY)
    }

    pub(super) fn gives_way(&self) -> bool {
        matches!(self.state, State::Up(Up { gives_way: true, .. }))
    }

    /// An offer that was not taken up by so long after it was made.
    pub(super) fn is_stale(&self, within: Duration, now: Instant) -> bool {
        matches!(self.state, State::Offered { since } if since + within <= now)
    }

    /// When something is to be done about it.
    pub(super) fn deadline(&self, offer: Duration) -> Option<Instant> {
        match self.state {
            State::Offered { since } => Some(since + offer),
            State::Up(Up { look: Look::Due { at, .. }, .. }) => Some(at),
            State::Up(_) | State::Draining { .. } => None,
        }
    }
}

impl Up {
    /// It is looked at, soon. False if it is being looked at.
    pub(super) fn want_look(&mut self, want: Want, now: Instant) -> bool {
        self.gives_way |= matches!(want, Want::Place | Want::PlaceSoon | Want::AnyPlace);
        self.everywhere |= want == Want::AnyPlace;
        let sooner = matches!(want, Want::PlaceSoon | Want::OneTooManySoon) && !self.soon;
        self.soon |= sooner;
        let new = self.look == Look::No;
        match &mut self.look {
            look @ Look::No => *look = Look::Due { at: now, again: false },
            Look::Due { at, .. } if sooner => *at = (*at).min(now + SOON),
            Look::Due { .. } | Look::Out { .. } => {}
        }
        new
    }

    /// Nobody needs its place any more, unless its neighbour has one too many.
    pub(super) fn spare(&mut self, one_too_many: bool) {
        (self.gives_way, self.everywhere) = (false, false);
        if !one_too_many {
            self.look = Look::No;
            self.soon = false;
        }
    }

    /// The number of the packet that is due, if it could be seen. True if nothing has come for so long, or [`SOON`] if that matters.
    pub(super) fn looked(&mut self, sent: Option<u32>, idle: Duration, now: Instant) -> bool {
        let Look::Out { again } = self.look else {
            self.sent = self.sent.or(sent.map(|sent| (sent, now)));
            return false;
        };
        let idle = if self.soon { SOON } else { idle };
        self.look = Look::No;
        match (self.sent, sent) {
            (Some((before, since)), Some(sent)) if before == sent => {
                if now - since >= idle {
                    return true;
                }
                self.look = Look::Due { at: since + idle, again };
            }
            (_, Some(sent)) => {
                self.sent = Some((sent, now));
                if again {
                    self.used = Some(now);
                } else {
                    // That may have been long ago.
                    self.look = Look::Due { at: now + idle, again: true };
                }
            }
            (_, None) => {}
        }
        if self.look == Look::No {
            self.spare(false);
        }
        false
    }
}
