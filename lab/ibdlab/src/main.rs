//! The `ibdlab` command.
#![forbid(unsafe_code)]

fn main() {}
