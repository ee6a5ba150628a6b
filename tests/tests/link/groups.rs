//! Memberships of groups: how they come, how they are kept, and when they end.

use fabric::HcaConfig;
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{Offload, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid, Method};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, group, holds};

const MINUTE: Nanos = Nanos::from_secs(60);
const GROUP: u32 = 0x0006_0001;
const MTU_2048: u8 = 4;
const SDR_4X: u8 = 3;

fn refuse_joins(bench: &Bench) {
    let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, refused);
}

/// The MGIDs of the groups with an IPv4 group's low bits.
fn mgids(bench: &Bench, last: u32) -> Vec<sm::Gid> {
    let groups = bench.sm.inspect(|sm| sm.sa().groups().map(|(group, _)| group.mgid).collect::<Vec<_>>());
    groups.into_iter().filter(|mgid| mgid.guid as u32 == last).collect()
}

#[test]
fn a_group_that_was_refused_is_joined_later() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        refuse_joins(bench);
        // The C driver answers what the administrator does, ours that it is wanted.
        let _ = stream.enable_multicast(group(GROUP));
        bench.settle();
        bench.no_faults();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
    });
}

#[test]
fn a_group_that_a_link_makes_has_the_mtu_and_rate_of_the_broadcast_group() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        let carries: Vec<_> =
            bench.sm.inspect(|sm| sm.sa().groups().map(|(group, _)| (group.mtu, group.rate)).collect());
        assert_eq!(carries.len(), 2);
        assert_eq!(carries[0], carries[1], "the two groups carry the same");
    });
}

fn faster(config: &mut HcaConfig) {
    config.ports[0].speed = fabric::LinkSpeed::Fdr;
}

/// The groups there are, with the MTU and rate of each.
fn carried(bench: &Bench) -> Vec<(sm::Gid, u8, u8)> {
    let groups = |sm: &sm::Sm| {
        sm.sa().groups().map(|(group, _)| (group.mgid, group.mtu.value, group.rate.value)).collect()
    };
    bench.sm.inspect(groups)
}

/// What the SA lists comes a second later.
fn lists_slowly(bench: &Bench) {
    let slow = FaultAction::Delay(sm::Nanos(Nanos::from_secs(1).0));
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::GET_TABLE), None, slow);
}

/// Who joins what the SA has listed makes the group if the last member leaves meanwhile.
#[test]
fn a_group_whose_last_member_leaves_while_a_faster_port_joins_stays_as_it_was() {
    Setup { hca: faster, ..Setup::default() }.run(|bench| {
        let [(alpha, _), (beta, _)] = [bench.alpha.open_up(PLAIN), bench.beta.open_up(PLAIN)];
        beta.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        let before = carried(bench);
        assert_eq!(before.len(), 2);
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), Some(1), refused);
        lists_slowly(bench);
        alpha.enable_multicast(group(GROUP)).unwrap();
        fakekernel::sleep(Nanos::from_millis(500));
        beta.disable_multicast(group(GROUP)).unwrap();
        bench.wait_for("beta has left", Nanos::from_millis(400), || carried(bench).len() == 1);
        bench.wait_for("alpha has made the group", MINUTE, || bench.memberships_of_alpha() == 2);
        assert_eq!(carried(bench), before);
    });
}

/// A subnet manager that has just come refuses what it will grant a moment later.
#[test]
fn a_fast_port_that_is_refused_at_first_makes_a_broadcast_group_that_slower_ones_can_join() {
    Setup { hca: faster, ipoib: false, ..Setup::default() }.run(|bench| {
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), Some(1), refused);
        let _open = bench.alpha.open_up(PLAIN);
        assert_eq!(bench.faulted(), 1);
        let carried: Vec<_> = carried(bench).into_iter().map(|(_, mtu, rate)| (mtu, rate)).collect();
        assert_eq!(carried, [(MTU_2048, SDR_4X)]);
    });
}

/// RFC 4391, 5: as much as the broadcast group carries.
#[test]
fn a_group_that_is_refused_at_first_is_made_like_a_broadcast_group_that_carries_more_than_is_usual() {
    fn large(config: &mut HcaConfig) {
        faster(config);
        config.ports[0].mtu = fabric::Mtu::M4096;
    }
    Setup { hca: large, ipoib: false, ..Setup::default() }.run(|bench| {
        let (mtu, rate) = (sm::MtuCode::B4096, sm::RateCode(7));
        let like = sm::partition::GroupParams { mtu, rate, ..sm::partition::GroupParams::default() };
        bench.sm.set_partitions(vec![crate::bench::partition(false).with_ipoib(like)]);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), Some(1), refused);
        alpha.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        assert_eq!(bench.faulted(), 1);
        let carried: Vec<_> = carried(bench).into_iter().map(|(_, mtu, rate)| (mtu, rate)).collect();
        assert_eq!(carried, [(mtu.0, rate.0); 2]);
    });
}

