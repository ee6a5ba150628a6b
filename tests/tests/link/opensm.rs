//! The same promises on a real OpenSM over ibsim, in real time, as far as one can make it misbehave: it can be killed, it can
//! hang, and it has the groups that it has.

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload, Stream};
use lab_ibtf::saa::{OpenSmManager, SubnetManager};

use crate::bench::{PLAIN, Setup, address_of, group};

type Bench = crate::bench::Bench<OpenSmManager>;

/// For an answer of the SA, at least.
const IBTF_WAITS: Nanos = Nanos::from_secs(4);
const SECOND: Nanos = Nanos::from_secs(1);
/// OpenSM sweeps every ten seconds at most, and a busy machine is slow.
const PATIENCE: Nanos = Nanos::from_secs(120);

/// OpenSM gives ibsim's ports an MTU of 2048 bytes and no more.
fn as_ibsim_has_it(config: &mut fabric::HcaConfig) {
    config.ports[0].mtu = fabric::Mtu::M2048;
}

fn on_opensm(test: fn(&Bench)) {
    Setup { hca: as_ibsim_has_it, ..Setup::default() }.run_under_opensm(test);
}

fn send(from: &Stream, to: LinkAddress, bytes: &[u8]) {
    from.transmit(to, bytes, Offload::default()).expect("the stream is bound");
}

/// Another queue pair of the same port: another address, whose path has to be asked for.
fn neighbour(of: LinkAddress, n: u32) -> LinkAddress {
    let mut bytes = of.0;
    bytes[1..4].copy_from_slice(&(0x20_0000 + n).to_be_bytes()[1..]);
    LinkAddress(bytes)
}

/// Both links up, and alpha knows the way to beta.
fn talking(bench: &Bench) -> (Stream, Stream, lab_gldv3::ReceiveQueue) {
    let (alpha, _) = bench.alpha.open(PLAIN);
    let (beta, heard) = bench.beta.open(PLAIN);
    bench.wait_for("both links up", PATIENCE, || {
        [&bench.alpha, &bench.beta].iter().all(|host| host.state() == LinkState::Up)
    });
    bench.wait_for("alpha reaches beta", PATIENCE, || {
        send(&alpha, address_of(&beta), b"hello");
        heard.try_next().is_some()
    });
    (alpha, beta, heard)
}

fn groups_of_alpha(bench: &Bench) -> usize {
    let port = bench.alpha.port();
    let groups = bench.sm.groups().expect("OpenSM's own dump");
    groups.iter().filter(|group| group.members.iter().any(|member| member.0 == port.0)).count()
}

#[test]
fn traffic_flows_and_other_peers_wait_while_opensm_hangs() {
    on_opensm(|bench| {
        let (alpha, beta, heard) = talking(bench);
        bench.settle();
        while heard.try_next().is_some() {}
        bench.sm.hang(true).expect("OpenSM is there");
        let since = bench.machine.now();
        for n in 0..200_u32 {
            send(&alpha, neighbour(address_of(&beta), n % 4), &[0; 100]);
            send(&alpha, address_of(&beta), &n.to_be_bytes());
            let packet = heard.next(bench.machine.now() + PATIENCE).expect("it arrives");
            assert_eq!(packet.payload, n.to_be_bytes());
        }
        bench.sm.hang(false).expect("OpenSM is there");
        // On a busy machine this takes longer than IBTF waits for an answer.
        let rounds = 1 + bench.machine.now().since(since).0 / IBTF_WAITS.0;
        let asked = bench.alpha.counter("sa_paths");
        assert!(
            (1..=1 + 4 * rounds).contains(&asked),
            "{asked} questions for 5 addresses of one port in {rounds} rounds"
        );
        assert_eq!(bench.alpha.statistics().noxmtbuf, 0, "nothing was given back to the MAC layer");
    });
}

#[test]
fn a_thousand_addresses_of_one_port_cost_opensm_one_path_query_each_at_most() {
    on_opensm(|bench| {
        let (alpha, beta, _heard) = talking(bench);
        let before = bench.alpha.statistics().opackets;
        for _ in 0..3 {
            for n in 0..1_000 {
                send(&alpha, neighbour(address_of(&beta), n), &[0; 40]);
                if n % 100 == 99 {
                    bench.settle();
                }
            }
        }
        bench.wait_for("every packet is sent", PATIENCE, || {
            bench.alpha.statistics().opackets - before == 3_000
        });
        // In real time: a way that nobody was asked for is asked for after half a minute.
        let asked = bench.alpha.counter("sa_paths");
        assert!((1..=1 + 1_000).contains(&asked), "{asked} questions");
    });
}

#[test]
fn a_group_opensm_does_not_have_costs_one_join_per_back_off_and_unicast_flows() {
    on_opensm(|bench| {
        let (alpha, beta, heard) = talking(bench);
        bench.settle();
        while heard.try_next().is_some() {}
        let before = bench.alpha.counter("sa_joins");
        for n in 0..10_u32 {
            for _ in 0..50 {
                send(&alpha, group(0xe001_0203), &[0; 100]);
            }
            send(&alpha, address_of(&beta), &n.to_be_bytes());
            let packet = heard.next(bench.machine.now() + PATIENCE).expect("it arrives");
            assert_eq!(packet.payload, n.to_be_bytes());
            fakekernel::sleep(SECOND);
        }
        let asked = bench.alpha.counter("sa_joins") - before;
        assert!((1..=12).contains(&asked), "{asked} joins in ten seconds for 500 packets");
    });
}

