//! Two hosts on a fabric with its subnet manager, the shipped driver in each, and one stream on each link.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use fabric::{Guid, HcaConfig, PKey};
use fakekernel::genunix::KstatValue;
use fakekernel::{Config, Machine, Module, Nanos};
use lab_gldv3::{
    LinkAddress, LinkState, MacStatistics, Offload, PropertyId, PropertyValue, ReceiveQueue, Stream,
};
use lab_ibtf::InfiniBand;
use lab_ibtf::saa::{EmbeddedSm, OpenSmManager};
use lab_world::{Plan, World};
use sm::fault::FaultAction;
use sm::partition::{GroupParams, Membership, Ports};
use sm::{Attribute, Fault, Method, Partition, SmConfig};

use crate::object::{Origin, suppressions};

pub use lab_world::{Driver, PORT_LINK};

/// The link of either host.
pub const LINK: &str = "ibd0";
/// EtherType of IPv4, whose packets the MAC layer looks into.
pub const IPV4: u32 = 0x0800;
/// An EtherType nobody looks into (IEEE 802's for local experiments).
pub const PLAIN: u32 = 0x88b5;
const NODES: [u64; 2] = [0x0002_c903_0000_1000, 0x0002_c903_0000_2000];
/// Packets a stream keeps for the test to take.
const QUEUE: usize = 4096;
/// Longest that a link takes to come up.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A host with the driver attached and the link closed. What can be asked of any host of the lab can be asked of it.
pub struct Host {
    host: Arc<lab_world::Host>,
    origin: Origin,
}

impl Deref for Host {
    type Target = lab_world::Host;

    fn deref(&self) -> &lab_world::Host {
        &self.host
    }
}

impl Host {
    /// The GUID of its port.
    pub fn port(&self) -> Guid {
        self.port
    }

    /// Opens the link, which starts it, and binds to a type.
    pub fn open(&self, sap: u32) -> (Stream, ReceiveQueue) {
        let stream = Stream::open(&self.kernel, LINK).expect("the link opens");
        let queue = stream.receive_queue(QUEUE);
        stream.bind(sap).expect("the stream binds");
        (stream, queue)
    }

    /// The same, once the link is up.
    pub fn open_up(&self, sap: u32) -> (Stream, ReceiveQueue) {
        let (stream, queue) = self.open(sap);
        assert!(self.wait_up(PATIENCE), "the link does not come up: {:?}", self.console());
        (stream, queue)
    }

    pub fn state(&self) -> LinkState {
        self.host.state().expect("the link is there")
    }

    pub fn statistics(&self) -> MacStatistics {
        self.host.statistics().expect("the link is there")
    }

