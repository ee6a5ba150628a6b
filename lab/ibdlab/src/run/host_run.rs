//! One host while a scenario runs: its life ([`lab_world::Host`]), and IP on its link.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, mpsc};

use anyhow::{Result, anyhow};
use lab_ibtf::InfiniBand;
use lab_ip::layer::LinkInfo;
use lab_ip::routes::is_on_link;
use lab_ip::stack::Stack;
use lab_world::Host;
use serde_json::{Value, json};
use smoltcp::wire::IpCidr;

use crate::host::{IpThread, LinuxSide, TunBridge, Upper};
use crate::linux::Namespace;
use crate::scenario::{HostSpec, Misfit, Scenario};

/// Largest IP packet until the link says better.
const DEFAULT_SDU: usize = 2044;

/// See the module's documentation. What can be asked of a [`Host`] can be asked of it.
pub struct HostRun {
    host: Arc<Host>,
    pub addresses: Vec<IpCidr>,
    ip: Option<IpThread>,
    /// Its adapter computes checksums and cuts large sends.
    pub cuts_large_sends: bool,
    /// Queue pairs that its link sends from.
    pub senders: usize,
    /// Its link opens connections.
    pub connected: bool,
    /// Neighbours may open connections to its link.
    pub takes_connections: bool,
    /// Whose switch its adapter is cabled to, from 1.
    pub subnet: u8,
    /// Hosts with the same reach one another; see [`Scenario::link_of`].
    pub reach: (u16, u8),
    /// The scope of its link's groups.
    pub scope: u8,
    /// Why its port cannot be in its broadcast group, and its link stays down.
    pub misfit: Option<Misfit>,
    tun: bool,
    linux: Option<LinuxSide>,
    /// Which of the scenario's hosts it is, from 0.
    number: u16,
    seed: u64,
}

/// Whether the host of this number, from 0, is in the group of a trouble's background traffic all the time.
pub const fn listens(number: usize) -> bool {
    number % 2 == 1
}

impl Deref for HostRun {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl HostRun {
    /// The host of `scenario` that `spec` describes.
    pub fn new(scenario: &Scenario, spec: &HostSpec, number: u16, host: Arc<Host>, seed: u64) -> Self {
        Self {
            host,
            addresses: spec.addresses.get_ref().iter().map(|cidr| cidr.0).collect(),
            ip: None,
            cuts_large_sends: spec.offloads,
            senders: spec
                .conf
                .get("ibd_tx_rings")
                .map_or(1, |rings| usize::try_from(*rings).unwrap_or(1).max(1)),
            connected: spec.is_connected(),
            takes_connections: spec.takes_connections(),
            subnet: *spec.subnet.get_ref(),
            reach: scenario.link_of(spec),
            scope: scenario.group_scope(spec),
            misfit: scenario.misfit(spec),
            tun: spec.tun,
            linux: None,
            number,
            seed,
        }
    }

    /// Its adapter is in its place, and its port can be in its broadcast group.
    pub fn is_present(&self) -> bool {
        !self.is_pulled() && self.misfit.is_none()
    }

    /// Makes the link, as far as that was not done before, and opens it.
    pub fn attach(&mut self) -> Result<()> {
        self.make_link()?;
        self.open_link()
    }

    /// Opens the link, which starts the driver. Nothing to do if it is open.
    pub fn open_link(&mut self) -> Result<()> {
        if self.ip.is_some() {
            return Ok(());
        }
        if self.tun { self.open_tun() } else { self.open_stack() }
    }

    /// Does it listen to the group of the background traffic, or only talk to it?
    pub const fn listens(&self) -> bool {
        listens(self.number as usize)
    }

    /// Closes the link, which stops the driver. Nothing to do if it is closed.
    pub fn close_link(&mut self) {
        self.linux = None;
        if let Some(ip) = self.ip.take() {
            ip.close();
        }
    }

    /// Puts the adapter back; see [`Host::plug_adapter`]. The link is closed then.
    pub fn plug_adapter(&mut self, infiniband: &InfiniBand) -> Result<()> {
        if self.is_pulled() {
            self.close_link();
        }
        self.host.plug_adapter(infiniband)
    }

