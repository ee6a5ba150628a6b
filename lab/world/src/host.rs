//! A host, and what can be asked about it.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use fabric::{Guid, HcaConfig};
use fakekernel::genunix::{DevInfo, KstatValue};
use fakekernel::{HostMutex, Kernel, Module, Nanos};
use lab_gldv3::{LinkState, MacStatistics};

use super::{Driver, Plan, Software};

/// How often a state of the host is looked at by who waits for it.
pub(crate) const LOOK: Nanos = Nanos::from_millis(10);

/// A host with its adapter. How far its driver and link have come is kept here, so that each part of its life is done once, and can be
/// undone by whoever has the host. Calls that begin or end something are for one thread at a time, a thread of the machine.
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: Kernel,
    /// GUID of the adapter's first port.
    pub port: Guid,
    /// The P_Key of its link.
    pub pkey: u16,
    /// The adapter that is a module, and whose other ports are other hosts' of the same kernel.
    pub(crate) software: Option<Arc<Software>>,
    pub(crate) plan: Plan,
    pub(crate) life: HostMutex<Life>,
}

/// How far it has come.
#[derive(Default)]
pub(crate) struct Life {
    /// The driver, installed.
    pub(crate) module: Option<Module>,
    /// The node of the link's instance, while the driver has it.
    pub(crate) attached: Option<DevInfo>,
    /// The number of that instance, now or when there was one last.
    pub(crate) instance: u32,
    /// The driver has its partition; `ibp` only.
    pub(crate) partitioned: bool,
    /// The link has its properties.
    pub(crate) configured: bool,
    /// The adapter while it is pulled.
    pub(crate) pulled: Option<HcaConfig>,
}

impl Host {
    pub(crate) fn new(kernel: Kernel, plan: Plan) -> Self {
        Self {
            name: plan.name.clone(),
            kernel,
            port: plan.adapter.ports[0].guid,
            pkey: plan.pkey.0,
            software: None,
            plan,
            life: HostMutex::default(),
        }
    }

    /// Which of the two drivers it has.
    pub fn driver(&self) -> Driver {
        self.plan.driver
    }

    /// Name of its driver.
    pub fn driver_name(&self) -> &'static str {
        self.plan.driver.name()
    }

    /// Name of the host's link: `ibd0` (the partition's instance), or the partition's as an administrator would call it.
    pub fn link(&self) -> String {
        match (self.plan.driver, &self.plan.partition) {
            (Driver::Ibd, _) => format!("ibd{}", self.life.lock().instance),
            (Driver::Ibp, Some(name)) => name.clone(),
            (Driver::Ibp, None) => format!("p{:04X}.{}", self.pkey, self.port_link()),
        }
    }

    /// The link of `ibp`'s port, which its partition is made on.
    pub fn port_link(&self) -> String {
        format!("ibp{}", self.life.lock().instance)
    }

    /// The partition of its link: the P_Key without the membership bit.
    pub const fn partition(&self) -> u16 {
        self.pkey & 0x7fff
    }

    /// Node GUID of the adapter.
    pub fn adapter(&self) -> Guid {
        self.software.as_ref().map_or(self.plan.adapter.guid, |software| software.guid())
    }

    /// Is the adapter out of its place?
    pub fn is_pulled(&self) -> bool {
        self.life.lock().pulled.is_some()
    }

    /// Is there an instance, and for `ibp` a partition, whose link can be opened?
    pub fn has_link(&self) -> bool {
        let life = self.life.lock();
        life.attached.is_some() && (self.plan.driver == Driver::Ibd || life.partitioned)
    }

    /// The driver's module and the node of the link's instance, for calls that are no part of this life.
    ///
    /// # Errors
    ///
    /// The driver has no instance.
    pub fn driven(&self) -> Result<(Module, DevInfo)> {
        let life = self.life.lock();
        let both = life.module.clone().zip(life.attached.clone());
        both.ok_or_else(|| anyhow!("{}: {} has no instance", self.name, self.driver_name()))
    }

    /// The carrier of the link; `None` if there is no such link.
    pub fn state(&self) -> Option<LinkState> {
        self.state_of(&self.link())
    }

    pub(crate) fn state_of(&self, name: &str) -> Option<LinkState> {
        lab_gldv3::links(&self.kernel).iter().find(|link| link.name == name).map(|link| link.state)
    }

    /// Waits until the link is up; false if it is not in time.
    pub fn wait_up(&self, patience: Nanos) -> bool {
        self.wait_for(patience, || self.state() == Some(LinkState::Up))
    }

    /// Waits until something holds; false if it does not in time.
    pub(crate) fn wait_for(&self, patience: Nanos, holds: impl Fn() -> bool) -> bool {
        let machine = self.kernel.machine();
        let deadline = machine.now() + patience;
        loop {
            if holds() {
                return true;
            }
            if machine.now() >= deadline {
                return false;
            }
            fakekernel::sleep(LOOK);
        }
    }

    /// What the MAC layer has counted on the link.
    ///
    /// # Errors
    ///
    /// There is no such link, or its driver does not answer.
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
    pub fn counters(&self) -> Vec<(String, u64)> {
        let ids = self.kernel.kstats();
        let id = ids.iter().find(|id| id.name == "datagram");
        let values = id.and_then(|id| self.kernel.scope(|| self.kernel.read_kstat(id)).ok());
        let number = |(name, value)| match value {
            KstatValue::U64(value) => Some((name, value)),
            _ => None,
        };
        values.into_iter().flatten().filter_map(number).collect()
    }

    /// What the host has logged, oldest first.
    pub fn console(&self) -> Vec<String> {
        self.kernel.genunix().messages().into_iter().map(|message| message.text).collect()
    }
}
