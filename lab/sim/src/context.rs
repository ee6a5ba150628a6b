//! Where kernel code runs, and where a kernel function may be called.

use std::fmt;

/// The context a thread runs in (rule 29 and the context matrix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ctx {
    /// A thread with an lwp: may sleep, may copy from and to user memory.
    User,
    /// A kernel thread: may sleep.
    Kernel,
    /// A soft or low-level interrupt, or a timeout handler; `pil` 0 to 10. May take adaptive mutexes, may not wait.
    Soft {
        /// Priority level, 1 to 10 (a timeout handler counts as 1).
        pil: u8,
    },
    /// A high-level interrupt; `pil` 11 to 15. Spin mutexes only.
    High {
        /// Priority level, 11 to 15.
        pil: u8,
    },
}

impl Ctx {
    /// The highest level at which adaptive mutexes may be taken (`LOCK_LEVEL`).
    pub const LOCK_LEVEL: u8 = 10;

    /// The processor interrupt level this context implies.
    pub const fn pil(self) -> u8 {
        match self {
            Self::User | Self::Kernel => 0,
            Self::Soft { pil } | Self::High { pil } => pil,
        }
    }

    /// May code here sleep for an unbounded time?
    pub const fn may_block(self) -> bool {
        matches!(self, Self::User | Self::Kernel)
    }

    pub(crate) const fn bit(self) -> Contexts {
        match self {
            Self::User => Contexts::U,
            Self::Kernel => Contexts::K,
            Self::Soft { .. } => Contexts::S,
            Self::High { .. } => Contexts::H,
        }
    }
}

impl fmt::Display for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => write!(f, "user"),
            Self::Kernel => write!(f, "kernel"),
            Self::Soft { pil } => write!(f, "soft interrupt (PIL {pil})"),
            Self::High { pil } => write!(f, "high-level interrupt (PIL {pil})"),
        }
    }
}

/// A set of contexts a kernel function may be called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts(u8);

impl Contexts {
    /// User threads.
    pub const U: Self = Self(1);
    /// Kernel threads.
    pub const K: Self = Self(2);
    /// Soft interrupts, low-level interrupts, timeout handlers.
    pub const S: Self = Self(4);
    /// High-level interrupts.
    pub const H: Self = Self(8);
    /// Whatever may sleep: user and kernel threads.
    pub const UK: Self = Self(3);
    /// Everything up to `LOCK_LEVEL`.
    pub const UKS: Self = Self(7);
    /// Everywhere.
    pub const ANY: Self = Self(15);

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Is the context of this one bit among these?
    #[inline]
    pub const fn allows_bit(self, bit: Self) -> bool {
        self.0 & bit.0 != 0
    }

    /// Is `ctx` in the set?
    pub const fn allows(self, ctx: Ctx) -> bool {
        self.0 & ctx.bit().0 != 0
    }
}

impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(1, 'U'), (2, 'K'), (4, 'S'), (8, 'H')];
        letters.iter().filter(|(bit, _)| self.0 & bit != 0).try_for_each(|(_, c)| write!(f, "{c}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Contexts, Ctx};

    #[test]
    fn a_soft_interrupt_may_not_do_what_only_threads_may() {
        assert!(!Contexts::UK.allows(Ctx::Soft { pil: 4 }));
        assert!(Contexts::UKS.allows(Ctx::Soft { pil: 4 }));
        assert!(!Contexts::UKS.allows(Ctx::High { pil: 12 }));
        assert_eq!(Contexts::UKS.to_string(), "UKS");
    }
}
