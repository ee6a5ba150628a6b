//! An administrator that is silent towards one port, and what that is to links on another one, and to the rest of the kernel.

use fabric::{Guid, Lid};
use fakekernel::genunix::KstatValue;
use fakekernel::{Errno, Nanos};
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Stream, links};
use sm::fault::FaultAction;
use sm::{Fault, FaultScript};

use crate::bench::{Bench, Driver, LINK, PLAIN, Setup, address_of, group};

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);
/// The link on alpha's other port.
const OTHER: &str = "other0";

/// A test on two ports of alpha's adapter, each with a link.
fn two_ports(test: fn(&Bench)) {
    let hca = |config: &mut fabric::HcaConfig| *config = fabric::HcaConfig::new(config.guid, 2);
    Setup { driver: Driver::Ibp, hca, ..Setup::default() }.run(move |bench| {
        bench.alpha.attach_port(other_port(bench));
        lab_gldv3::create_partition(&bench.alpha.kernel, "ibp1", 0xffff, OTHER, true).expect("a partition");
        bench.settle();
        test(bench);
        bench.no_faults();
        // Calls that were out when the administrator began to answer again come back with its next answer.
        bench.wait_for("the other link goes", Nanos::from_secs(300), || {
            lab_gldv3::delete_partition(&bench.alpha.kernel, OTHER).is_ok()
        });
    });
}

fn other_port(bench: &Bench) -> Guid {
    Guid(bench.alpha.port().0 + 1)
}

fn lid(bench: &Bench, port: Guid) -> Lid {
    let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's");
    let ports = hca.query_ports().expect("its ports");
    ports.iter().find(|known| known.guid == port).expect("it is alpha's").lid
}

/// The administrator answers nothing that this port asks, from now on.
fn silence(bench: &Bench, port: Guid) {
    let from = Some(sm::Lid(lid(bench, port).0));
    assert_ne!(from, Some(sm::Lid(0)), "the port was configured");
    bench.sm.faults(|script: &mut FaultScript| {
        script.push(Fault { from, ..Fault::always(FaultAction::Silent) });
    });
}

fn state(bench: &Bench, name: &str) -> LinkState {
    links(&bench.alpha.kernel).iter().find(|link| link.name == name).expect("the link is there").state
}

/// Opens a link and binds to a type, for which dld may take a second at most.
#[track_caller]
fn opens_at_once(bench: &Bench, name: &str) -> (Stream, ReceiveQueue) {
    let begun = bench.machine.now();
    let stream = Stream::open(&bench.alpha.kernel, name).expect("the link opens");
    let queue = stream.receive_queue(64);
    stream.bind(PLAIN).expect("the stream binds");
    let took = bench.machine.now().since(begun);
    assert!(took <= SECOND, "the bind was answered after {took}");
    (stream, queue)
}

/// Has a link that is up ask for sixteen paths and join sixteen groups.
fn ask_a_lot(alpha: &Stream, known: LinkAddress) {
    for n in 0..16 {
        let mut stranger = known;
        stranger.0[18] ^= n + 1;
        alpha.transmit(stranger, &[0; 40], Offload::default()).unwrap();
        alpha.enable_multicast(group(0xe005_0000 + u32::from(n))).unwrap();
    }
}

#[test]
fn a_silent_administrator_of_one_port_keeps_no_bind_and_no_link_of_the_other_from_the_start() {
    two_ports(|bench| {
        silence(bench, bench.alpha.port());
        let (_silent, _) = opens_at_once(bench, LINK);
        let (_other, _) = opens_at_once(bench, OTHER);
        bench.wait_for("the other link is up", SECOND, || state(bench, OTHER) == LinkState::Up);
        assert_eq!(state(bench, LINK), LinkState::Down);
    });
}

#[test]
fn an_administrator_that_falls_silent_while_much_is_asked_keeps_no_bind_and_no_link_of_the_other_port() {
    two_ports(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        silence(bench, bench.alpha.port());
        ask_a_lot(&alpha, address_of(&beta));
        fakekernel::sleep(SECOND);
        let (other, _) = opens_at_once(bench, OTHER);
        bench.wait_for("the other link is up", SECOND, || state(bench, OTHER) == LinkState::Up);
        other.enable_multicast(group(0xe006_0000)).unwrap();
        let there = |bench: &Bench| {
            bench
                .sm
                .inspect(|sm| sm.sa().memberships().filter(|(_, port, _)| *port == other_port(bench)).count())
        };
        bench.wait_for("its group is joined", SECOND, || there(bench) == 2);
        assert_eq!(state(bench, LINK), LinkState::Up, "what it knows is still true");
    });
}

