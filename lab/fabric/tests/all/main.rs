//! The fabric, seen from its adapters and from the switch.

#![forbid(unsafe_code)]

mod completions;
mod connections;
mod delivery;
mod faults;
mod queues;
mod rig;
mod routers;
mod sizes;