#[test]
fn a_link_plumbed_with_its_port_down_and_opensm_away_comes_up_with_every_group() {
    on_opensm(|bench| {
        assert!(bench.world.set_cable(bench.alpha.port(), false));
        bench.sm.stop();
        let (stream, _) = bench.alpha.open(PLAIN);
        for n in 0..5 {
            stream.enable_multicast(group(0xe003_0000 + n)).expect("a group that IP may want");
        }
        fakekernel::sleep(SECOND);
        assert_eq!(bench.alpha.state(), LinkState::Down);
        assert!(bench.world.set_cable(bench.alpha.port(), true));
        bench.sm.restart().expect("OpenSM starts");
        bench.wait_for("up", PATIENCE, || bench.alpha.state() == LinkState::Up);
        bench.wait_for("all groups in OpenSM's dump", PATIENCE, || groups_of_alpha(bench) >= 6);
    });
}

#[test]
fn a_link_opened_while_opensm_hangs_comes_up_when_it_goes_on() {
    on_opensm(|bench| {
        drop(talking(bench));
        bench.settle();
        bench.sm.hang(true).expect("OpenSM is there");
        let (_stream, _) = bench.alpha.open(PLAIN);
        fakekernel::sleep(Nanos::from_secs(15));
        assert_eq!(bench.alpha.state(), LinkState::Down, "nobody has let it into the broadcast group");
        bench.sm.hang(false).expect("OpenSM is there");
        bench.wait_for("up", PATIENCE, || bench.alpha.state() == LinkState::Up);
    });
}

#[test]
fn twenty_openings_and_closings_under_traffic_leave_nothing_with_opensm() {
    on_opensm(|bench| {
        let (_, beta, _) = talking(bench);
        for n in 0..20 {
            let hangs = n % 4 == 3;
            if hangs {
                bench.sm.hang(true).expect("OpenSM is there");
            }
            let (alpha, _) = bench.alpha.open(PLAIN);
            for peer in 0..50 {
                send(&alpha, neighbour(address_of(&beta), peer), &[0; 40]);
            }
            alpha.enable_multicast(group(0xe003_0000)).expect("a group that IP may want");
            drop(alpha);
            if hangs {
                bench.sm.hang(false).expect("OpenSM is there");
            }
        }
        // The broadcast group's membership is the last to be left.
        bench.wait_for("left every group", PATIENCE, || groups_of_alpha(bench) == 0);
    });
}

#[test]
fn a_queue_pair_that_breaks_is_replaced_and_opensm_has_its_groups() {
    on_opensm(|bench| {
        let (alpha, beta, heard) = talking(bench);
        alpha.enable_multicast(group(0xe003_0000)).expect("a group that IP may want");
        bench.wait_for("joined", PATIENCE, || groups_of_alpha(bench) >= 2);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.alpha.port().0 - 1)).expect("alpha's");
        assert!(hca.qpns().into_iter().all(|qpn| hca.break_qpn(qpn)));
        bench.wait_for("a packet arrives", PATIENCE, || {
            send(&alpha, address_of(&beta), b"again");
            heard.try_next().is_some_and(|packet| packet.payload == b"again")
        });
        bench.wait_for("joined", PATIENCE, || groups_of_alpha(bench) >= 2);
    });
}

#[test]
fn an_opensm_that_comes_back_has_every_membership_and_no_packet_was_lost() {
    on_opensm(|bench| {
        let (alpha, beta, heard) = talking(bench);
        alpha.enable_multicast(group(0xe003_0000)).expect("a group that IP may want");
        bench.wait_for("joined", PATIENCE, || groups_of_alpha(bench) >= 2);
        while heard.try_next().is_some() {}
        bench.sm.stop();
        for n in 0..100_u32 {
            send(&alpha, address_of(&beta), &n.to_be_bytes());
            assert_eq!(
                heard.next(bench.machine.now() + PATIENCE).expect("it arrives").payload,
                n.to_be_bytes()
            );
        }
        bench.sm.restart().expect("OpenSM starts");
        bench.wait_for("joined again, unasked", PATIENCE, || {
            send(&alpha, address_of(&beta), b"more");
            assert_eq!(heard.next(bench.machine.now() + PATIENCE).expect("it arrives").payload, b"more");
            groups_of_alpha(bench) >= 2
        });
    });
}

#[test]
fn while_opensm_hangs_each_cause_is_told_once_a_second_at_most() {
    on_opensm(|bench| {
        drop(talking(bench));
        bench.settle();
        bench.sm.hang(true).expect("OpenSM is there");
        let before = bench.alpha.console().len();
        let (alpha, _) = bench.alpha.open(PLAIN);
        for n in 0..40 {
            alpha.enable_multicast(group(0xe002_0000 + n)).expect("a group that IP may want");
        }
        fakekernel::sleep(Nanos::from_secs(12));
        let lines = bench.alpha.console().len() - before;
        assert!(lines <= 2 * 13, "{lines} lines in 12 s");
        bench.sm.hang(false).expect("OpenSM is there");
    });
}