/// A link of the subnet has become slower: some SAs refuse who names what they list themselves.
#[test]
fn a_membership_is_ended_whose_group_the_administrator_refuses_with_the_values_it_lists() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        lose_answers_to_joins(bench);
        alpha.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        alpha.disable_multicast(group(GROUP)).unwrap();
        a_join_is_given_up(bench);
        let refused = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), Some(1), refused);
        bench.wait_for("the group is left", Nanos::from_secs(90), || bench.memberships_of_alpha() == 1);
    });
}

/// The adapter says what its port can carry, and not what the switch at the other end can.
#[test]
fn a_port_behind_a_switch_that_carries_less_makes_the_broadcast_group_with_that() {
    const MTU_1024: u8 = 3;
    let setup = Setup { switch_mtu: sm::MtuCode(MTU_1024), ipoib: false, ..Setup::default() };
    setup.run(|bench| {
        let _open = bench.alpha.open_up(PLAIN);
        let carried: Vec<_> = carried(bench).into_iter().map(|(_, mtu, rate)| (mtu, rate)).collect();
        assert_eq!(carried, [(MTU_1024, SDR_4X)]);
    });
}

#[test]
fn a_port_of_one_lane_makes_the_broadcast_group_as_fast_as_it_is() {
    const SDR_1X: u8 = 2;
    fn thin(config: &mut HcaConfig) {
        config.ports[0].speed = fabric::LinkSpeed::Sdr;
        config.ports[0].width = fabric::LinkWidth::X1;
    }
    Setup { hca: thin, ipoib: false, ..Setup::default() }.run(|bench| {
        let _open = bench.alpha.open_up(PLAIN);
        let carried: Vec<_> = carried(bench).into_iter().map(|(_, mtu, rate)| (mtu, rate)).collect();
        assert_eq!(carried, [(MTU_2048, SDR_1X)]);
    });
}

/// A membership that nobody has confirmed is ended by a join and a leave, since IBTF counts them.
#[test]
fn a_group_whose_last_member_leaves_while_a_faster_port_ends_an_unanswered_join_stays_as_it_was() {
    Setup { hca: faster, ..Setup::default() }.run(|bench| {
        let [(alpha, _), (beta, _)] = [bench.alpha.open_up(PLAIN), bench.beta.open_up(PLAIN)];
        beta.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        let before = carried(bench);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
        alpha.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        alpha.disable_multicast(group(GROUP)).unwrap();
        a_join_is_given_up(bench);
        lists_slowly(bench);
        let met = bench.faulted();
        bench.wait_for("alpha asks about the group", Nanos::from_secs(600), || bench.faulted() > met);
        beta.disable_multicast(group(GROUP)).unwrap();
        bench.wait_for("beta has left", Nanos::from_millis(500), || carried(bench).len() == 1);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), Some(1), FaultAction::Silent);
        bench.wait_for("alpha joins once more", MINUTE, || bench.memberships_of_alpha() == 2);
        assert_eq!(carried(bench), before);
        bench.wait_for("alpha has left", MINUTE, || bench.memberships_of_alpha() == 1);
    });
}

#[test]
fn every_join_and_leave_that_the_administrator_sees_is_counted_once_with_its_answer() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let counts = || {
            ["sa_joins", "sa_joins_failed", "sa_leaves", "sa_leaves_failed"]
                .map(|name| bench.alpha.counter(name))
        };
        let before = counts();
        let since = |before: [u64; 4]| std::array::from_fn(|n| counts()[n] - before[n]);
        // The first attempt names MTU and rate; the second takes what there is.
        bench.fault(
            Attribute::MC_MEMBER_RECORD,
            Some(Method::SET),
            Some(1),
            FaultAction::Refuse(sm::Status::REQ_INVALID),
        );
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        bench.settle();
        assert_eq!(since(before), [2, 1, 0, 0]);
        // Each look after the membership joins once more, and is to be left once more; the SA hears of the last leave alone.
        fakekernel::sleep(Nanos::from_secs(2 * 3600));
        let before = counts();
        stream.disable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is left", MINUTE, || bench.memberships_of_alpha() == 1);
        bench.settle();
        assert_eq!(since(before), [0, 0, 1, 0]);
    });
}

fn lose_answers_to_joins(bench: &Bench) {
    bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::LoseAnswer);
}

