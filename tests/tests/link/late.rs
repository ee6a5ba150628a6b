//! Links that are plumbed before their fabric is ready, and fabrics that change their mind.

use fakekernel::{Errno, Nanos};
use lab_gldv3::{LinkState, Offload};
use sm::fault::FaultAction;
use sm::{Attribute, Lid, Method};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, group, holds, partition};

const MINUTE: Nanos = Nanos::from_secs(60);
/// Groups that alpha wants in these tests, beside the broadcast group.
const GROUPS: usize = 5;

fn want_groups(stream: &lab_gldv3::Stream) {
    for n in 0..GROUPS as u32 {
        stream.enable_multicast(group(0xe003_0000 + n)).expect("a group that IP may want");
    }
}

fn alpha_has_all(bench: &Bench) -> bool {
    bench.alpha.state() == LinkState::Up && bench.memberships_of_alpha() == GROUPS + 1
}

#[test]
fn a_link_plumbed_before_the_sm_comes_up_with_every_group_it_was_asked_for() {
    Setup { sm_after: MINUTE, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let (stream, _) = bench.alpha.open(PLAIN);
        want_groups(&stream);
        fakekernel::sleep(Nanos::from_secs(30));
        assert_eq!(bench.alpha.state(), LinkState::Down);
        bench.wait_for("up", MINUTE, || bench.alpha.state() == LinkState::Up);
        bench.wait_for("all groups", MINUTE, || alpha_has_all(bench));
    });
}

#[test]
fn a_group_that_appears_without_a_trap_brings_the_link_up_although_the_sa_is_mute_for_a_minute() {
    Setup { ipoib: false, ..Setup::default() }.run(|bench| {
        bench.alpha.set("_ibd_create_broadcast_group", "0").unwrap();
        // Nobody can subscribe to traps.
        bench.fault(Attribute::INFORM_INFO, None, None, FaultAction::Silent);
        let (stream, _) = bench.alpha.open(PLAIN);
        want_groups(&stream);
        fakekernel::sleep(Nanos::from_secs(300));
        assert_eq!(bench.alpha.state(), LinkState::Down);
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        bench.sm.set_partitions(vec![partition(true)]);
        fakekernel::sleep(MINUTE);
        assert_eq!(bench.alpha.state(), LinkState::Down);
        bench.no_faults();
        bench.fault(Attribute::INFORM_INFO, None, None, FaultAction::Silent);
        // A request that went unanswered is given up after four minutes at most.
        bench.wait_for("up with all groups", Nanos::from_secs(300), || alpha_has_all(bench));
        bench.no_faults();
    });
}

#[test]
fn a_broadcast_join_refused_once_after_a_flap_heals_by_itself() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        want_groups(&stream);
        bench.wait_for("all groups", MINUTE, || alpha_has_all(bench));
        bench.world.set_cable(bench.alpha.port(), false);
        bench.settle();
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), Some(1), refused);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up with all groups", MINUTE, || bench.faulted() == 1 && alpha_has_all(bench));
        bench.no_faults();
    });
}

#[test]
fn a_link_can_be_closed_at_any_point_of_a_start_that_goes_wrong() {
    Setup { seeds: 24, ..Setup::default() }.run(|bench| {
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, refused);
        for n in 0..12 {
            let (stream, _) = bench.alpha.open(PLAIN);
            want_groups(&stream);
            fakekernel::sleep(Nanos::from_micros(n * 733));
            let before = bench.machine.now();
            drop(stream);
            let took = bench.machine.now().since(before);
            assert!(took < Nanos::from_secs(1), "closing took {took}");
        }
        bench.no_faults();
        let (_stream, _) = bench.alpha.open_up(PLAIN);
    });
}

#[test]
fn no_group_that_is_still_wanted_is_left_when_the_sm_restarts_or_asks_to_register_anew() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        want_groups(&alpha);
        bench.wait_for("all groups", MINUTE, || alpha_has_all(bench));
        bench.count(Attribute::MC_MEMBER_RECORD, Method::DELETE);
        for n in 1..=3 {
            bench.sm.stop();
            bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16 * n));
            bench.wait_for("all groups again", MINUTE, || bench.memberships_of_alpha() == GROUPS + 1);
            alpha.transmit(address_of(&beta), b"still there", Offload::default()).unwrap();
            bench.settle();
            assert_eq!(heard.try_next().expect("the path is remembered").payload, b"still there");
        }
        let left = bench.faulted();
        assert_eq!(left, 0, "groups that are wanted were left");
        assert!(bench.alpha.counter("sa_paths") <= 1 + 3 * 2, "paths are asked for again once each at most");
    });
}

