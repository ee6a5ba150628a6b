//! What all connections of a link share: receives, their buffers, and the CQ that they complete on.

use ibtf::{BufferPool, BufferUse, Cq, CqId, RcChannel, ReceiveQueue, Srq, Status};
use ipoib::LinkAddr;
use ipoib::connections::LONGEST_MESSAGE;
use ipoib::header::GRH_LEN;
use kernel::KArc;

use super::receive::ConnectedReceiver;
use crate::link::queue_pairs::moderate;
use crate::link::traffic::BuildContext;

/// Messages that can come at once, of whatever length. As many again as the adapter holds can be lent.
pub(super) const RECEIVES: u32 = 128;
/// Of a message, behind the room for a pseudo header.
const BUFFER: u32 = LONGEST_MESSAGE + GRH_LEN as u32;

/// See the module's text. End it with [`SharedReceive::end`].
pub(crate) struct SharedReceive {
    receiver: KArc<ConnectedReceiver>,
    srq: Srq,
    pool: BufferPool,
}

impl SharedReceive {
    /// Makes it, and has messages taken that come to the link of this address. **May block.**
    #[inline(never)]
    pub(crate) fn new(parts: &BuildContext<'_>, own: LinkAddr) -> Result<Self, Status> {
        let hca = parts.pd.hca();
        let cq = Cq::new(hca, RECEIVES, parts.interrupts.receive().clone())?;
        moderate(hca, &cq, parts.settings.receive_moderation());
        let srq = Srq::new(parts.pd, &cq, RECEIVES)?;
        let pool = BufferPool::new(parts.pd, 2 * RECEIVES, BUFFER, BufferUse::Receive)?;
        let queue = ReceiveQueue::new(&srq, &pool)?;
        let receiver = ConnectedReceiver::new(parts, queue, cq, own)?;
        if let Err(status) = ConnectedReceiver::begin(&receiver) {
            let shared_receive = Self { receiver, srq, pool };
            // Nothing is connected to it: nothing is left that the adapter has.
            drop(shared_receive.end());
            return Err(status);
        }
        Ok(Self { receiver, srq, pool })
    }

    /// Which CQ it has.
    pub(crate) fn cq(&self) -> CqId {
        self.srq.receive_cq().id()
    }

    /// Where messages are taken.
    pub(crate) fn receiver(&self) -> &KArc<ConnectedReceiver> {
        &self.receiver
    }

    /// To make queue pairs from, without a lock.
    pub(crate) fn srq(&self) -> Srq {
        self.srq.clone()
    }

    /// Ends it: nothing is taken any more once this returns. Its buffers, some of which the adapter has until the last connection is
    /// freed. **May block**, for the adapter only.
    pub(crate) fn end(self) -> BufferPool {
        let Self { receiver, srq, pool } = self;
        receiver.close();
        drop(srq);
        pool
    }
}

/// A queue pair that receives. **May block.**
pub(super) fn channel(srq: &Srq, port: u8) -> Result<RcChannel, Status> {
    RcChannel::receiving(srq, port)
}
