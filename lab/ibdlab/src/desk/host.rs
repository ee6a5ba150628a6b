//! A host of the desk: from boot to halt as illumos does both, around the life that every host has ([`lab_world::Host`]).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use admin::{AddressState, Exit, FileError, Session, System, Terminal};
use anyhow::{Result, anyhow, bail};
use fakekernel::{Errno, Nanos, SleepMutex};
use lab_gldv3::LinkState;
use lab_ibtf::nexus;
use lab_world::{Driver, Host, shipped_conf};
use smoltcp::wire::IpCidr;

use super::files::{self, Told};
use super::ip::HostIp;
use super::system::Process;
use super::zones::Zones;
use crate::linux::Namespace;
use crate::objects::Objects;
use crate::scenario::{HostSpec, PropertyText};
use crate::words::complain;

/// How long ports may take to come up before hosts go on without them.
const PORT_PATIENCE: Nanos = Nanos::from_secs(10);
/// How long links and probes may take until hosts go on without them.
const ADDRESS_PATIENCE: Nanos = Nanos::from_secs(3);

/// What the machine's own processes have taken.
const FIRST_PROCESS: u32 = 100;

/// See the module's documentation. What can be asked of a [`Host`] can be asked of it.
pub struct DeskHost {
    host: Arc<Host>,
    pub ip: HostIp,
    pub zones: Zones,
    /// The root of its files.
    pub root: PathBuf,
    /// Where Linux's programs use its links, if they do.
    pub namespace: Option<Arc<Namespace>>,
    /// Held while one of its files is changed.
    pub files: SleepMutex<()>,
    /// What was said of its files.
    pub told: Told,
    last_process: AtomicU32,
    addresses: Vec<(IpAddr, u8)>,
    properties: BTreeMap<String, String>,
}

impl Deref for DeskHost {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl DeskHost {
    /// # Errors
    ///
    /// A host with a TUN device on a machine that has no namespaces for it; a driver's configuration file that cannot be read.
    pub fn new(
        spec: &HostSpec,
        host: Arc<Host>,
        objects: &Objects,
        root: PathBuf,
        seed: u64,
    ) -> Result<Self> {
        let (kernel, ibd) = (&host.kernel, Driver::Ibd.name());
        if let Some(beside) = objects.beside(&host.name, ibd) {
            nexus::install_package(kernel, nexus::IBD_PACKAGE);
            kernel.add_object("drv/ibd", beside);
            nexus::load_drivers(kernel);
            if spec.driver != Driver::Ibd {
                kernel.configure_driver(ibd, shipped_conf(beside, Driver::Ibd)?);
            }
        }
        let namespace = if spec.tun { Some(Arc::new(Namespace::create(&host.name)?)) } else { None };
        let cidr = |cidr: &IpCidr| (IpAddr::from(cidr.address()), cidr.prefix_len());
        let text = |text: &PropertyText| match text {
            PropertyText::Number(number) => number.to_string(),
            PropertyText::Text(text) => text.clone(),
        };
        let properties = spec.properties.iter().map(|(name, value)| (name.clone(), text(value.get_ref())));
        Ok(Self {
            ip: HostIp::new(kernel, seed, namespace.clone()),
            zones: Zones::new(kernel, root.clone(), seed),
            namespace,
            root,
            files: SleepMutex::new("the host's files", ()),
            told: Told::default(),
            last_process: AtomicU32::new(FIRST_PROCESS),
            addresses: spec.addresses.get_ref().iter().map(|address| cidr(&address.0)).collect(),
            properties: properties.collect(),
            host,
        })
    }

    /// The number of a new process of this host.
    pub fn next_process_id(&self) -> u32 {
        self.last_process.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Drivers, links of the files, partitions, interfaces; on the first boot what the scenario says. On a thread of the machine.
    ///
    /// # Errors
    ///
    /// What kept the driver from coming. A link or an address that does not come is told in the log.
    pub fn boot(self: &Arc<Self>) -> Result<()> {
        let root = Process::root(self.clone());
        files::look(&self.name, &self.root, &self.told);
        admin::boot_links(&root);
        self.install()?;
        let services =
            &mut |text: String| if text.is_empty() { self.first_services().to_owned() } else { text };
        root.change_file(admin::IB_CONF, services).map_err(|FileError(why)| anyhow!(why))?;
        self.read_services();
        self.attach_all()?;
        if self.first_boot(&root)? {
            return Ok(());
        }
        for (link, why) in admin::boot_partitions(&root) {
            complain(&format!("{}: {link}: {why}", self.name));
        }
        // Properties are for links that nobody has open yet.
        lab_gldv3::wait_for_properties(&self.kernel);
        for trouble in admin::boot_interfaces(&root) {
            complain(&format!("{}: {trouble}", self.name));
        }
        for trouble in admin::boot_zones(&root) {
            complain(&format!("{}: {trouble}", self.name));
        }
        Ok(())
    }

    /// What `devfsadm` does: nodes that are to be there by now are made, and those of P_Keys get their driver.
    pub fn walk_devices(&self) {
        nexus::look(&self.kernel);
    }

    /// The IB nexus reads its configuration file.
    pub fn read_services(&self) {
        let read = files::text(&self.root.join(admin::IB_CONF)).map_err(|error| error.to_string());
        if let Err(why) = read.and_then(|text| nexus::set_conf(&self.kernel, &text)) {
            complain(&format!("{}: {}: {why}", self.name, admin::IB_CONF));
        }
    }

    /// What `ib.conf` says on a host that nobody has configured: as it comes, or with what a scenario with `ibd` needs.
    fn first_services(&self) -> &'static str {
        match self.driver() {
            Driver::Ibd => nexus::CONF_WITH_IBD,
            Driver::Ibp => nexus::ILLUMOS_CONF,
        }
    }

