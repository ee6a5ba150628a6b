//! Starts that something interrupts or refuses, and stops at the wrong moment.

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload, Promiscuity, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Fault, Lid, Method};

use crate::bench::{Bench, LINK, PLAIN, Setup, address_of, group, holds};

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);

fn refuse_joins(bench: &Bench, count: Option<u32>) {
    let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), count, refused);
}

#[track_caller]
fn closes_at_once(bench: &Bench, stream: Stream) {
    let before = bench.machine.now();
    drop(stream);
    let took = bench.machine.now().since(before);
    assert!(took < SECOND, "closing took {took}");
}

fn refuse_joins_of_alpha(bench: &Bench) {
    let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's");
    let lid = hca.query_ports().expect("its ports")[0].lid.0;
    let action = FaultAction::Refuse(sm::Status::REQ_INVALID);
    let (attribute, method) = (Some(Attribute::MC_MEMBER_RECORD), Some(Method::SET));
    let fault = Fault { attribute, method, from: Some(Lid(lid)), ..Fault::always(action) };
    bench.sm.faults(|script| script.push(fault));
}

/// No broadcast group, and nobody who makes one.
fn without_a_group(test: fn(&Bench)) {
    Setup { ipoib: false, ..Setup::default() }.run(test);
}

fn open_and_wait_for_the_group(bench: &Bench) -> Stream {
    bench.alpha.set("_ibd_create_broadcast_group", "0").unwrap();
    let (stream, _) = bench.alpha.open(PLAIN);
    fakekernel::sleep(SECOND);
    assert_eq!(bench.alpha.state(), LinkState::Down);
    stream
}

#[test]
fn a_link_whose_start_by_a_trap_was_refused_can_be_closed() {
    without_a_group(|bench| {
        let stream = open_and_wait_for_the_group(bench);
        refuse_joins_of_alpha(bench);
        let (_beta, _) = bench.beta.open_up(PLAIN);
        fakekernel::sleep(SECOND);
        assert!(bench.faulted() > 0, "the trap was not heard, or the group not joined");
        closes_at_once(bench, stream);
        bench.no_faults();
    });
}

#[test]
fn a_link_can_be_closed_at_any_point_of_a_start_by_a_trap() {
    Setup { ipoib: false, seeds: 12, ..Setup::default() }.run(|bench| {
        for step in 0..12 {
            let stream = open_and_wait_for_the_group(bench);
            // It makes the group, which is reported, and ends it as its last member.
            let (beta, _) = bench.beta.open(PLAIN);
            fakekernel::sleep(Nanos::from_micros(step * 150));
            closes_at_once(bench, stream);
            drop(beta);
            fakekernel::sleep(SECOND);
        }
    });
}

#[test]
fn a_link_whose_port_comes_up_late_heals_from_one_refused_join() {
    holds(|bench| {
        bench.world.set_cable(bench.alpha.port(), false);
        let (_stream, _) = bench.alpha.open(PLAIN);
        fakekernel::sleep(SECOND);
        refuse_joins(bench, Some(1));
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up after one refusal", MINUTE, || {
            bench.faulted() == 1 && bench.alpha.state() == LinkState::Up
        });
        bench.no_faults();
    });
}

#[test]
fn a_link_is_closed_at_once_although_the_administrator_is_silent() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        for n in 0..4 {
            stream.enable_multicast(group(0xe004_0000 + n)).unwrap();
        }
        bench.settle();
        bench.world.set_cable(bench.alpha.port(), false);
        bench.settle();
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.settle();
        closes_at_once(bench, stream);
        bench.no_faults();
    });
}

#[test]
fn a_link_is_closed_while_paths_are_asked_for() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        for n in 0..20 {
            let mut stranger = address_of(&beta).0;
            stranger[18] ^= n + 1;
            alpha.transmit(LinkAddress(stranger), &[0; 40], Offload::default()).unwrap();
        }
        fakekernel::sleep(Nanos::from_millis(20));
        closes_at_once(bench, alpha);
        bench.settle();
        bench.no_faults();
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
    });
}

