//! A TUN device inside a namespace: IP packets of that namespace's programs in and out.

use std::time::Duration;

use anyhow::{Context, Result};
use smoltcp::wire::IpCidr;

use super::namespace::{Namespace, run};

/// One TUN device; gone when dropped.
pub struct Tun {
    device: tun::Device,
}

impl Tun {
    /// Makes a device named `name`, moves it into `namespace`, gives it `addresses` and `mtu` (largest IP packet in bytes)
    /// and sets it up.
    pub fn create(namespace: &Namespace, name: &str, addresses: &[IpCidr], mtu: usize) -> Result<Self> {
        let device = tun::create(tun::Configuration::default().tun_name(name).up())
            .with_context(|| format!("cannot make the TUN device {name}"))?;
        run(std::process::Command::new("ip").args(["link", "set", name, "netns", namespace.name()]))?;
        for address in addresses {
            let address = address.to_string();
            // Duplicate address detection would ask our own ND, which answers for this very address.
            let no_dad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            namespace.ip(&[&["addr", "add", &address, "dev", name], no_dad].concat())?;
        }
        namespace.ip(&["link", "set", name, "mtu", &mtu.to_string(), "up"])?;
        Ok(Self { device })
    }

    /// The next packet a program sent, or `None` after `timeout`.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> std::io::Result<Option<usize>> {
        match self.device.recv_timeout(buffer, timeout) {
            Ok(len) => Ok(Some(len)),
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a packet to the namespace's programs.
    pub fn send(&self, packet: &[u8]) -> std::io::Result<()> {
        self.device.send(packet).map(drop)
    }
}
