//! The fabric as a whole: device nodes, captures, equal traces, and threads that really run in parallel.

use std::collections::BTreeMap;
use std::process::Command;

use fabric::{PKey, Reason};
use fakekernel::{Ctx, Mode, Nanos};
use lab_ibtf::nexus::{self, Service};

use crate::bench::{ALPHA, BETA, Bench, Side, with};

fn pkeys_of_nodes(side: &Side) -> Vec<(u16, u32)> {
    let nodes = nexus::nodes(&side.kernel);
    let links = nodes.iter().filter(|n| n.service == Service::Ibd);
    links.map(|n| (n.pkey.unwrap().0, n.device.instance())).collect()
}

#[test]
fn device_nodes_follow_the_pkey_table_and_keep_their_instance_numbers() {
    with("attachment").holds(|b| {
        let port = b.alpha.port();
        let node = nexus::node(&b.alpha.kernel, port, None).expect("a port has a node");
        assert_eq!((node.path().as_str(), node.device.instance()), ("ibport@1,0,ipib", 0));
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0xffff, 0)]);
        let set = |table: &[PKey]| {
            b.world.fabric().set_pkeys(port, table).unwrap();
            b.settle();
        };
        set(&[PKey(0xffff), PKey(0x8001)]);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0xffff, 0)]);
        let link = nexus::node(&b.alpha.kernel, port, Some(PKey(0x8001))).unwrap();
        assert_eq!(link.path(), "ibport@1,8001,ibd");
        set(&[PKey(0x8002), PKey(0xffff)]);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8002, 2), (0xffff, 0)]);
        set(&[PKey(0x8001), PKey(0xffff)]);
        assert_eq!(pkeys_of_nodes(&b.alpha), [(0x8001, 1), (0xffff, 0)], "the old node's number");
        b.world.remove_hca(&b.alpha.kernel, b.alpha.hca.guid()).unwrap();
        assert!(nexus::nodes(&b.alpha.kernel).is_empty());
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
        let capture = b.world.capture(&path).unwrap();
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
