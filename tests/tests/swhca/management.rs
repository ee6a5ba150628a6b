//! Management of the ports that is the module's own.

use std::sync::{Arc, Mutex};

use fakekernel::Errno;
use lab_gldv3::Offload;
use lab_world::SoftwarePlan;
use sm::{Arrival, Guid, Inbound, Lid, Mad, PKey, Qpn, Sl, SmAddress};
use swhca_ioctl::{Counter, command, requests, sa};

use super::bench::{Bench, Setup};
use super::client::with_client;

/// What came back.
#[derive(Default)]
struct Heard(Mutex<Vec<[u8; 256]>>);

impl Inbound for Heard {
    fn receive(&self, arrival: &Arrival) {
        self.0.lock().expect("nobody panics with it").push(arrival.mad.0);
    }
}

/// Sends a management datagram from alpha's port to queue pair 1 at a LID; what the port `at` hears of its transaction.
fn send(bench: &Bench, lid: u16, mad: [u8; 256], at: Guid) -> Option<[u8; 256]> {
    let wire = lab_ibtf::wire(&bench.software.kernel);
    let heard = Arc::new(Heard::default());
    let inbound: Arc<dyn Inbound> = heard.clone();
    wire.attach(at, &inbound);
    let to = SmAddress { lid: Lid(lid), sl: Sl::truncating(0), qpn: Qpn::GSI, p_key: PKey(0xffff) };
    wire.send(bench.alpha.port, to, &Mad(mad)).expect("the port is up");
    fakekernel::sleep(fakekernel::Nanos::from_millis(10));
    wire.detach(at, &inbound);
    let answers = heard.0.lock().expect("nobody panics with it");
    answers.iter().find(|heard| heard[1] == mad[1] && heard[8..16] == TRANSACTION).copied()
}

const TRANSACTION: [u8; 8] = [0x42; 8];

/// A datagram of a class.
fn datagram(class: u8, method: u8, attribute: u16) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, class, 1, method]);
    mad[8..16].copy_from_slice(&TRANSACTION);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[65] = 1;
    mad
}

/// Asks queue pair 1 at a LID for an attribute of performance management, from alpha's port; the answer.
fn ask(bench: &Bench, lid: u16, attribute: u16) -> Option<[u8; 256]> {
    send(bench, lid, datagram(4, 1, attribute), bench.alpha.port)
}

/// Packets that a port has sent and received, groups' left out.
pub(super) fn unicasts(bench: &Bench, lid: u16) -> (u64, u64) {
    let answer = ask(bench, lid, 0x1d).expect("performance management answers");
    let value = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().expect("eight bytes"));
    (value(104), value(112))
}

#[test]
fn each_port_answers_for_its_counters() {
    Setup::default().run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"the way is known now");
        let before = (unicasts(bench, 1), unicasts(bench, 2));
        for _ in 0..10 {
            alpha.reaches(&beta, b"one more");
        }
        let after = (unicasts(bench, 1), unicasts(bench, 2));
        // What alpha's port asked and was answered counts, too: at least the packets.
        assert!(after.0.0 >= before.0.0 + 10, "{before:?} {after:?}");
        assert_eq!(after.1, (before.1.0, before.1.1 + 10), "beta's port has received, and nothing else");
        let info = ask(bench, 2, 0x01).expect("performance management answers");
        assert_eq!((info[3], info[64..66].to_vec()), (0x81, vec![1, 1]));
        assert_eq!(ask(bench, 2, 0x99).expect("it is refused")[4..6], [0, 0x0c]);
        let dropped = || bench.software.counters().expect("the adapter answers")[Counter::Dropped as usize];
        let before = dropped();
        assert_eq!(ask(bench, 7, 0x12), None, "there is no such port");
        assert_eq!(dropped(), before + 1);
    });
}

