//! One host while a scenario runs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::{Context, Result, anyhow};
use fabric::HcaConfig;
use fakekernel::genunix::KstatValue;
use fakekernel::{Errno, Kernel, Module, Nanos};
use lab_gldv3::{LinkState, MacStatistics, PropertyId, PropertyValue};
use lab_ibtf::{InfiniBand, nexus};
use lab_ip::layer::LinkInfo;
use lab_ip::stack::Stack;
use serde_json::{Value, json};
use smoltcp::wire::IpCidr;

use crate::host::{IpThread, LinuxSide, TunBridge, Upper};
use crate::linux::Namespace;
use crate::scenario::{Driver, HostSpec};

/// The link of the port instance that partitions are made on.
const PORT_LINK: &str = "ibp0";
/// How long a subnet manager may take to bring a port up.
const PORT_PATIENCE: Nanos = Nanos::from_secs(10);
/// How long a driver may answer busy when it is to go: a call to the SA takes up to 240 s when the port goes down under it.
const BUSY_PATIENCE: Nanos = Nanos::from_secs(300);
/// Largest IP packet until the link says better.
const DEFAULT_SDU: usize = 2044;

/// See the module's documentation.
pub struct HostRun {
    pub name: String,
    pub kernel: Kernel,
    /// GUID of the adapter's port.
    pub port: fabric::Guid,
    driver: Driver,
    pub pkey: u16,
    pub addresses: Vec<IpCidr>,
    properties: Vec<(PropertyId, PropertyValue)>,
    object: PathBuf,
    module: Option<Module>,
    /// The driver has its instance, of this number.
    attached: bool,
    instance: u32,
    /// The driver has its partition; `ibp` only.
    partitioned: bool,
    /// The link has its properties.
    configured: bool,
    ip: Option<IpThread>,
    /// Its adapter computes checksums and cuts large sends.
    pub cuts_large_sends: bool,
    /// Queue pairs that its link sends from.
    pub senders: usize,
    /// The adapter while it is pulled.
    pulled: Option<HcaConfig>,
    tun: bool,
    linux: Option<LinuxSide>,
    /// Which of the scenario's hosts it is, from 0.
    number: u16,
    seed: u64,
}

impl HostRun {
    pub fn new(
        spec: &HostSpec,
        number: u16,
        kernel: Kernel,
        port: fabric::Guid,
        object: PathBuf,
        seed: u64,
    ) -> Self {
        Self {
            name: spec.name.get_ref().clone(),
            kernel,
            port,
            driver: spec.driver,
            pkey: *spec.pkey.get_ref(),
            addresses: spec.addresses.get_ref().iter().map(|cidr| cidr.0).collect(),
            properties: spec
                .properties
                .iter()
                .filter_map(|(name, text)| text.get_ref().property(name).ok())
                .collect(),
            object,
            module: None,
            attached: false,
            instance: 0,
            partitioned: false,
            configured: false,
            ip: None,
            cuts_large_sends: spec.offloads,
            senders: spec
                .conf
                .get("ibd_tx_rings")
                .map_or(1, |rings| usize::try_from(*rings).unwrap_or(1).max(1)),
            pulled: None,
            tun: spec.tun,
            linux: None,
            number,
            seed,
        }
    }

