//! What the hosts' side of a fabric sees of a real OpenSM. In real time: waits for conditions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fabric::{AsyncEvent, CqNum, Dma, DmaFault, Fabric, Guid, HcaConfig, HcaEvents, PortState};
use fakekernel::{Config, Machine, Nanos};
use sm::partition::{Membership, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, mc_member_mask};
use sm::{Arrival, Attribute, Gid, Inbound, JoinState, Method, PKey, Partition, QKey, SaMad, Status};

use super::OpenSmManager;
use crate::InfiniBand;
use crate::saa::SubnetManager;
use sm::SaTransport;

const NODES: [u64; 2] = [0x0002_c903_0000_1000, 0x0002_c903_0000_1010];
const PATIENCE: Nanos = Nanos::from_secs(60);

/// An adapter without memory or completions: its port is what is looked at.
#[derive(Default)]
struct Events(Mutex<Vec<AsyncEvent>>);

impl HcaEvents for Events {
    fn completion(&self, _: CqNum) {}

    fn async_event(&self, event: AsyncEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    fn has(&self, wanted: impl Fn(&AsyncEvent) -> bool) -> bool {
        self.0.lock().unwrap().iter().any(wanted)
    }
}

struct NoMemory;

impl Dma for NoMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        Err(DmaFault { addr, len: buf.len() })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault> {
        Err(DmaFault { addr, len: buf.len() })
    }

    fn is_memory(&self, _: u64, _: u64) -> bool {
        false
    }
}

#[derive(Default)]
struct Answers(Mutex<Vec<SaMad>>);

impl Inbound for Answers {
    fn receive(&self, arrival: &Arrival) {
        self.0.lock().unwrap().push(SaMad::parse(&arrival.mad).unwrap());
    }
}

struct World {
    machine: Machine,
    fabric: Fabric,
    events: Vec<Arc<Events>>,
    manager: Arc<OpenSmManager>,
}

fn port(n: usize) -> Guid {
    Guid(NODES[n] + 1)
}

/// Runs `test` once OpenSM has brought both ports up.
fn run(test: impl FnOnce(World) + Send + 'static) {
    let machine = Machine::new(Config::live());
    let infiniband = InfiniBand::new(&machine, 1);
    let service = machine.add_host("service");
    let outcome = machine.clone().run(move || {
        let fabric = infiniband.fabric().clone();
        let add = |node| {
            let events = Arc::new(Events::default());
            let config = HcaConfig::new(Guid(node), 1);
            fabric.add_hca(config, Arc::new(NoMemory), events.clone()).unwrap();
            events
        };
        let events = NODES.map(add).into();
        let partitions = vec![Partition::default_open()];
        let manager = OpenSmManager::start(&service, &fabric, partitions, 0).unwrap();
        let world = World { machine, fabric, events, manager };
        world.until("both ports are active", || {
            world.fabric.subnet_ports().iter().all(|port| port.attr.state == PortState::Active)
        });
        test(world);
    });
    if let Err(halt) = outcome {
        panic!("{halt}");
    }
}

impl World {
    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = self.machine.now() + PATIENCE;
        while !holds() {
            assert!(self.machine.now() < deadline, "{what}; {:?}", self.manager.health());
            fakekernel::sleep(Nanos::from_millis(5));
        }
    }

    fn state(&self, n: usize) -> PortState {
        let ports = self.fabric.subnet_ports();
        ports.iter().find(|view| view.attr.guid == port(n)).unwrap().attr.state
    }

    /// Joins the broadcast group as a client does.
    fn join(&self, n: usize) {
        let answers = Arc::new(Answers::default());
        let inbound: Arc<dyn Inbound> = answers.clone();
        self.manager.attach(port(n), &inbound);
        let record = McMemberRecord {
            mgid: broadcast(),
            port_gid: Gid::of_port(Gid::DEFAULT_PREFIX, port(n)),
            q_key: QKey::IPOIB,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        let request =
            SaMad::request(Method::SET, Attribute::MC_MEMBER_RECORD, 0xabcd << 48, mc_member_mask::JOIN);
        let view = self.fabric.subnet_ports().into_iter().find(|view| view.attr.guid == port(n)).unwrap();
        let to = super::super::session::administrator(&view.attr);
        let mad = request.with_record(&record).emit();
        self.manager.send(port(n), to, &mad).unwrap();
        self.until("the join is answered", || {
            let answers = answers.0.lock().unwrap();
            answers.iter().any(|mad| mad.transaction == 0xabcd << 48 && mad.status == Status::SUCCESS)
        });
        self.manager.detach(port(n), &inbound);
    }
}

fn broadcast() -> Gid {
    broadcast_mgid(PKey::DEFAULT_FULL, 2)
}

#[test]
fn the_fabric_follows_what_opensm_decides() {
    run(|world| {
        let ports = world.fabric.subnet_ports();
        let lids: BTreeSet<u16> = ports.iter().map(|port| port.attr.lid.0).collect();
        assert_eq!(lids.len(), 2);
        assert!(ports.iter().all(|port| port.attr.subnet_timeout == 18 && port.attr.sm_lid.is_unicast()));
        world.join(0);
        world.join(1);
        let both: BTreeSet<Guid> = [port(0), port(1)].into();
        world.until("the switch sends to both", || world.fabric.multicast_route(fabric::Lid(0xc000)) == both);
        let one = Partition::new("one", sm::PKey(1)).with_members(Ports::All, Membership::Full);
        world.manager.set_partitions(vec![Partition::default_open(), one]).unwrap();
        world.until("the P_Key is in the tables", || {
            let keys = [fabric::PKey(0xffff), fabric::PKey(0x8001)];
            world.fabric.subnet_ports().iter().all(|port| port.attr.pkeys[..2] == keys)
        });
    });
}

#[test]
fn a_pulled_cable_is_pulled_for_opensm_too() {
    run(|world| {
        world.join(1);
        assert!(world.manager.is_member(broadcast(), port(1)).unwrap());
        assert!(world.manager.set_cable(port(1), false));
        assert_eq!(world.state(1), PortState::Down);
        world.until("OpenSM takes the port out", || {
            world.manager.is_member(broadcast(), port(1)) == Ok(false)
        });
        assert_eq!(world.state(1), PortState::Down, "whatever was read before");
        assert!(world.manager.set_cable(port(1), true));
        world.until("up again", || world.state(1) == PortState::Active);
        assert!(!world.manager.set_cable(Guid(7), true), "no such port");
    });
}

#[test]
fn clients_are_told_to_register_anew_when_another_opensm_comes_and_only_then() {
    run(|world| {
        let told = |n: usize| world.events[n].has(|event| matches!(event, AsyncEvent::ClientReregister(_)));
        world.join(0);
        assert!(!told(0) && !told(1));
        world.manager.stop();
        assert!(!told(0), "there is nobody to register with");
        assert_eq!(world.state(0), PortState::Active, "the subnet goes on without a manager");
        world.manager.restart().unwrap();
        world.until("every port is told", || told(0) && told(1));
        assert_eq!(
            world.manager.is_member(broadcast(), port(0)),
            Ok(false),
            "the new one answers, and knows nobody"
        );
    });
}
