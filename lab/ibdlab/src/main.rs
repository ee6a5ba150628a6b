//! `ibdlab`: illumos hosts with real kernel module objects on a software InfiniBand fabric.
#![forbid(unsafe_code)]
#![allow(dead_code)]

mod ip;
mod scenario;

fn main() {}
