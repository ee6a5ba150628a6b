//! The fabric of a machine as the lab handles it: HCAs into hosts, a subnet manager, cables, faults, captures.
#![forbid(unsafe_code)]

use crate::adapter::Adapter;
use crate::dma::HostDma;
use crate::ibcm::Ibcm;
use crate::ibtl::{self, Device, HostEvents, Ibtl, Opaque};
use crate::nexus;
use crate::saa::{Between, EmbeddedSm, Manager, OpenSmManager, Side, SubnetError, SubnetManager, Subnets};
use fabric::capture::ErfPcapng;
use fabric::subnet::{PortView, Trained};
use fabric::{Clock, Fabric, Guid, Hca, HcaConfig, LinkSpeed, PhysState, Subnet, WeakFabric};
use fakekernel::{Ctx, HostMutex, Kernel, Machine, Nanos, WaitQueue};
use sm::{Partition, SmConfig};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Name of the host that the fabric's own threads belong to. It has no HCA and loads no module.
pub const FABRIC_HOST: &str = "fabric";

/// The fabric of a machine. Clones are the same one.
#[derive(Clone)]
pub struct InfiniBand(Arc<Inner>);

struct Inner {
    fabric: Fabric,
    /// Where the fabric's threads run.
    service: Kernel,
    manager: HostMutex<Option<Manager>>,
    /// Hosts with an HCA.
    hosts: HostMutex<Vec<Kernel>>,
}

/// Why an HCA cannot be taken away.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The host has no such HCA.
    #[error("host {0} has no HCA {1}")]
    Unknown(String, Guid),
    /// These clients kept it open although they were told.
    #[error("HCA {0} is still open by {names}", names = .1.join(", "))]
    Held(Guid, Vec<String>),
}

impl InfiniBand {
    /// An empty fabric on `machine`. `seed` decides its faults. Adds the host [`FABRIC_HOST`].
    #[must_use]
    pub fn new(machine: &Machine, seed: u64) -> Self {
        let service = machine.add_host(FABRIC_HOST);
        let pump = Pump::new(&service);
        let fabric = Fabric::new(seed, Arc::new(FabricClock(pump.clone())));
        pump.fabric.get_or_init(|| fabric.downgrade());
        InfiniBand(Arc::new(Inner {
            fabric,
            service,
            manager: HostMutex::new(None),
            hosts: HostMutex::new(Vec::new()),
        }))
    }

    /// The fabric itself: faults, counters, the subnet's side of ports.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }

    /// Puts an HCA into a host: its ports come up when a subnet manager finds them, its clients hear of it. [`crate::provide`]
    /// comes first. May block.
    ///
    /// # Errors
    /// [`fabric::Error::InvalidParam`] for GUIDs that are zero or taken.
    pub fn add_hca(&self, host: &Kernel, config: HcaConfig) -> Result<Hca, fabric::Error> {
        let events = Arc::new(HostEvents::new(host));
        let hca = self.0.fabric.add_hca(config, Arc::new(HostDma::new(host)), events.clone())?;
        // Nodes of an adapter of this GUID that was pulled while their driver was attached, and which is detached now.
        nexus::remove_hca(host, hca.guid());
        let dip = nexus::add_hca(host, hca.guid(), "hermon");
        let device = Arc::new(Device::new(Adapter::Model(hca.clone()), Opaque::of(dip.as_ptr())));
        events.bind(&device);
        // What was reported before is in here.
        device.refresh_ports();
        self.0.hosts.lock().push(host.clone());
        // Not again for a second adapter: what is out of the first one's ports would stay without an answer.
        if Ibcm::of(host).transport().is_none() {
            self.connect(host);
        }
        ibtl::add_device(host, &device);
        if let Some(manager) = self.subnet_manager() {
            manager.links_changed();
        }
        Ok(hca)
    }