#[test]
fn counter_of_a_port_is_set_back_and_counts_on() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"the way is known now");
        let mut set = datagram(4, 2, 0x12);
        // Received packets alone.
        set[66..68].copy_from_slice(&0x8000_u16.to_be_bytes());
        let received = |mad: [u8; 256]| u32::from_be_bytes(mad[100..104].try_into().expect("four bytes"));
        let octets = |mad: [u8; 256]| u32::from_be_bytes(mad[92..96].try_into().expect("four bytes"));
        let before = ask(bench, 2, 0x12).expect("performance management answers");
        let told = send(bench, 2, set, bench.alpha.port).expect("performance management answers");
        assert!(received(before) > 0 && received(told) == 0, "{} {}", received(before), received(told));
        assert!(octets(told) >= octets(before), "nobody has named those");
        for _ in 0..3 {
            alpha.reaches(&beta, b"one more");
        }
        assert_eq!(received(ask(bench, 2, 0x12).expect("performance management answers")), 3);
    });
}

#[test]
fn management_of_a_class_that_nobody_is_there_for_does_not_come_up() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let dropped = || bench.software.counters().expect("the adapter answers")[Counter::Dropped as usize];
        // Vendors', SNMP, device administration, baseboard.
        for class in [0x09, 0x30, 0x4f, 0x08, 0x10, 0x05] {
            let before = dropped();
            assert_eq!(send(bench, 2, datagram(class, 1, 1), bench.beta.port), None, "{class:#x}");
            assert_eq!(dropped(), before + 1, "{class:#x}");
        }
        // Communication and device management do.
        for class in [7, 6] {
            assert!(send(bench, 2, datagram(class, 3, 0x10), bench.beta.port).is_some(), "{class:#x}");
        }
    });
}

#[test]
fn classes_that_swhca_conf_names_come_up_and_no_others() {
    fn vendors(plan: &mut SoftwarePlan) {
        plan.conf.push(("gsi-classes".into(), 0x30));
    }
    Setup { seeds: 1, adapter: vendors, ..Setup::default() }.run(|bench| {
        assert!(send(bench, 2, datagram(0x30, 1, 1), bench.beta.port).is_some());
        assert_eq!(send(bench, 2, datagram(7, 3, 0x10), bench.beta.port), None);
    });
}

/// So many requests were made of the SA when the adapter attached with this table, and if any were, it is asked now, too.
fn requests_with(table: fn(&mut SoftwarePlan), expected: u64) {
    Setup { seeds: 2, adapter: table, ..Setup::default() }.run(move |bench| {
        fakekernel::sleep(fakekernel::Nanos::from_secs(1));
        let counters = bench.software.counters().expect("the adapter answers");
        assert_eq!(counters[Counter::SaRequests as usize], expected);
        let asked = lab_ibtf::groups_of(&bench.software.kernel, bench.alpha.port);
        assert_eq!(asked.is_ok(), expected != 0, "{asked:?}");
    });
}

#[test]
fn management_finds_a_default_pkey_wherever_it_is_in_the_table() {
    requests_with(|plan| plan.pkeys = vec![0xffff], 10);
    requests_with(|plan| plan.pkeys = vec![0x7fff], 10);
    requests_with(|plan| plan.pkeys = vec![0x8001, 0xffff], 10);
}

#[test]
fn management_has_no_queue_pair_without_a_default_pkey_and_the_log_says_so() {
    requests_with(|plan| plan.pkeys = vec![0x8001], 0);
    Setup { seeds: 1, adapter: |plan| plan.pkeys = vec![0x8001], ..Setup::default() }.run(|bench| {
        let log = bench.software.kernel.genunix().messages();
        assert!(
            log.iter().any(|line| line.text.contains("no default P_Key (0xffff or 0x7fff) in pkeys")),
            "{log:?}"
        );
    });
}

#[test]
fn cq_is_for_queue_pair_1_or_for_others_and_never_for_both() {
    const CQ_HDL_INVALID: u32 = 500;
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let refused = lab_ibtf::mix_kinds(&bench.software.kernel, bench.alpha.port);
        assert_eq!(refused, Some([Err(CQ_HDL_INVALID); 2]));
    });
}

