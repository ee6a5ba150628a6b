//! A send that fails by itself.

use std::sync::atomic::Ordering;

use crate::Hca;

impl Hca {
    /// The next datagram that is sent fails, as one whose memory the HCA cannot read: its queue pair goes to the SQ error state, in which it
    /// receives and flushes what it is to send.
    pub fn fail_next_send(&self) {
        self.0.next_send_fails.store(true, Ordering::SeqCst);
    }

    /// Once.
    pub(crate) fn takes_bad_send(&self) -> bool {
        self.0.next_send_fails.swap(false, Ordering::SeqCst)
    }
}