    /// Takes an HCA out of a host: every client is told and has to let go, then it is unplugged. May block.
    ///
    /// # Errors
    /// [`RemoveError::Held`] if a client did not let go; the HCA is then dead but still there.
    pub fn remove_hca(&self, host: &Kernel, guid: Guid) -> Result<(), RemoveError> {
        let unknown = || RemoveError::Unknown(host.name().to_owned(), guid);
        let device = Ibtl::of(host).device(guid.0).ok_or_else(unknown)?;
        let hca = device.adapter.model().ok_or_else(unknown)?.clone();
        hca.begin_removal();
        ibtl::remove_pulled(host, &device).map_err(|names| RemoveError::Held(guid, names))?;
        self.unplug(host, &hca);
        Ok(())
    }

    /// An administrator has the driver of an HCA detached while nodes below it are attached (`cfgadm -c unconfigure`, in an order that the
    /// framework does not have by itself): every client is told, and the HCA is unplugged if all let go of it. If it is `kept`, one more client has it open and
    /// keeps it. May block.
    ///
    /// # Errors
    /// [`RemoveError::Held`] if a client did not let go; the HCA is then there as before, and every client was told so.
    pub fn detach_hca(&self, host: &Kernel, guid: Guid, kept: bool) -> Result<(), RemoveError> {
        let unknown = || RemoveError::Unknown(host.name().to_owned(), guid);
        let device = Ibtl::of(host).device(guid.0).ok_or_else(unknown)?;
        let hca = device.adapter.model().ok_or_else(unknown)?.clone();
        let keeper = kept.then(|| ibtl::Keeper::open(host, &device));
        let gone = ibtl::remove_device(host, &device);
        drop(keeper);
        gone.map_err(|names| RemoveError::Held(guid, names))?;
        hca.begin_removal();
        self.unplug(host, &hca);
        Ok(())
    }

    /// Of an HCA that IBTL has forgotten.
    fn unplug(&self, host: &Kernel, hca: &Hca) {
        hca.remove();
        nexus::remove_hca(host, hca.guid());
        if let Some(manager) = self.subnet_manager() {
            manager.links_changed();
        }
    }

    /// Starts the embedded subnet manager; it first looks around after `delay`. Hosts reach it from now on.
    pub fn start_sm(&self, config: SmConfig, delay: Nanos) -> Arc<EmbeddedSm> {
        let sm = EmbeddedSm::start(&self.0.service, self.0.fabric.clone(), config, delay);
        self.manage(Manager::Embedded(sm.clone()));
        sm
    }

    /// Starts an embedded subnet manager for each of two subnets, the first two, and plugs a router of this node GUID in between. Hosts reach
    /// that of their ports' subnet from now on.
    ///
    /// # Errors
    /// [`fabric::Error::InvalidParam`] for GUIDs that are zero or taken.
    pub fn start_two_sms(
        &self,
        configs: [SmConfig; 2],
        router: Guid,
        delay: Nanos,
    ) -> Result<[Arc<EmbeddedSm>; 2], fabric::Error> {
        let subnets = [Subnet(0), Subnet(1)];
        let fabric = &self.0.fabric;
        let mut router = HcaConfig::router(router, &subnets);
        // It is no slower than any host's.
        router.ports.iter_mut().for_each(|port| port.speed = LinkSpeed::Ndr);
        let router = fabric.add_router(router)?;
        let ports: Vec<Guid> = router.config().ports.iter().map(|port| port.guid).collect();
        let mut started = subnets.into_iter().zip(configs).map(|(subnet, config)| {
            EmbeddedSm::start_in(&self.0.service, fabric.clone(), subnet, config, delay)
        });
        let (Some(first), Some(second)) = (started.next(), started.next()) else {
            return Err(fabric::Error::InvalidParam);
        };
        let side =
            |sm: &Arc<EmbeddedSm>, port: Guid| Side { subnet: sm.manages(), port, sm: Arc::downgrade(sm) };
        let between = Between::new(fabric, [side(&first, ports[0]), side(&second, ports[1])]);
        let sms = [first, second];
        sms.iter().for_each(|sm| sm.join(&between));
        self.manage(Manager::Subnets(Arc::new(Subnets { fabric: fabric.clone(), sms: sms.to_vec() })));
        Ok(sms)
    }

