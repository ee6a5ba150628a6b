//! A kernel whose adapter is a module of its own, `swhca`.

mod manager;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use fabric::Guid;
use fakekernel::genunix::{Cred, DevInfo, DevInfoSpec, Properties, PropertyValue, UserBuffer};
use fakekernel::{Errno, Kernel, Machine, Module, Nanos};
use lab_ibtf::nexus;
use swhca_ioctl::Argument;

use super::provide;
pub(crate) use manager::Manager;

/// The adapter's driver, and the minor node that takes its ioctls.
const DRIVER: &str = "swhca";
const MINOR: &str = "ctl";
/// How long a driver may answer busy when it is to go, and how often it is asked.
const BUSY_PATIENCE: Nanos = Nanos::from_secs(300);
const BUSY_PAUSE: Nanos = Nanos::from_millis(100);

/// What a kernel with such an adapter is to be.
#[derive(Clone, Debug)]
pub struct SoftwarePlan {
    /// Name of the kernel.
    pub name: String,
    /// The object of `swhca`.
    pub object: PathBuf,
    /// The object of the plugin, `mac_ib`.
    pub plugin: PathBuf,
    /// What a line of `swhca.conf` says beside the adapter's number: ports, P_Keys, the speed of a lane, and what else it has.
    pub ports: u8,
    /// See above.
    pub pkeys: Vec<u16>,
    /// See above; a code, 4 is QDR.
    pub speed: u8,
    /// See above.
    pub conf: Vec<(String, i32)>,
}

impl SoftwarePlan {
    /// An adapter as `swhca.conf` ships it.
    pub fn new(name: &str, object: PathBuf, plugin: PathBuf) -> Self {
        let pkeys = vec![0xffff, 0x8001];
        Self { name: name.to_owned(), object, plugin, ports: 2, pkeys, speed: 4, conf: Vec::new() }
    }
}

/// A kernel with the frameworks, below which `swhca` is loaded and has attached an adapter. Its hosts are links on the adapter's ports.
/// Calls come from threads of the machine.
pub struct Software {
    /// The kernel of all of them.
    pub kernel: Kernel,
    object: PathBuf,
    device: DevInfo,
    ports: u8,
    pkeys: Vec<u16>,
    /// Hosts that have taken a port.
    taken: AtomicU8,
    /// See [`Software::refuses_leaves`].
    refuses_leaves: AtomicBool,
}

impl Software {
    /// From now on its SA may refuse a leave because it was told to.
    pub fn refuse_leaves(&self) {
        self.refuses_leaves.store(true, Ordering::Relaxed);
    }

    /// Whether its SA was ever told to refuse leaves: what it refuses is in the module, where nobody sees why.
    pub fn refuses_leaves(&self) -> bool {
        self.refuses_leaves.load(Ordering::Relaxed)
    }

    /// Boots the kernel, loads `swhca` and attaches its adapter.
    ///
    /// # Errors
    ///
    /// An object that does not load, or the driver's refusal.
    pub fn boot(machine: &Machine, plan: &SoftwarePlan) -> Result<Self> {
        let software = Self::place(machine, plan);
        software.install()?;
        software.attach().map_err(|errno| anyhow!("attach {DRIVER}: {errno}"))?;
        Ok(software)
    }

    /// The kernel with the frameworks and the adapter's node. Nothing is loaded.
    pub fn place(machine: &Machine, plan: &SoftwarePlan) -> Self {
        let kernel = machine.add_host(&plan.name);
        provide(&kernel, &plan.plugin);
        let device = kernel.add_device(plan.node(0));
        let object = plan.object.clone();
        let (ports, pkeys) = (plan.ports, plan.pkeys.clone());
        Self {
            kernel,
            object,
            device,
            ports,
            pkeys,
            taken: AtomicU8::new(0),
            refuses_leaves: AtomicBool::new(false),
        }
    }

    /// Loads the driver and has it initialise itself. Nothing to do if that was done.
    ///
    /// # Errors
    ///
    /// An object that cannot be loaded, or the driver's own refusal.
    pub fn install(&self) -> Result<()> {
        self.kernel.scope(|| {
            let module = self.kernel.load(&self.object, DRIVER, "drv");
            let module = module.with_context(|| format!("loading {DRIVER}"))?;
            module.install().map_err(|errno| anyhow!("{DRIVER} _init: {errno}"))
        })
    }

    fn module(&self) -> Result<Module, Errno> {
        self.kernel.module(DRIVER).ok_or(Errno::ENXIO)
    }

