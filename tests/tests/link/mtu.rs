//! `dladm set-linkprop -p mtu`: a link that may carry less than its broadcast group.

use fakekernel::{Errno, Nanos};
use lab_gldv3::{
    LinkState, Offload, Permission, PropertyId, PropertyValue, Stream, get_property, property_info,
    set_property,
};
use sm::partition::GroupParams;
use sm::{MtuCode, Partition};

use crate::bench::{Bench, Host, LINK, PLAIN, Setup, address_of, holds, partition};

fn set(host: &Host, mtu: u32) -> Result<(), Errno> {
    set_property(&host.kernel, LINK, &PropertyId::Mtu, &PropertyValue::U32(mtu))
}

fn get(host: &Host) -> u32 {
    match get_property(&host.kernel, LINK, &PropertyId::Mtu) {
        Ok(PropertyValue::U32(mtu)) => mtu,
        other => panic!("{other:?}"),
    }
}

/// Default and bounds.
fn possible(host: &Host) -> (Option<PropertyValue>, Vec<(u32, u32)>) {
    let info = property_info(&host.kernel, LINK, &PropertyId::Mtu).expect("it is known");
    assert_eq!(info.permission, Permission::ReadWrite);
    (info.default, info.ranges)
}

fn sdus(stream: &Stream) -> [u32; 2] {
    let details = stream.details();
    [details.max_sdu, details.multicast_sdu]
}

/// Adapters that can have a larger MTU than the default broadcast group.
fn large(test: fn(&Bench)) {
    fn adapter(config: &mut fabric::HcaConfig) {
        config.ports[0].mtu = fabric::Mtu::M4096;
    }
    Setup { hca: adapter, ..Setup::default() }.run(test);
}

fn with_mtu(mtu: MtuCode) -> Partition {
    partition(false).with_ipoib(GroupParams { mtu, ..GroupParams::default() })
}

#[test]
fn a_link_that_is_up_carries_less_at_once_and_as_much_as_before_when_it_is_told() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let sends = |length: usize| {
            let sent = alpha.transmit(address_of(&beta), &vec![7; length], Offload::default());
            bench.settle();
            sent.is_ok() && heard.try_next().is_some_and(|packet| packet.payload.len() == length)
        };
        assert!(sends(2_044));
        set(&bench.alpha, 1_500).unwrap();
        bench.settle();
        assert_eq!((get(&bench.alpha), sdus(&alpha)), (1_500, [1_500; 2]));
        assert!(sends(1_500) && !sends(1_501));
        // What comes in may be as long as it was.
        let ((_back, back), long) = (bench.alpha.open(PLAIN + 1), vec![9; 2_044]);
        let (other, _) = bench.beta.open(PLAIN + 1);
        other.transmit(address_of(&alpha), &long, Offload::default()).unwrap();
        bench.settle();
        assert!(back.try_next().is_some_and(|packet| packet.payload == long));
        set(&bench.alpha, 2_044).unwrap();
        bench.settle();
        assert_eq!(sdus(&alpha), [2_044; 2]);
        assert!(sends(2_044));
    });
}

#[test]
fn a_link_that_was_told_while_it_was_stopped_remembers_over_starts_and_outages() {
    holds(|bench| {
        let alpha = &bench.alpha;
        set(alpha, 1_280).unwrap();
        for _ in 0..2 {
            let (stream, _) = alpha.open_up(PLAIN);
            bench.settle();
            assert_eq!(sdus(&stream), [1_280; 2]);
            bench.world.set_cable(alpha.port(), false);
            bench.wait_for("down", Nanos::from_secs(10), || alpha.state() == LinkState::Down);
            bench.world.set_cable(alpha.port(), true);
            bench.wait_for("up", Nanos::from_secs(60), || alpha.state() == LinkState::Up);
            bench.settle();
            assert_eq!(sdus(&stream), [1_280; 2]);
            drop(stream);
            bench.settle();
        }
        assert_eq!((get(alpha), alpha.get("_ibd_link_state")), (1_280, "stopped".to_owned()));
    });
}

