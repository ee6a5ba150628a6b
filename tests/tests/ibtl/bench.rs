//! Two hosts on a fabric with its subnet manager, and a probe loaded in each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use conformance::probe::Probe;
use fabric::{Guid, Hca, HcaConfig};
use fakekernel::{Config, Ctx, Halt, Kernel, Machine, Module, Nanos, Rule, Violation};
use lab_ibtf::InfiniBand;
use lab_ibtf::saa::EmbeddedSm;
use sm::SmConfig;
use std::sync::Arc;

/// Node GUIDs; port 1 has the next one.
pub const ALPHA: i64 = 0x0002_c903_0000_1000;
pub const BETA: i64 = 0x0002_c903_0000_2000;

/// Each scenario is run with this many seeds.
const SEEDS: u64 = 6;

/// A host with its probe.
#[derive(Clone)]
pub struct Side {
    pub kernel: Kernel,
    pub hca: Hca,
    pub module: Module,
}

impl Side {
    /// What a function of the probe returns, called in user context.
    pub fn ask(&self, probe: &'static str, arg: i64) -> i64 {
        self.within(Ctx::User, probe, arg)
    }

    /// The same in another context.
    pub fn within(&self, ctx: Ctx, probe: &'static str, arg: i64) -> i64 {
        self.kernel.scope(|| self.module.call_probe(probe, Some(ctx), arg))
    }

    /// Calls a function of the probe, which has to succeed.
    #[track_caller]
    pub fn run(&self, probe: &'static str, arg: i64) {
        succeed(self.module.name(), probe, self.ask(probe, arg));
    }

    /// The same at interrupt level.
    #[track_caller]
    pub fn run_in_interrupt(&self, probe: &'static str, arg: i64) {
        succeed(self.module.name(), probe, self.within(Ctx::Soft { pil: 4 }, probe, arg));
    }

    pub fn port(&self) -> Guid {
        self.hca.config().ports[0].guid
    }

    pub fn lid(&self) -> i64 {
        i64::from(self.hca.query_ports().unwrap()[0].lid.0)
    }
}

#[track_caller]
fn succeed(module: &str, probe: &str, value: i64) {
    let (line, status) = if value >> 32 == 0 { (value, None) } else { (value >> 32, Some(value as u32)) };
    let answered = status.map_or_else(String::new, |s| format!(", which answered {s} ({s:#x})"));
    assert_eq!(value, 0, "{module}.c, {probe}: line {line}{answered}");
}

/// What a scenario works with.
pub struct Bench {
    pub machine: Machine,
    pub world: InfiniBand,
    pub sm: Arc<EmbeddedSm>,
    pub alpha: Side,
    pub beta: Side,
}

impl Bench {
    /// Until both ports are ACTIVE and nothing more is told about them.
    fn wait_for_ports(&self) {
        for side in [&self.alpha, &self.beta] {
            while side.hca.query_ports().unwrap()[0].state != fabric::PortState::Active {
                fakekernel::sleep(Nanos::from_millis(1));
            }
        }
        fakekernel::sleep(Nanos::from_millis(20));
    }

    /// Lets everything that is under way happen.
    pub fn settle(&self) {
        fakekernel::sleep(Nanos::from_millis(200));
    }
}

/// What a scenario needs to be set up differently.
#[derive(Clone, Copy)]
pub struct Setup {
    pub source: &'static str,
    pub hca: fn(&mut HcaConfig),
    pub machine: fn(&mut Config),
}

/// A scenario with the probe of `probes/ibtl/SOURCE.c`.
pub const fn with(source: &'static str) -> Setup {
    Setup { source, hca: |_| (), machine: |_| () }
}

impl Setup {
    /// Changes both HCAs.
    pub const fn hca(mut self, change: fn(&mut HcaConfig)) -> Self {
        self.hca = change;
        self
    }

    /// Changes the machine.
    pub const fn machine(mut self, change: fn(&mut Config)) -> Self {
        self.machine = change;
        self
    }

    /// Runs the scenario with several seeds; both probes unload at the end and leave nothing.
    pub fn holds(self, scenario: fn(&Bench)) {
        for seed in 0..SEEDS {
            if let Err(halt) = self.run(seed, scenario) {
                panic!("seed {seed}: {halt}");
            }
        }
    }

    /// Runs the scenario with several seeds; each time the machine halts because alpha's probe broke `rule`.
    pub fn breaks(self, rule: Rule, call: &str, words: &str, scenario: fn(&Bench)) {
        for seed in 0..SEEDS {
            match self.run(seed, scenario) {
                Err(Halt::Violation(v)) => judge(&v, rule, call, words, seed),
                Err(halt) => panic!("seed {seed}: another halt: {halt}"),
                Ok(()) => panic!("seed {seed}: nothing was said"),
            }
        }
    }

    /// Runs the scenario once with this seed; what the machine did, as a number.
    pub fn trace(self, seed: u64, scenario: fn(&Bench)) -> u64 {
        let mut hash = 0;
        self.run_and(seed, scenario, |machine| hash = machine.trace_hash())
            .unwrap_or_else(|halt| panic!("{halt}"));
        hash
    }

    fn run(self, seed: u64, scenario: fn(&Bench)) -> Result<(), Halt> {
        self.run_and(seed, scenario, |_| ())
    }

    fn run_and(self, seed: u64, scenario: fn(&Bench), then: impl FnOnce(&Machine)) -> Result<(), Halt> {
        let mut config = Config::seeded(seed);
        (self.machine)(&mut config);
        let machine = Machine::new(config);
        let world = InfiniBand::new(&machine, seed);
        let hosts = ["alpha", "beta"].map(|name| machine.add_host(name));
        let inner = machine.clone();
        let result = machine.run(move || {
            let [alpha, beta] = hosts;
            let sides = [(alpha, ALPHA), (beta, BETA)].map(|(host, guid)| self.side(&world, host, guid));
            let sm = world.start_sm(SmConfig::default(), Nanos::from_millis(10));
            let [alpha, beta] = sides;
            let bench = Bench { machine: inner, world, sm, alpha, beta };
            bench.wait_for_ports();
            scenario(&bench);
            for side in [&bench.alpha, &bench.beta] {
                side.kernel.scope(|| side.module.unload()).expect("the probe unloads");
            }
        });
        then(&machine);
        result
    }

    fn side(self, world: &InfiniBand, kernel: Kernel, guid: i64) -> Side {
        lab_ibtf::provide(&kernel);
        let mut config = HcaConfig::new(Guid(guid as u64), 1);
        (self.hca)(&mut config);
        let hca = world.add_hca(&kernel, config).expect("GUIDs are unique");
        let module = kernel.scope(|| {
            let module = kernel.load(&built(self.source), self.source, "misc").expect("the probe loads");
            module.install().expect("the probe installs");
            module
        });
        Side { kernel, hca, module }
    }
}

#[track_caller]
fn judge(v: &Violation, rule: Rule, call: &str, words: &str, seed: u64) {
    let named = v.rule == rule && v.call == call && v.detail.contains(words);
    assert!(named, "seed {seed}: wanted {rule} in {call}, saying {words:?}; was: {v}");
}

/// Builds `probes/ibtl/SOURCE.c` once.
fn built(source: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&'static str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        Probe::new(source)
            .file(format!("probes/ibtl/{source}.c"))
            .depends("misc/ibtl")
            .depends("misc/ibcm")
            .build()
    };
    built.entry(source).or_insert_with(build).clone()
}
