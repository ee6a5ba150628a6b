//! The lab's IBTF below the communication manager, as client modules find it: small C clients (`probes/ibtl`) on two hosts of
//! one fabric.

#![forbid(unsafe_code)]

mod attachment;
mod bench;
mod objects;
mod traffic;
mod world;
