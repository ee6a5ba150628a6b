//! What the conformance tests share.

#![forbid(unsafe_code)]

pub mod probe;
