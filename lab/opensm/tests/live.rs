//! What OpenSM and ibsim do, and that they go with whoever started them. Waits for conditions, never for times.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opensm::{Adapter, Error, OpenSm, Poll, SmEvent, SmWatch, Tools, Topology};
use sm::partition::{Ports, broadcast_mgid};
use sm::records::{InformInfo, McMemberRecord, Notice, Trap, attribute_offset, mc_member_mask, parse_table};
use sm::rmpp::{Received, Receiver as Segments};
use sm::{
    Arrival, Attribute, Gid, Guid, JoinState, Lid, Membership, Method, PKey, Partition, PortState, QKey,
    SaMad, Status,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn port(n: u64) -> Guid {
    Guid(0x0002_c903_0000_1001 + n * 0x10)
}

fn topology(adapters: u64) -> Topology {
    let adapter = |n| Adapter {
        name: format!("host{n}"),
        node: Guid(port(n).0 - 1),
        port: port(n),
        link: opensm::Link::default(),
    };
    Topology::new((0..adapters).map(adapter)).unwrap()
}

/// A subnet with its administration's MADs at hand.
struct Subnet {
    sm: OpenSm,
    arrived: Receiver<(Guid, Arrival)>,
    next: u64,
    /// The last answer may have been cut.
    cut: bool,
}

impl Subnet {
    fn new(adapters: u64) -> Self {
        let tools = Tools::find().expect("make test installs OpenSM and ibsim");
        let sm = OpenSm::start(tools, topology(adapters), &[Partition::default_open()]).unwrap();
        let (sender, arrived) = channel();
        let sender = Mutex::new(sender);
        sm.set_sink(Some(Arc::new(move |port, arrival| {
            // The test may be over.
            let _ = sender.lock().unwrap().send((port, arrival));
        })));
        Self { sm, arrived, next: 0x1111_2222_3333_0000, cut: false }
    }

    fn manager_lid(&self) -> Lid {
        self.sm.snapshot().unwrap().ports[&port(0)].info.master_sm_lid
    }

    /// The answer to a request of `from`; reports that come before it are answered and passed over.
    #[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
    fn ask(&mut self, from: Guid, request: SaMad) -> SaMad {
        self.next += 1;
        let (to, transaction) = (self.manager_lid(), self.next);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.sm.send(from, to, &SaMad { transaction, ..request }.emit()).unwrap();
            while let Ok((_, arrival)) = self.arrived.recv_timeout(Duration::from_secs(2)) {
                let mad = SaMad::parse(&arrival.mad).unwrap();
                if mad.transaction == transaction {
                    assert_eq!(arrival.from.lid, to);
                    self.cut = arrival.cut;
                    return mad;
                }
            }
        }
        panic!("{request:?} is not answered")
    }

    fn join(&mut self, port: Guid, mgid: Gid) {
        let record = McMemberRecord {
            mgid,
            port_gid: Gid::of_port(Gid::DEFAULT_PREFIX, port),
            q_key: QKey::IPOIB,
            p_key: PKey::DEFAULT_FULL,
            scope: 2,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        let request = SaMad::request(Method::SET, Attribute::MC_MEMBER_RECORD, 0, mc_member_mask::CREATE);
        assert_eq!(self.ask(port, request.with_record(&record)).status, Status::SUCCESS);
    }

    fn groups(&mut self, mask: u64, mgid: Gid) -> SaMad {
        let record = McMemberRecord { mgid, ..McMemberRecord::default() };
        let request = SaMad::request(Method::GET_TABLE, Attribute::MC_MEMBER_RECORD, 0, mask);
        self.ask(port(0), request.with_record(&record))
    }
}

#[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ipv4(group: u64) -> Gid {
    Gid { prefix: 0xff12_401b_ffff_0000, guid: group }
}

