//! What a link leaves that has no time to ask the SA: its memberships become debts of the port ([`crate::sa_pool`]).

use ipoib::debts::Debt;
use kernel::log;

use super::Shared;
use crate::now;
use crate::sa_pool::forget;

impl Shared {
    /// A stopped link makes no leave any more that is not out: what it has not left is owed, until it is started again. **Any** context without locks.
    pub(super) fn hand_over(&self) {
        self.control.lock().hands_over = true;
        while let Some(call) = self.pool.take_any_back(self.number) {
            call.refuse(self);
        }
        self.owe_all();
    }

    /// The same of a link that nothing waits for any more, as one that is gone.
    pub(crate) fn owe_all(&self) {
        loop {
            let debt = self.control.lock().next_debt(now());
            match debt {
                Some(debt) => self.owe(debt),
                None => return,
            }
        }
    }

    /// A membership that this link does not end. **Any** context without locks.
    pub(super) fn owe(&self, debt: Debt) {
        let Some(given_up) = self.pool.owe(&self.node, debt) else { return };
        // IBTF must not count for ever what is never left.
        forget(&given_up);
        log!(
            warn,
            self.name,
            "no room to remember that group {:?} is to be left: the SA may have the port in it until it goes down",
            given_up.group
        );
    }
}
