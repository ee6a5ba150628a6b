//! Two hosts on a fabric with its subnet manager, and a client of the communication manager in each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use conformance::probe::Probe;
use fabric::{Guid, HcaConfig};
use fakekernel::{Config, Ctx, Halt, Kernel, Machine, Module, Nanos, Rule};
use lab_ibtf::InfiniBand;
use lab_ibtf::saa::EmbeddedSm;
use sm::fault::{Fault, FaultAction};
use sm::{Attribute, SmConfig};

/// Node GUIDs; port 1 has the next one.
const ALPHA: i64 = 0x0002_c903_0000_1000;
const BETA: i64 = 0x0002_c903_0000_2000;

/// Each scenario is run with this many seeds.
const SEEDS: u64 = 6;

/// A host with its client.
pub struct Side {
    pub kernel: Kernel,
    module: Module,
    node: i64,
}

impl Side {
    /// What a function of the probe returns, called in user context.
    pub fn ask(&self, probe: &'static str, arg: i64) -> i64 {
        self.kernel.scope(|| self.module.call_probe(probe, Some(Ctx::User), arg))
    }

    /// The same at interrupt level.
    pub fn interrupt(&self, probe: &'static str, arg: i64) -> i64 {
        self.kernel.scope(|| self.module.call_probe(probe, Some(Ctx::Soft { pil: 4 }), arg))
    }

    /// Calls a function of the probe, which has to return 0.
    #[track_caller]
    pub fn run(&self, probe: &'static str, arg: i64) {
        self.expect(probe, arg, 0);
    }

    /// Calls a function of the probe, which has to return `answer`.
    #[track_caller]
    pub fn expect(&self, probe: &'static str, arg: i64, answer: i64) {
        assert_eq!(self.ask(probe, arg), answer, "{probe}({arg:#x}) on {}", self.kernel.name());
    }

    /// GUID of its port.
    pub fn guid(&self) -> i64 {
        self.node + 1
    }

    pub fn port(&self) -> Guid {
        Guid(self.guid() as u64)
    }
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
    /// Lets everything that is under way happen.
    pub fn settle(&self) {
        fakekernel::sleep(Nanos::from_millis(200));
    }

    /// The administrator does this with the next `count` requests of an attribute.
    pub fn fault(&self, attribute: Attribute, count: u32, action: FaultAction) {
        let fault = Fault { attribute: Some(attribute), count: Some(count), ..Fault::always(action) };
        self.sm.faults(|script| script.push(fault));
    }

    /// MADs the administrator has received.
    pub fn requests(&self) -> u64 {
        self.sm.inspect(|sm| sm.sa().counters().received)
    }

    /// Members of the group with these last eight bytes.
    pub fn members(&self, group: u64) -> usize {
        self.sm.inspect(|sm| {
            let mut groups = sm.sa().groups();
            groups.find(|(record, _)| record.mgid.guid == group).map_or(0, |(_, members)| members.len())
        })
    }
}

/// Last eight bytes of the broadcast group.
pub const BROADCAST: u64 = 0xffff_ffff;

/// A scenario with a probe.
#[derive(Clone, Copy)]
pub struct Setup {
    source: &'static str,
    sm: fn(&mut SmConfig),
}

/// A scenario with the probe of `probes/ibcm/SOURCE.c`, open on both hosts.
pub const fn with(source: &'static str) -> Setup {
    Setup { source, sm: |_| () }
}

impl Setup {
    /// Changes the subnet manager's configuration.
    pub const fn sm(mut self, change: fn(&mut SmConfig)) -> Self {
        self.sm = change;
        self
    }

    /// Runs the scenario with several seeds; both clients close and unload at the end and leave nothing.
    pub fn holds(self, scenario: fn(&Bench)) {
        for seed in 0..SEEDS {
            if let Err(halt) = self.run(seed, scenario, true) {
                panic!("seed {seed}: {halt}");
            }
        }
    }

    /// The same for a scenario that closes alpha's client itself.
    pub fn holds_and_closes(self, scenario: fn(&Bench)) {
        for seed in 0..SEEDS {
            if let Err(halt) = self.run(seed, scenario, false) {
                panic!("seed {seed}: {halt}");
            }
        }
    }

    /// Runs the scenario with several seeds; each time the machine halts because a client broke `rule` in `call`.
    pub fn breaks(self, rule: Rule, call: &str, scenario: fn(&Bench)) {
        for seed in 0..SEEDS {
            match self.run(seed, scenario, true) {
                Err(Halt::Violation(v)) => {
                    assert_eq!((v.rule, v.call.as_str()), (rule, call), "seed {seed}: {v}")
                }
                Err(halt) => panic!("seed {seed}: another halt: {halt}"),
                Ok(()) => panic!("seed {seed}: nothing was said"),
            }
        }
    }

    fn run(self, seed: u64, scenario: fn(&Bench), close_alpha: bool) -> Result<(), Halt> {
        let machine = Machine::new(Config::seeded(seed));
        let world = InfiniBand::new(&machine, seed);
        let hosts = ["alpha", "beta"].map(|name| machine.add_host(name));
        let inner = machine.clone();
        machine.run(move || {
            let [alpha, beta] = hosts;
            let sides = [(alpha, ALPHA), (beta, BETA)].map(|(host, node)| self.side(&world, host, node));
            let mut config = SmConfig::default();
            (self.sm)(&mut config);
            let sm = world.start_sm(config, Nanos::from_millis(10));
            let [alpha, beta] = sides;
            let bench = Bench { machine: inner, world, sm, alpha, beta };
            bench.settle();
            for side in [&bench.alpha, &bench.beta] {
                side.run("probe_open", side.node);
            }
            scenario(&bench);
            if close_alpha {
                bench.alpha.run("probe_close", 0);
            }
            bench.beta.run("probe_close", 0);
            for side in [&bench.alpha, &bench.beta] {
                side.kernel.scope(|| side.module.unload()).expect("the probe unloads");
            }
        })
    }

    fn side(self, world: &InfiniBand, kernel: Kernel, node: i64) -> Side {
        lab_ibtf::provide(&kernel);
        world.add_hca(&kernel, HcaConfig::new(Guid(node as u64), 1)).expect("GUIDs are unique");
        let module = kernel.scope(|| {
            let module = kernel.load(&built(self.source), self.source, "misc").expect("the probe loads");
            module.install().expect("the probe installs");
            module
        });
        Side { kernel, module, node }
    }
}

/// Builds `probes/ibcm/SOURCE.c` once.
fn built(source: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&'static str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        Probe::new(source)
            .file(format!("probes/ibcm/{source}.c"))
            .depends("misc/ibtl")
            .depends("misc/ibcm")
            .build()
    };
    built.entry(source).or_insert_with(build).clone()
}
