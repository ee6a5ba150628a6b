//! The fabric as a whole: device nodes, captures, equal traces, and threads that really run in parallel.

use std::collections::BTreeMap;
use std::process::Command;

use fabric::{PKey, Reason};
use fakekernel::genunix::PropertyValue;
use fakekernel::{Ctx, Mode, Nanos};
use lab_ibtf::nexus::{self, PortNode};

use crate::bench::{ALPHA, BETA, Bench, Side, with};

/// The nodes of P_Keys: key and instance.
fn pkeys_of_nodes(side: &Side) -> Vec<(u16, u32)> {
    let nodes = nexus::nodes(&side.kernel);
    nodes.iter().filter_map(|node| Some((node.pkey?.0, node.device.instance()))).collect()
}

fn node(side: &Side, service: &str, pkey: Option<PKey>) -> Option<PortNode> {
    nexus::open(&side.kernel, side.port(), service, pkey)
}

#[test]
fn as_illumos_comes_there_are_nodes_of_ports_alone() {
    with("attachment").holds(|b| {
        assert!(nexus::nodes(&b.alpha.kernel).is_empty(), "nobody has looked");
        nexus::look(&b.alpha.kernel);
        let paths: Vec<String> = nexus::nodes(&b.alpha.kernel).iter().map(PortNode::path).collect();
        assert_eq!(paths, ["ibport@1,0,ipib"]);
        assert!(node(&b.alpha, "ibd", Some(PKey(0xffff))).is_none(), "a service that the file does not have");
        let in_vppa = "port-svc-list=\"\";\nvppa-svc-list=\"ipib\";\n";
        nexus::set_conf(&b.beta.kernel, in_vppa).expect("a driver.conf");
        assert!(node(&b.beta, "ipib", Some(PKey(0xffff))).is_none(), "the nexus passes over this one");
        nexus::look(&b.beta.kernel);
        assert!(nexus::nodes(&b.beta.kernel).is_empty());
    });
}

#[test]
fn a_node_carries_what_the_nexus_says_of_its_port() {
    with("attachment").holds(|b| {
        nexus::use_ibd(&b.alpha.kernel);
        let node = node(&b.alpha, "ibd", Some(PKey(0xffff))).expect("the port is up");
        assert_eq!((node.path().as_str(), node.device.driver()), ("ibport@1,ffff,ibd", "ibd"));
        node.device.with_properties(|properties| {
            let attr = b.alpha.hca.config().attr.clone();
            let value = |name: &str| properties.get(name).cloned().unwrap_or_else(|| panic!("{name}"));
            let PropertyValue::Strings(compatible) = value("compatible") else { panic!("strings") };
            let id = format!("V{:06x}P{:08x}", attr.vendor_id, attr.device_id);
            let best = format!("ib.{id}v{:04x}.ibd", attr.version_id);
            assert_eq!(compatible, [best, format!("ib.{id}.ibd"), "ib.ibd".to_owned()]);
            assert_eq!(value("port-pkey"), PropertyValue::from(0xffff));
            assert_eq!(value("port-number"), PropertyValue::from(1));
            assert_eq!(value("port-guid"), PropertyValue::from(ALPHA + 1));
            assert_eq!(value("hca-guid"), PropertyValue::from(ALPHA));
            assert_eq!(value("vendor-id"), PropertyValue::from(attr.vendor_id as i32));
        });
    });
}

#[test]
fn a_node_of_a_pkey_is_made_for_whoever_looks_while_the_port_is_up_and_stays_when_the_pkey_goes() {
    with("attachment").holds(|b| {
        nexus::use_ibd(&b.alpha.kernel);
        let port = b.alpha.port();
        let set = |table: &[PKey]| {
            b.world.fabric().set_pkeys(port, table).unwrap();
            b.settle();
        };
        nexus::look(&b.alpha.kernel);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0xffff, 0)]);
        set(&[PKey(0xffff), PKey(0x8001)]);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0xffff, 0)], "nobody has looked since");
        nexus::look(&b.alpha.kernel);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0xffff, 0)]);
        set(&[PKey(0x8002), PKey(0xffff)]);
        b.world.set_cable(port, false);
        b.settle();
        nexus::look(&b.alpha.kernel);
        assert_eq!(
            pkeys_of_nodes(&b.alpha),
            [(0x8001, 1), (0xffff, 0)],
            "a port that is down has no new ones"
        );
        b.world.set_cable(port, true);
        b.settle();
        set(&[PKey(0x8002), PKey(0xffff)]);
        assert!(node(&b.alpha, "ibd", Some(PKey(0x8002))).is_some());
        assert!(node(&b.alpha, "ibd", Some(PKey(0x8003))).is_none());
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0x8002, 2), (0xffff, 0)]);
        b.world.remove_hca(&b.alpha.kernel, b.alpha.hca.guid()).unwrap();
        assert!(nexus::nodes(&b.alpha.kernel).is_empty());
    });
}