#[test]
fn starts_that_are_refused_leave_nothing_allocated() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        refuse_joins(bench, None);
        let cycle = || {
            // Whether the link opens although nothing can be joined is the driver's to say.
            let stream = Stream::open(&bench.alpha.kernel, LINK);
            bench.settle();
            drop(stream);
            fakekernel::sleep(Nanos::from_secs(5));
        };
        let in_use = || bench.alpha.kernel.genunix().heap_use().0;
        cycle();
        let before = in_use();
        (0..10).for_each(|_| cycle());
        let after = in_use();
        assert!(after <= before + 4_096, "{before} bytes in use, {after} after ten refused starts");
        bench.no_faults();
    });
}

#[test]
fn a_new_subnet_prefix_brings_the_link_up_with_a_new_address() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        alpha.enable_multicast(group(0xe005_0001)).unwrap();
        bench.settle();
        let old = address_of(&alpha);
        bench.sm.renumber(0xfec0_0000_0000_0042);
        bench.wait_for("up with an address of the new subnet", MINUTE, || {
            let new = address_of(&alpha);
            let both = [&bench.alpha, &bench.beta].iter().all(|host| host.state() == LinkState::Up);
            both && new != old && new.0[4..12] == 0xfec0_0000_0000_0042_u64.to_be_bytes()
        });
        bench.wait_for("both groups", MINUTE, || bench.memberships_of_alpha() == 2);
        bench.wait_for("a packet arrives", MINUTE, || {
            alpha.transmit(address_of(&beta), b"moved", Offload::default()).unwrap();
            bench.settle();
            std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"moved")
        });
    });
}

/// IBTF tells it of what the subnet manager reports with the GID that the port had when it was attached.
#[test]
fn promiscuous_mode_hears_of_groups_that_are_made_after_a_new_subnet_prefix() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        alpha.set_promiscuous(Promiscuity::Multicast, true).unwrap();
        bench.settle();
        let old = address_of(&alpha);
        bench.sm.renumber(0xfec0_0000_0000_0042);
        bench.wait_for("up with an address of the new subnet", MINUTE, || {
            let up = [&bench.alpha, &bench.beta].iter().all(|host| host.state() == LinkState::Up);
            up && address_of(&alpha) != old
        });
        fakekernel::sleep(MINUTE);
        let before = bench.memberships_of_alpha();
        beta.enable_multicast(group(0x0005_0002)).unwrap();
        bench.wait_for("alpha hears beta's group", Nanos::from_secs(5), || {
            bench.memberships_of_alpha() == before + 1
        });
    });
}

#[test]
fn a_value_that_is_no_number_is_refused_and_changes_nothing() {
    holds(|bench| {
        for name in ["_ibd_ud_num_rwqe", "_ibd_ud_num_swqe", "_ibd_num_ah", "_ibd_ud_tx_copy_thresh"] {
            let before = bench.alpha.get(name);
            for wrong in ["", "many", "1000x", "--1"] {
                let refused = bench.alpha.set(name, wrong);
                assert_eq!(refused, Err(fakekernel::Errno::EINVAL), "{name} is set to {wrong:?}");
                assert_eq!(bench.alpha.get(name), before);
            }
        }
    });
}

#[test]
fn a_link_that_carried_traffic_is_unloaded_without_a_trace() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        alpha.transmit(address_of(&beta), &[1; 100], Offload::default()).unwrap();
        bench.settle();
        assert!(heard.try_next().is_some());
        // The bench unloads both drivers at the end, and every rule about what is left behind holds.
    });
}

