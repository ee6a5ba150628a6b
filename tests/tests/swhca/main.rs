//! The software adapter `swhca`, the shipped object, below the lab's IBTL: attached, with the driver's links on its ports, and gone
//! again with nothing left.

#![forbid(unsafe_code)]

mod bench;
mod client;
mod connections;
mod faults;
mod life;
mod management;
mod offloads;
mod several;
mod shared;
