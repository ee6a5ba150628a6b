//! A TUN device on a link: packets of Linux's programs go out over the driver, and back.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lab_gldv3::Received;
use lab_ip::layer::{Frame, IpLink, LinkInfo, Wanted};
use smoltcp::wire::IpCidr;

use super::upper::Upper;
use crate::linux::{Tun, virtio};

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
}

impl Upper for TunBridge {
    fn set_info(&mut self, info: LinkInfo) {
        self.tun.want(info.offload);
        self.link.set_info(info);
    }

    fn set_addresses(&mut self, wanted: Wanted) {
        self.link.set_addresses(wanted);
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
