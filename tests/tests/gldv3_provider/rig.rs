//! A host with the framework, the shipped `mac_ib`, and a driver that counts (`probes/gldv3/gld.c`).

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use conformance::probe::{Probe, shipped};
use fakekernel::genunix::{DevInfo, DevInfoSpec};
use fakekernel::{Config, Ctx, Errno, Halt, Kernel, Machine, Module};

/// A host in its machine.
#[derive(Clone)]
pub struct Host {
    pub machine: Machine,
    pub kernel: Kernel,
}

/// Runs `body` as the first thread of a machine with one host.
pub fn run<R: Send + 'static>(
    config: Config,
    body: impl FnOnce(&Host) -> R + Send + 'static,
) -> Result<R, Halt> {
    let machine = Machine::new(config);
    let kernel = machine.add_host("examined");
    lab_gldv3::provide(&kernel);
    kernel.add_object("mac/mac_ib", &shipped("mac", "mac_ib"));
    let host = Host { machine: machine.clone(), kernel };
    machine.run(move || host.kernel.clone().scope(|| body(&host)))
}

/// As [`run`] with a few seeds; whatever halts the machine fails the test.
#[track_caller]
pub fn examine(body: impl Fn(&Host) + Clone + Send + 'static) {
    for seed in 0..4 {
        if let Err(halt) = run(Config::seeded(seed), body.clone()) {
            panic!("seed {seed}: {halt}");
        }
    }
}

/// The object of a probe, built once.
pub fn built(name: &'static str, defines: &[&str], depends: &[&str]) -> PathBuf {
    // One build at a time: tests run side by side and often want the same object.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = Probe::new(name).file(format!("probes/gldv3/{name}.c"));
    let probe = depends.iter().fold(probe, |probe, module| probe.depends(module));
    defines.iter().fold(probe, |probe, define| probe.define(define)).build()
}

impl Host {
    /// Loads a probe and installs it.
    pub fn load(&self, name: &'static str, class: &str, defines: &[&str]) -> Result<Module, Errno> {
        let path = built(name, defines, &["misc/mac", "misc/dls", "drv/dld"]);
        self.kernel.add_major(name);
        let module = self.kernel.load(&path, name, class).unwrap_or_else(|error| panic!("{error}"));
        module.install().map(|()| module)
    }

    /// The counting driver with its one instance attached: the link is called `gld0`.
    pub fn driver(&self) -> Driver {
        let module = self.load("gld", "drv", &[]).expect("the driver installs");
        let spec = DevInfoSpec { name: "gld".into(), driver: "gld".into(), ..DevInfoSpec::default() };
        let node = self.kernel.add_device(spec);
        self.kernel.attach(&module, &node).expect("the driver attaches");
        Driver { host: self.clone(), module, node }
    }

    /// Lines the kernel has printed or logged, in order, from that one on.
    pub fn log_since(&self, line: usize) -> Vec<String> {
        self.kernel.genunix().messages().into_iter().skip(line).map(|message| message.text).collect()
    }

    /// How many lines there are.
    pub fn log_len(&self) -> usize {
        self.kernel.genunix().messages().len()
    }
}

/// What the driver counts; the order is that of the C source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Start,
    Stop,
    PromiscOn,
    PromiscOff,
    GroupAdd,
    GroupRemove,
    Unicst,
    Tx,
    Refused,
    GetStat,
}

/// What the driver does with a packet to send; the order is that of the C source, which knows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxMode {
    Take,
    Refuse,
    RefuseAndUpdate,
    Substitute,
}

/// The driver, attached.
#[derive(Clone)]
pub struct Driver {
    pub host: Host,
    pub module: Module,
    pub node: DevInfo,
}

/// The driver's name and its link's.
pub const LINK: &str = "gld0";

impl Driver {
    /// Calls a probe in user context.
    pub fn call(&self, probe: &'static str, arg: i64) -> i64 {
        self.module.call_probe(probe, Some(Ctx::User), arg)
    }

    pub fn count(&self, counter: Counter) -> i64 {
        self.call("probe_count", counter as i64)
    }

    /// The calls that changed what the driver does, in order.
    pub fn events(&self) -> Vec<Counter> {
        const KINDS: [Counter; 7] = [
            Counter::Start,
            Counter::Stop,
            Counter::PromiscOn,
            Counter::PromiscOff,
            Counter::GroupAdd,
            Counter::GroupRemove,
            Counter::Unicst,
        ];
        let event = |index| usize::try_from(self.call("probe_event", index)).ok().map(|event| KINDS[event]);
        (0..).map_while(event).collect()
    }

    pub fn tx_mode(&self, mode: TxMode) {
        self.call("probe_tx_mode", mode as i64);
    }

    /// The bytes of the packet sent last.
    pub fn last_sent(&self) -> Vec<u8> {
        let len = self.call("probe_sent_len", 0);
        (0..len).map(|at| self.call("probe_sent_byte", at) as u8).collect()
    }

    pub fn detach(&self) -> Result<(), Errno> {
        self.host.kernel.detach(&self.module, &self.node)
    }

    /// Detaches and unloads everything; nothing may be left.
    pub fn leave(self) {
        self.detach().expect("nothing holds the link");
        self.module.unload().expect("no instance is left");
        let plugin = self.host.kernel.module("mac_ib").expect("mac_register loaded it");
        plugin.unload().expect("no mac is left");
        assert_eq!(self.host.kernel.genunix().live_messages(), 0);
    }
}
