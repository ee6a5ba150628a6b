//! The fabric with its hosts.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fakekernel::{Kernel, Machine};
use lab_ibtf::{InfiniBand, nexus};

use super::software::Manager;
use super::{Driver, Host, Plan, Software, SoftwarePlan};

/// A machine, the fabric on it, and the hosts at the fabric. Whoever makes it starts the subnet manager that it wants, on
/// [`World::infiniband`].
pub struct World {
    /// What hosts and fabric run on.
    pub machine: Machine,
    /// The fabric, and what manages it.
    pub infiniband: InfiniBand,
    /// In the order in which they came.
    pub hosts: Vec<Arc<Host>>,
    /// The adapter that all hosts have a port of, if that is a module.
    pub software: Option<Arc<Software>>,
}

impl World {
    /// A fabric without hosts and without a subnet manager. The seed decides what the fabric's faults leave to chance.
    pub fn new(machine: &Machine, seed: u64) -> Self {
        let infiniband = InfiniBand::new(machine, seed);
        Self { machine: machine.clone(), infiniband, hosts: Vec::new(), software: None }
    }

    /// Boots the kernel that all hosts are links of, on the ports of an adapter that is a module. Its subnet manager is the fabric's.
    ///
    /// # Errors
    ///
    /// An object that does not load, or the driver's refusal.
    pub fn boot_software(&mut self, plan: &SoftwarePlan) -> Result<Arc<Software>> {
        let software = Arc::new(Software::boot(&self.machine, plan)?);
        self.infiniband.supervise(&software.kernel, Arc::new(Manager(software.clone())));
        self.software = Some(software.clone());
        Ok(software)
    }

    /// Adds a host on the next free port of that adapter; see [`Host::on_port`].
    ///
    /// # Errors
    ///
    /// There is no such adapter, or all its ports have a host.
    pub fn add_link(&mut self, plan: Plan) -> Result<Arc<Host>> {
        let software =
            self.software.as_ref().ok_or_else(|| anyhow!("there is no adapter that is a module"))?;
        let host = Arc::new(Host::on_port(software, plan)?);
        self.hosts.push(host.clone());
        Ok(host)
    }

    /// Boots another host: the frameworks of its kernel, the driver's configuration, the adapter in its place. No module is loaded.
    /// On a thread of the machine.
    ///
    /// # Errors
    ///
    /// A GUID that the fabric has already.
    pub fn add_host(&mut self, plan: Plan) -> Result<Arc<Host>> {
        let host = Arc::new(Host::boot(&self.machine, &self.infiniband, plan)?);
        self.hosts.push(host.clone());
        Ok(host)
    }
}

impl Host {
    /// As [`World::add_host`], on a fabric that is there.
    ///
    /// # Errors
    ///
    /// A GUID that the fabric has already.
    pub fn boot(machine: &Machine, infiniband: &InfiniBand, plan: Plan) -> Result<Self> {
        let kernel = machine.add_host(&plan.name);
        provide(&kernel, &plan.plugin);
        kernel.configure_driver(plan.driver.name(), plan.conf.clone());
        if plan.driver == Driver::Ibd {
            nexus::use_ibd(&kernel);
        }
        let adapter = plan.adapter.clone();
        infiniband
            .add_hca(&kernel, adapter)
            .map_err(|error| anyhow!("{}: the adapter: {error}", plan.name))?;
        Ok(Self::new(kernel, plan))
    }

    /// A host that is a link on the next free port of an adapter that is a module. All hosts of its kernel have one configuration file for
    /// a driver; of the plan's adapter nothing counts.
    ///
    /// # Errors
    ///
    /// All ports have a host.
    pub fn on_port(software: &Arc<Software>, plan: Plan) -> Result<Self> {
        let number = software.take_port()?;
        let kernel = software.kernel.clone();
        kernel.configure_driver(plan.driver.name(), plan.conf.clone());
        if plan.driver == Driver::Ibd {
            nexus::use_ibd(&kernel);
        }
        let port = software.port(number);
        Ok(Self { port, software: Some(software.clone()), ..Self::new(kernel, plan) })
    }
}

/// Gives a kernel the frameworks that the driver links with, and the object of the plugin, which is loaded with the driver.
pub fn provide(kernel: &Kernel, plugin: &Path) {
    lab_gldv3::provide(kernel);
    lab_ibtf::provide(kernel);
    kernel.add_object("mac/mac_ib", plugin);
}
