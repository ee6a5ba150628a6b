//! A host's IP layer on one IPoIB link: ARP and neighbour discovery for 20-byte addresses are ours, above them smoltcp.
//!
//! Everything here is pure: frames and the time go in, frames and the next wake-up come out. It knows no kernel, thread, clock, file or
//! scenario; of the data link it knows the words for what an adapter computes (`lab_gldv3::Offload`). What connects it to a link
//! and a thread is `ibdlab::host`.
//!
//! - [`stack`]: smoltcp over [`layer`], which finds who is where: [`arp`], [`nd`], [`neighbours`], [`dad`], `announce`.
//! - [`apps`]: what a host does over it.
//! - [`dhcp`]: a client as RFC 4390 has it.
//! - [`ipmp`]: which member of a group serves which address.

#![forbid(unsafe_code)]

mod announce;
pub mod apps;
pub mod arp;
pub mod dad;
pub mod defence;
mod device;
pub mod dhcp;
mod echo;
mod fragments;
pub mod ipmp;
pub mod ipv6_fragments;
pub mod layer;
pub mod link_addr;
pub mod nd;
pub mod neighbours;
mod offload;
mod path_mtu;
pub mod routers;
pub mod routes;
pub mod stack;

#[cfg(test)]
mod tests;