    /// A named counter of the link's kstat.
    pub fn counter(&self, name: &str) -> u64 {
        self.origin.must_be_ours("a counter", name);
        self.host.counter(name).unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    /// A value of another kstat of the link's.
    pub fn named(&self, kstat: &str, name: &str) -> u64 {
        self.origin.must_be_ours("a kstat", kstat);
        let id =
            self.kernel.kstats().into_iter().find(|id| id.module == self.driver_name() && id.name == kstat);
        let values = id.and_then(|id| self.kernel.read_kstat(&id).ok()).unwrap_or_default();
        match values.into_iter().find(|(known, _)| known == name) {
            Some((_, KstatValue::U64(value))) => value,
            other => panic!("{kstat} {name}: {other:?}"),
        }
    }

    pub fn set(&self, name: &str, value: &str) -> Result<(), fakekernel::Errno> {
        let id = PropertyId::Private(name.to_owned());
        lab_gldv3::set_property(&self.kernel, LINK, &id, &PropertyValue::Text(value.to_owned()))
    }

    pub fn get(&self, name: &str) -> String {
        match lab_gldv3::get_property(&self.kernel, LINK, &PropertyId::Private(name.to_owned())) {
            Ok(PropertyValue::Text(text)) => text,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The counters of the link's kstat that are not zero.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let ours = self.host.counters().into_iter().filter(|_| self.origin == Origin::Ours);
        ours.filter(|(_, value)| *value != 0).collect()
    }

    fn module(&self) -> Module {
        self.driven().expect("the driver is attached").0
    }

    /// Calls of its driver into the kernel so far, whatever they do.
    pub fn kernel_calls(&self) -> u64 {
        self.module().calls().iter().map(|(_, count)| count).sum()
    }

    /// The same to one function.
    pub fn calls(&self, function: &str) -> u64 {
        self.module().calls_of(function)
    }

    /// The words of its driver's own memory, by address.
    pub fn words(&self) -> BTreeMap<usize, u64> {
        let words = |(start, bytes): (usize, Vec<u8>)| {
            let value = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let values: Vec<u64> = bytes.chunks_exact(8).map(value).collect();
            values.into_iter().enumerate().map(move |(n, value)| (start + 8 * n, value))
        };
        self.kernel.genunix().memory_of(self.driver_name()).into_iter().flat_map(words).collect()
    }

    /// Message blocks that its driver has and has not passed on or freed.
    pub fn messages_kept(&self) -> usize {
        self.kernel.genunix().messages_held_by(self.driver_name())
    }

    /// Has another port of the adapter driven as well.
    pub fn attach_port(&self, port: Guid) {
        self.attach_node(port, PKey(0xffff));
    }

    /// Has a node of the nexus driven as well: a port's, or for `ibd` that of a P_Key of a port.
    pub fn attach_node(&self, port: Guid, pkey: PKey) {
        self.attach_another(port, pkey).expect("the nexus has the node, and the driver attaches");
    }

    /// Makes the link, if the driver is one whose links are made, whatever state the port is in.
    pub fn create_partition(&self) {
        // The one before may have been deleted by the test itself, past the host.
        if self.host.state().is_none() {
            self.try_delete_partition().expect("it is gone");
        }
        self.make_link().expect("a partition");
    }

    /// Detaches the instance and attaches it again, a few times, as far as the system lets it.
    pub fn comes_and_goes(&self) -> impl FnOnce() + Send + 'static {
        let (kernel, (module, device)) = (self.kernel.clone(), self.driven().expect("it is attached"));
        move || {
            for _ in 0..3 {
                if kernel.detach(&module, &device).is_ok() && kernel.attach(&module, &device).is_err() {
                    return;
                }
            }
        }
    }

    /// Unloads driver and plugin, as soon as the system lets them; ours leave nothing.
    pub fn unload(&self) {
        let left = |()| if self.origin == Origin::Ours { self.check_nothing_is_left() } else { Ok(()) };
        if let Err(why) = self.host.unload().and_then(left) {
            panic!("{why:#}: {:?}", self.console());
        }
    }
}

/// What the host of that name is to be.
fn plan(name: &str, driver: Driver, adapter: HcaConfig, conf: &[(&str, i32)]) -> Plan {
    let origin = Origin::of(name);
    // The C objects are `ibp`, which makes the same link. It would begin in connected mode, where nothing here is about it.
    let (driver, properties) = match origin {
        Origin::Ours => (driver, Vec::new()),
        Origin::Illumos => (Driver::Ibp, vec![(PropertyId::IbLinkMode, PropertyValue::U32(0))]),
    };
    let (object, plugin) = (origin.object("drv", driver.name()), origin.object("mac", "mac_ib"));
    Plan {
        conf: conf.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        partition: Some(LINK.to_owned()),
        forced: true,
        properties,
        ..Plan::new(name, driver, object, plugin, adapter)
    }
}

/// What a test works with; `S` manages the subnet.
pub struct Bench<S = EmbeddedSm> {
    pub machine: Machine,
    pub world: InfiniBand,
    pub sm: Arc<S>,
    pub alpha: Host,
    pub beta: Host,
}

impl<S> Bench<S> {
    /// Both links up, and alpha knows the way to beta: alpha's stream, beta's, and what beta hears from now on.
    pub fn talking(&self, sap: u32) -> (Stream, Stream, ReceiveQueue) {
        let (alpha, _) = self.alpha.open_up(sap);
        let (beta, heard) = self.beta.open_up(sap);
        // Also a packet of IPv4: a header, and the least payload that the MAC layer lets through.
        let mut greeting = [0; 28];
        (greeting[0], greeting[3]) = (0x45, 28);
        alpha.transmit(address_of(&beta), &greeting, Offload::default()).expect("the stream is bound");
        self.settle();
        assert_eq!(heard.try_next().expect("the way is found").payload, greeting);
        (alpha, beta, heard)
    }

