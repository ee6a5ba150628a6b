//! What each step of a scenario does. Every one ends with a line for a person and facts for a program, or with an error
//! that says what was expected and what came.

mod counts;
mod fault_points;
mod group_changes;
mod lifecycle;
mod linux;
mod memberships;
mod router;
mod sm_restart;
mod subnet;
mod traffic;
mod trouble;
mod turns;
mod under_traffic;

pub use counts::counts;
pub use fault_points::fault_points;
pub use group_changes::{group_changes, membership_changes};
pub use lifecycle::{attach, flap, idle, unload, up};
pub use linux::{linux_fetch, linux_ping};
pub use memberships::memberships;
pub use router::router_away;
pub use sm_restart::sm_restart;
pub use subnet::{hca_removal, pkey_moves};
pub use traffic::{eavesdrop, multicast, ping, resolve, tcp};
pub use trouble::{Happened, Place, faulty_link, trouble};
pub use turns::turns;
pub use under_traffic::unload_under_traffic;