#[test]
fn ports_come_up_with_lids_that_the_switch_routes() {
    let subnet = Subnet::new(3);
    let snapshot = subnet.sm.snapshot().unwrap();
    let mut lids = BTreeMap::new();
    for (guid, port) in &snapshot.ports {
        assert_eq!(port.info.port_state, PortState::Active.to_wire());
        assert_eq!(port.p_keys[0], PKey::DEFAULT_FULL);
        assert_eq!(port.p_keys.len(), 64);
        assert_eq!(port.info.subnet_timeout, 18, "OpenSM's, not what ibsim shows");
        lids.insert(port.info.lid, *guid);
    }
    assert_eq!(lids.len(), 3);
    let last = *lids.keys().last().unwrap();
    assert_eq!(subnet.sm.unicast_routes(last).unwrap(), lids);
}

#[test]
fn members_are_in_the_switch_in_a_narrow_query_and_in_opensms_dump() {
    let mut subnet = Subnet::new(2);
    let mgid = ipv4(1);
    subnet.join(port(0), mgid);
    assert!(subnet.sm.is_member(mgid, port(0)).unwrap());
    assert!(!subnet.sm.is_member(mgid, port(1)).unwrap());
    subnet.join(port(1), mgid);
    let both = [port(0), port(1)];
    until("the switch sends to both", || {
        let routes = subnet.sm.snapshot().unwrap().multicast.unwrap();
        routes.values().any(|ports| ports.iter().eq(&both))
    });
    until("the dump has both", || {
        let groups = subnet.sm.dump().unwrap();
        groups.iter().any(|group| group.mgid == mgid && group.members == both)
    });
}

#[test]
fn a_table_ibsim_cuts_is_marked_and_three_records_are_whole() {
    let mut subnet = Subnet::new(1);
    for group in 1..=2 {
        subnet.join(port(0), ipv4(group));
    }
    // With the broadcast group that is three, the most there is room for.
    let answer = subnet.groups(0, Gid::ZERO);
    let Received::Complete(_, message) = Segments::new().receive(&answer) else { panic!("{answer:?}") };
    let records: Vec<McMemberRecord> = parse_table(&message.data, attribute_offset::<McMemberRecord>());
    assert_eq!(records.len(), 3);
    assert_eq!(subnet.sm.answers_cut(), 0);
    subnet.join(port(0), ipv4(3));
    assert_eq!(subnet.groups(0, Gid::ZERO).status, Status::SUCCESS);
    assert!(subnet.cut, "four do not fit");
    assert_eq!(subnet.sm.answers_cut(), 1);
    let narrow = subnet.groups(mc_member_mask::MGID, ipv4(3));
    assert_eq!((narrow.status, subnet.cut), (Status::SUCCESS, false));
}

#[test]
fn reports_arrive_at_ports_that_say_they_are_managers_and_opensm_still_sweeps() {
    let mut subnet = Subnet::new(2);
    let everything = InformInfo::every_trap(4);
    let request = SaMad::request(Method::SET, Attribute::INFORM_INFO, 0, 0).with_record(&everything);
    assert_eq!(subnet.ask(port(0), request).status, Status::SUCCESS);
    // The sweep after this ends only if every port that is marked as a manager's answers Get(SMInfo).
    subnet.sm.set_link(port(1), false).unwrap();
    let gid = Gid::of_port(Gid::DEFAULT_PREFIX, port(1));
    loop {
        let (to, arrival) = subnet.arrived.recv_timeout(PATIENCE).expect("a report");
        let report = SaMad::parse(&arrival.mad).unwrap();
        if report.method != Method::REPORT {
            continue;
        }
        assert_eq!(to, port(0));
        let response = SaMad { method: Method::REPORT_RESP, ..report };
        subnet.sm.send(to, subnet.manager_lid(), &response.emit()).unwrap();
        if report.record::<Notice>().unwrap().subject() == Some((Trap::GidOutOfService, gid)) {
            break;
        }
    }
}

