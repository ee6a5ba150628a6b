//! What a packet without a path is sent for.

/// Why a packet goes, as far as its sender can tell. Decides which room it may take, and when its address is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It answers a frame that any host may have made up: a unicast message of ARP or of neighbour discovery.
    Stranger,
    /// The same, to an address that has [spoken for itself](crate::acquaintances). Of a question to a group: about an address whose neighbour
    /// has.
    Newcomer,
    /// Everything else, to an address that has not spoken for itself: a host that forges a question in another name can go on, then or much
    /// later, and forge a ping. While too many answers wait it is one of them.
    Unproved,
    /// Everything else.
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
    pub(super) const ALL: usize = 4;

    /// Whether IP only answers, or asks because of a frame that any host may have made up.
    pub(super) fn is_answer(self) -> bool {
        matches!(self, Self::Stranger | Self::Newcomer)
    }

    /// What an address is looked up for from now on. The second packet to a stranger makes it no acquaintance: a host that forges one
    /// frame forges two.
    pub(super) fn or_better(self, other: Self) -> Self {
        match (self, other) {
            (_, Self::Own) => Self::Own,
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
            Self { cause: Cause::Own, known: true } => Cause::Own,
            Self { cause: Cause::Own | Cause::Unproved, known: false } if !scarce => Cause::Unproved,
            Self { cause: Cause::Newcomer, .. } | Self { known: true, .. } => Cause::Newcomer,
            Self { known: false, .. } => Cause::Stranger,
        }
    }

    /// The same of a packet to a group. Groups do not speak.
    pub(super) fn taken_for_group(self) -> Cause {
        self.cause
    }
}
