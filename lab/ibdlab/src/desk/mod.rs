//! The desk: a lab that stays up, and illumos's administration commands on its hosts.
//!
//! `ibdlab up` starts a daemon ([`daemon`]) with a live machine whose hosts boot as illumos does: what their files say is made
//! again. A command runs inside that process, on a thread of its host (`host`, `system`), because the kernel objects are
//! there; what a person or a script starts is a link to `ibdlab` under the command's name, which sends its arguments through a
//! socket and passes on what comes back ([`client`]). The words of the commands are the crate `admin`'s.

pub mod capture;
mod captured;
pub mod client;
pub mod daemon;
mod echoes;
pub mod fabric;
mod files;
pub mod frame_files;
mod frames;
mod heard;
mod host;
mod ip;
mod ipmp;
mod ipoib_pcap;
mod jobs;
pub mod kept;
mod listener;
mod pinger;
mod place;
mod plumbed;
mod privilege;
mod protocol;
pub mod rehearsal;
pub mod sa;
mod server;
mod status;
mod system;
mod zones;

pub use frames::parse as read_frames;
pub use place::Place;
pub use protocol::Request;
pub use status::{HostStatus, IpStatus, LinkStatus, Status};

/// A client's first line.
///
/// # Errors
///
/// What the line is instead.
pub fn read_request(mut bytes: &[u8]) -> anyhow::Result<Option<Request>> {
    protocol::request(&mut bytes)
}
