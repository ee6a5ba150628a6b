//! Starts that something interrupts or refuses, and stops at the wrong moment.

use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload, Promiscuity, Stream};
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
            alpha.transmit(lab_gldv3::LinkAddress(stranger), &[0; 40], Offload::default()).unwrap();
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