/// IBTF gives up one join more.
fn a_join_is_given_up(bench: &Bench) {
    let before = bench.alpha.counter("sa_joins_failed");
    bench.wait_for("a join is given up", Nanos::from_secs(90), || {
        bench.alpha.counter("sa_joins_failed") > before
    });
    bench.no_faults();
}

#[test]
fn a_group_is_left_although_every_answer_to_its_join_was_lost() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        lose_answers_to_joins(bench);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        stream.disable_multicast(group(GROUP)).unwrap();
        a_join_is_given_up(bench);
        bench.wait_for("the group is left", Nanos::from_secs(90), || bench.memberships_of_alpha() == 1);
    });
}

#[test]
fn a_link_leaves_its_broadcast_group_although_every_answer_to_its_join_was_lost() {
    holds(|bench| {
        lose_answers_to_joins(bench);
        let (stream, _) = bench.alpha.open(PLAIN);
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 1);
        drop(stream);
        // Whoever leaves asks first whether there is a group: not before the SA is well.
        let slow = FaultAction::Delay(sm::Nanos(Nanos::from_secs(1).0));
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::GET_TABLE), None, slow);
        a_join_is_given_up(bench);
        bench.wait_for("the group is left", Nanos::from_secs(2), || bench.memberships_of_alpha() == 0);
    });
}

/// IBTF has one count for both links, and the SA one member: their port. A group with other members is not reported as gone.
#[test]
fn a_link_that_leaves_what_nobody_has_confirmed_takes_nothing_from_another_link_of_its_port() {
    const OTHER: &str = "link1";
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        beta.enable_multicast(group(GROUP)).unwrap();
        let (first, _) = bench.alpha.open_up(PLAIN);
        first.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        lab_gldv3::create_partition(&bench.alpha.kernel, "ibp0", 0xffff, OTHER, true).expect("a partition");
        let second = Stream::open(&bench.alpha.kernel, OTHER).expect("the link opens");
        second.bind(PLAIN).expect("the stream binds");
        bench.settle();
        lose_answers_to_joins(bench);
        second.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        second.disable_multicast(group(GROUP)).unwrap();
        fakekernel::sleep(Nanos::from_secs(90));
        bench.no_faults();
        drop(second);
        fakekernel::sleep(MINUTE);
        assert_eq!(bench.memberships_of_alpha(), 2, "the first link is in both groups");
        lab_gldv3::delete_partition(&bench.alpha.kernel, OTHER).expect("the second link goes");
        drop(first);
        bench.wait_for("both groups are left", MINUTE, || bench.memberships_of_alpha() == 0);
    });
}

#[test]
fn a_group_that_is_only_sent_to_is_left_when_nothing_is_sent_any_more() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        beta.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        for _ in 0..2 {
            alpha.transmit(group(GROUP), b"to the group", Offload::default()).unwrap();
            bench.settle();
        }
        assert_eq!(heard.try_next().map(|packet| packet.payload), Some(b"to the group".to_vec()));
        assert_eq!(bench.memberships_of_alpha(), 2);
        bench.wait_for("left again", Nanos::from_secs(3600), || {
            fakekernel::sleep(MINUTE);
            bench.memberships_of_alpha() == 1
        });
        alpha.transmit(group(GROUP), b"once more", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(bench.memberships_of_alpha(), 2, "joined again");
    });
}

#[test]
fn a_membership_that_the_subnet_manager_lost_is_found_missing_and_made_again() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        let mgids = mgids(bench, GROUP);
        assert_eq!(mgids.len(), 1);
        assert!(bench.sm.delete_group(mgids[0]));
        assert_eq!(bench.memberships_of_alpha(), 1);
        bench.wait_for("a member again", Nanos::from_secs(3600), || {
            fakekernel::sleep(MINUTE);
            bench.memberships_of_alpha() == 2
        });
    });
}

#[test]
fn a_group_wanted_again_while_it_is_left_is_heard_as_soon_as_the_leave_has_failed() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, heard) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        alpha.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        let hears = |what: &[u8]| {
            beta.transmit(group(GROUP), what, Offload::default()).unwrap();
            fakekernel::sleep(Nanos::from_millis(100));
            std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == what)
        };
        // The first one is sent before beta may send.
        hears(b"to be allowed to");
        assert!(hears(b"before"));
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), None, FaultAction::Silent);
        alpha.disable_multicast(group(GROUP)).unwrap();
        bench.settle();
        assert!(!hears(b"meanwhile"));
        alpha.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the leave is given up", MINUTE, || bench.alpha.counter("sa_leaves_failed") == 1);
        bench.no_faults();
        fakekernel::sleep(Nanos::from_millis(100));
        assert!(hears(b"after"), "joined again");
    });
}

