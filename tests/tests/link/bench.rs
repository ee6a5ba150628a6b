//! Two hosts on a fabric with its subnet manager, the shipped driver in each, and one stream on each link.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric::{Guid, HcaConfig, PKey};
use fakekernel::genunix::{DevInfo, KstatValue};
use fakekernel::{Config, Kernel, Machine, Module, Nanos};
use lab_gldv3::{
    LinkAddress, LinkState, MacStatistics, Offload, PropertyId, PropertyValue, ReceiveQueue, Stream, links,
    mac_statistics,
};
use lab_ibtf::saa::{EmbeddedSm, OpenSmManager};
use lab_ibtf::{InfiniBand, nexus};
use sm::fault::FaultAction;
use sm::partition::{GroupParams, Membership, Ports};
use sm::{Attribute, Fault, Method, Partition, SmConfig};

use crate::object::{Origin, suppressions};

/// The link of either host.
pub const LINK: &str = "ibd0";
/// The link that partitions are made on.
pub const PORT_LINK: &str = "ibp0";
/// EtherType of IPv4, whose packets the MAC layer looks into.
pub const IPV4: u32 = 0x0800;
/// An EtherType nobody looks into (IEEE 802's for local experiments).
pub const PLAIN: u32 = 0x88b5;
const NODES: [u64; 2] = [0x0002_c903_0000_1000, 0x0002_c903_0000_2000];
/// Packets a stream keeps for the test to take.
const QUEUE: usize = 4096;
/// Longest that a link takes to come up.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A host with the driver attached and the link closed.
pub struct Host {
    pub kernel: Kernel,
    driver: Driver,
    origin: Origin,
    port: Guid,
    module: Module,
    device: DevInfo,
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
        let deadline = self.kernel.machine().now() + PATIENCE;
        while self.state() != LinkState::Up {
            assert!(
                self.kernel.machine().now() < deadline,
                "the link does not come up: {:?}",
                self.console()
            );
            fakekernel::sleep(Nanos::from_millis(10));
        }
        (stream, queue)
    }

    pub fn state(&self) -> LinkState {
        links(&self.kernel).iter().find(|link| link.name == LINK).expect("the link is there").state
    }

    pub fn statistics(&self) -> MacStatistics {
        mac_statistics(&self.kernel, LINK).expect("the link is there")
    }

    /// A named counter of the link's kstat.
    pub fn counter(&self, name: &str) -> u64 {
        self.origin.must_be_ours("a counter", name);
        let ids = self.kernel.kstats();
        let id = ids.iter().find(|id| id.name == "datagram").expect("the link has its kstat");
        let values = self.kernel.read_kstat(id).expect("it can be read");
        match values.iter().find(|(known, _)| known == name) {
            Some((_, KstatValue::U64(value))) => *value,
            other => panic!("{name}: {other:?}"),
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
    pub fn counters(&self) -> Vec<(String, KstatValue)> {
        if self.origin == Origin::Illumos {
            return Vec::new();
        }
        let ids = self.kernel.kstats();
        let id = ids.iter().find(|id| id.name == "datagram").expect("the link has its kstat");
        let values = self.kernel.read_kstat(id).expect("it can be read");
        values.into_iter().filter(|(_, value)| *value != KstatValue::U64(0)).collect()
    }

    /// What the host has logged.
    pub fn console(&self) -> Vec<String> {
        self.kernel.genunix().messages().iter().map(|message| message.text.clone()).collect()
    }

    /// Calls of its driver into the kernel so far, whatever they do.
    pub fn kernel_calls(&self) -> u64 {
        self.module.calls().iter().map(|(_, count)| count).sum()
    }

    /// The same to one function.
    pub fn calls(&self, function: &str) -> u64 {
        self.module.calls_of(function)
    }

    /// The words of its driver's own memory, by address.
    pub fn words(&self) -> BTreeMap<usize, u64> {
        let words = |(start, bytes): (usize, Vec<u8>)| {
            let value = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let values: Vec<u64> = bytes.chunks_exact(8).map(value).collect();
            values.into_iter().enumerate().map(move |(n, value)| (start + 8 * n, value))
        };
        self.kernel.genunix().memory_of(self.module.name()).into_iter().flat_map(words).collect()
    }

    /// Message blocks that its driver has and has not passed on or freed.
    pub fn messages_kept(&self) -> usize {
        self.kernel.genunix().messages_held_by(self.module.name())
    }

    /// The GUID of its adapter.
    pub fn adapter(&self) -> Guid {
        Guid(self.port.0 - 1)
    }

    fn attach(kernel: Kernel, port: Guid, driver: Driver, conf: &[(&str, i32)]) -> Self {
        let origin = Origin::of(kernel.name());
        // The C objects are `ibp`, which makes the same link.
        let driver = if origin == Origin::Ours { driver } else { Driver::Ibp };
        let name = driver.name();
        if driver == Driver::Ibd {
            nexus::use_ibd(&kernel);
        }
        let module = kernel.load(&origin.object("drv", name), name, "drv").expect("the driver loads");
        module.install().expect("the driver installs");
        let pkey = (driver == Driver::Ibd).then_some(PKey(0xffff));
        let node = nexus::open(&kernel, port, driver.service(), pkey).expect("the nexus has the node");
        node.device.with_properties(|properties| {
            for (name, value) in conf {
                properties.set_system(name, (*value).into());
            }
        });
        nexus::attach(&kernel, &module, &node).expect("the driver attaches");
        let host = Self { kernel, driver, origin, port, module, device: node.device };
        host.create_partition();
        host
    }

    /// Has another port of the adapter driven as well.
    pub fn attach_port(&self, port: Guid) {
        self.attach_node(port, (self.driver == Driver::Ibd).then_some(PKey(0xffff)));
    }

    /// Has a node of the nexus driven as well: a port's, or that of a P_Key of a port.
    pub fn attach_node(&self, port: Guid, pkey: Option<PKey>) {
        let node =
            nexus::open(&self.kernel, port, self.driver.service(), pkey).expect("the nexus has the node");
        nexus::attach(&self.kernel, &self.module, &node).expect("the driver attaches");
    }

    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Makes the link, if the driver is one whose links are made, whatever state the port is in.
    pub fn create_partition(&self) {
        if self.driver == Driver::Ibp {
            lab_gldv3::create_partition(&self.kernel, PORT_LINK, 0xffff, LINK, true).expect("a partition");
        }
        if self.origin == Origin::Illumos {
            // It would begin in connected mode, where nothing here is about it.
            let datagrams = PropertyValue::U32(0);
            lab_gldv3::set_property(&self.kernel, LINK, &PropertyId::IbLinkMode, &datagrams).expect("a mode");
        }
    }

    /// Unmakes it.
    pub fn delete_partition(&self) -> Result<(), fakekernel::Errno> {
        match self.driver {
            Driver::Ibd => Ok(()),
            Driver::Ibp if !links(&self.kernel).iter().any(|link| link.name == LINK) => Ok(()),
            Driver::Ibp => lab_gldv3::delete_partition(&self.kernel, LINK).map_err(|error| error.errno),
        }
    }

    /// One attempt to suspend it, as a system does that is about to be suspended.
    pub fn suspend(&self) -> Result<(), fakekernel::Errno> {
        self.kernel.suspend(&self.module, &self.device)
    }

    /// It is resumed.
    pub fn resume(&self) -> Result<(), fakekernel::Errno> {
        self.kernel.resume(&self.module, &self.device)
    }

    /// Detaches the instance and attaches it again, a few times, as far as the system lets it.
    pub fn comes_and_goes(&self) -> impl FnOnce() + Send + 'static {
        let (kernel, module, device) = (self.kernel.clone(), self.module.clone(), self.device.clone());
        move || {
            for _ in 0..3 {
                if kernel.detach(&module, &device).is_ok() && kernel.attach(&module, &device).is_err() {
                    return;
                }
            }
        }
    }

    /// One attempt to unload the driver.
    pub fn try_unload(&self) -> Result<(), fakekernel::Errno> {
        self.module.unload()
    }

    /// Unloads the driver, as soon as the system lets it.
    pub fn unload(&self) {
        let deadline = self.kernel.machine().now() + Nanos::from_secs(300);
        loop {
            match self.delete_partition().and_then(|()| self.module.unload()) {
                Ok(()) => return,
                Err(fakekernel::Errno::EBUSY) if self.kernel.machine().now() < deadline => {
                    fakekernel::sleep(Nanos::from_millis(100));
                }
                Err(errno) => panic!("{errno}: {:?}", self.console()),
            }
        }
    }
}

