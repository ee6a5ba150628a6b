//! How neighbours are reached, for an administrator, who is told what is known and asks again, or for another IB client, which is called once it
//! is known. Asking looks an address up as sending there would.

use ibtf::{Asker, PathRecord};
use kernel::{Errno, Vacant};

use super::Shared;
use super::control::Answered;
use crate::now;

impl Shared {
    /// What is known now; `EAGAIN` if it is being looked up. **Any** context.
    pub(crate) fn tell_path(&self, record: &mut PathRecord) -> Result<(), Errno> {
        let mut control = self.control.lock();
        let told = control.tell_path(now(), record);
        drop(control);
        if told == Err(Errno::EAGAIN) {
            self.control.notify_all();
        }
        told
    }

    /// Takes a question in. **Any** context.
    pub(crate) fn look_up(&self, question: &PathRecord, asker: Asker) -> Result<(), (Errno, Asker)> {
        // Before the lock, which is not held across an allocation.
        let Ok(room) = Vacant::new() else { return Err((Errno::ENOMEM, asker)) };
        let mut control = self.control.lock();
        let taken = control.look_up(now(), question, asker, room);
        drop(control);
        self.control.notify_all();
        taken
    }

    /// Calls the asker, without a lock.
    pub(super) fn answer(&self, answered: Answered) {
        answered.tell();
        self.tell(|control| control.questions.told());
    }
}
