//! One kernel with `swhca` in it, and two links on the two ports of its adapter.

use std::sync::Arc;

use conformance::probe::shipped;
use fabric::HcaConfig;
use fakekernel::{Config, Machine, Nanos, Rule, Suppression};
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Stream};
use lab_world::{Driver, Host, Plan, Software, SoftwarePlan};

/// An EtherType nobody looks into (IEEE 802's for local experiments).
pub const PLAIN: u32 = 0x88b5;
/// Packets a stream keeps for the test to take.
const QUEUE: usize = 4096;
/// Longest that a link takes to come up, and a packet to arrive.
pub const PATIENCE: Nanos = Nanos::from_secs(30);

pub struct Bench {
    pub software: Arc<Software>,
    pub alpha: Host,
    pub beta: Host,
    /// Which of the runs of the test this is.
    pub seed: u64,
}

/// How the adapter and its links are made.
#[derive(Clone, Copy)]
pub struct Setup {
    pub seeds: u64,
    pub driver: Driver,
    pub adapter: fn(&mut SoftwarePlan),
    /// A rule that a client breaks to see what the adapter makes of it.
    pub broken: Option<Rule>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { seeds: 4, driver: Driver::Ibp, adapter: |_| (), broken: None }
    }
}

impl Setup {
    /// Runs a test with several seeds. At the end all modules are unloaded and have left nothing.
    pub fn run(self, test: impl Fn(&Bench) + Clone + Send + 'static) {
        for seed in 1..=self.seeds {
            let mut config = Config::seeded(seed);
            config.suppress.0.extend(self.broken.map(|rule| Suppression {
                host: None,
                module: "client".into(),
                rule,
                call: None,
                function: None,
                evidence: "what the adapter makes of it is to be seen".into(),
            }));
            let machine = Machine::new(config);
            let (inner, test) = (machine.clone(), test.clone());
            let outcome = machine.run(move || {
                let bench = Bench { seed, ..self.bench(&inner) };
                test(&bench);
                bench.end();
            });
            outcome.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        }
    }

    fn bench(self, machine: &Machine) -> Bench {
        let mut plan = plan();
        (self.adapter)(&mut plan);
        let software = Arc::new(Software::boot(machine, &plan).expect("swhca attaches"));
        let host = |name: &str| {
            let (object, plugin) = (shipped("drv", self.driver.name()), shipped("mac", "mac_ib"));
            let unused = HcaConfig::new(fabric::Guid(1), 1);
            let plan = Plan::new(name, self.driver, object, plugin, unused);
            Host::on_port(&software, plan).expect("there is a port for each")
        };
        let (alpha, beta) = (host("alpha"), host("beta"));
        Bench { software, alpha, beta, seed: 0 }
    }
}

/// An adapter as it ships.
pub fn plan() -> SoftwarePlan {
    SoftwarePlan::new("host", shipped("drv", "swhca"), shipped("mac", "mac_ib"))
}

/// A link that is open.
pub struct Open {
    pub stream: Stream,
    pub heard: ReceiveQueue,
}

impl Open {
    pub fn address(&self) -> LinkAddress {
        self.stream.details().address
    }

    /// Sends to `to`, which hears it.
    #[track_caller]
    pub fn reaches(&self, to: &Open, payload: &[u8]) {
        self.stream.transmit(to.address(), payload, Offload::default()).expect("the stream is bound");
        assert_eq!(to.next().as_deref(), Some(payload));
    }

    /// Hears what `from` sends, soon: what is sent before either knows the way again is lost.
    #[track_caller]
    pub fn is_reached_by(&self, from: &Open, payload: &[u8]) {
        let deadline = fakekernel::now() + PATIENCE;
        while fakekernel::now() < deadline {
            from.stream.transmit(self.address(), payload, Offload::default()).expect("the stream is bound");
            fakekernel::sleep(Nanos::from_millis(100));
            if self.heard.try_next().is_some_and(|packet| packet.payload == payload) {
                while self.heard.try_next().is_some() {}
                return;
            }
        }
        panic!("nothing was heard for {PATIENCE:?}");
    }

    /// What comes next, if it comes in time.
    pub fn next(&self) -> Option<Vec<u8>> {
        let deadline = fakekernel::now() + PATIENCE;
        loop {
            if let Some(packet) = self.heard.try_next() {
                return Some(packet.payload);
            }
            if fakekernel::now() >= deadline {
                return None;
            }
            fakekernel::sleep(Nanos::from_millis(1));
        }
    }
}

impl Bench {
    /// A host's link, once it is up.
    #[track_caller]
    pub fn open(&self, host: &Host) -> Open {
        self.open_for(host, PLAIN)
    }

    /// The same, for packets of a type.
    #[track_caller]
    pub fn open_for(&self, host: &Host, sap: u32) -> Open {
        host.kernel.scope(|| host.make_link()).expect("a link");
        self.open_named(&host.link(), sap)
    }

    /// A link that somebody has made, once it is up.
    #[track_caller]
    pub fn open_link(&self, name: &str) -> Open {
        self.open_named(name, PLAIN)
    }

    #[track_caller]
    fn open_named(&self, name: &str, sap: u32) -> Open {
        let kernel = &self.software.kernel;
        let stream = Stream::open(kernel, name).expect("the link opens");
        let heard = stream.receive_queue(QUEUE);
        stream.bind(sap).expect("the stream binds");
        let is_up =
            || lab_gldv3::links(kernel).iter().any(|link| link.name == name && link.state == LinkState::Up);
        let deadline = fakekernel::now() + PATIENCE;
        while !is_up() {
            assert!(fakekernel::now() < deadline, "{name} does not come up: {:?}", self.alpha.console());
            fakekernel::sleep(Nanos::from_millis(10));
        }
        Open { stream, heard }
    }

    /// Everything goes, and nothing is left.
    fn end(&self) {
        for host in [&self.alpha, &self.beta] {
            host.unload().expect("nobody has the link open");
        }
        self.software.unload().expect("nobody has the adapter");
        self.software.check_nothing_is_left().expect("an empty kernel");
        let console = self.alpha.console();
        assert!(!console.iter().any(|line| line.contains("did not free")), "{console:?}");
    }
}
