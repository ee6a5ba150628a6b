//! Subnet administration for the lab: the management datagram codec and the embedded subnet manager and administrator.
//!
//! - [`types`]: GIDs, LIDs, keys and codes, one newtype each.
//! - [`mad`]: 256 bytes in, a typed header and 200 bytes of attribute data out, and back.
//! - [`records`]: the attributes subnet administration speaks of.
//! - [`rmpp`]: answers longer than one MAD, both directions.
//! - [`sa::Sa`]: the subnet administrator. A machine without clock or I/O: MADs and the time in, MADs out. It answers
//!   as OpenSM 3.3.23 answers, refusals included.
//! - [`manager::Sm`]: the subnet manager beside it: LIDs, port states, P_Key tables and multicast routes, through
//!   [`Subnet`].
//! - [`SaTransport`]: how a client's MADs reach a subnet administrator, this one or another.
//!
//! Nothing here knows what a host is, or a kernel, or the software fabric: `lab-ibtf` joins them.
//!
//! A request as it goes over the wire:
//!
//! ```
//! use sm::{Attribute, Method, SaMad};
//!
//! let request = SaMad::request(Method::GET, Attribute::PATH_RECORD, 7, 0);
//! let mad = request.emit();
//! assert_eq!(mad.0.len(), 256);
//! let read = SaMad::parse(&mad).expect("a MAD of subnet administration");
//! assert_eq!((read.transaction, read.attribute), (7, Attribute::PATH_RECORD));
//! ```

#![forbid(unsafe_code)]

pub mod fault;
mod garbled;
pub mod lie;
pub mod mad;
mod manager;
pub mod partition;
pub mod records;
pub mod rmpp;
pub mod sa;
mod transport;
pub mod types;

pub use fault::{Fault, FaultScript};
pub use mad::{Attribute, Mad, MadError, Method, SaMad, Status};
pub use manager::{Endport, PortSettings, Sm, SmConfig, Subnet};
pub use partition::{Membership, Partition};
pub use sa::{Kept, Sa};
pub use transport::{Arrival, Inbound, Inbounds, Refused, SaTransport, SmAddress};
pub use types::*;