    /// Waits for something to come true, at most so long.
    #[track_caller]
    pub fn wait_for(&self, what: &str, within: Nanos, holds: impl Fn() -> bool) {
        let deadline = self.machine.now() + within;
        while !holds() {
            let (alpha, beta) = (self.alpha.console(), self.beta.console());
            assert!(
                self.machine.now() < deadline,
                "not within {within}: {what}; alpha {alpha:?}, beta {beta:?}"
            );
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Lets everything that is under way happen.
    pub fn settle(&self) {
        fakekernel::sleep(Nanos::from_millis(500));
    }
}

impl Bench {
    /// Another host with the driver attached, whose adapter has this node GUID; the test unloads it.
    pub fn another_host(&self, name: &str, node: Guid) -> Host {
        let plan = plan(name, self.alpha.driver(), HcaConfig::new(node, 1), &[]);
        let host = lab_world::Host::boot(&self.machine, &self.world, plan).expect("GUIDs are unique");
        attached(Arc::new(host))
    }

    /// The administrator does this with requests of an attribute and, if one is given, a method, in front of what it did
    /// before; `count` of them, or all.
    pub fn fault(
        &self,
        attribute: Attribute,
        method: Option<Method>,
        count: Option<u32>,
        action: FaultAction,
    ) {
        let fault = Fault { attribute: Some(attribute), method, count, ..Fault::always(action) };
        self.sm.faults(|script| script.push(fault));
    }

    /// Faults are over.
    pub fn no_faults(&self) {
        self.sm.faults(|script| script.clear());
    }

    /// How many requests met a fault.
    pub fn faulted(&self) -> u64 {
        self.sm.inspect(|sm| sm.sa().counters().faulted)
    }

    /// Counts the requests of a kind from now on, in [`Bench::faulted`]: each takes a little longer.
    pub fn count(&self, attribute: Attribute, method: Method) {
        self.fault(attribute, Some(method), None, FaultAction::Delay(sm::Nanos(1_000_000)));
    }

    /// How many groups alpha's port is a member of.
    pub fn memberships_of_alpha(&self) -> usize {
        let port = self.alpha.port();
        self.sm.inspect(|sm| sm.sa().memberships().filter(|(_, member, _)| *member == port).count())
    }
}

/// How the hosts and their fabric are made.
#[derive(Clone, Copy)]
pub struct Setup {
    /// More than a hundred are a tenth of them, unless `WHOLE` is set, as `make nightly` does.
    pub seeds: u64,
    pub hca: fn(&mut HcaConfig),
    /// When the subnet manager first looks around.
    pub sm_after: Nanos,
    /// Whether the subnet manager makes the broadcast group.
    pub ipoib: bool,
    /// How long a packet lives, as the SA says of every path: a code.
    pub lifetime: u8,
    /// What the switch's ports can carry.
    pub switch_mtu: sm::MtuCode,
    pub driver: Driver,
    /// What the driver's configuration file says.
    pub conf: &'static [(&'static str, i32)],
    /// Changes the machine.
    pub machine: fn(&mut Config),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seeds: 4,
            hca: |_| (),
            sm_after: Nanos::from_millis(1),
            ipoib: true,
            lifetime: SmConfig::default().sa.subnet_timeout,
            switch_mtu: SmConfig::default().switch_mtu,
            driver: Driver::Ibd,
            conf: &[],
            machine: |_| (),
        }
    }
}