#[test]
fn promiscuous_mode_asked_for_before_the_port_is_up_hears_every_group_once_it_is() {
    holds(|bench| {
        bench.world.set_cable(bench.alpha.port(), false);
        let (alpha, _) = bench.alpha.open(PLAIN);
        alpha.set_promiscuous(Promiscuity::Multicast, true).unwrap();
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up", MINUTE, || bench.alpha.state() == LinkState::Up);
        let (beta, _) = bench.beta.open_up(PLAIN);
        beta.enable_multicast(group(0x0005_0002)).unwrap();
        bench.wait_for("alpha hears beta's group", MINUTE, || bench.memberships_of_alpha() == 2);
    });
}

#[test]
fn nobody_waits_for_the_speed_while_the_administrator_tells_no_path() {
    holds(|bench| {
        bench.settle();
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        let before = bench.machine.now();
        let (_alpha, _) = bench.alpha.open(PLAIN);
        let took = bench.machine.now().since(before);
        assert!(took < SECOND, "opening took {took}");
        bench.wait_for("up", SECOND, || bench.alpha.state() == LinkState::Up);
        assert_eq!(bench.alpha.statistics().ifspeed, 16_000_000_000);
        bench.world.set_cable(bench.alpha.port(), false);
        bench.wait_for("down", SECOND, || bench.alpha.state() == LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up again", SECOND, || bench.alpha.state() == LinkState::Up);
        bench.no_faults();
    });
}

#[test]
fn a_short_pull_of_the_cable_takes_no_neighbour_away_while_the_administrator_is_silent() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        for attribute in [Attribute::MC_MEMBER_RECORD, Attribute::PATH_RECORD] {
            bench.fault(attribute, None, None, FaultAction::Silent);
        }
        bench.world.set_cable(bench.alpha.port(), false);
        bench.wait_for("down", SECOND, || bench.alpha.state() == LinkState::Down);
        fakekernel::sleep(Nanos::from_secs(3));
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up again", SECOND, || bench.alpha.state() == LinkState::Up);
        alpha.transmit(address_of(&beta), b"still there", Offload::default()).unwrap();
        bench.settle();
        assert!(std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"still there"));
    });
}

/// A join that nobody answers, and what is asked for behind it: a link that does one thing after the other gets to that late.
fn one_join_is_not_answered(bench: &Bench, stream: &Stream) {
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
    stream.enable_multicast(group(0xe005_0001)).unwrap();
    fakekernel::sleep(Nanos::from_millis(20));
}

/// Closed, and opened again while its port is down; what was asked for meanwhile has had the time to come to an end.
fn closed_and_opened_without_a_port(bench: &Bench, stream: Stream) -> Stream {
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), None, FaultAction::Empty);
    drop(stream);
    bench.world.set_cable(bench.alpha.port(), false);
    bench.settle();
    let (stream, _) = bench.alpha.open(PLAIN);
    fakekernel::sleep(Nanos::from_secs(600));
    bench.no_faults();
    bench.world.set_cable(bench.alpha.port(), true);
    bench.wait_for("up", MINUTE, || bench.alpha.state() == LinkState::Up);
    stream
}

/// Whether beta is found once the link is up again; `meanwhile` happens behind the join that is not answered.
fn finds_beta_after_all(bench: &Bench, meanwhile: impl FnOnce(&Stream, LinkAddress)) {
    let (alpha, beta, heard) = bench.talking(PLAIN);
    one_join_is_not_answered(bench, &alpha);
    meanwhile(&alpha, address_of(&beta));
    fakekernel::sleep(Nanos::from_millis(20));
    let alpha = closed_and_opened_without_a_port(bench, alpha);
    bench.wait_for("beta is found again", SECOND, || {
        alpha.transmit(address_of(&beta), b"hello", Offload::default()).unwrap();
        bench.settle();
        std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"hello")
    });
}

#[test]
fn a_join_that_nobody_answered_before_a_stop_keeps_nobody_from_an_address_after_it() {
    holds(|bench| finds_beta_after_all(bench, |_, _| ()));
}

#[test]
fn an_address_that_was_asked_for_before_a_stop_keeps_nobody_from_another_after_it() {
    holds(|bench| {
        finds_beta_after_all(bench, |alpha, beta| {
            let mut stranger = beta.0;
            stranger[18] ^= 1;
            alpha.transmit(LinkAddress(stranger), &[0; 40], Offload::default()).unwrap();
        });
    });
}

