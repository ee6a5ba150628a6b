//! What the kernel knows about locks beside the words in module memory: who holds what, who waits, in which order.

mod order;
mod table;

pub(crate) use order::{Class, ClassKey, Order};
pub(crate) use table::{CvObject, Locks, MutexObject, Object, RwObject, SemaObject};

use crate::kernel::Kernel;

/// A lock a thread holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub addr: usize,
    pub kind: HeldKind,
    pub class: Class,
    /// Who took it; 0 for lab code.
    pub pc: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldKind {
    Adaptive,
    /// With the raised PIL to go back to.
    Spin {
        before: u8,
    },
    Reader,
    Writer,
    /// A [`crate::SleepMutex`] of that name.
    Lab(&'static str),
}

impl Held {
    /// A lock in module memory, as opposed to one of the lab.
    pub(crate) fn is_driver(&self) -> bool {
        !matches!(self.kind, HeldKind::Lab(_))
    }

    pub(crate) fn is_spin(&self) -> bool {
        matches!(self.kind, HeldKind::Spin { .. })
    }

    pub(crate) fn describe(&self, kernel: Option<&Kernel>) -> String {
        let what = match self.kind {
            HeldKind::Lab(name) => return format!("{name} (lab lock)"),
            HeldKind::Adaptive => "mutex",
            HeldKind::Spin { .. } => "spin mutex",
            HeldKind::Reader => "rwlock (reader)",
            HeldKind::Writer => "rwlock (writer)",
        };
        match kernel {
            Some(k) if self.pc != 0 => {
                format!("{what} {} taken at {}", k.locks().describe(self.addr), k.machine().0.frame(self.pc))
            }
            Some(k) => format!("{what} {}", k.locks().describe(self.addr)),
            None => format!("{what} {:#x}", self.addr),
        }
    }
}

/// The addresses of the module locks in a list, sorted.
pub(crate) fn driver_locks(held: &[Held]) -> Vec<usize> {
    let mut locks: Vec<usize> = held.iter().filter(|h| h.is_driver()).map(|h| h.addr).collect();
    locks.sort_unstable();
    locks
}
