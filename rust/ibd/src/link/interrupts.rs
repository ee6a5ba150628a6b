//! From the adapter's interrupts to soft interrupts of the link's own: one for what is received, one for each transmit queue, and one for
//! what was sent on connections.
//!
//! A CQ's handler runs in the adapter's interrupt, in front of those of every other CQ that the vector serves, so it does nothing but
//! trigger. IBTL's threads for handlers (`IBT_CQ_HANDLER_IN_THREAD`) are eight at most for all clients of the system, with one list in
//! front of them, and `ibt_free_cq` waits for what is in that list.
//!
//! They are made at attach and removed at detach, not with each queue pair: removing one spins until no processor has a soft interrupt of
//! that level under way, whoever's it is (`wait_till_seen`, `uts/common/io/avintr.c`). One that waits for a lock is under way, so whoever
//! holds a lock that a soft interrupt takes must never sleep.

use ibtf::CqHandler;
use kernel::ddi::DevInfo;
use kernel::softint::{SoftHandler, SoftInterrupt};
use kernel::{Errno, KArc, KVec, MayBlock};

use super::delivery::Delivery;
use super::outgoing::SendCompletions;
use super::transmit::{Transmitter, Transmitters};

/// Those of a link. The last clone waits for handlers that run: **may block**, with no lock held and never in a handler.
pub(crate) struct Interrupts {
    receive: KArc<Trigger<Delivery>>,
    transmit: KVec<KArc<Trigger<Transmitter>>>,
    send_completions: KArc<Trigger<SendCompletions>>,
}

/// What CQs call.
pub(crate) struct Trigger<H: SoftHandler>(SoftInterrupt<H>);

impl<H: SoftHandler> CqHandler for Trigger<H> {
    fn completion(&self) {
        self.0.trigger();
    }
}

impl<H: SoftHandler> Trigger<H> {
    /// What runs.
    pub(crate) fn handler(&self) -> &KArc<H> {
        self.0.handler()
    }

    fn new(dip: DevInfo, handler: KArc<H>, may_block: &MayBlock) -> Result<KArc<Self>, Errno> {
        Ok(KArc::new_waiting(Self(SoftInterrupt::new(dip, handler)?), may_block))
    }
}

impl Interrupts {
    /// **May block**; from attach.
    pub(crate) fn new(
        dip: DevInfo,
        delivery: &KArc<Delivery>,
        transmitters: &Transmitters,
        send_completions: &KArc<SendCompletions>,
        may_block: &MayBlock,
    ) -> Result<Self, Errno> {
        let receive = Trigger::new(dip, delivery.clone(), may_block)?;
        let mut transmit = KVec::new();
        for transmitter in transmitters.iter() {
            let trigger = Trigger::new(dip, transmitter.clone(), may_block)?;
            transmit.push_waiting(trigger, may_block);
        }
        let send_completions = Trigger::new(dip, send_completions.clone(), may_block)?;
        Ok(Self { receive, transmit, send_completions })
    }

    /// For the CQs of connections that the link sends on.
    pub(crate) fn send_completions(&self) -> &KArc<Trigger<SendCompletions>> {
        &self.send_completions
    }

    /// For the receive CQ.
    pub(crate) fn receive(&self) -> &KArc<Trigger<Delivery>> {
        &self.receive
    }

    /// For the send CQ of a transmit ring.
    pub(crate) fn transmit(&self, ring: usize) -> Option<&KArc<Trigger<Transmitter>>> {
        self.transmit.get(ring)
    }
}
