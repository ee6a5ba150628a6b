//! What sits on a link: smoltcp with the scenario's applications, or a TUN device with Linux's.

use std::collections::BTreeSet;
use std::time::Duration;

use lab_gldv3::Received;
use lab_ip::layer::{Frame, IpLink, LinkInfo, Wanted};
use lab_ip::link_addr::LinkAddr;
use lab_ip::stack::Stack;

/// The IP layer above a link's streams. Called with a leaf lock held: it computes, it does not wait.
pub trait Upper: Send {
    /// The link's address or size changed.
    fn set_info(&mut self, info: LinkInfo);
    /// The link has a carrier, or has lost it.
    fn set_up(&mut self, up: bool) {
        self.link_mut().set_up(up);
    }
    /// A member of a group hears these for it, and if nominated takes what is for all. What comes from the group's other members at
    /// their link addresses is its own.
    fn hear(&mut self, _groups: BTreeSet<LinkAddr>, _nominated: bool, _siblings: BTreeSet<LinkAddr>) {}
    /// The interface has these addresses now; see [`IpLink::set_addresses`].
    fn set_addresses(&mut self, wanted: Wanted);
    /// A frame came up.
    fn receive(&mut self, now: Duration, frame: Received);
    /// Runs whatever has become due.
    fn poll(&mut self, now: Duration);
    /// The next frame to send down.
    fn transmit(&mut self) -> Option<Frame>;
    /// When `poll` is wanted if nothing else happens.
    fn poll_at(&mut self, now: Duration) -> Option<Duration>;
    /// The address resolution below.
    fn link(&self) -> &IpLink;
    /// The same, to be changed.
    fn link_mut(&mut self) -> &mut IpLink;
    /// The IP stack, if this is one that applications can run on.
    fn stack(&mut self) -> Option<&mut Stack> {
        None
    }
    /// Packets that came up and that Linux's device did not take.
    fn refused(&self) -> u64 {
        0
    }
    /// Groups to be enabled at the link.
    fn link_groups(&self) -> BTreeSet<LinkAddr> {
        self.link().link_groups()
    }
}

impl Upper for Stack {
    fn set_info(&mut self, info: LinkInfo) {
        Stack::set_info(self, info);
    }

    fn set_addresses(&mut self, wanted: Wanted) {
        Stack::set_addresses(self, wanted);
    }

    fn receive(&mut self, now: Duration, frame: Received) {
        Stack::receive(self, now, frame.sap, frame.payload);
    }

    fn poll(&mut self, now: Duration) {
        Stack::poll(self, now);
    }

    fn transmit(&mut self) -> Option<Frame> {
        Stack::transmit(self)
    }

    fn poll_at(&mut self, now: Duration) -> Option<Duration> {
        Stack::poll_at(self, now)
    }

    fn link(&self) -> &IpLink {
        Stack::link(self)
    }

    fn link_mut(&mut self) -> &mut IpLink {
        Stack::link_mut(self)
    }

    fn stack(&mut self) -> Option<&mut Stack> {
        Some(self)
    }
}
