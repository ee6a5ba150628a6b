//! Protection domains, and what is in one: it stays as long as anything is.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ibtf_provider::{AddressVector, Status};
use kernel::sync::Mutex;
use kernel::{AllocError, KArc};

/// A protection domain. They are told apart by number.
pub(crate) struct Pd {
    number: u32,
    users: AtomicU32,
}

impl Pd {
    pub(crate) fn new(number: u32) -> Self {
        Self { number, users: AtomicU32::new(0) }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// `PD_IN_USE` while something is in it.
    pub(crate) fn check_unused(&self) -> Result<(), Status> {
        if self.users.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(Status::PD_IN_USE) }
    }
}

/// Something is in a protection domain, until its client frees it, or it comes to nothing: others may have it for a moment longer.
pub(crate) struct Inside {
    pd: KArc<Pd>,
    left: AtomicBool,
}

impl Inside {
    pub(crate) fn new(pd: &KArc<Pd>) -> Self {
        pd.users.fetch_add(1, Ordering::AcqRel);
        Self { pd: pd.clone(), left: AtomicBool::new(false) }
    }

    pub(crate) fn number(&self) -> u32 {
        self.pd.number()
    }

    pub(crate) fn pd(&self) -> &KArc<Pd> {
        &self.pd
    }

    /// It is freed.
    pub(crate) fn leave(&self) {
        if !self.left.swap(true, Ordering::AcqRel) {
            self.pd.users.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.leave();
    }
}

/// An address handle.
pub(crate) struct AddressHandle {
    vector: Mutex<AddressVector>,
    pub(crate) domain: Inside,
}

impl AddressHandle {
    pub(crate) fn new(vector: AddressVector, pd: &KArc<Pd>) -> Result<Self, AllocError> {
        let vector = Mutex::new(vector)?;
        Ok(Self { vector, domain: Inside::new(pd) })
    }

    pub(crate) fn vector(&self) -> AddressVector {
        *self.vector.lock()
    }

    pub(crate) fn set(&self, vector: AddressVector) {
        *self.vector.lock() = vector;
    }
}

/// A memory region, by its key.
pub(crate) struct Mr {
    pub(crate) key: u32,
    pub(crate) domain: Inside,
}

#[cfg(test)]
mod tests {
    use super::{Inside, Pd};
    use ibtf_provider::Status;
    use kernel::KArc;

    #[test]
    fn domain_is_in_use_until_everything_in_it_is_freed_whoever_still_looks_at_it() {
        let pd = KArc::new(Pd::new(7)).unwrap();
        let (one, other) = (Inside::new(&pd), Inside::new(&pd));
        one.leave();
        assert_eq!((pd.check_unused(), other.number()), (Err(Status::PD_IN_USE), 7));
        drop(one);
        assert_eq!(pd.check_unused(), Err(Status::PD_IN_USE), "it had left before");
        drop(other);
        assert_eq!(pd.check_unused(), Ok(()));
    }
}
