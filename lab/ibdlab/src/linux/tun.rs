//! A TUN device inside a namespace: IP packets of that namespace's programs in and out.
//!
//! Each packet has a virtio header in front (`IFF_VNET_HDR`): what is left to the device on the way out, what was verified on the
//! way in. What the device offers Linux follows what the link offers IP.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use lab_gldv3::OffloadCapability;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smoltcp::wire::IpCidr;
use tun_rs::{DeviceBuilder, SyncDevice, VIRTIO_NET_HDR_LEN, VirtioNetHdr};

use super::namespace::{Namespace, run};
use super::virtio;

/// The longest IP packet.
const LONGEST: u32 = 65_535;
/// Room for a packet with its header.
pub const BUFFER: usize = VIRTIO_NET_HDR_LEN + LONGEST as usize;

/// One TUN device; gone when dropped.
pub struct Tun {
    device: SyncDevice,
    name: String,
    /// What the link offers, and what the device was last told of it.
    offered: Mutex<Offered>,
}

#[derive(Default)]
struct Offered {
    wanted: OffloadCapability,
    told: Option<OffloadCapability>,
}

impl Tun {
    /// Makes a device, moves it into `namespace` where it is called `name`, gives it `addresses` and `mtu` (largest IP packet in bytes)
    /// and sets it up. It offers Linux nothing before [`Tun::want`] and [`Tun::follow`].
    pub fn create(namespace: &Namespace, name: &str, addresses: &[IpCidr], mtu: usize) -> Result<Self> {
        // Named where it belongs: other labs have devices of this name.
        let device = DeviceBuilder::new().offload(true).enable(false).build_sync();
        let device = device.with_context(|| format!("cannot make the TUN device {name}"))?;
        let tun = Self { device, name: name.to_owned(), offered: Mutex::default() };
        let made = tun.device.name()?;
        let to = ["netns", namespace.name(), "name", name];
        run(std::process::Command::new("ip").args(["link", "set", &made]).args(to))?;
        tun.follow(namespace)?;
        for address in addresses {
            let address = address.to_string();
            // Duplicate address detection would ask our own ND, which answers for this very address.
            let no_dad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            namespace.ip(&[&["addr", "add", &address, "dev", name], no_dad].concat())?;
        }
        namespace.ip(&["link", "set", name, "mtu", &mtu.to_string(), "up"])?;
        Ok(tun)
    }

    /// The link offers this from now on.
    pub fn want(&self, wanted: OffloadCapability) {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).wanted = wanted;
    }

    /// Has the device offer what the link offers, if that has changed.
    pub fn follow(&self, namespace: &Namespace) -> Result<()> {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if offered.told == Some(offered.wanted) {
            return Ok(());
        }
        let OffloadCapability { full_v4, large_send, .. } = offered.wanted;
        if let Some(longest) = large_send {
            let longest = longest.min(LONGEST).to_string();
            namespace.ip(&["link", "set", &self.name, "gso_max_size", &longest])?;
        }
        let word = |on| if on { "on" } else { "off" };
        // No link knows large sends of UDP, and none says that it knows those over IPv6.
        let features = [
            ("tx-checksum-ip-generic", full_v4),
            ("tx-tcp-segmentation", full_v4 && large_send.is_some()),
            ("tx-tcp6-segmentation", false),
            ("tx-tcp-ecn-segmentation", false),
            ("tx-udp-segmentation", false),
        ];
        let mut ethtool = namespace.command("ethtool");
        ethtool.args(["-K", &self.name]);
        ethtool.args(features.iter().flat_map(|(feature, on)| [*feature, word(*on)]));
        run(&mut ethtool)?;
        offered.told = Some(offered.wanted);
        Ok(())
    }

    /// The next packet a program sent, behind its virtio header, or `None` after `timeout`.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> std::io::Result<Option<usize>> {
        let mut events = [PollFd::new(&self.device, PollFlags::IN)];
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        if poll(&mut events, Some(&timeout))? == 0 {
            return Ok(None);
        }
        self.device.recv(buffer).map(Some)
    }

    /// Gives a packet to the namespace's programs; whether its checksums were verified on the way.
    pub fn send(&self, packet: &[u8], verified: bool) -> std::io::Result<()> {
        let mut message = vec![0; VIRTIO_NET_HDR_LEN];
        let flags = if verified { virtio::DATA_VALID } else { 0 };
        VirtioNetHdr { flags, ..VirtioNetHdr::default() }.encode(&mut message)?;
        message.extend_from_slice(packet);
        self.device.send(&message).map(drop)
    }
}
