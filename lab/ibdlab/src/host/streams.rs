//! The three streams IP keeps open on a link: IPv4, ARP, IPv6.

use std::collections::BTreeSet;

use fakekernel::{Errno, Kernel, Nanos};
use lab_gldv3::{Backpressure, LinkAddress, Notification, Received, Stream, TransmitError};
use lab_ip::layer::{Frame, LinkInfo, SAP_ARP, SAP_IPV4, SAP_IPV6};
use lab_ip::link_addr::LinkAddr;

/// Open streams; they close when dropped.
pub struct Streams {
    ipv4: Stream,
    arp: Stream,
    ipv6: Stream,
    enabled: BTreeSet<LinkAddr>,
}

impl Streams {
    /// Opens the link, which starts the driver, and binds. `receive` and `notify` are called in whatever context the link
    /// delivers in.
    pub fn open(
        kernel: &Kernel,
        link: &str,
        receive: impl Fn(Received) + Clone + Send + Sync + 'static,
        notify: impl Fn(Notification) + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let open = |sap: u16| -> Result<Stream, Errno> {
            let stream = Stream::open(kernel, link)?;
            stream.on_receive(receive.clone());
            stream.bind(u32::from(sap))?;
            Ok(stream)
        };
        let ipv4 = open(SAP_IPV4)?;
        let streams = Self { arp: open(SAP_ARP)?, ipv6: open(SAP_IPV6)?, ipv4, enabled: BTreeSet::new() };
        streams.ipv4.on_notify(notify);
        Ok(streams)
    }

    /// What the IP layer needs to know of the link.
    pub fn info(&self) -> LinkInfo {
        let details = self.ipv4.details();
        LinkInfo {
            own: LinkAddr(details.address.0),
            broadcast: LinkAddr(details.broadcast.0),
            sdu: details.max_sdu as usize,
            offload: self.ipv4.offload_capability(),
        }
    }

    /// Sends a frame; waits a little when the link's queue is full, so that nothing is lost to it.
    pub fn transmit(&self, frame: &Frame, deadline: Nanos) -> Result<(), TransmitError> {
        let stream = self.of(frame.sap);
        let pressure = stream.transmit(LinkAddress(frame.dst.0), &frame.payload, frame.offload)?;
        if pressure == Backpressure::Stop {
            stream.wait_writable(deadline);
        }
        Ok(())
    }

    /// Makes the enabled groups those of `wanted`. A group that is refused stays unwanted until it is wanted anew.
    pub fn enable_exactly(&mut self, wanted: &BTreeSet<LinkAddr>) -> Vec<(LinkAddr, Errno)> {
        let mut refused = Vec::new();
        for group in wanted.difference(&self.enabled) {
            if let Err(errno) = self.of_group(group).enable_multicast(LinkAddress(group.0)) {
                refused.push((*group, errno.into()));
            }
        }
        for group in self.enabled.difference(wanted) {
            if let Err(errno) = self.of_group(group).disable_multicast(LinkAddress(group.0)) {
                refused.push((*group, errno.into()));
            }
        }
        self.enabled.clone_from(wanted);
        refused
    }

    /// A stream hears the groups in its own list alone, so a group goes to the stream of its protocol.
    fn of_group(&self, group: &LinkAddr) -> &Stream {
        if group.is_ipv6_group() { &self.ipv6 } else { &self.ipv4 }
    }

    fn of(&self, sap: u16) -> &Stream {
        match sap {
            SAP_ARP => &self.arp,
            SAP_IPV6 => &self.ipv6,
            _ => &self.ipv4,
        }
    }
}