#[test]
fn a_link_on_an_adapter_that_is_gone_cannot_be_opened() {
    holds(|bench| {
        let node = fabric::Guid(bench.alpha.port().0 - 1);
        bench.world.remove_hca(&bench.alpha.kernel, node).expect("nobody holds it");
        let opened = lab_gldv3::Stream::open(&bench.alpha.kernel, crate::bench::LINK);
        assert_eq!(opened.err(), Some(Errno::ENXIO));
    });
}

#[test]
fn a_thousand_openings_and_closings_under_traffic_leave_nothing_allocated() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Delay(sm::Nanos(2_000_000)));
        let (beta, _) = bench.beta.open_up(PLAIN);
        let cycle = |n: u64| {
            let (alpha, _heard) = bench.alpha.open(PLAIN);
            want_groups(&alpha);
            // From before the port is asked to well after the link is up.
            fakekernel::sleep(Nanos::from_micros(n % 40 * 500));
            for _ in 0..4 {
                alpha.transmit(address_of(&beta), &[1; 600], Offload::default()).unwrap();
                beta.transmit(address_of(&alpha), &[2; 600], Offload::default()).unwrap();
                beta.transmit(beta.details().broadcast, &[3; 600], Offload::default()).unwrap();
            }
        };
        let in_use = || {
            // What is put aside is freed when the driver next looks.
            fakekernel::sleep(Nanos::from_secs(300));
            bench.alpha.kernel.genunix().heap_use()
        };
        // The first ones make what is kept from then on.
        (0..40).for_each(cycle);
        // What grows once is kept and used again, as the place of a CQ is: now and then one is still going when the next one comes.
        // A leak grows every time.
        let grows = |_| {
            let before = in_use();
            (0..1_000).for_each(cycle);
            let after = in_use();
            // Fewer, because the first ones may have left more addresses to be forgotten.
            (after.0 > before.0 || after.1 > before.1).then_some((before, after))
        };
        let grown: Option<Vec<_>> = (0..3).map(grows).collect();
        assert_eq!(grown, None, "bytes and blocks on alpha, before and after each thousand openings");
    });
}

#[test]
fn an_idle_link_takes_less_than_four_megabytes() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let attached = bench.alpha.kernel.genunix().heap_use().0;
        let (_stream, _heard) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let open = bench.alpha.kernel.genunix().heap_use().0;
        assert!(open - attached <= 4 << 20, "{attached} bytes attached, {open} open");
        assert!(open - attached > 1 << 20, "the buffers are not counted: {open} bytes");
    });
}

#[test]
fn a_link_closed_while_its_queue_pair_is_replaced_hands_nothing_up_any_more() {
    Setup { seeds: 40, ..Setup::default() }.run(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.alpha.port().0 - 1)).expect("alpha's");
        let own = address_of(&alpha);
        let qpn = u32::from_be_bytes([0, own.0[1], own.0[2], own.0[3]]);
        for n in 0..200_u8 {
            beta.transmit(own, &[n; 600], Offload::default()).unwrap();
        }
        assert!(hca.break_qpn(fabric::Qpn::truncating(qpn)), "alpha's queue pair has another number");
        drop((alpha, heard));
        let notes = bench.machine.notes();
        assert!(notes.is_empty(), "{notes:?}");
    });
}

#[test]
fn a_port_that_goes_down_at_any_step_of_a_start_brings_the_link_up_when_it_is_back() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        // A start takes about a millisecond here: every call to the adapter and to the SA has its turn.
        for step in 0..100 {
            let (stream, _) = bench.alpha.open(PLAIN);
            want_groups(&stream);
            fakekernel::sleep(Nanos::from_micros(step * 20));
            bench.world.set_cable(bench.alpha.port(), false);
            fakekernel::sleep(Nanos::from_millis(50));
            assert_eq!(bench.alpha.state(), LinkState::Down, "down after step {step}");
            bench.world.set_cable(bench.alpha.port(), true);
            bench.wait_for("up with all groups", Nanos::from_secs(300), || alpha_has_all(bench));
        }
        assert!(bench.machine.notes().is_empty(), "{:?}", bench.machine.notes());
    });
}
