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
//!
//! ```
//! use lab_ip::link_addr::LinkAddr;
//!
//! // Flags, QPN, subnet prefix, port GUID.
//! let mut address = LinkAddr([0; 20]);
//! address.0[1..4].copy_from_slice(&[0, 0, 0x48]);
//! address.0[4..6].copy_from_slice(&[0xfe, 0x80]);
//! address.0[12..].copy_from_slice(&0x0002_c903_000a_1b2d_u64.to_be_bytes());
//! assert_eq!(address.link_local().to_string(), "fe80::202:c903:a:1b2d");
//! ```

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
