//! A DHCP client for IPv4 on InfiniBand (RFC 2131, RFC 4390).
//!
//! A link address has 20 octets and a message has room for 16, so messages carry none: hardware type 32, length 0, and a client
//! identifier that is made of the port's GID. A server cannot derive a link address from such a message; until the client has an
//! address it asks for answers by broadcast. `client` is a pure machine: answers and the time go in, datagrams come out.

mod client;
mod datagram;
mod message;

pub use client::{Client, Lease};
pub use datagram::{for_client, from_client};
pub use message::{Answer, ClientId};