#[test]
fn instance_numbers_belong_to_paths() {
    with("attachment").holds(|b| {
        nexus::use_ibd(&b.alpha.kernel);
        b.world.fabric().set_pkeys(b.alpha.port(), &[PKey(0xffff), PKey(0x8001)]).unwrap();
        b.settle();
        // The one that is opened first gets the first number.
        assert_eq!(node(&b.alpha, "ibd", Some(PKey(0xffff))).unwrap().device.instance(), 0);
        nexus::look(&b.alpha.kernel);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0xffff, 0)]);
        let config = b.alpha.hca.config().clone();
        b.world.remove_hca(&b.alpha.kernel, config.guid).unwrap();
        b.world.add_hca(&b.alpha.kernel, config).unwrap();
        b.settle();
        b.world.fabric().set_pkeys(b.alpha.port(), &[PKey(0x8001), PKey(0xffff)]).unwrap();
        b.settle();
        nexus::look(&b.alpha.kernel);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0xffff, 0)], "as before");
    });
}

fn aim(from: &Side, at: &Side) {
    from.run("probe_aim", at.lid() << 32 | at.ask("probe_qpn", 0));
}

/// Both hosts flood each other, each from a thread of its own, with greedy receivers; nothing is lost unaccounted for.
fn cross_fire(b: &Bench, each: i64) {
    let sides = [(b.alpha.clone(), ALPHA), (b.beta.clone(), BETA)];
    for (side, guid) in &sides {
        side.run("probe_start", *guid);
        side.run("probe_be_greedy", 0);
    }
    aim(&b.alpha, &b.beta);
    aim(&b.beta, &b.alpha);
    let threads: Vec<_> = sides
        .iter()
        .map(|(side, _)| {
            let inner = side.clone();
            side.kernel.spawn("flood", Ctx::Kernel, move || inner.run("probe_flood", each))
        })
        .collect();
    threads.iter().for_each(fakekernel::Thread::join);
    let accounted = || {
        let lost = b.world.fabric().drops().get(&Reason::NoReceive).copied().unwrap_or(0) as i64;
        lost + b.alpha.ask("probe_taken", 0) + b.beta.ask("probe_taken", 0)
    };
    // Interrupts may still be on their way; on the wall clock other processes may hold them up.
    for _ in 0..10_000 {
        if accounted() == 2 * each {
            break;
        }
        fakekernel::sleep(Nanos::from_millis(1));
    }
    assert_eq!(accounted(), 2 * each);
    for (side, _) in &sides {
        side.run("probe_look_away", 0);
        side.run("probe_handler_never_overlapped", 0);
        side.run("probe_let_go", 0);
    }
    b.settle();
    for (side, _) in &sides {
        side.run("probe_flush", 0);
        side.run("probe_stop", 0);
    }
}

#[test]
fn threads_of_both_hosts_in_parallel_lose_nothing() {
    with("traffic").machine(|c| c.mode = Mode::Live).holds(|b| cross_fire(b, 5_000));
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    let traffic = with("traffic").machine(|c| c.switch_one_in = 4);
    let trace = |seed| traffic.trace(seed, |b| cross_fire(b, 200));
    let (first, again, other) = (trace(11), trace(11), trace(12));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn tshark_reads_a_capture_of_both_ends() {
    with("traffic").holds(|b| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.pcapng");
        let capture = b.world.capture(&path, None).unwrap();
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        aim(&b.alpha, &b.beta);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 101);
        b.alpha.run("probe_let_go", 0);
        for side in [&b.alpha, &b.beta] {
            side.run("probe_flush", 0);
            side.run("probe_stop", 0);
        }
        assert_eq!(capture.finish().unwrap(), 2, "the packet leaves one port and arrives at the other");
        let fields = [
            "infiniband.lrh.dlid",
            "infiniband.lrh.pktlen",
            "infiniband.bth.opcode",
            "infiniband.deth.q_key",
        ];
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&path).args(["-T", "fields"]);
        fields.iter().for_each(|field| {
            tshark.args(["-e", field]);
        });
        let output = tshark.output().expect("tshark is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        // LRH, BTH, DETH, 101 bytes padded to 104, ICRC: 34 words.
        let expected = [format!("{}", b.beta.lid()), "34".into(), "100".into(), "0x0000000000000b1b".into()];
        assert_eq!(lines[0].split('\t').collect::<Vec<_>>(), expected);
        assert_eq!(lines[0], lines[1]);
    });
}

#[test]
fn what_was_dropped_has_a_name() {
    with("traffic").holds(|b| {
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        aim(&b.alpha, &b.beta);
        b.alpha.run("probe_send", 1);
        let named: BTreeMap<&str, u64> =
            b.world.fabric().drops().iter().map(|(r, n)| (r.name(), *n)).collect();
        assert_eq!(named, [("no_receive", 1)].into());
        b.alpha.run("probe_let_go", 0);
        for side in [&b.alpha, &b.beta] {
            side.run("probe_stop", 0);
        }
    });
}
