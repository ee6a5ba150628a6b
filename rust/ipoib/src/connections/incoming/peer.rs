//! What a neighbour has opened.

use core::time::Duration;

use super::EACH;
use crate::time::Instant;

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
    /// That was the LID of the port in the neighbour's name when it asked.
    pub(super) matched: bool,
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
    pub(super) fn want_look(&mut self, gives_way: bool, now: Instant) -> bool {
        self.gives_way |= gives_way;
        let new = self.look == Look::No;
        if new {
            self.look = Look::Due { at: now, again: false };
        }
        new
    }

    /// The number of the packet that is due, if it could be seen. True if nothing has come for so long.
    pub(super) fn looked(&mut self, sent: Option<u32>, idle: Duration, now: Instant) -> bool {
        let Look::Out { again } = self.look else {
            self.sent = self.sent.or(sent.map(|sent| (sent, now)));
            return false;
        };
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
                if !again {
                    // That may have been long ago.
                    self.look = Look::Due { at: now + idle, again: true };
                }
            }
            (_, None) => {}
        }
        self.gives_way &= self.look != Look::No;
        false
    }
}
