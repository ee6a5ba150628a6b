//! What is below an IP layer: the streams of a link, or the members of a group.

use std::collections::BTreeSet;

use fakekernel::{Errno, Nanos};
use lab_gldv3::{LinkState, TransmitError};
use lab_ip::layer::{Frame, LinkInfo};
use lab_ip::link_addr::LinkAddr;
use smoltcp::wire::IpCidr;

use super::streams::Streams;

/// See the module's documentation. Called with no lock held; it may wait.
pub trait Below: Send {
    fn info(&self) -> LinkInfo;
    /// Has it serve these addresses and hear exactly these groups; the groups that were refused.
    fn follow(&mut self, addresses: &[IpCidr], groups: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Errno)>;
    /// Sends a frame; may wait a little when a queue is full.
    fn transmit(&mut self, frame: Frame, deadline: Nanos) -> Result<(), TransmitError>;
    /// The carrier, if it does not tell by notifications.
    fn carrier(&self) -> Option<LinkState> {
        None
    }
}

impl Below for Streams {
    fn info(&self) -> LinkInfo {
        Streams::info(self)
    }

    fn follow(&mut self, _addresses: &[IpCidr], groups: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Errno)> {
        self.enable_exactly(groups)
    }

    fn transmit(&mut self, frame: Frame, deadline: Nanos) -> Result<(), TransmitError> {
        Streams::transmit(self, &frame, deadline)
    }
}