#[test]
fn a_link_closed_while_its_port_is_down_and_opened_again_leaves_each_group_once() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        bench.world.set_cable(bench.alpha.port(), false);
        bench.settle();
        drop(stream);
        bench.settle();
        bench.world.set_cable(bench.alpha.port(), true);
        bench.settle();
        let (stream, _) = bench.alpha.open_up(PLAIN);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("the group is joined", MINUTE, || bench.memberships_of_alpha() == 2);
        let failed = bench.alpha.counter("sa_leaves_failed");
        // Nothing is done to leaves but that they are counted.
        let at_once = FaultAction::Delay(sm::Nanos(0));
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), None, at_once);
        drop(stream);
        bench.wait_for("the groups are left", MINUTE, || bench.memberships_of_alpha() == 0);
        fakekernel::sleep(MINUTE);
        assert_eq!((bench.faulted(), bench.alpha.counter("sa_leaves_failed")), (2, failed));
    });
}

/// How many groups, and how long the administrator takes for each.
const MANY: u32 = 1_000;
const ROUND_TRIP: Nanos = Nanos::from_millis(1);

#[test]
fn a_thousand_groups_are_joined_again_side_by_side_when_the_sm_restarts() {
    // What an adapter has no room for would be joined again all the time.
    let hca = |hca: &mut HcaConfig| hca.attr.max_mcg = 2 * MANY;
    Setup { hca, ..Setup::default() }.run(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        for n in 0..MANY {
            stream.enable_multicast(group(GROUP + n)).unwrap();
        }
        let all = || bench.memberships_of_alpha() == MANY as usize + 1;
        bench.wait_for("every group joined", MINUTE, all);
        // An answer that is on its way when the SM stops is lost, and waited for.
        bench.settle();
        let slow = FaultAction::Delay(sm::Nanos(ROUND_TRIP.0));
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, slow);
        bench.sm.stop();
        let begun = bench.machine.now();
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 7));
        while !all() {
            fakekernel::sleep(Nanos(ROUND_TRIP.0 / 4));
        }
        let round_trips = bench.machine.now().since(begun).0 / ROUND_TRIP.0;
        // IBTF has eight requests out at once. A new SM is heard of in several ways, and what was joined in between is joined
        // once more.
        assert!(round_trips <= u64::from(MANY) / 8 * 5 / 4, "it took {round_trips} round trips");
        assert!(bench.faulted() <= u64::from(MANY) * 5 / 4, "{} joins", bench.faulted());
    });
}

#[test]
fn an_address_that_was_not_used_for_long_is_looked_up_anew() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        bench.count(Attribute::PATH_RECORD, Method::GET_TABLE);
        fakekernel::sleep(Nanos::from_secs(3600));
        alpha.transmit(address_of(&beta), b"good morning", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().expect("it arrives").payload, b"good morning");
        assert_ne!(bench.faulted(), 0, "an address of an hour ago is used as it was");
    });
}

/// What ibcm remembers of an address for a minute may be from before the subnet changed.
#[test]
fn an_address_that_is_asked_for_again_within_a_minute_is_not_looked_up_in_the_memory_of_ibcm() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        bench.count(Attribute::PATH_RECORD, Method::GET_TABLE);
        drop(alpha);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let before = bench.faulted();
        alpha.transmit(address_of(&beta), b"here again", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().expect("it arrives").payload, b"here again");
        assert_eq!(bench.faulted(), before + 1);
    });
}

fn joins_refused(bench: &Bench, stream: &Stream, seconds: u64) -> usize {
    refuse_joins(bench);
    // That of the broadcast group is another cause.
    let told =
        || bench.alpha.console().iter().filter(|line| line.contains("Join multicast group failed")).count();
    let before = told();
    for second in 0..seconds {
        for n in 0..20 {
            let _ = stream.enable_multicast(group(GROUP + 20 * second as u32 + n));
        }
        fakekernel::sleep(Nanos::from_secs(1));
    }
    let lines = told() - before;
    bench.no_faults();
    lines
}

#[test]
fn twenty_groups_refused_in_a_second_are_told_in_one_line() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        // A port that has just come up has its broadcast group joined once more.
        bench.settle();
        let lines = joins_refused(bench, &stream, 20);
        assert!((1..=21).contains(&lines), "{lines} lines in 20 s: {:?}", bench.alpha.console().last());
    });
}

