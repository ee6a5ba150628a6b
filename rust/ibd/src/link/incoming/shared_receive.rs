//! What all connections of a link share: receives, their buffers, and the CQ that they complete on.

use ibtf::{Cq, CqId, RcChannel, Srq, SrqId, Status};
use ipoib::LinkAddr;
use kernel::KArc;
use kernel::list::Room;

use super::receive::ConnectedReceiver;
use super::slabs::{MOST_RECEIVES, Slab, Slabs};
use crate::kept::Resting;
use crate::link::build_context::BuildContext;
use crate::link::queue_pairs::moderate;

/// See the module's text. [End](SharedReceive::end) it, and once nothing is connected to it any more [dissolve](SharedReceive::dissolve) it.
pub(crate) struct SharedReceive {
    receiver: KArc<ConnectedReceiver>,
    srq: Srq,
    cq: Cq,
    /// The adapter has reported that the queue failed.
    failed: bool,
    /// For what is left of it.
    room: Room<Resting>,
}

impl SharedReceive {
    /// Makes it, of a queue that rests if there is one, and begins to take messages to the link of this address. Long ones are lent to IP if
    /// it `lends`. What fails comes back if there is something to dissolve. **May block.**
    #[inline(never)]
    pub(crate) fn new(
        parts: &BuildContext<'_>,
        resting: impl FnOnce() -> Option<Resting>,
        own: LinkAddr,
        lends: bool,
    ) -> Result<Self, (Option<Self>, Status)> {
        let made = Self::parts(parts, lends).map_err(|status| (None, status));
        let (cq, receiver, room, most) = made?;
        let Resting { srq, slabs } = match resting() {
            Some(resting) => resting,
            None => Self::queue(parts, most.min(cq.size())).map_err(|status| (None, status))?,
        };
        let begun = ConnectedReceiver::begin(&receiver, slabs, cq.clone(), own);
        let shared_receive = Self { receiver, srq, cq, failed: false, room };
        match begun {
            Ok(()) => Ok(shared_receive),
            Err(status) => Err((Some(shared_receive), status)),
        }
    }

    fn parts(
        parts: &BuildContext<'_>,
        lends: bool,
    ) -> Result<(Cq, KArc<ConnectedReceiver>, Room<Resting>, u32), Status> {
        let hca = parts.pd.hca();
        let most = hca.attributes().max_shared_receives().min(MOST_RECEIVES);
        let cq = Cq::new(hca, most, parts.interrupts.receive().clone())?;
        moderate(hca, &cq, parts.settings.receive_moderation());
        Ok((cq, ConnectedReceiver::new(parts, lends)?, Room::new()?, most))
    }

    fn queue(parts: &BuildContext<'_>, most: u32) -> Result<Resting, Status> {
        let srq = Srq::new(parts.pd, most)?;
        let slabs = Slabs::new(Slab::first(&srq)?, srq.size())?;
        Ok(Resting { srq, slabs })
    }

    /// Which CQ it has.
    pub(crate) fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Whether this is its CQ.
    pub(crate) fn has_cq(&self, cq: CqId) -> bool {
        self.cq.id() == cq
    }

    /// Whether this is its queue.
    pub(crate) fn has_srq(&self, srq: SrqId) -> bool {
        self.srq.id() == srq
    }

    /// The queue has failed: it cannot be used again.
    pub(crate) fn failed(&mut self) {
        self.failed = true;
    }

    /// Where messages are taken.
    pub(crate) fn receiver(&self) -> &KArc<ConnectedReceiver> {
        &self.receiver
    }

    /// To make queue pairs from, without a lock.
    pub(crate) fn srq(&self) -> Srq {
        self.srq.clone()
    }

    /// For a connection.
    pub(crate) fn parts_of_connection(&self) -> (Srq, Cq, KArc<ConnectedReceiver>) {
        (self.srq(), self.cq.clone(), self.receiver.clone())
    }

    /// Ends it: nothing is taken any more once this returns. **May block**, for the adapter only.
    pub(crate) fn end(&self) {
        self.receiver.close();
    }

    /// What is left of one that has ended, once nothing is connected to it any more; whether the queue has failed; and room for what is left. Its CQ
    /// is freed. **May block.**
    pub(crate) fn dissolve(self) -> (Option<Resting>, bool, Room<Resting>) {
        let Self { receiver, srq, cq, failed, room } = self;
        let slabs = receiver.take_slabs();
        drop(cq);
        (slabs.map(|slabs| Resting { srq, slabs }), failed, room)
    }
}

/// A queue pair that receives. **May block.**
pub(super) fn channel(srq: &Srq, cq: &Cq, port: u8) -> Result<RcChannel, Status> {
    RcChannel::receiving(srq, cq, port)
}