/// Gives a host the frameworks and the plugin.
pub fn provide(kernel: &Kernel) {
    lab_gldv3::provide(kernel);
    lab_ibtf::provide(kernel);
    kernel.add_object("mac/mac_ib", &Origin::of(kernel.name()).object("mac", "mac_ib"));
}

/// An illumos host with an adapter, and no driver yet. The GUID of its port.
fn plug(world: &InfiniBand, kernel: &Kernel, config: HcaConfig) -> Guid {
    provide(kernel);
    let port = config.ports[0].guid;
    world.add_hca(kernel, config).expect("GUIDs are unique");
    port
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
        let kernel = self.machine.add_host(name);
        let port = plug(&self.world, &kernel, HcaConfig::new(node, 1));
        Host::attach(kernel, port, self.alpha.driver(), &[])
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

/// Which of the two drivers the hosts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Ibd,
    Ibp,
}

impl Driver {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ibd => "ibd",
            Self::Ibp => "ibp",
        }
    }

    /// The service of the nexus that its nodes are for.
    fn service(self) -> &'static str {
        match self {
            Self::Ibd => "ibd",
            Self::Ibp => "ipib",
        }
    }
}

/// How the hosts and their fabric are made.
#[derive(Clone, Copy)]
pub struct Setup {
    pub seeds: u64,
    pub hca: fn(&mut HcaConfig),
    /// When the subnet manager first looks around.
    pub sm_after: Nanos,
    /// Whether the subnet manager makes the broadcast group.
    pub ipoib: bool,
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
            driver: Driver::Ibd,
            conf: &[],
            machine: |_| (),
        }
    }
}