    /// Starts a real OpenSM for the adapters that are there now; waits until it has brought every port up. Hosts reach it from
    /// now on. Only in a live machine.
    ///
    /// # Errors
    /// What is missing, or why it did not come up.
    pub fn start_opensm(&self, partitions: Vec<Partition>) -> Result<Arc<OpenSmManager>, SubnetError> {
        self.start_opensm_with_lmc(partitions, 0)
    }

    /// The same, and each port has 2^`lmc` LIDs.
    ///
    /// # Errors
    /// As for [`Self::start_opensm`].
    pub fn start_opensm_with_lmc(
        &self,
        partitions: Vec<Partition>,
        lmc: u8,
    ) -> Result<Arc<OpenSmManager>, SubnetError> {
        let manager = OpenSmManager::start(&self.0.service, &self.0.fabric, partitions, lmc)?;
        self.manage(Manager::Other(manager.clone()));
        Ok(manager)
    }

    /// A host whose adapter is a module, with the subnet manager that is in it, which is the fabric's from now on.
    pub fn supervise(&self, host: &Kernel, manager: Arc<dyn SubnetManager>) {
        *self.0.manager.lock() = Some(Manager::Other(manager));
        self.0.hosts.lock().push(host.clone());
    }

    fn manage(&self, manager: Manager) {
        *self.0.manager.lock() = Some(manager);
        let hosts = self.0.hosts.lock().clone();
        for host in &hosts {
            self.connect(host);
        }
    }

    /// The subnet manager, if one was started.
    #[must_use]
    pub fn subnet_manager(&self) -> Option<Arc<dyn SubnetManager>> {
        self.0.manager.lock().as_ref().map(Manager::any)
    }

    /// The subnet manager, if it is the embedded one: only that can be told to do things wrong. Of several subnets that of the first.
    #[must_use]
    pub fn sm(&self) -> Option<Arc<EmbeddedSm>> {
        self.sms().into_iter().next()
    }

    /// The embedded managers of all subnets.
    #[must_use]
    pub fn sms(&self) -> Vec<Arc<EmbeddedSm>> {
        match &*self.0.manager.lock() {
            Some(Manager::Embedded(sm)) => vec![sm.clone()],
            Some(Manager::Subnets(subnets)) => subnets.sms.clone(),
            _ => Vec::new(),
        }
    }

    /// IBTL of some host is still about an event of a port: it asks subnet administration before it tells its clients, of each port in
    /// turn, and what happens meanwhile they hear afterwards.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        let hosts = self.0.hosts.lock().clone();
        let devices = |host: &Kernel| Ibtl::of(host).all_devices();
        hosts.iter().flat_map(devices).any(|device| device.pending.lock().is_queued())
    }

    fn connect(&self, host: &Kernel) {
        if let Some(manager) = self.subnet_manager() {
            Ibcm::of(host).connect(manager);
        }
    }

    /// Pulls or plugs a port's cable; false if there is no such port.
    pub fn set_cable(&self, port: Guid, plugged: bool) -> bool {
        match self.subnet_manager() {
            Some(manager) => manager.set_cable(port, plugged),
            None => self.0.fabric.set_cable(port, plugged).is_ok(),
        }
    }

    /// A port's link trains to this, or with `None` to the best that the port can. It goes down and comes up at once, unless it is down or
    /// nothing changes. Does nothing if there is no such port.
    pub fn retrain(&self, port: Guid, to: Option<Trained>) {
        let is_changed = self.0.fabric.train(port, to).unwrap_or(false);
        let is_linked = |view: PortView| view.attr.phys == PhysState::LinkUp;
        if is_changed && self.0.fabric.subnet_port(port).is_some_and(is_linked) {
            self.set_cable(port, false);
            self.set_cable(port, true);
        }
    }

    /// Switches a port off or on; false if there is no such port.
    pub fn set_port_enabled(&self, port: Guid, enabled: bool) -> bool {
        match self.subnet_manager() {
            Some(manager) => manager.set_port_enabled(port, enabled),
            None => self.0.fabric.set_port_enabled(port, enabled).is_ok(),
        }
    }

    /// Captures every frame at the ports that exist now, out and in, in a pcapng file that tshark reads, or so many of them; replaces a
    /// capture that is on.
    ///
    /// # Errors
    /// What creating or writing the file says.
    pub fn capture(&self, path: &Path, most: Option<u64>) -> io::Result<Capture> {
        let file = BufWriter::new(File::create(path)?);
        let tap = ErfPcapng::new(file, &self.0.fabric.subnet_ports())?.at_most(most.unwrap_or(u64::MAX));
        let tap = Arc::new(tap);
        self.0.fabric.set_tap(Some(tap.clone()));
        Ok(Capture { fabric: self.0.fabric.clone(), tap })
    }
}

