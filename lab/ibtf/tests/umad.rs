//! Programs on two hosts with umad devices, under the embedded subnet manager, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabric::{Guid, HcaConfig};
use fakekernel::{Config, Ctx, Kernel, Machine, Nanos};
use lab_ibtf::umad::{IsSm, open, open_issm, open_old};
use lab_ibtf::{InfiniBand, saa::EmbeddedSm};
use sm::fault::{Fault, FaultAction};
use sm::records::{
    ClassPortInfo, InformInfo, NodeRecord, Notice, PathRecord, PortInfoRecord, Record, Trap, path_mask,
};
use sm::{Attribute, Gid, Lid, Method, QKey, Qpn, SaMad, SmConfig};
use umad::{AskError, Device, Errno, Header, Layout, Methods, Registration, SaClient};

const SEEDS: u64 = 8;
const ALICE: u64 = 0x0002_c903_0000_1000;
const BOB: u64 = 0x0002_c903_0000_2000;
/// More nodes than two segments describe.
const OTHERS: u64 = 12;
const PATIENCE: Duration = Duration::from_secs(10);

struct World {
    machine: Machine,
    infiniband: InfiniBand,
    sm: Arc<EmbeddedSm>,
    hosts: [Kernel; 2],
}

const fn port(node: u64) -> Guid {
    Guid(node + 1)
}

/// With many seeds: two hosts with an adapter each, and one with many.
fn run(test: impl Fn(&World) + Send + Sync + 'static) {
    let test = Arc::new(test);
    for seed in 0..SEEDS {
        let machine = Machine::new(Config::seeded(seed));
        let infiniband = InfiniBand::new(&machine, seed);
        let hosts = ["alice", "bob", "others"].map(|name| machine.add_host(name));
        hosts.iter().for_each(lab_ibtf::provide);
        let (test, on) = (test.clone(), machine.clone());
        let outcome = machine.run(move || {
            let [alice, bob, others] = hosts;
            let add = |host: &Kernel, node: u64| {
                infiniband.add_hca(host, HcaConfig::new(Guid(node), 1)).expect("an adapter");
            };
            add(&alice, ALICE);
            add(&bob, BOB);
            (0..OTHERS).for_each(|n| add(&others, 0x0002_c903_0001_0000 + n * 0x100));
            let sm = infiniband.start_sm(SmConfig::default(), Nanos::from_millis(1));
            fakekernel::sleep(Nanos::from_millis(100));
            test(&World { machine: on, infiniband, sm, hosts: [alice, bob] });
        });
        outcome.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    }
}

impl World {
    fn client(&self) -> SaClient<lab_ibtf::umad::File> {
        SaClient::new(open(&self.hosts[0], port(ALICE)).expect("the device")).expect("an agent")
    }

    fn lid(&self, node: u64) -> Lid {
        let ports = self.infiniband.fabric().subnet_ports();
        Lid(ports.iter().find(|view| view.attr.guid == port(node)).expect("the port").attr.lid.0)
    }
}

#[test]
fn a_client_gets_records_and_tables_of_many_segments() {
    run(|world| {
        let mut client = world.client();
        let nodes = client.table(0, &empty::<NodeRecord>()).expect("an answer");
        assert_eq!((nodes.records.len() as u64, nodes.cut), (OTHERS + 3, false), "and the manager's");
        let [sgid, dgid] = [ALICE, BOB].map(|node| Gid::of_port(Gid::DEFAULT_PREFIX, sm::Guid(node + 1)));
        let wanted = PathRecord { sgid, dgid, numb_path: 1, reversible: true, ..PathRecord::default() };
        let mask = path_mask::SGID | path_mask::DGID | path_mask::NUMB_PATH | path_mask::REVERSIBLE;
        let path = client.get(mask, &wanted).expect("a path");
        assert_eq!((path.slid, path.dlid), (world.lid(ALICE), world.lid(BOB)));
        let nowhere = PathRecord { dgid: Gid { guid: 1, ..dgid }, ..wanted };
        assert!(matches!(client.get(mask, &nowhere), Err(AskError::Refused(_))));
        let info = client.get(0, &ClassPortInfo::default()).expect("who it is");
        assert_ne!(info.capability_mask, 0);
    });
}

/// The record whose components nobody has given.
fn empty<R: Record>() -> R {
    R::parse(&vec![0; R::LEN]).expect("zeros are a record")
}

