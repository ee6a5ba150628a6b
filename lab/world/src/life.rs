//! From an adapter to a link, and back.

use anyhow::{Context, Result, anyhow, bail};
use fabric::{Guid, PKey};
use fakekernel::genunix::DevInfo;
use fakekernel::{Errno, Module, Nanos};
use lab_gldv3::LinkState;
use lab_ibtf::{InfiniBand, nexus};

use super::host::LOOK;
use super::{Driver, Host};

/// How long a subnet manager may take to bring a port up.
const PORT_PATIENCE: Nanos = Nanos::from_secs(10);
/// How long a driver may answer busy when it is to go: a call to the SA takes up to 240 s when the port goes down under it.
const BUSY_PATIENCE: Nanos = Nanos::from_secs(300);
/// How often it is asked.
const BUSY_PAUSE: Nanos = Nanos::from_millis(100);
/// The plugin, which the driver brings with it.
const PLUGIN: &str = "mac_ib";

impl Host {
    /// Loads the driver, attaches its instance, makes the partition if the driver wants one, and sets the link's properties, as dladm does
    /// from the moment a link is there. The link stays closed. What was done before, by an attempt that failed later, is not done again.
    ///
    /// # Errors
    ///
    /// What could not be done.
    pub fn make_link(&self) -> Result<()> {
        self.install()?;
        self.attach()?;
        self.make_partition()?;
        if !self.life.lock().configured {
            self.set_properties()?;
            self.life.lock().configured = true;
        }
        Ok(())
    }

    /// Loads the driver and has it initialise itself. Nothing to do if that was done.
    ///
    /// # Errors
    ///
    /// An object that cannot be loaded, or the driver's own refusal.
    pub fn install(&self) -> Result<Module> {
        if let Some(module) = self.life.lock().module.clone() {
            return Ok(module);
        }
        let name = self.driver_name();
        let module = self.kernel.load(&self.plan.object, name, "drv").context("loading the driver")?;
        module.install().map_err(|errno| anyhow!("{name} _init: {errno}"))?;
        self.life.lock().module = Some(module.clone());
        Ok(module)
    }

    /// Attaches the instance of the link to the installed driver.
    fn attach(&self) -> Result<()> {
        if self.life.lock().attached.is_some() {
            return Ok(());
        }
        let found = |instance| self.life.lock().instance = instance;
        let device = self.attach_node(self.port, PKey(self.pkey), found)?;
        self.life.lock().attached = Some(device);
        Ok(())
    }

    /// Has another node of the nexus driven: that of a port, or for `ibd` of a P_Key of a port.
    ///
    /// # Errors
    ///
    /// There is no such node, or the driver refuses it.
    pub fn attach_another(&self, port: Guid, pkey: PKey) -> Result<()> {
        self.attach_node(port, pkey, |_| ()).map(drop)
    }

    fn attach_node(&self, port: Guid, pkey: PKey, found: impl FnOnce(u32)) -> Result<DevInfo> {
        let module = self.install()?;
        let pkey = (self.driver() == Driver::Ibd).then_some(pkey);
        let node = self.node(port, pkey).ok_or_else(|| {
            anyhow!("the nexus has no node for {} on this port: does it have its cable?", self.driver_name())
        })?;
        found(node.device.instance());
        nexus::attach(&self.kernel, &module, &node)
            .map_err(|errno| anyhow!("attach {}: {errno}", node.path()))?;
        Ok(node.device)
    }

