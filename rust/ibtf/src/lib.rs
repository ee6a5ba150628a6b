//! Safe wrappers over the InfiniBand Transport Framework: `ibtl` and `ibcm` (`sys/ib/ibtl/`).
//!
//! Every handle is a value that closes itself and keeps what it was made from: a [`UdChannel`] keeps its [`Cq`]s and
//! its [`Pd`], those keep the [`Hca`], that keeps the [`Client`]. So nothing can be freed in the wrong order, and
//! undoing a start is dropping its results. Handles are cheap to clone; the last clone closes.
//!
//! What an adapter can see belongs to the adapter: posting a [`Buffer`] or a packet consumes it, and the completion is
//! the only way to get it back. No Rust reference exists to memory that an adapter may write.
//!
//! # Contexts
//!
//! *May block* and *any* are the words of the `kernel` crate. Making, dropping and querying objects, and everything
//! that asks the subnet administrator (SA), **may block** - the latter for minutes. Polling, arming, posting, and
//! completing are legal in **any** context, CQ handlers included. Dropping a [`UdDest`] is, too: its handle is put aside
//! and freed by [`Pd::free_unused`].
//!
//! Numbers are plain integers in host byte order, in fields that carry the standard's name.

#![no_std]

/// The processor's. Files that `tests/interleavings` compiles once more, with loom's, take them from here.
mod atomic {
    pub(crate) use core::sync::atomic::*;
}

mod adapter_owned;
mod address;
mod buffer;
mod channel;
mod client;
mod clients;
mod cm;
mod cq;
mod dest;
mod event;
mod hca;
mod lock_free_stack;
mod multicast;
mod neighbour;
mod open;
mod outgoing;
mod partition;
mod path;
mod pd;
mod pool_list;
mod port;
mod rc;
mod rc_send;
mod receive;
mod refused;
mod ring;
mod send;
mod services;
mod srq;
mod stack;
mod status;
#[cfg(test)]
mod two_adapters;

pub use address::{AddressVector, Gid};
pub use buffer::{Buffer, BufferPool, BufferUse, OneOfFew};
pub use channel::{Attachment, ChannelSizes, UdChannel, UdChannelConfig};
pub use client::{Client, ClientHandler, ClientInfo};
pub use clients::Clients;
pub use cm::{Reply, Request, Service, Session};
pub use cq::{Completion, CompletionBatch, CompletionStatus, Cq, CqHandler, Notify, QueueId};
pub use dest::UdDest;
pub use event::{AsyncEvent, ChannelId, CqId, PortChange, SrqId, SubnetEvent};
pub use hca::{Hca, HcaAttributes};
pub use multicast::{JoinState, McgAttributes, McgInfo, McgList, Wanted, forget_join, join, leave, query};
pub use neighbour::{Asker, PATH_INFO, PathCallback, PathRecord, PathService, PathServiceRegistration};
pub use open::Opening;
pub use partition::{Partition, PartitionRegistration, PartitionSource};
pub use path::{PathInfo, PathRequest};
pub use pd::Pd;
pub use pool_list::PoolList;
pub use port::{PortInfo, PortState};
pub use rc::{RcChannel, RcState};
pub use rc_send::MessageQueue;
pub use receive::{ReceiveQueue, Received, Refills, Target};
pub use refused::refused_frees;
pub use send::{LargeSend, Over, Payload, PostFailure, Refused, SendOptions, SendQueue, Sent, Vacancy};
pub use srq::Srq;
pub use status::Status;
