//! A TUN device on a link: packets of Linux's programs go out over the driver, and back. The device has the interface's addresses and
//! size.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lab_gldv3::Received;
use lab_ip::layer::{Frame, IpLink, LinkInfo, Wanted};
use smoltcp::wire::IpCidr;

use super::upper::Upper;
use crate::linux::{Device, Tun, virtio};

/// See the module's documentation.
pub struct TunBridge {
    link: IpLink,
    tun: Arc<Tun>,
    /// Packets that a thread outside the machine read from the device, behind their virtio headers.
    from_tun: Receiver<Vec<u8>>,
    /// See [`Upper::refused`].
    refused: u64,
}

impl TunBridge {
    pub fn new(info: LinkInfo, addresses: Vec<IpCidr>, tun: Arc<Tun>, from_tun: Receiver<Vec<u8>>) -> Self {
        Self { link: IpLink::new(info, addresses), tun, from_tun, refused: 0 }
    }

    /// The device is to be as the interface is, once that knows its link. What is down between the two, because the link has told its
    /// address, is Linux's all the same.
    fn want(&self) {
        let LinkInfo { sdu: mtu, offload, .. } = self.link.info();
        self.tun.want(Device { mtu, offload, addresses: self.link.addresses().to_vec() });
    }
}

impl Upper for TunBridge {
    fn set_info(&mut self, info: LinkInfo) {
        self.link.set_info(info);
        self.want();
    }

    fn set_addresses(&mut self, wanted: Wanted) {
        self.link.set_addresses(wanted);
        self.want();
    }

    fn receive(&mut self, now: Duration, frame: Received) {
        let verified = frame.full_checksum_ok;
        if let Some(packet) = self.link.receive(now, frame.sap, frame.payload)
            && self.tun.send(&packet, verified).is_err()
        {
            self.refused += 1;
        }
    }

    fn poll(&mut self, now: Duration) {
        self.link.poll(now);
        while let Ok(message) = self.from_tun.try_recv() {
            match virtio::packet(&message, self.link.info().offload) {
                Ok(packet) => self.link.send(now, packet),
                Err(_) => self.link.count_unsendable(),
            }
        }
    }

    fn transmit(&mut self) -> Option<Frame> {
        self.link.transmit()
    }

    fn poll_at(&mut self, _now: Duration) -> Option<Duration> {
        self.link.poll_at()
    }

    fn link(&self) -> &IpLink {
        &self.link
    }

    fn link_mut(&mut self) -> &mut IpLink {
        &mut self.link
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}
