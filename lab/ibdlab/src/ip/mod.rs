//! A host's IP layer: ARP and neighbour discovery for 20-byte addresses are ours, above them smoltcp.
//!
//! Everything here is pure: frames and the time go in, frames and the next wake-up come out. What connects it to a
//! link and a thread is `host`.

pub mod announce;
pub mod apps;
pub mod arp;
pub mod dad;
mod device;
pub mod dhcp;
mod fragments;
pub mod ipmp;
pub mod layer;
pub mod link_addr;
pub mod nd;
pub mod neighbours;
mod offload;
pub mod stack;

#[cfg(test)]
mod tests;
