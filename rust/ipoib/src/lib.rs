//! The IPoIB protocol and nothing else: numbers and addresses of the fabric, the bytes of RFC 4391, and the machines that
//! resolve paths, keep memberships, bring a link up and bound what is asked of the subnet administrator.
//!
//! Nothing here reads a clock, allocates, or talks to anybody. Machines are told events and the time and answer with
//! actions; memory is handed in by whoever creates them, so that what they may hold is bounded before they start.
//!
//! A link is asked what to do, and told what came of it:
//!
//! ```
//! use ipoib::link::{Action, Config, Event, Link};
//! use ipoib::{Instant, PKey};
//!
//! let pkey = PKey::new(0xffff).expect("the default partition");
//! let mut link = Link::<u16>::new(Config::new(pkey), 1);
//! let now = Instant::ZERO;
//! link.handle_event(now, Event::Start);
//! let mut asked = false;
//! while let Some(action) = link.poll_action(now) {
//!     if let Action::QueryPort(ticket) = action {
//!         // The port does not answer.
//!         asked = true;
//!         link.handle_event(now, Event::Port(ticket, None));
//!     }
//! }
//! assert!(asked && link.poll_timeout().is_some(), "it asks again later");
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

/// For machines with many states: so many cases with `WHOLE=1`, and a quarter of them otherwise.
#[cfg(test)]
fn cases(whole: u32) -> proptest::test_runner::Config {
    let cases = match std::env::var_os("WHOLE") {
        _ if cfg!(miri) => 2,
        Some(_) => whole,
        None => whole / 4,
    };
    proptest::test_runner::Config::with_cases(cases)
}

/// The processor's. A file that `tests/interleavings` compiles once more, with loom's, takes them from here.
mod atomic {
    pub(crate) use core::sync::atomic::*;
}

mod addr;
mod backoff;
mod numbers;
mod table;

pub mod acquaintances;
pub mod connections;
pub mod debts;
pub mod groups;
pub mod header;
pub mod link;
pub mod nd;
pub mod neighbours;
pub mod paths;
pub mod time;
pub mod window;

pub use addr::{AddrWords, Cast, Gid, Guid, LinkAddr, Mgid, Qpn, Signature};
pub use backoff::{Backoff, Jitter};
pub use header::EtherType;
pub use numbers::{Lid, Mlid, Mtu, PKey, QKey, Rate, Scope};
pub use table::Slot;
pub use time::Instant;
