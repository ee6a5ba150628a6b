//! The lab's communication manager as client modules find it: small C clients (`probes/ibcm`) on two hosts of one fabric with
//! the embedded subnet administrator.

#![forbid(unsafe_code)]

mod bench;
mod connections;
mod groups;
mod notices;
mod paths;
mod services;
