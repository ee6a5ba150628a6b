//! The shipped `ibd` between the lab's MAC layer and its fabric: what GLDv3, an administrator and a peer see of a link.

#![forbid(unsafe_code)]

mod addresses;
mod bench;
mod calm;
mod ibdpath;
mod late;
mod lent;
mod malformed;
mod offloads;
mod opensm;
mod paths;
mod properties;
mod rings;
mod tunables;