#[test]
fn no_link_is_told_to_carry_more_than_its_group_or_less_than_ipv6_needs() {
    large(|bench| {
        let alpha = &bench.alpha;
        assert_eq!(possible(alpha), (Some(PropertyValue::U32(4_092)), vec![(1_280, 4_092)]));
        for wrong in [0, 1, 1_279, 4_093, u32::MAX] {
            assert_eq!(set(alpha, wrong), Err(Errno::EINVAL), "{wrong}");
        }
        let (stream, _) = alpha.open_up(PLAIN);
        bench.settle();
        assert_eq!(possible(alpha), (Some(PropertyValue::U32(2_044)), vec![(1_280, 2_044)]));
        for wrong in [1_279, 2_045, 4_092] {
            assert_eq!(set(alpha, wrong), Err(Errno::EINVAL), "{wrong}");
        }
        assert_eq!((get(alpha), sdus(&stream)), (2_044, [2_044; 2]));
        let refusals = alpha.console().into_iter().filter(|line| line.contains("is not from 1280 to"));
        assert!(refusals.count() >= 1, "{:?}", alpha.console());
    });
}

/// `mac` asks no driver for the MTU that a link has already. `dladm` sets what was saved when the link comes, before anything opens it.
#[test]
fn any_mtu_that_was_saved_bounds_a_link_whose_group_carries_more() {
    fn is_a_bound<const SAVED: u32>(bench: &Bench) {
        // The group of before has to go.
        bench.sm.set_partitions(vec![partition(false)]);
        bench.settle();
        bench.sm.set_partitions(vec![with_mtu(MtuCode::B4096)]);
        bench.settle();
        set(&bench.alpha, SAVED).unwrap();
        let (stream, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        assert_eq!(sdus(&stream), [SAVED; 2]);
    }
    large(is_a_bound::<1_280>);
    large(is_a_bound::<2_044>);
    large(is_a_bound::<3_000>);
}

#[test]
fn a_bound_outlives_the_group_it_was_set_under_and_the_default_is_none() {
    large(|bench| {
        let alpha = &bench.alpha;
        let carries = |mtu: MtuCode, sdu: u32, told: Option<u32>| {
            bench.sm.set_partitions(vec![partition(false)]);
            bench.settle();
            bench.sm.set_partitions(vec![with_mtu(mtu)]);
            bench.settle();
            let (stream, _) = alpha.open_up(PLAIN);
            bench.settle();
            assert_eq!(sdus(&stream), [sdu; 2]);
            if let Some(told) = told {
                // As `dladm reset-linkprop` does.
                assert_eq!(possible(alpha).0, Some(PropertyValue::U32(told)));
                set(alpha, told).unwrap();
                bench.settle();
                assert_eq!(sdus(&stream), [told; 2]);
            }
            drop(stream);
            bench.settle();
        };
        carries(MtuCode::B2048, 2_044, None);
        // The MAC layer has this until the link has a group again, which may come to be one with more.
        set(alpha, 3_000).unwrap();
        assert_eq!(get(alpha), 3_000);
        carries(MtuCode::B2048, 2_044, None);
        carries(MtuCode::B4096, 3_000, Some(4_092));
        carries(MtuCode::B2048, 2_044, None);
    });
}

#[test]
fn a_link_that_opens_connections_is_bounded_for_neighbours_and_for_groups() {
    holds(|bench| {
        let alpha = &bench.alpha;
        let mode =
            |mode| set_property(&alpha.kernel, LINK, &PropertyId::IbLinkMode, &PropertyValue::U32(mode));
        mode(1).unwrap();
        assert_eq!(possible(alpha), (Some(PropertyValue::U32(65_520)), vec![(1_280, 65_520)]));
        assert_eq!(set(alpha, 65_521), Err(Errno::EINVAL));
        set(alpha, 9_000).unwrap();
        let (stream, _) = alpha.open_up(PLAIN);
        bench.settle();
        assert_eq!(sdus(&stream), [9_000, 2_044]);
        set(alpha, 1_500).unwrap();
        bench.settle();
        assert_eq!(sdus(&stream), [1_500; 2]);
        set(alpha, 65_520).unwrap();
        bench.settle();
        assert_eq!(sdus(&stream), [65_520, 2_044]);
        drop(stream);
        bench.settle();
        // A bound of the one mode is one of the other, too.
        set(alpha, 9_000).unwrap();
        mode(0).unwrap();
        let (stream, _) = alpha.open_up(PLAIN);
        bench.settle();
        assert_eq!(sdus(&stream), [2_044; 2]);
    });
}
