//! A TUN device inside a namespace: IP packets of that namespace's programs in and out.
//!
//! Each packet has a virtio header in front (`IFF_VNET_HDR`): what is left to the device on the way out, what was verified on the
//! way in. What the device is to Linux follows what the interface is to IP.

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
    wanted: Mutex<Device>,
    /// Held while Linux is told.
    told: Mutex<Told>,
}

/// What a device is to be to Linux's programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    pub offload: OffloadCapability,
    pub addresses: Vec<IpCidr>,
}

/// What Linux was told.
#[derive(Default)]
struct Told {
    /// All of this was tried. What failed is tried again with the next change.
    tried: Option<Device>,
    mtu: Option<usize>,
    offload: Option<OffloadCapability>,
    addresses: Vec<IpCidr>,
}

impl Tun {
    /// Makes a device, moves it into `namespace` where it is called `name`, gives it `addresses` and `mtu` (largest IP packet in bytes)
    /// and sets it up. It offers Linux nothing before [`Tun::want`] and [`Tun::follow`].
    pub fn create(namespace: &Namespace, name: &str, addresses: &[IpCidr], mtu: usize) -> Result<Self> {
        // Named where it belongs: other labs have devices of this name.
        let device = DeviceBuilder::new().offload(true).enable(false).build_sync();
        let device = device.with_context(|| format!("cannot make the TUN device {name}"))?;
        let wanted = Device { mtu, addresses: addresses.to_vec(), ..Device::default() };
        let tun = Self { device, name: name.to_owned(), wanted: Mutex::new(wanted), told: Mutex::default() };
        let made = tun.device.name()?;
        let to = ["netns", namespace.name(), "name", name];
        run(std::process::Command::new("ip").args(["link", "set", &made]).args(to))?;
        tun.follow(namespace)?;
        namespace.ip(&["link", "set", name, "up"])?;
        Ok(tun)
    }

    /// The device is to be this from now on. Does not wait for Linux.
    pub fn want(&self, wanted: Device) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
    }

    /// Tells Linux what has changed of what the device is to be. What was told before is kept here: the interface's own addresses come and
    /// go with what the link says.
    ///
    /// # Errors
    ///
    /// The first thing that Linux refused; the others were tried as well.
    pub fn follow(&self, namespace: &Namespace) -> Result<()> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if told.tried.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let results = [
            self.tell_offload(namespace, &mut told, wanted.offload),
            self.tell_mtu(namespace, &mut told, wanted.mtu),
            self.tell_addresses(namespace, &mut told, &wanted.addresses),
        ];
        told.tried = Some(wanted);
        results.into_iter().collect()
    }

    fn tell_mtu(&self, namespace: &Namespace, told: &mut Told, mtu: usize) -> Result<()> {
        if told.mtu != Some(mtu) {
            namespace.ip(&["link", "set", &self.name, "mtu", &mtu.to_string()])?;
            told.mtu = Some(mtu);
        }
        Ok(())
    }

    fn tell_addresses(&self, namespace: &Namespace, told: &mut Told, wanted: &[IpCidr]) -> Result<()> {
        let (kept, gone): (Vec<IpCidr>, Vec<IpCidr>) =
            told.addresses.iter().copied().partition(|address| wanted.contains(address));
        let come: Vec<IpCidr> = wanted.iter().copied().filter(|address| !kept.contains(address)).collect();
        told.addresses = kept;
        let mut result = Ok(());
        for address in gone {
            // One that Linux has not any more is gone as well.
            result = result.and(self.change_address(namespace, "del", &address));
        }
        for address in come {
            let added = self.change_address(namespace, "add", &address);
            told.addresses.extend(added.is_ok().then_some(address));
            result = result.and(added);
        }
        result
    }

    fn change_address(&self, namespace: &Namespace, verb: &str, address: &IpCidr) -> Result<()> {
        let text = address.to_string();
        // Duplicate address detection would ask our own ND, which answers for this very address.
        let no_dad: &[&str] = match address {
            IpCidr::Ipv6(_) if verb == "add" => &["nodad"],
            _ => &[],
        };
        namespace.ip(&[&["addr", verb, &text, "dev", &self.name], no_dad].concat())
    }

    fn tell_offload(&self, namespace: &Namespace, told: &mut Told, wanted: OffloadCapability) -> Result<()> {
        if told.offload == Some(wanted) {
            return Ok(());
        }
        let OffloadCapability { full_v4, large_send, .. } = wanted;
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
        told.offload = Some(wanted);
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