impl Setup {
    /// Runs a test with several seeds. At the end both drivers are unloaded and have left nothing.
    pub fn run(self, test: impl Fn(&Bench) + Clone + Send + 'static) {
        let some = self.seeds > 100 && std::env::var_os("WHOLE").is_none();
        for seed in 1..=if some { self.seeds / 10 } else { self.seeds } {
            self.once(Config::seeded(seed), seed, test.clone(), move |world| {
                let partitions = vec![partition(self.ipoib)];
                let mut config = SmConfig { partitions, switch_mtu: self.switch_mtu, ..SmConfig::default() };
                config.sa.subnet_timeout = self.lifetime;
                world.start_sm(config, self.sm_after)
            });
        }
    }

    /// The same on a real OpenSM, in real time.
    pub fn run_under_opensm(self, test: fn(&Bench<OpenSmManager>)) {
        self.once(Config::live(), 1, test, move |world| {
            world.start_opensm(vec![partition(self.ipoib)]).expect("OpenSM and ibsim start")
        });
    }

    fn once<S: Send + Sync + 'static>(
        self,
        config: Config,
        seed: u64,
        test: impl FnOnce(&Bench<S>) + Send + 'static,
        start_sm: impl FnOnce(&InfiniBand) -> Arc<S> + Send + 'static,
    ) {
        let mut config = Config { suppress: suppressions(), ..config };
        (self.machine)(&mut config);
        let machine = Machine::new(config);
        let inner = machine.clone();
        let outcome = machine.run(move || {
            let mut world = World::new(&inner, seed);
            let [alpha, beta] = [("alpha", NODES[0]), ("beta", NODES[1])].map(|(name, node)| {
                let mut adapter = HcaConfig::new(Guid(node), 1);
                (self.hca)(&mut adapter);
                world.add_host(plan(name, self.driver, adapter, self.conf)).expect("GUIDs are unique")
            });
            // OpenSM wants to know all adapters when it starts.
            let sm = start_sm(&world.infiniband);
            let (alpha, beta) = (attached(alpha), attached(beta));
            let bench = Bench { machine: inner, world: world.infiniband, sm, alpha, beta };
            test(&bench);
            bench.alpha.unload();
            bench.beta.unload();
        });
        if let Err(halt) = outcome {
            panic!("seed {seed}: {halt}");
        }
    }
}

/// The host with its link.
fn attached(host: Arc<lab_world::Host>) -> Host {
    host.make_link().expect("the driver attaches");
    Host { origin: Origin::of(&host.name), host }
}

/// A test of two hosts with ordinary adapters.
pub fn holds(test: fn(&Bench)) {
    Setup::default().run(test);
}

/// The default partition, with or without its broadcast group.
pub fn partition(ipoib: bool) -> Partition {
    let partition = Partition::new("Default", sm::PKey(0xffff)).with_members(Ports::All, Membership::Full);
    if ipoib { partition.with_ipoib(GroupParams::default()) } else { partition }
}

/// An IPv4 group's address as IP gives it to the link: scope and P_Key are the driver's to fill in.
pub fn group(last: u32) -> LinkAddress {
    let mut bytes = [0; 20];
    bytes[1..4].fill(0xff);
    bytes[4..8].copy_from_slice(&[0xff, 0x10, 0x40, 0x1b]);
    bytes[16..].copy_from_slice(&last.to_be_bytes());
    LinkAddress(bytes)
}

/// The address of a stream's link.
pub fn address_of(stream: &Stream) -> LinkAddress {
    stream.details().address
}
