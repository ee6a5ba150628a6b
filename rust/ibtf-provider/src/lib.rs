//! Safe wrappers over the provider side of IBTF (`sys/ib/ibtl/ibci.h`): what an adapter's driver is to `ibtl`.
//!
//! A driver implements [`Provider`] and attaches it ([`Attachment`]); `ibtl` then calls it by 83 operations, none of which may be
//! missing: those that [`Provider`] has not are answered with "not supported" here. Calls into `ibtl` go through [`ClientCq`],
//! [`ClientQp`], [`ClientSrq`] and [`Client`], each of which lets none through once `ibtl` has freed what is behind it.
//!
//! **What a driver must not do** and no type shows: call into `ibtl` from inside one of its operations. Clients hold their own locks
//! over post, poll and arm. A thread or a soft interrupt does that.
//!
//! Contexts are those of the crate `kernel`: **any**, **may block**.

#![cfg_attr(not(test), no_std)]

mod address;
mod attach;
mod attributes;
mod change;
mod completion;
mod event;
mod memory;
mod objects;
mod operations;
mod port;
mod provider;
mod qp;
mod refuse;
mod status;
mod work;

pub use address::{AddressVector, Gid};
pub use attach::{Attachment, Framework};
pub use attributes::Attributes;
pub use change::{Named, QpChange, Transition};
pub use completion::{Completion, CompletionStatus, Opcode};
pub use event::{Client, ClientCq, ClientQp, ClientSrq, PortChange, PortEvent};
pub use memory::{Access, Region, Window};
pub use port::{LinkState, PortReport, Speed};
pub use provider::{Arm, CqSizes, Keys, Provider, SrqSizes};
pub use qp::{Purpose, QpQuery, QpRequest, QpState, QueueSizes, ReceiveSide, SendSide, UdAttributes};
pub use status::Status;
pub use work::{Destination, LargeSend, ReceiveRequest, Segment, SendRequest};