    pub fn driver_name(&self) -> &'static str {
        self.driver.name()
    }

    /// Name of the host's link: `ibd0` (the partition's instance), or the partition's as an administrator would call it.
    pub fn link(&self) -> String {
        match self.driver {
            Driver::Ibd => format!("ibd{}", self.instance),
            Driver::Ibp => format!("p{:04X}.ibp0", self.pkey),
        }
    }

    /// Loads the driver, attaches its instance, makes the partition if the driver wants one, and opens the link. What was
    /// done before, by an attempt that failed later, is not done again.
    pub fn attach(&mut self) -> Result<()> {
        self.make_link()?;
        self.open_link()
    }

    /// The same, but the link stays closed. It has its properties, as one that dladm knows has from the moment it is there.
    pub fn make_link(&mut self) -> Result<()> {
        self.install()?;
        self.attach_instance()?;
        if self.driver == Driver::Ibp && !self.partitioned {
            self.create_partition()?;
            self.partitioned = true;
        }
        if !self.configured {
            self.set_properties()?;
            self.configured = true;
        }
        Ok(())
    }

    fn install(&mut self) -> Result<()> {
        if self.module.is_some() {
            return Ok(());
        }
        let name = self.driver.name();
        let module = self.kernel.load(&self.object, name, "drv").context("loading the driver")?;
        module.install().map_err(|errno| anyhow!("{name} _init: {errno}"))?;
        self.module = Some(module);
        Ok(())
    }

    fn attach_instance(&mut self) -> Result<()> {
        let Some(module) = self.module.as_ref().filter(|_| !self.attached) else { return Ok(()) };
        let pkey = (self.driver == Driver::Ibd).then_some(fabric::PKey(self.pkey));
        let node = self.node(pkey).ok_or_else(|| {
            anyhow!("the nexus has no node for {} on this port: does it have its cable?", self.driver.name())
        })?;
        self.instance = node.device.instance();
        nexus::attach(&self.kernel, module, &node)
            .map_err(|errno| anyhow!("attach {}: {errno}", node.path()))?;
        self.attached = true;
        Ok(())
    }

    /// The nexus makes a partition's node for whoever looks once the subnet manager has put the P_Key into the table of the port,
    /// and the port is up.
    fn node(&self, pkey: Option<fabric::PKey>) -> Option<nexus::PortNode> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + PORT_PATIENCE;
        loop {
            let node = nexus::open(&self.kernel, self.port, self.driver.service(), pkey);
            if node.is_some() || machine.now() >= deadline {
                return node;
            }
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Is there an instance, and for `ibp` a partition, whose link can be opened?
    pub fn has_link(&self) -> bool {
        self.attached && (self.driver == Driver::Ibd || self.partitioned)
    }

    /// Opens the link, which starts the driver. Nothing to do if it is open.
    pub fn open_link(&mut self) -> Result<()> {
        if self.ip.is_some() {
            return Ok(());
        }
        if self.tun { self.open_tun() } else { self.open_stack() }
    }

    /// Closes the link, which stops the driver. Nothing to do if it is closed.
    pub fn close_link(&mut self) {
        self.linux = None;
        if let Some(ip) = self.ip.take() {
            ip.close();
        }
    }

    /// Pulls the adapter. Nothing to do if it is pulled.
    pub fn pull_adapter(&mut self, infiniband: &InfiniBand) -> Result<()> {
        let node = self.adapter();
        let Some(hca) = infiniband.fabric().hca(node).filter(|_| self.pulled.is_none()) else {
            return Ok(());
        };
        self.pulled = Some(hca.config().clone());
        infiniband.remove_hca(&self.kernel, node)?;
        Ok(())
    }

    /// Puts the adapter back, which takes the driver's instance for the one that is gone away first. Nothing to do if it was
    /// not pulled.
    pub fn plug_adapter(&mut self, infiniband: &InfiniBand) -> Result<()> {
        if self.pulled.is_some() {
            self.unload()?;
        }
        let Some(config) = self.pulled.take() else { return Ok(()) };
        infiniband.add_hca(&self.kernel, config).context("putting the adapter back")?;
        Ok(())
    }

    pub const fn is_pulled(&self) -> bool {
        self.pulled.is_some()
    }

    /// Is the link open?
    pub const fn is_open(&self) -> bool {
        self.ip.is_some()
    }

    /// The partition of its link: the P_Key without the membership bit.
    pub const fn partition(&self) -> u16 {
        self.pkey & 0x7fff
    }

    /// Node GUID of the adapter.
    pub const fn adapter(&self) -> fabric::Guid {
        fabric::Guid(self.port.0 - 1)
    }

    /// As an administrator does it: once the port is up.
    fn create_partition(&self) -> Result<()> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + PORT_PATIENCE;
        while !self.port_is_up() && machine.now() < deadline {
            fakekernel::sleep(Nanos::from_millis(10));
        }
        lab_gldv3::create_partition(&self.kernel, PORT_LINK, self.pkey, &self.link(), false)
            .with_context(|| format!("dladm create-part {}", self.link()))
    }

    /// Sets the link's properties, as an administrator would before opening it.
    pub fn set_properties(&self) -> Result<()> {
        let link = self.link();
        self.properties.iter().try_for_each(|(id, value)| {
            lab_gldv3::set_property(&self.kernel, &link, id, value)
                .map_err(|errno| anyhow!("dladm set-linkprop {id:?}={value:?} {link}: {errno}"))
        })
    }

    fn port_is_up(&self) -> bool {
        lab_gldv3::links(&self.kernel)
            .iter()
            .any(|link| link.name == PORT_LINK && link.state == LinkState::Up)
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
        let info = self.ip()?.with_upper(|upper| upper.link().info());
        self.linux.as_ref().map_or(Ok(()), |linux| linux.follow(info))
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

    pub fn statistics(&self) -> Result<MacStatistics> {
        lab_gldv3::mac_statistics(&self.kernel, &self.link())
            .map_err(|errno| anyhow!("statistics of {} on {}: {errno}", self.link(), self.name))
    }

    /// A counter of the driver's kstat; `None` if it has no such counter.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Packets that the driver has dropped so far, either way. Its own multicasts, which come back, are none.
    pub fn drops(&self) -> u64 {
        let is_drop = |name: &str| name.contains("_drop_") && name != "rx_drop_own_multicast";
        self.counters().into_iter().filter(|(name, _)| is_drop(name)).map(|(_, count)| count).sum()
    }

    /// The counters of the driver's kstat; none if it has none.
    fn counters(&self) -> Vec<(String, u64)> {
        let ids = self.kernel.kstats();
        let id = ids.iter().find(|id| id.name == "datagram");
        let values = id.and_then(|id| self.kernel.scope(|| self.kernel.read_kstat(id)).ok());
        let number = |(name, value)| match value {
            KstatValue::U64(value) => Some((name, value)),
            _ => None,
        };
        values.into_iter().flatten().filter_map(number).collect()
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

    /// The host's address of the family of `like`.
    pub fn source_for(&self, like: IpAddr) -> Result<IpAddr> {
        self.addresses
            .iter()
            .map(|cidr| IpAddr::from(cidr.address()))
            .find(|own| own.is_ipv4() == like.is_ipv4())
            .ok_or_else(|| anyhow!("{} has no address of the family of {like}", self.name))
    }

    /// The first of its addresses that `peer` has a family for.
    pub fn address_for(&self, peer: &Self) -> Option<IpAddr> {
        let addresses =
            |host: &Self| host.addresses.iter().map(|cidr| IpAddr::from(cidr.address())).collect();
        let (own, others): (Vec<IpAddr>, Vec<IpAddr>) = (addresses(self), addresses(peer));
        own.into_iter().find(|own| others.iter().any(|other| other.is_ipv4() == own.is_ipv4()))
    }

    /// Closes the link and unloads driver and plugin, waiting while they answer busy. Nothing to do if that was done before.
    pub fn unload(&mut self) -> Result<()> {
        self.close_link();
        let Some(module) = self.module.clone() else { return Ok(()) };
        self.delete_partition()?;
        self.unload_module(&module)?;
        (self.module, self.attached, self.configured) = (None, false, false);
        self.kernel.module("mac_ib").map_or(Ok(()), |plugin| self.unload_module(&plugin))
    }

    /// Closes the link and deletes its partition. Nothing to do if there is none.
    pub fn delete_partition(&mut self) -> Result<()> {
        self.close_link();
        if !self.partitioned {
            return Ok(());
        }
        self.while_busy(|| {
            lab_gldv3::delete_partition(&self.kernel, &self.link()).map_err(|error| error.errno)
        })
        .map_err(|errno| anyhow!("dladm delete-part {}: {errno}", self.link()))?;
        (self.partitioned, self.configured) = (false, false);
        Ok(())
    }

    fn unload_module(&self, module: &Module) -> Result<()> {
        self.while_busy(|| module.unload()).map_err(|errno| anyhow!("unloading {}: {errno}", module.name()))
    }

    /// EBUSY is an honest answer while a call to the SA or a lent buffer is out, ENOMEM while there is no memory; neither must
    /// be the last one.
    fn while_busy(&self, mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + BUSY_PATIENCE;
        loop {
            match attempt() {
                Err(Errno::EBUSY | Errno::ENOMEM) if machine.now() < deadline => {
                    fakekernel::sleep(Nanos::from_millis(100));
                }
                other => return other,
            }
        }
    }
}
