//! A software InfiniBand fabric in the shape of an HCA driver.
//!
//! What it is: HCAs with ports, protection domains, completion queues, queue pairs of datagrams and of reliable connections, address
//! handles, memory regions and multicast attachment; a switch with unicast and multicast tables for each subnet; a router between
//! subnets; frames as real bytes (LRH, GRH, BTH, DETH or AETH, ICRC, VCRC); faults with a seed; a capture tap. What it is not: a subnet manager (that sets LIDs, states and P_Key
//! tables through [`subnet`]), a verbs library (statuses and contexts of IBTF are `lab-ibtf`'s), or RDMA (nothing but SEND).
//!
//! The crate reaches the outside through four traits: [`Dma`] for memory of the loaded modules, [`HcaEvents`] for
//! completion and asynchronous events, [`Clock`] for time, [`Tap`] for captures. No lock of this crate is held while one of
//! them is called. Delivery is synchronous inside [`Hca::post_send`] unless a delay was asked for; then whoever owns the
//! clock calls [`Fabric::pump`] at the times named by [`Fabric::next_delivery`].
//!
//! Everything is deterministic for a given seed and order of calls: ordered maps, one seeded generator, no wall clock.
//!
//! ```
//! use std::sync::Arc;
//! use fabric::{AsyncEvent, Clock, CqNum, Dma, DmaFault, Fabric, Guid, HcaConfig, HcaEvents, Nanos, PortState};
//!
//! /// A host without memory, at the beginning of time.
//! struct Host;
//!
//! impl Clock for Host {
//!     fn now(&self) -> Nanos { Nanos(0) }
//!     fn wake_at(&self, _: Nanos) {}
//! }
//! impl Dma for Host {
//!     fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), DmaFault> { Err(DmaFault { addr, len: to.len() }) }
//!     fn write(&self, addr: u64, from: &[u8]) -> Result<(), DmaFault> { Err(DmaFault { addr, len: from.len() }) }
//!     fn is_memory(&self, _: u64, _: u64) -> bool { false }
//! }
//! impl HcaEvents for Host {
//!     fn completion(&self, _: CqNum) {}
//!     fn async_event(&self, _: AsyncEvent) {}
//! }
//!
//! let fabric = Fabric::new(1, Arc::new(Host));
//! let hca = fabric.add_hca(HcaConfig::new(Guid(0x10), 1), Arc::new(Host), Arc::new(Host))?;
//! assert_eq!(hca.query_ports()?[0].state, PortState::Init, "it is cabled and waits for a subnet manager");
//! # Ok::<(), fabric::Error>(())
//! ```
#![forbid(unsafe_code)]

mod ah;
mod arithmetic;
mod attr;
mod calls;
pub mod capture;
mod cq;
mod delay;
mod error;
mod far;
mod fault;
mod groups;
mod hca;
mod management;
mod mcg;
mod memory;
mod num;
mod offload;
mod pd;
mod port;
mod qp;
mod queue;
mod rc;
mod recv;
mod router;
mod send;
mod srq;
pub mod subnet;
mod switch;
mod traits;
pub mod wire;

pub use ah::{AddressVector, Ah, GlobalRoute};
pub use arithmetic::Arithmetic;
pub use attr::{ArmSemantics, HcaAttr, HcaConfig, NodeKind, PortConfig};
pub use calls::{Call, Injection};
pub use cq::{Completion, CompletionKind, CompletionStatus, Cq, CqNum, Moderation, Notify, RecvInfo};
pub use error::Error;
pub use far::{Arrivals, Datagram, FarEnd, FarSend, NearEnd};
pub use fault::{Drops, LinkFaults, Only, Pick, Probability, Reason};
pub use groups::GroupHeaders;
pub use hca::{Census, EmptyChannel, Hca};
pub use iba::{Gid, Guid, Lid, PKey, QKey, Qpn, Sl};
pub use management::ManagementPeer;
pub use memory::{Access, Mr};
pub use num::{LinkSpeed, LinkWidth, Lmc, Mtu, Nanos, PhysState, PortNum, PortState, Rate};
pub use pd::Pd;
pub use port::{PortAttr, PortCounters};
pub use qp::{Qp, QpAttr, QpSizes, QpState, Signalling, UdConfig};
pub use queue::{RecvWr, Sge};
pub use rc::{RcAttr, RcConfig, RcSendWr, ReadyToReceive, ReadyToSend, rnr_time};
pub use router::Subnet;
pub use send::{Lso, SendOp, SendWr, UdDest};
pub use srq::{Srq, SrqNum, SrqSizes};
pub use switch::{Fabric, WeakFabric};
pub use traits::{AsyncEvent, Clock, Direction, Dma, DmaFault, HcaEvents, PortChange, Tap};
