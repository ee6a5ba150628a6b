//! What the conformance tests share.

pub mod probe;
