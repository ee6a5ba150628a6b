//! What all connections of a link share: receives, their buffers, and the CQ that they complete on.

use ibtf::{Cq, CqId, PoolList, RcChannel, Srq, SrqId, Status};
use ipoib::LinkAddr;
use kernel::KArc;

use super::receive::ConnectedReceiver;
use super::slabs::{MOST_RECEIVES, Slab, Slabs};
use crate::link::queue_pairs::moderate;
use crate::link::traffic::BuildContext;

/// See the module's text. End it with [`SharedReceive::end`].
pub(crate) struct SharedReceive {
    receiver: KArc<ConnectedReceiver>,
    srq: Srq,
}

impl SharedReceive {
    /// Makes it, and has messages taken that come to the link of this address, and long ones lent to IP if it `lends`. **May block.**
    #[inline(never)]
    pub(crate) fn new(parts: &BuildContext<'_>, own: LinkAddr, lends: bool) -> Result<Self, Status> {
        let hca = parts.pd.hca();
        let most = hca.attributes().max_shared_receives().min(MOST_RECEIVES);
        let cq = Cq::new(hca, most, parts.interrupts.receive().clone())?;
        moderate(hca, &cq, parts.settings.receive_moderation());
        let srq = Srq::new(parts.pd, &cq, most)?;
        let slabs = Slabs::new(Slab::first(&srq)?, srq.size())?;
        let receiver = ConnectedReceiver::new(parts, slabs, cq, own, lends)?;
        let begun = ConnectedReceiver::begin(&receiver);
        let shared_receive = Self { receiver, srq };
        match begun {
            Ok(()) => Ok(shared_receive),
            Err(status) => {
                // Nothing is connected to it: nothing is left that the adapter has.
                drop(shared_receive.end());
                Err(status)
            }
        }
    }

    /// Which CQ it has.
    pub(crate) fn cq(&self) -> CqId {
        self.srq.receive_cq().id()
    }

    /// Which queue it is.
    pub(crate) fn id(&self) -> SrqId {
        self.srq.id()
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
    pub(crate) fn parts(&self) -> (Srq, KArc<ConnectedReceiver>) {
        (self.srq(), self.receiver.clone())
    }

    /// Ends it: nothing is taken any more once this returns. Its buffers, some of which the adapter has until the last connection is
    /// freed. **May block**, for the adapter only.
    pub(crate) fn end(self) -> PoolList {
        let Self { receiver, srq } = self;
        let pools = receiver.close();
        drop(srq);
        pools
    }
}

/// A queue pair that receives. **May block.**
pub(super) fn channel(srq: &Srq, port: u8) -> Result<RcChannel, Status> {
    RcChannel::receiving(srq, port)
}