/// Sends take a while to complete.
fn slow(config: &mut fabric::HcaConfig) {
    config.send_latency = fabric::Nanos(100_000_000);
}

/// A group is left while a packet to it is under way, behind a join that is not answered.
fn a_group_is_left_with_a_packet_under_way(bench: &Bench) -> Stream {
    let (alpha, _beta, _) = bench.talking(PLAIN);
    let some = group(0xe005_0002);
    alpha.enable_multicast(some).unwrap();
    bench.settle();
    alpha.transmit(some, b"first", Offload::default()).unwrap();
    bench.settle();
    alpha.transmit(some, b"second", Offload::default()).unwrap();
    alpha.disable_multicast(some).unwrap();
    fakekernel::sleep(Nanos::from_millis(20));
    one_join_is_not_answered(bench, &alpha);
    bench.settle();
    alpha
}

#[test]
fn a_group_that_is_left_with_a_packet_under_way_is_left_once_and_the_link_closed() {
    Setup { hca: slow, ..Setup::default() }.run(|bench| {
        let alpha = a_group_is_left_with_a_packet_under_way(bench);
        drop(alpha);
        bench.settle();
        bench.no_faults();
    });
}

#[test]
fn what_was_asked_of_groups_before_a_stop_is_forgotten_without_harm_after_it() {
    Setup { hca: slow, ..Setup::default() }.run(|bench| {
        let alpha = a_group_is_left_with_a_packet_under_way(bench);
        let alpha = closed_and_opened_without_a_port(bench, alpha);
        alpha.enable_multicast(group(0xe005_0003)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
    });
}

#[test]
fn a_port_is_heard_of_while_the_administrator_is_silent() {
    holds(|bench| {
        bench.world.set_cable(bench.alpha.port(), false);
        let (_alpha, _) = bench.alpha.open(PLAIN);
        fakekernel::sleep(SECOND);
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        bench.world.set_cable(bench.alpha.port(), true);
        fakekernel::sleep(Nanos::from_secs(5));
        bench.world.set_cable(bench.alpha.port(), false);
        fakekernel::sleep(SECOND);
        bench.no_faults();
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up although a request of before is not answered", MINUTE, || {
            bench.alpha.state() == LinkState::Up
        });
    });
}

/// Ports whose codes end below what they do.
fn fast(test: fn(&Bench)) {
    fn fdr(config: &mut fabric::HcaConfig) {
        config.ports[0].speed = fabric::LinkSpeed::Fdr;
    }
    Setup { hca: fdr, ..Setup::default() }.run(test);
}

/// Four lanes of 14.0625 Gb/s, of which 64 bits in 66 are payload, and of 10 Gb/s with 8 in 10.
const FDR: u64 = 54_545_454_545;
const QDR: u64 = 32_000_000_000;

#[test]
fn a_port_that_is_faster_than_its_codes_can_say_has_the_speed_that_the_administrator_knows() {
    fast(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        assert_eq!(bench.alpha.statistics().ifspeed, FDR, "bits per second of four FDR lanes");
    });
}

#[test]
fn a_fast_port_is_up_before_its_speed_is_known_and_asked_about_again_after_an_event() {
    fast(|bench| {
        bench.settle();
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Refuse(sm::Status::REQ_INVALID));
        let (_alpha, _) = bench.alpha.open(PLAIN);
        bench.wait_for("up", SECOND, || bench.alpha.state() == LinkState::Up);
        bench.settle();
        assert_eq!(bench.alpha.statistics().ifspeed, QDR);
        bench.no_faults();
        bench.world.set_cable(bench.alpha.port(), false);
        bench.wait_for("down", SECOND, || bench.alpha.state() == LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("its speed", SECOND, || bench.alpha.statistics().ifspeed == FDR);
    });
}
