//! What whoever stands in for an adapter for a while has to know of a host's channels and their completion queues.

use fakekernel::Kernel;
use illumos_sys_hdrs::{IBT_WR_SIGNALED, ibt_cq_handler_t};

use super::Ibtl;
use super::objects::{Channel, CqObject, Opaque};
use crate::adapter::{Cq, Qp};

/// A channel on the lab's own adapter.
#[derive(Clone)]
pub struct ChannelShown {
    /// Its handle.
    pub handle: usize,
    /// Each of its sends completes, asked for or not.
    pub signals_all: bool,
    /// Where its sends complete.
    pub send: CqShown,
    /// Where its receives do.
    pub receive: CqShown,
    /// The queue pair.
    pub qp: fabric::Qp,
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
pub struct CqShown {
    /// Its handle.
    pub handle: usize,
    /// What is called when it is armed and something completes, and with what.
    pub handler: ibt_cq_handler_t,
    /// The client's.
    pub argument: usize,
    /// Whether the next completion calls it.
    pub armed: bool,
    /// After how many completions, as the client wants it; at least 1.
    pub count: u32,
}

/// The channels of a host that are on the lab's own adapters.
pub fn channels(host: &Kernel) -> Vec<ChannelShown> {
    let ibtl = Ibtl::of(host);
    let all = ibtl.channels.with_handles();
    all.into_iter().filter_map(|(handle, channel)| shown(&ibtl, handle.addr(), &channel)).collect()
}

fn shown(ibtl: &Ibtl, handle: usize, channel: &Channel) -> Option<ChannelShown> {
    let Qp::Model(qp) = &channel.qp else { return None };
    let cq = |cq: Opaque| cq_shown(cq, &*ibtl.cqs.get(cq.get()).ok()?);
    let signals_all = channel.flags.0 & IBT_WR_SIGNALED.0 == 0;
    Some(ChannelShown {
        handle,
        signals_all,
        send: cq(channel.scq)?,
        receive: cq(channel.rcq)?,
        qp: qp.clone(),
    })
}

fn cq_shown(handle: Opaque, object: &CqObject) -> Option<CqShown> {
    let Cq::Model(cq) = &object.cq else { return None };
    let (handler, argument) = *object.handler.lock();
    let count = object.cq.moderation().count.max(1);
    let [handle, argument] = [handle, argument].map(|opaque| opaque.get().addr());
    Some(CqShown { handle, handler, argument, armed: cq.is_armed(), count })
}
