//! `ibdlab`: illumos hosts with real kernel module objects on a software InfiniBand fabric.
//!
//! - [`mod@bench`]: what a packet costs.
//! - [`scenario`]: the file that says which hosts there are and what they do.
//! - [`desk`]: a lab that stays up, and the commands of its hosts.
//! - [`host`]: a host's IP layer on a link of the lab.
//! - [`linux`]: the Linux side of a live run.
//! - [`campaign`]: a seeded search over schedules and faults.
//! - [`capture`]: what a capture says, counted independently.
//! - [`coverage`]: which lines of the modules were run.
//! - [`objects`]: which file each host loads for each module.
//! - [`packets`]: frames that nobody should send.
//! - [`reached`]: what a run has reached, to be compared with other runs.
//! - [`report`]: what a run found.
//! - [`run`]: carries a scenario out.
//! - [`sa`]: questions to subnet administration.
//! - [`setup`]: from a scenario to its hosts and their fabric.
//! - [`words`]: what the process says, whoever listens.

#![forbid(unsafe_code)]
// An application's insides, public for its own tests: a comment where a name does not say it all.
#![allow(missing_docs)]

pub mod bench;
pub mod calls;
pub mod campaign;
pub mod capture;
pub mod cli;
pub mod coverage;
pub mod debug;
pub mod desk;
pub mod host;
pub mod linux;
mod mappings;
pub mod objects;
pub mod packets;
pub mod probes;
pub mod reached;
pub mod report;
pub mod run;
pub mod sa;
pub mod scenario;
pub mod setup;
pub mod suppress;
mod swhca;
mod text_file;
pub mod words;