#[test]
fn port_with_another_lid_is_reached_there_and_nowhere_else() {
    Setup::default().run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"at 2");
        let move_to = |port: u64, lid: u64| bench.software.ioctl(command::SET_LID, [port, lid, 0, 0]);
        let asked = || bench.software.counters().expect("the adapter answers")[Counter::SaRequests as usize];
        let before = asked();
        assert_eq!(move_to(2, 1), Err(Errno::EEXIST), "alpha's port has it");
        assert_eq!(move_to(2, 0x400), Err(Errno::EEXIST), "the subnet manager has it");
        fakekernel::sleep(fakekernel::Nanos::from_secs(1));
        assert_eq!(asked(), before, "nothing has happened to the port: nobody has to join again");
        assert_eq!((move_to(2, 0), move_to(2, 0xc000)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
        move_to(2, 0x77).expect("nobody has it");
        beta.is_reached_by(&alpha, b"wherever it is");
        alpha.is_reached_by(&beta, b"and back");
        let hears = |lid| send(bench, lid, datagram(7, 3, 0x10), bench.beta.port).is_some();
        assert!(hears(0x77) && !hears(2));
        // A datagram of communication management says whence it comes.
        let (wire, heard) = (lab_ibtf::wire(&bench.software.kernel), Arc::new(Sources::default()));
        let inbound: Arc<dyn Inbound> = heard.clone();
        wire.attach(bench.alpha.port, &inbound);
        let to = SmAddress { lid: Lid(1), sl: Sl::truncating(0), qpn: Qpn::GSI, p_key: PKey(0xffff) };
        wire.send(bench.beta.port, to, &Mad(datagram(7, 3, 0x10))).expect("the port is up");
        fakekernel::sleep(fakekernel::Nanos::from_millis(10));
        wire.detach(bench.alpha.port, &inbound);
        assert_eq!(*heard.0.lock().expect("nobody panics with it"), [0x77]);
    });
}

#[test]
fn port_that_is_down_or_gets_what_it_has_raises_no_event() {
    const PREFIX: u64 = 0xfe80 << 48;
    with_client(2, |bench, client| {
        let told = |command: i32, values: [u64; 3]| {
            let events = || client.ask("probe_events", 0);
            let before = events();
            let [one, two, three] = values;
            bench.software.ioctl(command, [one, two, three, 0]).expect("it makes sense");
            fakekernel::sleep(fakekernel::Nanos::from_millis(100));
            events() - before
        };
        let as_before = [
            told(command::MOVE_MANAGER, [2, 0x400, 0]),
            told(command::SET_PREFIX, [2, PREFIX, 0]),
            told(command::SET_PKEY, [2, 0, 0xffff]),
            told(command::SET_PKEY, [2, 7, 0]),
        ];
        assert_eq!(as_before, [0; 4]);
        // That the manager has moved is told twice: as a change, and as a reason to register again.
        let changed = [
            told(command::MOVE_MANAGER, [2, 0x500, 0]),
            told(command::SET_PREFIX, [2, 0xfec0 << 48, 0]),
            told(command::SET_PKEY, [2, 7, 0x8002]),
            told(command::PORT_DOWN, [2, 0, 0]),
        ];
        assert_eq!(changed, [2, 1, 1, 1]);
        let without_a_cable = [
            told(command::MOVE_MANAGER, [2, 0x501, 0]),
            told(command::SET_PREFIX, [2, 0xfec1 << 48, 0]),
            told(command::SET_PKEY, [2, 7, 0]),
            told(command::RESTART_MANAGER, [0; 3]) - 1,
            told(command::PORT_DOWN, [2, 0, 0]),
        ];
        assert_eq!(without_a_cable, [0; 5], "the other port hears of the restart");
        assert_eq!(told(command::PORT_UP, [2, 0, 0]), 1);
        // Who hears of that asks for all of it.
        client.run("probe_manager_is", 2 | 0x501 << 16);
        client.run("probe_prefix_is", 2 | 0xfec1_0000 << 16);
        assert_eq!(told(command::MOVE_MANAGER, [2, 0x400, 0]), 2);
        assert_eq!(told(command::SET_PREFIX, [2, PREFIX, 0]), 1);
    });
}