    /// The nexus makes a partition's node for whoever looks once the subnet manager has put the P_Key into the table of the port,
    /// and the port is up.
    fn node(&self, port: Guid, pkey: Option<PKey>) -> Option<nexus::PortNode> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + PORT_PATIENCE;
        loop {
            let node = nexus::open(&self.kernel, port, self.driver().service(), pkey);
            if node.is_some() || machine.now() >= deadline {
                return node;
            }
            fakekernel::sleep(LOOK);
        }
    }

    /// Attaches every node that the nexus has for the driver, as a system that boots does: ports for `ibp`, the P_Keys of ports for `ibd`,
    /// which are there once a port is up.
    ///
    /// # Errors
    ///
    /// The driver refuses one.
    pub fn attach_all(&self) -> Result<()> {
        let module = self.install()?;
        let mine = || {
            let mut nodes = nexus::nodes(&self.kernel);
            nodes.retain(|node| node.device.driver() == self.driver_name());
            nodes
        };
        nexus::look(&self.kernel);
        let machine = self.kernel.machine();
        let deadline = machine.now() + PORT_PATIENCE;
        while mine().is_empty() && machine.now() < deadline {
            fakekernel::sleep(LOOK);
            nexus::look(&self.kernel);
        }
        for node in mine().iter().filter(|node| !node.device.is_attached()) {
            nexus::attach(&self.kernel, &module, node)
                .map_err(|errno| anyhow!("attach {}: {errno}", node.path()))?;
        }
        Ok(())
    }

    /// Makes the partition, if the driver is one whose links are made. Nothing to do if it is there.
    fn make_partition(&self) -> Result<()> {
        if self.driver() == Driver::Ibd || self.life.lock().partitioned {
            return Ok(());
        }
        if !self.plan.forced {
            // One that stays down is refused below.
            self.wait_for(PORT_PATIENCE, || self.state_of(&self.port_link()) == Some(LinkState::Up));
        }
        lab_gldv3::create_partition(
            &self.kernel,
            &self.port_link(),
            self.pkey,
            &self.link(),
            self.plan.forced,
        )
        .with_context(|| format!("dladm create-part {}", self.link()))?;
        self.life.lock().partitioned = true;
        Ok(())
    }

    fn set_properties(&self) -> Result<()> {
        let link = self.link();
        self.plan.properties.iter().try_for_each(|(id, value)| {
            lab_gldv3::set_property(&self.kernel, &link, id, value)
                .map_err(|errno| anyhow!("dladm set-linkprop {id:?}={value:?} {link}: {errno}"))
        })
    }

    /// One attempt to suspend the link's instance, as a system does that is about to be suspended.
    ///
    /// # Errors
    ///
    /// What the driver answers; ENXIO if it has no instance.
    pub fn suspend(&self) -> Result<(), Errno> {
        let (module, device) = self.driven().map_err(|_| Errno::ENXIO)?;
        self.kernel.suspend(&module, &device)
    }

    /// It is resumed.
    ///
    /// # Errors
    ///
    /// As for [`Host::suspend`].
    pub fn resume(&self) -> Result<(), Errno> {
        let (module, device) = self.driven().map_err(|_| Errno::ENXIO)?;
        self.kernel.resume(&module, &device)
    }

    /// Pulls the adapter. Nothing to do if it is pulled.
    ///
    /// # Errors
    ///
    /// What the framework answers.
    pub fn pull_adapter(&self, infiniband: &InfiniBand) -> Result<()> {
        let node = self.adapter();
        let Some(hca) = infiniband.fabric().hca(node).filter(|_| !self.is_pulled()) else {
            return Ok(());
        };
        self.life.lock().pulled = Some(hca.config().clone());
        infiniband.remove_hca(&self.kernel, node)?;
        Ok(())
    }

    /// One attempt to have the adapter's driver detached under the link, for who wants to see it refused; see [`InfiniBand::detach_hca`]. If it is
    /// not refused, the adapter is pulled. Nothing to do if it is.
    ///
    /// # Errors
    ///
    /// Who keeps the adapter.
    pub fn try_detach_adapter(&self, infiniband: &InfiniBand, kept: bool) -> Result<()> {
        let node = self.adapter();
        let Some(hca) = infiniband.fabric().hca(node).filter(|_| !self.is_pulled()) else {
            return Ok(());
        };
        let config = hca.config().clone();
        infiniband.detach_hca(&self.kernel, node, kept)?;
        self.life.lock().pulled = Some(config);
        Ok(())
    }

    /// The GUID that the adapter's first port claims from when it is put back on; `None`: its own. Does nothing to one that is in its place.
    pub fn flash(&self, claims: Option<Guid>) {
        if let Some(config) = &mut self.life.lock().pulled {
            config.ports[0].claims = claims;
        }
    }

    /// Whether the adapter's first port claims another one's GUID.
    pub fn is_flashed(&self, infiniband: &InfiniBand) -> bool {
        let in_place = infiniband.fabric().hca(self.adapter()).map(|hca| hca.config().clone());
        let config = self.life.lock().pulled.clone().or(in_place);
        config.is_some_and(|config| config.ports[0].claims.is_some())
    }

    /// Puts the adapter back, which takes the driver's instance for the one that is gone away first. Nothing to do if it was not pulled.
    ///
    /// # Errors
    ///
    /// What would not go, or the fabric's refusal.
    pub fn plug_adapter(&self, infiniband: &InfiniBand) -> Result<()> {
        if self.is_pulled() {
            self.unload()?;
        }
        let Some(config) = self.life.lock().pulled.take() else { return Ok(()) };
        infiniband.add_hca(&self.kernel, config).context("putting the adapter back")?;
        Ok(())
    }

    /// One attempt to delete the partition, which somebody else may have deleted already. Nothing to do if there is none.
    ///
    /// # Errors
    ///
    /// What dladm is told.
    pub fn try_delete_partition(&self) -> Result<(), Errno> {
        if !self.life.lock().partitioned {
            return Ok(());
        }
        if self.state().is_some() {
            lab_gldv3::delete_partition(&self.kernel, &self.link()).map_err(|error| error.errno)?;
        }
        let mut life = self.life.lock();
        (life.partitioned, life.configured) = (false, false);
        Ok(())
    }

    /// Deletes the partition, waiting while it is busy. Its link is closed. Nothing to do if there is none.
    ///
    /// # Errors
    ///
    /// It stays busy, or something else is in the way.
    pub fn delete_partition(&self) -> Result<()> {
        self.while_busy(|| self.try_delete_partition())
            .map_err(|errno| anyhow!("dladm delete-part {}: {errno}", self.link()))
    }

    /// One attempt to unload the driver, for who wants to see it refused.
    ///
    /// # Errors
    ///
    /// What modunload is told; ENOENT if it is not loaded.
    pub fn try_unload(&self) -> Result<(), Errno> {
        let module = self.life.lock().module.clone();
        module.ok_or(Errno::ENOENT)?.unload()
    }

    /// Deletes all partitions of the host and unloads drivers and plugin, waiting while they answer busy. All links are closed. Nothing to
    /// do if that was done before.
    ///
    /// # Errors
    ///
    /// What would not go.
    pub fn unload(&self) -> Result<()> {
        let Some(module) = self.life.lock().module.clone() else { return Ok(()) };
        self.delete_partition()?;
        if self.software.is_some() {
            return self.detach_own(&module);
        }
        for link in lab_gldv3::links(&self.kernel).iter().filter(|link| link.partition) {
            let delete =
                || lab_gldv3::delete_partition(&self.kernel, &link.name).map_err(|error| error.errno);
            self.while_busy(delete).map_err(|errno| anyhow!("dladm delete-part {}: {errno}", link.name))?;
        }
        self.unload_module(&module)?;
        let mut life = self.life.lock();
        (life.module, life.attached, life.configured) = (None, None, false);
        drop(life);
        let others = Driver::ALL.into_iter().map(Driver::name).filter(|name| *name != self.driver_name());
        for module in others.chain([PLUGIN]).filter_map(|name| self.kernel.module(name)) {
            self.unload_module(&module)?;
        }
        Ok(())
    }

    /// The driver goes from the host's own node and stays for the other hosts of its kernel, until [`Software::unload`](super::Software).
    fn detach_own(&self, module: &Module) -> Result<()> {
        let attached = self.life.lock().attached.clone();
        if let Some(device) = attached {
            let detach = || self.kernel.detach(module, &device);
            self.while_busy(detach).map_err(|errno| anyhow!("detaching {}: {errno}", self.driver_name()))?;
        }
        let mut life = self.life.lock();
        (life.module, life.attached, life.configured) = (None, None, false);
        Ok(())
    }

    fn unload_module(&self, module: &Module) -> Result<()> {
        self.while_busy(|| module.unload()).map_err(|errno| anyhow!("unloading {}: {errno}", module.name()))
    }

    /// Nothing of drivers and plugin is left in the kernel, nor what `ibcm` never forgets.
    ///
    /// # Errors
    ///
    /// What is left, by module.
    pub fn check_nothing_is_left(&self) -> Result<()> {
        let stranded = lab_ibtf::connected(&self.kernel).stranded;
        if stranded != 0 {
            bail!(
                "{}: {stranded} opens were given up before their turn, which ibcm never forgets",
                self.name
            );
        }
        if self.software.is_some() {
            // Others of the kernel may have what is there.
            return Ok(());
        }
        let joins = lab_ibtf::joins(&self.kernel);
        if let Some(((group, port), count)) = joins.first() {
            let more = joins.len() - 1;
            bail!(
                "{}: ibcm counts {count} joins of port {port:016x} in {group} that no leave undoes any more, and of {more} other groups",
                self.name
            );
        }
        for module in Driver::ALL.into_iter().map(Driver::name).chain([PLUGIN]) {
            let left = self.kernel.resources().of(module, None);
            if !left.is_empty() {
                bail!("{}: {module} left {left:?}", self.name);
            }
        }
        Ok(())
    }

    /// EBUSY is an honest answer while a call to the SA or a lent buffer is out, ENOMEM while there is no memory; neither must
    /// be the last one.
    fn while_busy(&self, mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + BUSY_PATIENCE;
        loop {
            match attempt() {
                Err(Errno::EBUSY | Errno::ENOMEM) if machine.now() < deadline => {
                    fakekernel::sleep(BUSY_PAUSE);
                }
                other => return other,
            }
        }
    }
}
