//! Received messages that somebody above the link keeps, as a socket does whose reader is slow.

use std::sync::Arc;

use fakekernel::{HostMutex, Kernel, cx};

use crate::dls::Kept;
use crate::message::{Message, Messages};

/// Messages that a stream has delivered and that are not freed yet: with them, what their driver has lent. They are freed
/// when this is dropped, which may be after the stream was closed.
#[derive(Debug)]
pub struct Held {
    kernel: Kernel,
    messages: Kept,
}

impl Held {
    pub(super) fn new(kernel: &Kernel) -> (Self, Kept) {
        let messages = Kept::new(HostMutex::new(Vec::new()));
        (Self { kernel: kernel.clone(), messages: Arc::clone(&messages) }, messages)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees those held now.
    pub fn release(&self) {
        let held: Vec<Message> = std::mem::take(&mut *self.messages.lock());
        self.kernel.scope(|| {
            let cx = cx();
            let genunix = self.kernel.genunix();
            Messages { cx: &cx, genunix: &genunix }.free_all(held);
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A machine that has halted frees nothing any more.
        if !self.kernel.machine().is_stopping() {
            self.release();
        }
    }
}
