//! The adapter goes, and is there again.
//!
//! IBTL tells a client that an adapter goes before it knows whether it may (`ibtl_detach_all_clients` of `ibtl_handlers.c`). If another client keeps the
//! adapter, or the communication manager does, the adapter stays, and every client is told that there is a new one: a client that has closed it and one that
//! has it still. So a link gives up what it has at the first event, and takes it back at the second.

use ibtf::{Client, Hca, Pd};
use ipoib::link::Event;
use kernel::{Errno, MayBlock, log};

use super::Shared;
use super::lifecycle::named;
use super::worker::Hardware;
use crate::now;

impl Shared {
    /// The adapter, and what all objects on it are made in. **May block.**
    pub(super) fn open_hardware(&self, client: &Client, may_block: &MayBlock) -> Result<Hardware, Errno> {
        let hca = named(&self.name, "adapter", Hca::open(client, self.node.hca.get(), may_block))?;
        let pd = named(&self.name, "protection domain", Pd::new(&hca, may_block))?;
        Ok((hca, pd))
    }

    /// Gives the adapter back once no thread uses it; says so every ten seconds, and if it never comes to that. **May block**, for half a minute.
    pub(super) fn close_hardware(&self, what: &str) {
        let closed = self.hardware.withdraw().close(|overdue| {
            self.tidy();
            if let Some(seconds) = overdue.seconds() {
                log!(note, self.name, "{what} has been in use for {seconds} s after the link let go of it");
            }
        });
        if !closed {
            log!(warn, self.name, "{what} is still in use");
        }
    }

    /// The adapter goes: everything on it is freed before this returns, by the thread that has it: a worker, a callback that brings an
    /// answer, or one that closes the link. What is lent is memory of ours, which no adapter has a right to any more; it is
    /// freed when it comes home. The MAC layer has the link as before. An event of IBTL's; **may block**.
    pub(super) fn hca_removed(&self) {
        log!(warn, self.name, "the adapter was removed");
        self.lost();
        // A leave that is out keeps `ibcm` from letting go of the adapter.
        self.pool.hold(&self.node, true);
        self.end(
            |control| {
                (control.removed, control.hands_over) = (true, true);
                control.link.handle_event(now(), Event::PortEvent);
            },
            || (),
        );
        self.hand_over();
        self.close_hardware("the adapter that was removed");
    }

    /// The adapter is there. Each client is told so of each adapter: nothing is to be done for one that the link has.
    /// An event of IBTL's; **may block**.
    pub(super) fn hca_attached(&self, may_block: &MayBlock) {
        self.pool.hold(&self.node, false);
        if !self.control.lock().removed {
            return;
        }
        let reopened = self.hardware.reopen(|| {
            let client = self.client.lock().clone();
            self.open_hardware(&client.ok_or(Errno::ENXIO)?, may_block)
        });
        match reopened {
            Ok(true) => {}
            // The link goes.
            Ok(false) => return,
            Err(error) => {
                log!(warn, self.name, "the adapter is there again and cannot be opened: {error}");
                return;
            }
        }
        log!(note, self.name, "the adapter is there again");
        self.found();
        self.tell(|control| {
            control.removed = false;
            if control.wanted {
                control.start(now());
            }
        });
    }
}