#[test]
fn an_administrator_that_is_silent_or_dead_is_unanswered_and_its_return_is_noticed() {
    run(|world| {
        let mut client = world.client();
        world.sm.stop();
        let begun = world.machine.now();
        assert_eq!(client.get(0, &ClassPortInfo::default()), Err(AskError::Unanswered));
        assert_eq!((world.machine.now() - begun).0 / 1_000_000_000, 6, "three times two seconds");
        world.sm.restart(Lid(0xc000));
        assert!(client.get(0, &ClassPortInfo::default()).is_ok());
        world.sm.faults(|script| {
            let once = Fault {
                count: Some(1),
                attribute: Some(Attribute::NODE_RECORD),
                ..Fault::always(FaultAction::Silent)
            };
            script.push(once);
        });
        assert!(client.table(0, &empty::<NodeRecord>()).is_ok(), "the second time");
    });
}

#[test]
fn a_request_is_repeated_while_its_program_sleeps_and_comes_back_in_the_end() {
    run(|world| {
        let mut file = open_old(&world.hosts[0], port(ALICE)).expect("the device");
        assert_eq!(file.layout(), Layout::Old);
        let agent = file.register(&Registration::subnet_administration(Methods::NONE)).expect("an agent");
        world.sm.stop();
        let header = Header {
            agent: agent.0,
            timeout_ms: 100,
            retries: 3,
            qpn: Qpn::GSI,
            q_key: QKey::GSI,
            lid: file.administrator().expect("it is there").lid,
            ..Header::default()
        };
        let mad = SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 77, 0).emit();
        let message = [&header.emit(Layout::Old)[..], &mad.0].concat();
        assert_eq!(file.write(&message), Ok(56 + 256));
        let mut buffer = [0; 512];
        assert_eq!(file.read(&mut buffer, Duration::ZERO), Err(Errno::AGAIN));
        fakekernel::sleep(Nanos::from_millis(399));
        assert!(!file.is_readable());
        fakekernel::sleep(Nanos::from_millis(2));
        assert!(file.is_readable());
        assert_eq!(file.read(&mut buffer, PATIENCE), Ok(56 + 24));
        let (header, _) = Header::parse(Layout::Old, &buffer).expect("a header");
        assert_eq!(header.status, 110);
    });
}

#[test]
fn a_file_closes_while_requests_are_out_and_leaves_nothing() {
    run(|world| {
        world.sm.stop();
        let client = Arc::new(AtomicU32::new(0));
        let (kernel, said) = (world.hosts[0].clone(), client.clone());
        let asking = world.hosts[0].spawn("program", Ctx::User, move || {
            let mut client =
                SaClient::new(open(&kernel, port(ALICE)).expect("the device")).expect("an agent");
            assert_eq!(client.get(0, &ClassPortInfo::default()), Err(AskError::Unanswered));
            said.store(1, Ordering::SeqCst);
        });
        let mut file = open(&world.hosts[0], port(ALICE)).expect("the device");
        let agent = file.register(&Registration::subnet_administration(Methods::NONE)).expect("an agent");
        let header = Header {
            agent: agent.0,
            timeout_ms: 50,
            retries: 1000,
            qpn: Qpn::GSI,
            q_key: QKey::GSI,
            lid: Lid(0x77),
            ..Header::default()
        };
        let mad = SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 77, 0).emit();
        file.write(&[&header.emit(Layout::New)[..], &mad.0].concat()).expect("it is out");
        fakekernel::sleep(Nanos::from_millis(75));
        drop(file);
        asking.join();
        assert_eq!(client.load(Ordering::SeqCst), 1);
        world.sm.restart(Lid(0xc000));
        assert!(world.client().get(0, &ClassPortInfo::default()).is_ok(), "others go on");
    });
}

#[test]
fn reports_come_to_the_agent_that_takes_them_and_the_kernel_hears_them_too() {
    run(|world| {
        let mut file = open(&world.hosts[0], port(ALICE)).expect("the device");
        let wanted = Registration::subnet_administration(Methods::of(&[Method::REPORT]));
        let agent = file.register(&wanted).expect("an agent");
        let mut other = open(&world.hosts[0], port(ALICE)).expect("another file");
        assert_eq!(other.register(&wanted), Err(Errno::INVAL), "one agent a method");
        let inform = InformInfo::every_trap(4);
        let lid = file.administrator().expect("it is there").lid;
        let mut header = Header {
            agent: agent.0,
            timeout_ms: 1000,
            qpn: Qpn::GSI,
            q_key: QKey::GSI,
            lid,
            ..Header::default()
        };
        let ask = SaMad::request(Method::SET, Attribute::INFORM_INFO, 1, 0).with_record(&inform).emit();
        file.write(&[&header.emit(Layout::New)[..], &ask.0].concat()).expect("it is out");
        let mut buffer = [0; 512];
        let mut next = |file: &mut lab_ibtf::umad::File| {
            let size = file.read(&mut buffer, PATIENCE).expect("a MAD");
            let (header, mad) = Header::parse(Layout::New, &buffer[..size]).expect("a header");
            let mad = SaMad::parse(&sm::Mad(mad.try_into().expect("256 bytes"))).expect("a MAD");
            (header, mad)
        };
        assert_eq!(next(&mut file).1.method, Method::GET_RESP);
        assert!(world.infiniband.set_cable(port(BOB), false));
        let gone = Gid::of_port(Gid::DEFAULT_PREFIX, sm::Guid(BOB + 1));
        let report = loop {
            let (from, mad) = next(&mut file);
            assert_eq!((from.lid, from.agent, mad.method), (lid, agent.0, Method::REPORT));
            header.timeout_ms = 0;
            let response = SaMad { method: Method::REPORT_RESP, ..mad }.emit();
            file.write(&[&header.emit(Layout::New)[..], &response.0].concat()).expect("an answer");
            let subject = mad.record::<Notice>().and_then(|notice| notice.subject());
            if subject.is_some_and(|(_, gid)| gid == gone) {
                break subject;
            }
        };
        assert_eq!(report, Some((Trap::GidOutOfService, gone)));
        let answered = world.sm.inspect(|sm| sm.sa().counters().reports_answered);
        assert!(answered >= 2, "by the program and by the kernel");
    });
}

