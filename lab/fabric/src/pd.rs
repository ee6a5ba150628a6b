//! Protection domains.

use crate::Error;
use std::sync::Arc;

use lab_lock::Mutex;
/// A protection domain. Clones name the same one.
#[derive(Clone)]
pub struct Pd(pub(crate) Arc<PdInner>);

pub(crate) struct PdInner {
    /// Users, or `None` once freed.
    users: Mutex<Option<u32>>,
}

impl Pd {
    pub(crate) fn new() -> Self {
        Pd(Arc::new(PdInner { users: Mutex::new(Some(0)) }))
    }

    /// One more QP, MR, AH or SRQ refers to it.
    pub(crate) fn hold(&self) -> Result<(), Error> {
        let mut users = self.0.users.lock();
        let n = users.as_mut().ok_or(Error::PdHdlInvalid)?;
        *n += 1;
        Ok(())
    }

    pub(crate) fn release(&self) {
        if let Some(n) = self.0.users.lock().as_mut() {
            *n = n.saturating_sub(1);
        }
    }

    pub(crate) fn retire(&self) -> Result<(), Error> {
        let mut users = self.0.users.lock();
        match *users {
            None => Err(Error::PdHdlInvalid),
            Some(0) => {
                *users = None;
                Ok(())
            }
            Some(_) => Err(Error::PdInUse),
        }
    }

    pub(crate) fn same(&self, other: &Pd) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