    /// Attaches the adapter to the installed driver.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub fn attach(&self) -> Result<(), Errno> {
        let module = self.module()?;
        self.kernel.scope(|| self.kernel.attach(&module, &self.device))
    }

    /// One attempt to detach the adapter, with the nodes below it.
    ///
    /// # Errors
    ///
    /// EBUSY while something has one of them or the driver refuses.
    pub fn try_detach(&self) -> Result<(), Errno> {
        self.kernel.scope(|| {
            if !nexus::unconfigure(&self.kernel, self.guid()) {
                return Err(Errno::EBUSY);
            }
            self.kernel.detach(&self.module()?, &self.device)
        })
    }

    /// Node GUID of the adapter.
    pub fn guid(&self) -> Guid {
        Guid(FIRST_GUID)
    }

    /// GUID of a port, from 1.
    pub fn port(&self, number: u8) -> Guid {
        Guid(FIRST_GUID + u64::from(number))
    }

    /// The P_Key table that each port begins with.
    pub fn pkeys(&self) -> &[u16] {
        &self.pkeys
    }

    /// The number of a port of it.
    pub fn number_of(&self, port: Guid) -> Option<u8> {
        (1..=self.ports).find(|number| self.port(*number) == port)
    }

    /// The next port that no host has.
    pub(crate) fn take_port(&self) -> Result<u8> {
        let number = self.taken.fetch_add(1, Ordering::AcqRel) + 1;
        if number > self.ports {
            bail!(
                "the adapter of {} has {} ports, and more hosts are to have one",
                self.kernel.name(),
                self.ports
            );
        }
        Ok(number)
    }

    /// An ioctl on the adapter, by root. What it answers.
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn ioctl(&self, command: i32, argument: Argument) -> Result<i32, Errno> {
        self.ioctl_as(Cred::ROOT, command, argument)
    }

    /// As [`Self::ioctl`], from a process with these credentials.
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn ioctl_as(&self, cred: Cred, command: i32, argument: Argument) -> Result<i32, Errno> {
        let bytes: Vec<u8> = argument.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let buffer = UserBuffer::new(&self.kernel, &bytes);
        let at = buffer.as_ptr().addr();
        let module = self.module()?;
        self.kernel.scope(|| self.kernel.ioctl(&module, &self.device, MINOR, (command, at), cred))
    }

    /// Its counters, in the order of [`swhca_ioctl::Counter`].
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn counters(&self) -> Result<Vec<u64>, Errno> {
        const MOST: usize = 64;
        let room = UserBuffer::new(&self.kernel, &[0; 8 * MOST]);
        let argument = [room.as_ptr().addr() as u64, MOST as u64, 0, 0];
        let count = self.ioctl(swhca_ioctl::command::READ_STATISTICS, argument)?;
        let content = room.content();
        let values = content.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        Ok(values.take(usize::try_from(count).unwrap_or(0)).collect())
    }

    /// Detaches the adapter and unloads everything that is loaded, as soon as nobody is in the way. Nothing to do if that was done.
    ///
    /// # Errors
    ///
    /// What would not go.
    pub fn unload(&self) -> Result<()> {
        for name in ["ibp", "ibd", "mac_ib"] {
            if let Some(module) = self.kernel.module(name) {
                self.while_busy(|| module.unload()).map_err(|errno| anyhow!("unloading {name}: {errno}"))?;
            }
        }
        let Ok(module) = self.module() else { return Ok(()) };
        if self.device.is_attached() {
            self.while_busy(|| self.try_detach()).map_err(|errno| anyhow!("detaching {DRIVER}: {errno}"))?;
        }
        self.while_busy(|| module.unload()).map_err(|errno| anyhow!("unloading {DRIVER}: {errno}"))?;
        let messages = self.kernel.genunix().messages();
        let left =
            messages.iter().find(|message| message.module == DRIVER && message.text.contains("did not free"));
        left.map_or(Ok(()), |left| bail!("{}", left.text))
    }

    /// Nothing of any module is left in the kernel.
    ///
    /// # Errors
    ///
    /// What is left, by module.
    pub fn check_nothing_is_left(&self) -> Result<()> {
        for module in ["ibp", "ibd", "mac_ib", DRIVER] {
            let left = self.kernel.resources().of(module, None);
            if !left.is_empty() {
                bail!("{}: {module} left {left:?}", self.kernel.name());
            }
        }
        Ok(())
    }

    fn while_busy(&self, mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
        let machine = self.kernel.machine();
        let deadline = machine.now() + BUSY_PATIENCE;
        loop {
            match self.kernel.scope(&mut attempt) {
                Err(Errno::EBUSY | Errno::ENOMEM) if machine.now() < deadline => {
                    fakekernel::sleep(BUSY_PAUSE);
                }
                other => return other,
            }
        }
    }
}

/// What adapter 0 calls itself; its ports have the next GUIDs.
const FIRST_GUID: u64 = 0x0253_5700_0000_0000;

impl SoftwarePlan {
    /// A node as a line of `swhca.conf` makes it, of adapter `unit`. Each has an instance number of its own.
    pub fn node(&self, unit: u16) -> DevInfoSpec {
        node(self, unit)
    }
}

fn node(plan: &SoftwarePlan, unit: u16) -> DevInfoSpec {
    let ints = |values: &[u16]| PropertyValue::Int(values.iter().map(|value| i32::from(*value)).collect());
    let mut properties = vec![
        ("reg".to_owned(), ints(&[0, unit, 0])),
        ("ports".to_owned(), PropertyValue::from(i32::from(plan.ports))),
        ("pkeys".to_owned(), ints(&plan.pkeys)),
        ("speed".to_owned(), PropertyValue::from(i32::from(plan.speed))),
    ];
    properties.extend(plan.conf.iter().map(|(name, value)| (name.clone(), PropertyValue::from(*value))));
    DevInfoSpec {
        name: DRIVER.to_owned(),
        driver: DRIVER.to_owned(),
        instance: unit.into(),
        properties: Properties::new(properties),
        ..DevInfoSpec::default()
    }
}