#[test]
fn lid_prefix_speed_or_rate_that_makes_no_sense_is_refused() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let told = |number: i32, value: u64| bench.software.ioctl(number, [1, value, 0, 0]);
        for lid in [0, 0xc000, 0x1_0000] {
            assert_eq!(told(command::MOVE_MANAGER, lid), Err(Errno::EINVAL), "{lid:#x}");
        }
        assert_eq!(told(command::MOVE_MANAGER, 2), Err(Errno::EEXIST), "beta's port has it");
        for speed in [0, 3, 0xff, 0x104] {
            assert_eq!(told(command::SET_SPEED, speed), Err(Errno::EINVAL), "{speed:#x}");
        }
        for prefix in [0, 0xff << 56, u64::MAX] {
            assert_eq!(told(command::SET_PREFIX, prefix), Err(Errno::EINVAL), "{prefix:#x}");
        }
        for rate in [0x40, 0xff, 0x103] {
            assert_eq!(told(command::SET_RATE, rate), Err(Errno::EINVAL), "{rate:#x}");
        }
        assert!(told(command::SET_RATE, 3).is_ok() && told(command::SET_RATE, 0).is_ok());
    });
}

#[test]
fn subnet_administrator_does_wrong_with_so_many_requests_of_a_kind() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let trouble = |what: u64, kinds: u64, times: u64| {
            bench.software.ioctl(command::TROUBLE_SA, [1, what, kinds, times])
        };
        let _alpha = bench.open(&bench.alpha);
        let groups = || lab_ibtf::groups_of(&bench.software.kernel, bench.alpha.port);
        let all = groups().expect("an answer").len();
        assert!(all > 0, "the link is in its broadcast group");
        trouble(sa::REFUSES | 0x0700, requests::LIST_GROUPS, 2).expect("it makes sense");
        assert!(groups().is_err() && groups().is_err());
        assert_eq!(groups().expect("it was twice").len(), all);
        trouble(sa::REFUSES | 0x0700, requests::PATH | requests::JOIN, 0).expect("it makes sense");
        assert_eq!(groups().expect("nobody asked for paths").len(), all);
        trouble(sa::EMPTY, 0, 1).expect("it makes sense");
        assert_eq!(groups().expect("an answer").len(), 0);
        assert_eq!((trouble(4, 0, 0), trouble(sa::REFUSES, 0, 0)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
        trouble(sa::SILENT, 0, 0).expect("it makes sense");
        let dropped = || bench.software.counters().expect("the adapter answers")[Counter::SaDropped as usize];
        let before = dropped();
        assert!(groups().is_err());
        assert!(dropped() > before);
        trouble(sa::NOTHING, 0, 0).expect("it makes sense");
        assert_eq!(groups().expect("an answer").len(), all);
    });
}

#[test]
fn packets_of_a_port_are_lost_both_ways_and_managements_are_not() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"all is well");
        let lose =
            |port: u64, packets: u64| bench.software.ioctl(command::LOSE_PACKETS, [port, packets, 0, 0]);
        let dropped = || bench.software.counters().expect("the adapter answers")[Counter::Dropped as usize];
        for port in [1, 2] {
            lose(port, 1_000_000).expect("all of a million");
            for (from, to) in [(&alpha, &beta), (&beta, &alpha)] {
                let before = dropped();
                from.stream.transmit(to.address(), b"lost", Offload::default()).expect("the stream is bound");
                fakekernel::sleep(fakekernel::Nanos::from_millis(10));
                assert_eq!(dropped(), before + 1);
            }
            let groups = lab_ibtf::groups_of(&bench.software.kernel, bench.alpha.port);
            assert!(groups.is_ok(), "the subnet administrator is heard: {groups:?}");
            lose(port, 0).expect("none");
        }
        assert_eq!(lose(1, 1_000_001), Err(Errno::EINVAL));
        alpha.reaches(&beta, b"all is well again");
        beta.reaches(&alpha, b"and back");
    });
}

/// Whence datagrams of communication management came.
#[derive(Default)]
struct Sources(Mutex<Vec<u16>>);

impl Inbound for Sources {
    fn receive(&self, arrival: &Arrival) {
        if arrival.mad.0[1] == 7 {
            self.0.lock().expect("nobody panics with it").push(arrival.from.lid.0);
        }
    }
}
