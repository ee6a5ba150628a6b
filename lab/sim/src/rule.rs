//! The kernel's rules for modules, numbered as the conformance suite numbers them.

use std::fmt;

/// What breaking a rule does on a real system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The real kernel panics or its memory is corrupted.
    Panic,
    /// Undefined by the DDI: works by luck, if at all.
    Defect,
    /// Legal though ugly: noted, never fatal.
    Tolerated,
}

impl Severity {
    /// The letter used in tables: P, D or T.
    pub const fn letter(self) -> char {
        match self {
            Self::Panic => 'P',
            Self::Defect => 'D',
            Self::Tolerated => 'T',
        }
    }
}

macro_rules! rules {
    ($($number:literal $name:ident $severity:ident $text:literal;)*) => {
        /// One rule of the kernel's discipline; the discriminant is its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = $text] $name = $number,)*
        }

        impl Rule {
            /// Every rule in order of its number.
            pub const ALL: [Self; 55] = [$(Self::$name,)*];

            /// The usual severity (a case may differ: some rules are worse at interrupt level).
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// The rule in one line.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rules! {
    1 SleepInInterrupt Defect "a call that may sleep, from a soft interrupt, a timeout handler or an interrupt";
    2 BlockWithSpinMutex Panic "a blocking call while a spin mutex is held";
    3 BlockWithMutex Tolerated "a blocking call while an adaptive mutex is held";
    4 UpcallWithMutex Defect "an upcall or a barrier while a driver mutex is held";
    5 RecursiveMutex Panic "mutex_enter of a mutex the caller owns";
    6 MutexNotOwner Panic "mutex_exit by a thread that does not own the mutex";
    7 BadMutex Panic "a mutex that was never initialised, or was destroyed";
    8 BadMutexDestroy Panic "mutex_destroy of a mutex held by another thread, with waiters, or twice";
    9 LiveObjectInFreedMemory Panic "memory released while a lock, condition variable, list node, timeout or callback in it lives";
    10 BadCvMutex Panic "cv_wait without owning the mutex, or with a spin mutex";
    11 CvWaitNotInLoop Defect "cv_wait not in a loop: the seed wakes waiters at random";
    12 BadCv Defect "a condition variable or semaphore destroyed with waiters, or used before its initialisation or after its destruction";
    13 CvTwoMutexes Defect "two waiters of one condition variable with different mutexes";
    14 BadRwlock Panic "a readers/writer lock entered recursively, left by a stranger or destroyed while active";
    15 BadFree Panic "kmem_free with another size or an unknown pointer, or to the wrong cache";
    16 HeapCorruption Panic "an access outside an allocation, or after its free";
    17 CacheNotEmpty Defect "kmem_cache_destroy with live objects";
    18 NotConstructed Defect "kmem_cache_free of an object not in its constructed state";
    19 Leak Defect "something left behind by _fini, a failed _init, detach or a failed attach";
    20 BadMessageFree Panic "a message block freed twice, used after its free, or freed while linked";
    21 BadMessagePointers Panic "message block pointers outside their buffer";
    22 SharedMessageWrite Defect "a write to the payload of a shared message block";
    23 UncheckedAllocation Panic "a failed allocation that was not checked";
    24 BadUntimeout Panic "untimeout of an id never issued, or holding a lock the handler takes";
    25 TimeoutHandlerBlocks Defect "a timeout handler that blocks or runs for more than 10 ms";
    26 BadSoftintr Panic "a soft interrupt triggered after its removal, or removed under a lock its handler takes";
    27 BadSoftState Defect "soft state used after fini, freed when absent or allocated twice";
    28 CopyOutsideUser Defect "user memory copied outside user context";
    29 HighLevelCall Panic "a kernel function called above LOCK_LEVEL that may not be";
    30 BadThreadExit Panic "a thread joining itself or ending with locks held, or module text run after unload";
    31 BadFini Panic "_fini returning 0 with instances attached or dependents loaded, or without mod_remove";
    32 UserPointer Panic "a user pointer dereferenced without copyin or copyout";
    33 BadFormat Defect "a conversion the kernel's formatter does not know";
    34 LockOrder Defect "two locks taken in both orders";
    35 CallAfterUnload Panic "a callback into a module that is gone or going";
    36 LockBalance Defect "an entry point that returns with other locks than it was called with";
    37 PilBalance Defect "an entry point that returns with its PIL raised or preemption disabled";
    38 StackUse Defect "module frames take more stack than they may: 3 KiB where packets pass, 6 KiB in any other entry, 12 KiB of a thread in all";
    39 FloatingPoint Defect "floating-point or flag state changed by module code";
    40 BadObject Defect "an object file the kernel's loader would mishandle";
    41 AbsurdArgument Defect "an absurd argument: zero, negative or overlapping where that has no meaning";
    42 BadDelay Tolerated "delay of no ticks, or tick arithmetic that overflows";
    43 LinkageOrder Defect "mod_install twice, mac_init_ops out of order, or mac_fini_ops left out";
    44 BadList Panic "a list node inserted twice, removed when not linked, or a list destroyed with nodes";
    45 HashReentered Panic "a mod_hash callback that enters its own hash";
    46 BadDevInfo Defect "a dev_info node used after detach, or not released";
    47 StaleRing Defect "packets handed up on a receive ring that is stopped, or with a generation that is over";
    48 QuietRing Defect "packets taken off a receive ring whose interrupt is off, and handed up";
    49 RingUpcall Panic "an upcall from inside a receive ring's poll or the switch of its interrupt";
    50 RingPoll Defect "a poll of a receive ring that brings more bytes than it was asked for";
    51 SystemTaskqHeld Defect "a task that keeps the backing thread of system_taskq from another task for more than a second";
    52 PacketsAfterStop Defect "packets handed up before mc_start is called or after mc_stop has returned";
    53 PostedMemory Panic "memory that an adapter has is posted again, changed, freed or deregistered";
    54 DataRace Panic "a data race";
    55 SentQueueRecycled Defect "a queue pair of datagrams is recycled after something was sent on it";
}

impl Rule {
    /// 1 to 55.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The rule with that number, `None` outside 1 to 55.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} ({})", self.number(), self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn rules_are_numbered_from_1_to_55_without_a_gap() {
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(usize::from(rule.number()), index + 1);
            assert_eq!(Rule::from_number(rule.number()), Some(*rule));
        }
        assert_eq!(Rule::from_number(0), None);
        assert_eq!(Rule::from_number(56), None);
    }
}