    /// Name of the link that the scenario's addresses are for.
    fn first_link(&self) -> String {
        match self.driver() {
            Driver::Ibd => "ibd0".to_owned(),
            Driver::Ibp => format!("p{:04X}.ibp0", self.pkey),
        }
    }

    /// Does what the scenario says on a host that nobody has configured yet, by the commands that a person would use; false if
    /// somebody has, or the scenario has nothing to say.
    fn first_boot(self: &Arc<Self>, root: &Process) -> Result<bool> {
        let configured = ["etc/dladm/datalink.conf", "etc/ipadm/ipadm.conf"];
        if self.addresses.is_empty() || configured.iter().any(|file| root.read_file(file).is_some()) {
            return Ok(false);
        }
        let link = self.first_link();
        if self.driver() == Driver::Ibp {
            self.run(root, "dladm", &format!("create-part -f -l ibp0 -P {:04x} {link}", self.pkey))?;
        }
        for (name, value) in &self.properties {
            self.run(root, "dladm", &format!("set-linkprop -p {name}={value} {link}"))?;
        }
        let mut words = Words::default();
        let mut session = Session { system: root, terminal: &mut words };
        if admin::first_configuration(&mut session, &link, &self.addresses) != Exit::OK {
            bail!("{}", words.0.trim_end());
        }
        Ok(true)
    }

    fn run(&self, root: &Process, command: &str, line: &str) -> Result<()> {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut words = Words::default();
        let mut session = Session { system: root, terminal: &mut words };
        match admin::run(&mut session, command, &arguments) {
            Some(Exit::OK) => Ok(()),
            _ => bail!("{}", words.0.trim_end()),
        }
    }

    /// Starts a zone, whose files say what its interfaces are.
    ///
    /// # Errors
    ///
    /// See [`Zones::boot`].
    pub fn boot_zone(self: &Arc<Self>, name: &str, links: &[String]) -> Result<(), Errno> {
        let zone = self.zones.boot(name, links)?;
        for trouble in admin::boot_interfaces(&Process::root(self.clone()).in_zone(Some(zone))) {
            complain(&format!("{}: {name}: {trouble}", self.name));
        }
        Ok(())
    }

    /// Waits until a port is up, for as long as that may take, or until nobody wants the lab any more.
    pub fn wait_for_ports(&self, given_up: &dyn Fn() -> bool) {
        let machine = self.kernel.machine();
        let deadline = machine.now() + PORT_PATIENCE;
        let up = || lab_gldv3::links(&self.kernel).iter().any(|link| link.state == LinkState::Up);
        while !up() && machine.now() < deadline && !given_up() {
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Waits until it is known of each address whether somebody else has it. One on a link that stays down is not waited for long.
    pub fn wait_for_addresses(&self, given_up: &dyn Fn() -> bool) {
        let machine = self.kernel.machine();
        let deadline = machine.now() + ADDRESS_PATIENCE;
        let undecided = || {
            let interfaces = self.ip.interfaces();
            let mut all = interfaces.iter().flat_map(|interface| &interface.addresses);
            all.any(|address| matches!(address.state, AddressState::Tentative | AddressState::Inaccessible))
        };
        while undecided() && machine.now() < deadline && !given_up() {
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Interfaces, partitions, instances, modules; then nothing may be left. On a thread of the machine.
    ///
    /// # Errors
    ///
    /// What would not go, or was left behind.
    pub fn halt(&self) -> Result<()> {
        self.zones.halt_all();
        self.ip.close();
        self.unload()?;
        self.check_nothing_is_left()
    }
}

/// What a command said when nobody sat at it.
#[derive(Default)]
pub struct Words(pub String);

impl Terminal for Words {
    fn out(&mut self, text: &str) {
        self.0 += text;
    }

    fn err(&mut self, text: &str) {
        self.0 += text;
    }

    fn rows(&self) -> usize {
        24
    }

    fn interrupted(&self) -> bool {
        false
    }
}