#[test]
fn an_unplugged_port_goes_down_loses_its_memberships_and_comes_back_with_its_lid() {
    let mut subnet = Subnet::new(2);
    let mgid = broadcast_mgid(PKey::DEFAULT_FULL, 2);
    subnet.join(port(1), mgid);
    let lid = subnet.sm.snapshot().unwrap().ports[&port(1)].info.lid;
    let state = |subnet: &Subnet| subnet.sm.snapshot().unwrap().ports[&port(1)].info.port_state;
    subnet.sm.set_link(port(1), false).unwrap();
    until("down", || state(&subnet) == PortState::Down.to_wire());
    until("OpenSM drops it", || !subnet.sm.is_member(mgid, port(1)).unwrap());
    subnet.sm.set_link(port(1), true).unwrap();
    until("active again", || state(&subnet) == PortState::Active.to_wire());
    assert_eq!(subnet.sm.snapshot().unwrap().ports[&port(1)].info.lid, lid);
    assert!(!subnet.sm.is_member(mgid, port(1)).unwrap(), "it has to join again");
}

#[test]
fn other_partitions_reach_the_p_key_tables() {
    let subnet = Subnet::new(2);
    let other = Partition::new("other", PKey(0x8001)).with_members(Ports::One(port(1)), Membership::Full);
    subnet.sm.set_partitions(&[Partition::default_open(), other]).unwrap();
    until("the P_Key is there", || {
        subnet.sm.snapshot().unwrap().ports[&port(1)].p_keys[..2] == [PKey(0xffff), PKey(0x8001)]
    });
    assert_eq!(subnet.sm.snapshot().unwrap().ports[&port(0)].p_keys[1], PKey(0));
}

#[test]
fn a_new_opensm_is_found_by_its_sm_info_and_knows_nobody() {
    let mut subnet = Subnet::new(2);
    let mut watch = SmWatch::new();
    let manager = subnet.sm.topology().manager();
    assert_eq!(watch.poll(subnet.sm.poll_manager()), Some(SmEvent::First(manager)));
    subnet.join(port(0), ipv4(1));
    subnet.sm.stop_manager();
    assert_eq!(subnet.sm.poll_manager(), Poll::Nobody);
    assert_eq!(watch.poll(Poll::Nobody), Some(SmEvent::Gone));
    subnet.sm.start_manager().unwrap();
    until("a new master", || watch.poll(subnet.sm.poll_manager()) == Some(SmEvent::New(manager)));
    subnet.sm.wait_until_up().unwrap();
    assert!(!subnet.sm.is_member(ipv4(1), port(0)).unwrap());
}

#[test]
fn an_opensm_that_hangs_is_silent_and_our_own_timers_say_so() {
    let subnet = Subnet::new(1);
    let mut watch = SmWatch::new();
    watch.poll(subnet.sm.poll_manager());
    subnet.sm.hang_manager(true).unwrap();
    // ibsim has no timers and never says that nothing comes.
    until("silence", || subnet.sm.poll_manager() == Poll::Silence);
    assert_eq!(watch.poll(Poll::Silence), None, "one silence is no proof");
    subnet.sm.hang_manager(false).unwrap();
    until("it answers again", || matches!(subnet.sm.poll_manager(), Poll::Answer(_)));
    assert_eq!(watch.poll(subnet.sm.poll_manager()), None, "it is still the same one");
}

#[test]
fn nine_adapters_and_opensm_are_as_many_as_ibsim_takes_and_restarts_leave_room() {
    let subnet = Subnet::new(9);
    for _ in 0..2 {
        subnet.sm.start_manager().unwrap();
        subnet.sm.wait_until_up().unwrap();
    }
    assert_eq!(subnet.sm.snapshot().unwrap().ports.len(), 9);
}

#[test]
fn two_subnets_on_one_machine_do_not_meet() {
    let (mut one, mut other) = (Subnet::new(1), Subnet::new(1));
    one.join(port(0), ipv4(1));
    assert!(one.sm.is_member(ipv4(1), port(0)).unwrap());
    assert!(!other.sm.is_member(ipv4(1), port(0)).unwrap());
    other.join(port(0), ipv4(2));
    assert!(!one.sm.is_member(ipv4(2), port(0)).unwrap());
}

#[test]
fn an_opensm_that_cannot_start_is_named_with_the_end_of_its_log() {
    let tools = Tools::find().unwrap().with_opensm("/bin/ls");
    let refused = OpenSm::start(tools, topology(1), &[]).err().expect("ls is no subnet manager");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Ended { .. }), "{text}");
    assert!(!text.contains('\n') && text.contains("option"), "{text}");
}
