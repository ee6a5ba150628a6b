//! [`Provider`]: an adapter, as `ibtl` calls it.

use kernel::KArc;

use crate::address::{AddressVector, Gid};
use crate::change::QpChange;
use crate::completion::Completion;
use crate::event::{ClientCq, ClientSrq};
use crate::memory::Region;
use crate::port::PortReport;
use crate::qp::{QpQuery, QpRequest, QueueSizes};
use crate::status::Status;
use crate::work::{ReceiveRequest, SendRequest};

/// When a CQ's handler is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// At the next completion.
    Next,
    /// At the next one that the sender asked for, or that failed.
    NextSolicited,
}

/// The length of a CQ and when its handler is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqSizes {
    /// Completions that it holds.
    pub entries: u32,
    /// Completions that one call may wait for; 0 for none.
    pub count: u32,
    /// Microseconds that one call may wait; 0 for none.
    pub micros: u32,
}

/// The length of a shared receive queue, and of its receives' scatter/gather lists. A request is for at least so much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqSizes {
    /// Work requests.
    pub receives: u32,
    /// Entries of a receive's list.
    pub segments: u32,
}

/// What a region is named by. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// In work requests of the client itself.
    pub local: u32,
    /// In requests of others.
    pub remote: u32,
}

/// An adapter's driver. No operation may call into `ibtl`; those marked **any** must not block.
///
/// Objects are handed out shared: `ibtl` has one reference from the operation that makes them to the one that frees them, which gets
/// the object once more and may refuse. A provider finds an object that a client frees at the wrong time still alive.
pub trait Provider: Send + Sync + Sized + 'static {
    /// A protection domain.
    type Pd: Send + Sync + 'static;
    /// An address handle.
    type AddressHandle: Send + Sync + 'static;
    /// A completion queue.
    type Cq: Send + Sync + 'static;
    /// A queue pair.
    type Qp: Send + Sync + 'static;
    /// A shared receive queue.
    type Srq: Send + Sync + 'static;
    /// A memory region.
    type Mr: Send + Sync + 'static;

    /// Describes port `port`, which there is. Cannot fail: `ibtl` has no way out of an attach whose first query does. **May block.**
    fn query_port(&self, port: u8, report: &mut PortReport<'_>);

    /// A new protection domain. **May block.**
    fn alloc_pd(&self) -> Result<KArc<Self::Pd>, Status>;
    /// `PD_IN_USE` while something is in it. **May block.**
    fn free_pd(&self, pd: &KArc<Self::Pd>) -> Result<(), Status>;

    /// A new address handle. The vector can be a placeholder. **May block.**
    fn alloc_ah(
        &self,
        pd: &KArc<Self::Pd>,
        vector: AddressVector,
    ) -> Result<KArc<Self::AddressHandle>, Status>;
    /// Frees it; it is counted out. **May block.**
    fn free_ah(&self, handle: &KArc<Self::AddressHandle>) -> Result<(), Status>;
    /// What it says. **May block.**
    fn query_ah(&self, handle: &Self::AddressHandle) -> AddressVector;
    /// The protection domain that it is in.
    fn domain_of<'a>(&self, handle: &'a Self::AddressHandle) -> &'a KArc<Self::Pd>;
    /// Changes it, for requests posted later. **Any** context.
    fn modify_ah(&self, handle: &Self::AddressHandle, vector: AddressVector) -> Result<(), Status>;

    /// A new CQ with room for at least `entries` completions, and how many it has. **May block.**
    fn alloc_cq(&self, entries: u32, client: KArc<ClientCq>) -> Result<(KArc<Self::Cq>, u32), Status>;
    /// `CQ_BUSY` while a queue pair has it; fails for nothing else. Its handler is not called after this. **May block.**
    fn free_cq(&self, cq: &KArc<Self::Cq>) -> Result<(), Status>;
    /// Its length and moderation. **May block.**
    fn query_cq(&self, cq: &Self::Cq) -> CqSizes;
    /// Sets the moderation. **May block.**
    fn modify_cq(&self, cq: &Self::Cq, count: u32, micros: u32) -> Result<(), Status>;
    /// Takes completions out, up to `place` refuses one; false if there was none. **Any** context.
    fn poll_cq(&self, cq: &Self::Cq, place: &mut dyn FnMut(&Completion) -> bool) -> bool;
    /// Has the handler called once; at once, though not in here, if completions are waiting. **Any** context.
    fn arm_cq(&self, cq: &KArc<Self::Cq>, arm: Arm) -> Result<(), Status>;

    /// A new queue pair, reset. **May block.**
    fn alloc_qp(this: &KArc<Self>, request: QpRequest<'_, Self>) -> Result<KArc<Self::Qp>, Status>;
    /// Frees it; with `keep_number` no other gets its number until [`Provider::release_qpn`], and until then it can be asked and be told to
    /// change, which it refuses with `CHAN_HDL_INVALID`. Its completions go with it. Cannot fail, and is quick: `ibtl` holds a global
    /// lock over it. **May block** for short locks.
    fn free_qp(&self, qp: &KArc<Self::Qp>, keep_number: bool);
    /// The number of a freed queue pair may be used again. **May block.**
    fn release_qpn(&self, qp: &Self::Qp);
    /// Its number, state and sizes. **May block.**
    fn query_qp(&self, qp: &Self::Qp) -> QpQuery;
    /// Changes it; answers the sizes of its queues. One that goes to the error state and has a shared receive queue is told of by
    /// [`ClientQp::raise_empty`](crate::ClientQp::raise_empty) when it holds no receive any more. **May block.**
    fn modify_qp(&self, qp: &KArc<Self::Qp>, change: &QpChange) -> Result<QueueSizes, Status>;

    /// A new shared receive queue, and its sizes. **May block.**
    fn alloc_srq(
        &self,
        pd: &KArc<Self::Pd>,
        sizes: SrqSizes,
        client: KArc<ClientSrq>,
    ) -> Result<(KArc<Self::Srq>, SrqSizes), Status>;
    /// `SRQ_IN_USE` while a queue pair has it; fails for nothing else. **May block.**
    fn free_srq(&self, srq: &KArc<Self::Srq>) -> Result<(), Status>;
    /// Its sizes, and below how many receives its client wants to be told; 0 for never. **May block.**
    fn query_srq(&self, srq: &Self::Srq) -> (SrqSizes, u32);
    /// Has the client told once when fewer receives than that are left, or are so already; 0 for never. `SRQ_LIMIT_EXCEEDED` if it never
    /// has so many. **May block.**
    fn limit_srq(&self, srq: &KArc<Self::Srq>, limit: u32) -> Result<(), Status>;

    /// Has datagrams to the group reach the queue pair. **May block.**
    fn attach_group(&self, qp: &KArc<Self::Qp>, group: Gid, lid: u16) -> Result<(), Status>;
    /// Undoes it. **May block.**
    fn detach_group(&self, qp: &KArc<Self::Qp>, group: Gid, lid: u16) -> Result<(), Status>;

    /// Makes a region known by new keys. **Any** context.
    fn register(&self, pd: &KArc<Self::Pd>, region: KArc<Region>) -> Result<(KArc<Self::Mr>, Keys), Status>;
    /// Makes its keys invalid: nobody takes the region up after this. Whoever has it may finish copying; the caller waits for that.
    /// **May block.**
    fn deregister(&self, mr: &KArc<Self::Mr>) -> Result<(), Status>;

    /// Sends, in order. How many were taken, and why not all. **Any** context, with the client's locks held.
    fn post_sends<'a>(
        &self,
        qp: &KArc<Self::Qp>,
        requests: &mut dyn Iterator<Item = SendRequest<'a>>,
    ) -> (u32, Result<(), Status>);
    /// Takes buffers, in order; as above. `SRQ_IN_USE` of one that has a shared receive queue.
    fn post_receives<'a>(
        &self,
        qp: &Self::Qp,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>);
    /// The same for all queue pairs of a shared receive queue.
    fn post_shared<'a>(
        &self,
        srq: &Self::Srq,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>);
}