#[test]
fn groups_that_cannot_be_heard_can_be_sent_to_and_keep_nobody_from_a_path() {
    /// More than there may be lookups at once.
    const MANY: u32 = 20;
    holds(|bench| {
        let (alpha, heard_by_alpha) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        for n in 0..MANY {
            beta.enable_multicast(group(GROUP + n)).unwrap();
        }
        bench.settle();
        let driver = Some(bench.alpha.driver().name());
        bench.alpha.kernel.set_fault(FaultKind("ibt_attach_mcg"), driver, FaultPlan::From(0));
        for n in 0..MANY {
            alpha.enable_multicast(group(GROUP + n)).unwrap();
        }
        bench.settle();
        for n in 0..MANY {
            alpha.transmit(group(GROUP + n), b"to the group", Offload::default()).unwrap();
        }
        bench.settle();
        alpha.transmit(address_of(&beta), b"to the port", Offload::default()).unwrap();
        bench.settle();
        let got: Vec<_> = std::iter::from_fn(|| heard.try_next()).map(|packet| packet.payload).collect();
        assert_eq!(got.iter().filter(|payload| *payload == b"to the port").count(), 1);
        assert_eq!(got.iter().filter(|payload| *payload == b"to the group").count(), MANY as usize);
        let told = bench.alpha.console();
        assert!(told.iter().any(|line| line.contains("cannot attach the queue pair to group")), "{told:?}");
        bench.alpha.kernel.clear_fault(FaultKind("ibt_attach_mcg"), driver);
        let last = || beta.transmit(group(GROUP + MANY - 1), b"now", Offload::default()).unwrap();
        bench.wait_for("the groups are heard", MINUTE, || {
            last();
            heard_by_alpha.try_next().is_some_and(|packet| packet.payload == b"now")
        });
    });
}

#[test]
fn groups_that_nobody_answers_about_keep_no_path_from_being_asked_for() {
    // More than lookups may be out at once, and more packets than may wait.
    const SILENT: u32 = 80;
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
        for n in 0..SILENT * 8 {
            alpha.transmit(group(GROUP + n % SILENT), b"to the group", Offload::default()).unwrap();
        }
        bench.settle();
        let (asked, full) = (bench.alpha.counter("sa_paths"), bench.alpha.counter("tx_drop_queue_full"));
        alpha.transmit(address_of(&beta), b"to the port", Offload::default()).unwrap();
        // Joins have all places of the port, until IBTF gives up the first of them; dozens wait for the next.
        let packet = heard
            .next(bench.machine.now() + Nanos::from_secs(65))
            .expect("a path does not wait for all joins");
        assert_eq!(packet.payload, b"to the port");
        assert_eq!(bench.alpha.counter("sa_paths"), asked + 1);
        assert_eq!(bench.alpha.counter("tx_drop_queue_full"), full);
        bench.no_faults();
    });
}

/// The same partition, whose broadcast group has the scope of a site.
fn in_a_site() -> sm::Partition {
    let mgid = sm::partition::broadcast_mgid(sm::PKey(0xffff), 5);
    let group = sm::partition::PermanentGroup { mgid, params: sm::partition::GroupParams::default() };
    sm::Partition { groups: vec![group], ..crate::bench::partition(false) }
}

#[test]
fn a_broadcast_group_that_comes_back_in_another_scope_takes_every_group_along() {
    /// More than lookups may be out at once.
    const MANY: u32 = 20;
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        for n in 0..MANY {
            beta.enable_multicast(group(GROUP + n)).unwrap();
            alpha.transmit(group(GROUP + n), b"before", Offload::default()).unwrap();
        }
        bench.settle();
        bench.sm.stop();
        bench.sm.set_partitions(vec![in_a_site()]);
        // The old broadcast group is refused to both, until they look for another one.
        refuse_joins(bench);
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
        fakekernel::sleep(Nanos::from_secs(2));
        bench.no_faults();
        let scopes = |last| mgids(bench, last).iter().map(|mgid| mgid.prefix >> 48 & 0xf).collect::<Vec<_>>();
        bench.wait_for("every group in the site's scope", MINUTE, || {
            scopes(0xffff_ffff).contains(&5) && (0..MANY).all(|n| scopes(GROUP + n).contains(&5))
        });
        for n in 0..MANY {
            bench.wait_for("alpha reaches the group", MINUTE, || {
                std::iter::from_fn(|| heard.try_next()).for_each(drop);
                alpha.transmit(group(GROUP + n), &n.to_be_bytes(), Offload::default()).unwrap();
                bench.settle();
                std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == n.to_be_bytes())
            });
        }
        // Unloading, in the end, waits for every lookup.
    });
}
