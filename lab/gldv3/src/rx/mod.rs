//! Receive: soft ring sets (`M/mac_sched.c`, `M/mac_soft_ring.c`).

pub(crate) mod fanout;
mod poll;
mod ring;
mod srs;

pub(crate) use srs::{Look, Srs, Upper};
