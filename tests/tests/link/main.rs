//! The shipped `ibd` between the lab's MAC layer and its fabric: what GLDv3, an administrator and a peer see of a link.

#![forbid(unsafe_code)]

mod addresses;
mod announced;
mod answers;
mod astray;
mod bench;
mod blocks;
mod books;
mod broken_ring;
#[cfg(feature = "foreign")]
mod c_driver;
mod calm;
mod connections;
mod contract;
mod crowded;
mod events;
mod faults;
mod forged;
mod groups;
mod handed_over;
mod ibdpath;
mod interrupts;
mod late;
mod lent;
mod loaded;
mod made_up;
mod malformed;
mod memory;
mod mtu;
mod narrow;
mod nonsense;
mod object;
mod offloads;
mod opensm;
mod partitions;
mod paths;
mod places;
mod properties;
mod pulled;
mod refused_detach;
mod replaced;
mod rings;
mod silent;
mod sizes;
mod speeds;
mod starts;
mod statistics;
mod storm;
mod strangers;
mod suspend;
mod thrift;
mod tunables;
mod waiting;
mod wire;