    /// Is the link open?
    pub const fn is_open(&self) -> bool {
        self.ip.is_some()
    }

    fn open_stack(&mut self) -> Result<()> {
        let (addresses, seed, number) = (self.addresses.clone(), self.seed, self.number);
        self.open(move |info| Box::new(Stack::new(info, addresses, seed).of_host(number)))
    }

    fn open_tun(&mut self) -> Result<()> {
        let machine = self.kernel.machine().clone();
        let mut linux = LinuxSide::create(&self.name, &self.addresses, DEFAULT_SDU, &machine)?;
        let (sender, receiver) = mpsc::channel();
        let (tun, addresses) = (linux.tun.clone(), self.addresses.clone());
        self.open(move |info| Box::new(TunBridge::new(info, addresses, tun, receiver)))?;
        linux.read(sender, self.ip()?.waker());
        self.linux = Some(linux);
        Ok(())
    }

    fn open(&mut self, upper: impl FnOnce(LinkInfo) -> Box<dyn Upper>) -> Result<()> {
        let ip = IpThread::open(&self.kernel, &self.link(), upper);
        self.ip = Some(ip.map_err(|errno| anyhow!("open {}: {errno}", self.link()))?);
        Ok(())
    }

    /// The link is up: the TUN device, if there is one, gets its MTU and offloads.
    pub fn link_is_up(&self) -> Result<()> {
        self.linux.as_ref().map_or(Ok(()), LinuxSide::follow)
    }

    /// The namespace of Linux's programs; there between attach and unload of a host with a TUN device.
    pub fn namespace(&self) -> Result<&Namespace> {
        let linux = self.linux.as_ref().ok_or_else(|| anyhow!("{} has no TUN device yet", self.name))?;
        Ok(&linux.namespace)
    }

    /// The IP layer; there between attach and unload.
    pub fn ip(&self) -> Result<&IpThread> {
        self.ip
            .as_ref()
            .ok_or_else(|| anyhow!("{} has no open link: the scenario needs `attach` before this", self.name))
    }

    /// Counters and console of the host, as far as they can be had now.
    pub fn examine(&self) -> Value {
        let console: Vec<String> = self
            .kernel
            .genunix()
            .messages()
            .iter()
            .map(|message| format!("{} {}", message.at, message.text))
            .collect();
        json!({
            "statistics": self.statistics().map(|statistics| format!("{statistics:?}")).unwrap_or_else(|e| e.to_string()),
            "ip": self.ip.as_ref().map(|ip| format!("{:?}", ip.counters())),
            "refused_groups": self.ip.as_ref().map(|ip| format!("{:?}", ip.refused_groups())),
            "neighbours": self.ip.as_ref().map(|ip| ip.with_upper(|upper| format!("{:?}", upper.link().neighbours()))),
            "console": console,
        })
    }

    /// The address to send from, to one that it has a route to.
    pub fn source_for(&self, to: IpAddr) -> Result<IpAddr> {
        let of_family =
            || self.addresses.iter().filter(|cidr| IpAddr::from(cidr.address()).is_ipv4() == to.is_ipv4());
        let first = of_family().next();
        let Some(first) = first else {
            return Err(anyhow!("{} has no address of the family of {to}", self.name));
        };
        if !is_on_link(to, &self.addresses) {
            return Err(anyhow!("{} has no route to {to}: the network is unreachable", self.name));
        }
        let subnet = of_family().find(|cidr| cidr.contains_addr(&to.into()));
        Ok(subnet.unwrap_or(first).address().into())
    }

    /// The first of its addresses that `peer` has a route to, and that has one back.
    pub fn address_for(&self, peer: &Self) -> Option<IpAddr> {
        let mut own = self.addresses.iter().map(|cidr| IpAddr::from(cidr.address()));
        own.find(|own| peer.source_for(*own).is_ok_and(|back| self.source_for(back).is_ok()))
    }

    /// Closes the link and unloads driver and plugin; see [`Host::unload`].
    pub fn unload(&mut self) -> Result<()> {
        self.close_link();
        self.host.unload()
    }

    /// Closes the link and deletes its partition. Nothing to do if there is none.
    pub fn delete_partition(&mut self) -> Result<()> {
        self.close_link();
        self.host.delete_partition()
    }
}