#[test]
fn the_port_says_that_a_manager_is_behind_it_for_as_long_as_issm_is_open() {
    run(|world| {
        let is_sm = |world: &World| {
            fakekernel::sleep(Nanos::from_millis(100));
            let lid = world.lid(ALICE);
            let wanted = PortInfoRecord { endport_lid: lid, ..empty() };
            let found = world.client().table(1, &wanted).expect("an answer").records;
            assert_eq!(found.len(), 1);
            found[0].info.capability_mask & 2 != 0
        };
        assert!(!is_sm(world));
        let first = open_issm(&world.hosts[0], port(ALICE), false).expect("nobody has it");
        assert!(is_sm(world), "subnet administration tells");
        assert_eq!(open_issm(&world.hosts[0], port(ALICE), false).err(), Some(Errno::AGAIN));
        let kernel = world.hosts[0].clone();
        let order = Arc::new(AtomicU32::new(0));
        let seen = order.clone();
        let waiting = world.hosts[0].spawn("program", Ctx::User, move || {
            let held: IsSm = open_issm(&kernel, port(ALICE), true).expect("in the end");
            assert_eq!(seen.swap(2, Ordering::SeqCst), 1, "not before the first is closed");
            fakekernel::sleep(Nanos::from_millis(500));
            drop(held);
        });
        fakekernel::sleep(Nanos::from_millis(50));
        assert_eq!(order.swap(1, Ordering::SeqCst), 0);
        drop(first);
        assert!(is_sm(world), "the one that waited has it");
        waiting.join();
        assert!(!is_sm(world));
    });
}

#[test]
fn a_pulled_adapter_ends_its_files_and_there_is_none_of_a_port_that_is_not_there() {
    run(|world| {
        assert_eq!(open(&world.hosts[0], port(BOB)).err(), Some(Errno::NOENT), "that is bob's");
        let mut file = open(&world.hosts[0], port(ALICE)).expect("the device");
        let wanted = Registration::subnet_administration(Methods::NONE);
        file.register(&wanted).expect("an agent");
        let issm = open_issm(&world.hosts[0], port(ALICE), false).expect("nobody has it");
        let (kernel, infiniband) = (world.hosts[0].clone(), world.infiniband.clone());
        let pulling = world.hosts[0].spawn("pull", Ctx::Kernel, move || {
            fakekernel::sleep(Nanos::from_millis(10));
            infiniband.remove_hca(&kernel, Guid(ALICE)).expect("nobody holds it");
        });
        let mut buffer = [0; 512];
        assert_eq!(file.read(&mut buffer, PATIENCE), Err(Errno::IO), "whoever waits is told");
        pulling.join();
        assert_eq!(file.register(&wanted), Err(Errno::PIPE));
        assert_eq!(file.administrator(), Err(Errno::NODEV));
        assert_eq!(open(&world.hosts[0], port(ALICE)).err(), Some(Errno::NOENT));
        drop((file, issm));
        world.infiniband.add_hca(&world.hosts[0], HcaConfig::new(Guid(ALICE), 1)).expect("it is back");
        fakekernel::sleep(Nanos::from_millis(100));
        assert!(world.client().get(0, &ClassPortInfo::default()).is_ok());
    });
}

#[test]
fn without_a_subnet_manager_there_is_no_device() {
    let machine = Machine::new(Config::seeded(1));
    let infiniband = InfiniBand::new(&machine, 1);
    let host = machine.add_host("alice");
    lab_ibtf::provide(&host);
    let outcome = machine.run(move || {
        infiniband.add_hca(&host, HcaConfig::new(Guid(ALICE), 1)).expect("an adapter");
        assert_eq!(open(&host, port(ALICE)).err(), Some(Errno::NXIO));
    });
    outcome.unwrap_or_else(|halt| panic!("{halt}"));
}
