//! A real OpenSM on a real ibsim as a lab's subnet manager.
//!
//! ibsim is a subnet of which nothing exists but management: it answers SMPs for its switch and adapters and carries
//! 256-byte MADs between clients. OpenSM runs on it and believes it is a fabric. This crate
//!
//! - writes what the two read ([`Topology`], [`config`]) and runs them in a directory of their own ([`OpenSm`]);
//! - speaks ibsim's socket protocol for the adapters, so that a process can be many hosts at once;
//! - reads what OpenSM decided: ports and P_Key tables by direct-routed SMPs, routes from the switch's tables
//!   ([`Snapshot`]), the manager's life from its SMInfo ([`SmWatch`]);
//! - carries subnet administration ([`OpenSm::send`]) past what ibsim cannot do, of which segmentation is the worst: it cuts
//!   an answer at 256 bytes and says nothing ([`sa`]);
//! - reads OpenSM's own dump of its administration's database ([`dump`]).
//!
//! Nothing here knows the software fabric or a host's kernel: `lab-ibtf` carries the decisions over.
//!
//! What ibsim reads:
//!
//! ```
//! use opensm::{Adapter, Link, Topology};
//!
//! let (node, port) = (sm::Guid(0x10), sm::Guid(0x11));
//! let alice = Adapter { name: "alice".into(), node, port, link: Link::default() };
//! let subnet = Topology::new([alice]).expect("one adapter");
//! assert!(subnet.netfile().contains("Hca 1 \"alice\"\n[1](11) \"switch\"[2]"));
//! ```
#![forbid(unsafe_code)]

mod client;
pub mod config;
pub mod dump;
mod error;
mod manager;
mod process;
mod protocol;
pub mod sa;
mod smp;
mod snapshot;
mod tools;
mod topology;
mod watch;

pub use error::Error;
pub use manager::{OpenSm, Sink};
pub use smp::SmpError;
pub use snapshot::{PortSnapshot, Snapshot};
pub use tools::Tools;
pub use topology::{Adapter, Link, MAX_ADAPTERS, Speed, Topology};
pub use watch::{Poll, SmEvent, SmWatch};