/// A capture that is on, and its file open, until this is dropped.
pub struct Capture {
    fabric: Fabric,
    tap: Arc<ErfPcapng<BufWriter<File>>>,
}

impl Capture {
    /// Frames written so far.
    ///
    /// # Errors
    /// The first write error.
    pub fn frames(&self) -> io::Result<u64> {
        self.tap.frames()
    }

    /// Has what was captured so far in the file.
    ///
    /// # Errors
    /// The first write error.
    pub fn flush(&self) -> io::Result<()> {
        self.tap.flush()
    }

    /// Ends the capture and completes the file; returns how many frames it has.
    ///
    /// # Errors
    /// The first write error.
    pub fn finish(self) -> io::Result<u64> {
        self.fabric.set_tap(None);
        self.tap.finish()?.flush()?;
        self.tap.frames()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.fabric.set_tap(None);
        // It has been finished, or has failed, and that was said.
        let _ = self.tap.finish();
    }
}

/// The fabric's clock, and the thread that carries out what was delayed.
struct Pump {
    host: Kernel,
    fabric: OnceLock<WeakFabric>,
    state: HostMutex<PumpState>,
    due: WaitQueue,
}

#[derive(Default)]
struct PumpState {
    running: bool,
    /// Something was put off since the thread last looked.
    kicked: bool,
}

impl Pump {
    fn new(host: &Kernel) -> Arc<Self> {
        Arc::new(Pump {
            host: host.clone(),
            fabric: OnceLock::new(),
            state: HostMutex::new(PumpState::default()),
            due: WaitQueue::new("the next delayed delivery"),
        })
    }

    fn run(&self, fabric: &Fabric) {
        loop {
            fabric.pump(fabric::Nanos(self.host.machine().now().0));
            let next = fabric.next_delivery().map_or(Nanos::NEVER, |at| Nanos(at.0));
            let state = self.state.lock();
            let mut state = if state.kicked { state } else { self.due.wait_until(state, next).0 };
            state.kicked = false;
        }
    }
}

/// What the fabric asks of the machine. Held apart from the pump so that the two do not keep each other alive.
struct FabricClock(Arc<Pump>);

impl Clock for FabricClock {
    fn now(&self) -> fabric::Nanos {
        fabric::Nanos(self.0.host.machine().now().0)
    }

    fn wake_at(&self, _at: fabric::Nanos) {
        let start = {
            let mut state = self.0.state.lock();
            state.kicked = true;
            !std::mem::replace(&mut state.running, true)
        };
        let fabric = self.0.fabric.get().and_then(WeakFabric::upgrade);
        match (start, fabric) {
            (true, Some(fabric)) => {
                let pump = self.0.clone();
                let _ = self.0.host.spawn("fabric", Ctx::Kernel, move || pump.run(&fabric));
            }
            _ => {
                self.0.due.wake_all();
            }
        }
    }
}