impl Setup {
    /// Runs a test with several seeds. At the end both drivers are unloaded and have left nothing.
    pub fn run(self, test: impl Fn(&Bench) + Clone + Send + 'static) {
        for seed in 1..=self.seeds {
            self.once(Config::seeded(seed), seed, test.clone(), move |world| {
                let config = SmConfig { partitions: vec![partition(self.ipoib)], ..SmConfig::default() };
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
        let world = InfiniBand::new(&machine, seed);
        let hosts = ["alpha", "beta"].map(|name| machine.add_host(name));
        let inner = machine.clone();
        let outcome = machine.run(move || {
            let mut nodes = NODES.into_iter();
            let hosts = hosts.map(|kernel| {
                let mut config = HcaConfig::new(Guid(nodes.next().expect("one each")), 1);
                (self.hca)(&mut config);
                (plug(&world, &kernel, config), kernel)
            });
            // OpenSM wants to know all adapters when it starts.
            let sm = start_sm(&world);
            let [alpha, beta] =
                hosts.map(|(port, kernel)| Host::attach(kernel, port, self.driver, self.conf));
            let bench = Bench { machine: inner, world, sm, alpha, beta };
            test(&bench);
            bench.alpha.unload();
            bench.beta.unload();
        });
        if let Err(halt) = outcome {
            panic!("seed {seed}: {halt}");
        }
    }
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
