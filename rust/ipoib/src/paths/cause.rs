//! What a packet without a path is sent for.

/// Why a packet goes, as far as its sender can tell. Decides which room it may take, and when its address is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It answers a frame that any host may have made up: a unicast message of ARP or of neighbour discovery.
    Stranger,
    /// The same, to an address that has [spoken for itself](crate::acquaintances).
    Newcomer,
    /// Everything else. While too many answers wait it is one, too, unless its address has spoken for itself: a host that forges a
    /// question in another name can go on and forge a ping.
    Own,
}

/// The cause that the frame shows, and whether the address has spoken for itself.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    cause: Cause,
    known: bool,
}

impl Cause {
    /// As the frame shows it; `known` says whether the address has spoken for itself.
    pub fn of(self, known: bool) -> Shown {
        Shown { cause: self, known }
    }

    /// How many there are.
    pub(super) const ALL: usize = 3;

    /// What an address is looked up for from now on. The second packet to a stranger makes it no acquaintance: a host that forges one
    /// frame forges two.
    pub(super) fn or_better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Stranger, Self::Newcomer) => Self::Newcomer,
            _ => self,
        }
    }
}

impl Shown {
    /// Whether the address is in use that it goes to: what a stranger makes IP answer keeps none.
    pub(super) fn is_use(self) -> bool {
        self.cause == Cause::Own
    }

    /// What it is taken for; `scarce` says whether too many answers wait.
    pub(super) fn taken_for(self, scarce: bool) -> Cause {
        match self {
            Self { cause: Cause::Own, known } if known || !scarce => Cause::Own,
            Self { known: true, .. } => Cause::Newcomer,
            Self { known: false, .. } => Cause::Stranger,
        }
    }
}