/// A link whose questions are all out is closed; how long that took.
fn closes_in_silence(bench: &Bench) -> Nanos {
    let (beta, _) = bench.beta.open_up(PLAIN);
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    bench.sm.faults(|script| script.push(Fault::always(FaultAction::Silent)));
    ask_a_lot(&alpha, address_of(&beta));
    fakekernel::sleep(Nanos::from_millis(100));
    let begun = bench.machine.now();
    drop(alpha);
    bench.machine.now().since(begun)
}

/// What is out is asked again by IBTF, or given up a minute after the last answer.
fn goes_within_a_minute(bench: &Bench) {
    let begun = bench.machine.now();
    bench.alpha.unload();
    let took = bench.machine.now().since(begun);
    assert!(took < MINUTE + SECOND, "unloading took {took}");
}

/// The module stays until its questions are back. Before, the partition was busy as long.
#[test]
fn a_partition_closes_and_goes_while_its_questions_are_out() {
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let took = closes_in_silence(bench);
        assert!(took < SECOND, "closing took {took}");
        assert_eq!(bench.alpha.try_delete_partition(), Ok(()));
        assert_eq!(bench.alpha.try_unload(), Err(Errno::EBUSY));
        bench.no_faults();
        goes_within_a_minute(bench);
    });
}

/// Of a device node nothing may be left after a detach.
#[test]
fn an_instance_of_a_node_is_busy_until_its_questions_are_back() {
    Setup { driver: Driver::Ibd, ..Setup::default() }.run(|bench| {
        let took = closes_in_silence(bench);
        assert!(took < SECOND, "closing took {took}");
        assert_eq!(bench.alpha.try_unload(), Err(Errno::EBUSY));
        let console = bench.alpha.console();
        assert!(console.iter().any(|line| line.contains("busy, still waiting for")), "{console:?}");
        bench.no_faults();
        goes_within_a_minute(bench);
    });
}

/// How many joins each link of alpha's has asked for.
fn joins(bench: &Bench) -> Vec<u64> {
    let kernel = &bench.alpha.kernel;
    let of_links = kernel.kstats().into_iter().filter(|id| id.name == "datagram");
    let asked = |id| {
        let values = kernel.read_kstat(&id).expect("it can be read");
        match values.iter().find(|(name, _)| name == "sa_joins") {
            Some((_, KstatValue::U64(asked))) => *asked,
            other => panic!("{other:?}"),
        }
    };
    of_links.map(asked).collect()
}

#[test]
fn links_that_all_want_much_of_a_silent_administrator_ask_by_turns() {
    const OTHERS: [&str; 2] = ["link1", "link2"];
    Setup { driver: Driver::Ibp, seeds: 1, ..Setup::default() }.run(|bench| {
        let mut streams = vec![bench.alpha.open_up(PLAIN).0];
        for name in OTHERS {
            lab_gldv3::create_partition(&bench.alpha.kernel, "ibp0", 0xffff, name, true)
                .expect("a partition");
            streams.push(opens_at_once(bench, name).0);
        }
        bench.settle();
        let before = joins(bench);
        silence(bench, bench.alpha.port());
        for (stream, first) in streams.iter().zip(1..) {
            for n in 0..16 {
                stream.enable_multicast(group(0xe000_0000 + (first << 8) + n)).unwrap();
            }
        }
        fakekernel::sleep(Nanos::from_secs(600));
        let asked: Vec<u64> = joins(bench).iter().zip(before).map(|(now, before)| now - before).collect();
        let (least, most) = (asked.iter().min().unwrap(), asked.iter().max().unwrap());
        assert!(*least > 0 && *most <= least + least / 4, "{asked:?}");
        bench.no_faults();
        drop(streams);
        for name in OTHERS {
            bench.wait_for("the link goes", Nanos::from_secs(300), || {
                lab_gldv3::delete_partition(&bench.alpha.kernel, name).is_ok()
            });
        }
    });
}
