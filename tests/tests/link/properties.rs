//! `dladm show-linkprop` and `set-linkprop`, down to the driver.

use fakekernel::Errno;
use lab_gldv3::{Offload, Permission, PropertyId, PropertyValue, get_property, property_info, set_property};
use sm::MtuCode;
use sm::partition::GroupParams;

use crate::bench::{Driver, LINK, PLAIN, Setup, address_of, holds, partition};

/// Name, default, bounds, and whether it can be set while the link is started.
const NUMBERS: [(&str, u32, u32, u32, bool); 34] = [
    ("_ibd_coalesce_completions", 1, 0, 1, true),
    ("_ibd_create_broadcast_group", 1, 0, 1, false),
    ("_ibd_debug", 0, 0, 2, true),
    ("_ibd_hash_size", 32, 32, 1024, false),
    ("_ibd_join_retries", 0, 0, 100, true),
    ("_ibd_join_timeout", 0, 0, 3600, true),
    ("_ibd_lso_enable", 1, 0, 1, false),
    ("_ibd_num_ah", 256, 32, 8192, false),
    ("_ibd_num_lso_bufs", 512, 512, 4096, false),
    ("_ibd_path_lookups", 16, 1, 64, true),
    ("_ibd_path_packets", 72, 1, 1024, true),
    ("_ibd_path_refresh", 300, 10, 86_400, true),
    ("_ibd_rc_accept", 0, 0, 1, false),
    ("_ibd_rc_enable_srq", 1, 0, 1, true),
    ("_ibd_rc_num_rwqe", 2047, 511, 8000, true),
    ("_ibd_rc_num_srq", 2046, 0, 8000, true),
    ("_ibd_rc_num_swqe", 511, 511, 8000, true),
    ("_ibd_rc_rx_comp_count", 4, 1, 8000, true),
    ("_ibd_rc_rx_comp_usec", 10, 1, u32::MAX, true),
    ("_ibd_rc_rx_copy_thresh", 4096, 1500, 65_524, true),
    ("_ibd_rc_rx_rwqe_thresh", 511, 127, 8000, true),
    ("_ibd_rc_tx_comp_count", 10, 1, 8000, true),
    ("_ibd_rc_tx_comp_usec", 300, 1, u32::MAX, true),
    ("_ibd_rc_tx_copy_thresh", 4096, 1500, 65_524, true),
    ("_ibd_tx_timeout", 30, 0, 3600, true),
    ("_ibd_ud_num_rwqe", 512, 512, 8000, false),
    ("_ibd_ud_num_swqe", 512, 512, 8000, false),
    ("_ibd_ud_rx_comp_count", 4, 1, 8000, true),
    ("_ibd_ud_rx_comp_usec", 10, 1, u32::MAX, true),
    ("_ibd_ud_rx_copy_thresh", 256, 0, 4136, false),
    ("_ibd_ud_rx_intr_limit", 256, 32, 8000, false),
    ("_ibd_ud_tx_comp_count", 16, 1, 8000, true),
    ("_ibd_ud_tx_comp_usec", 300, 1, u32::MAX, true),
    ("_ibd_ud_tx_copy_thresh", 4096, 2048, 65_536, false),
];

const READ_ONLY: [&str; 5] =
    ["_ibd_broadcast_group", "_ibd_broadcast_state", "_ibd_link_state", "_ibd_sa_status", "_ibd_link_reason"];

/// A port smaller than the group that the SM has made. Before, every counter was 0, and the log alone had the reason.
#[test]
fn a_group_larger_than_the_port_is_the_reason_that_is_shown() {
    let hca = |config: &mut fabric::HcaConfig| config.ports[0].mtu = fabric::Mtu::M2048;
    Setup { hca, ipoib: false, ..Setup::default() }.run(|bench| {
        let large = GroupParams { mtu: MtuCode::B4096, ..GroupParams::default() };
        bench.sm.set_partitions(vec![partition(false).with_ipoib(large)]);
        let (_stream, _) = bench.alpha.open(PLAIN);
        bench.settle();
        let shown = ["_ibd_link_state", "_ibd_link_reason"].map(|name| bench.alpha.get(name));
        assert_eq!(shown, ["waits for broadcast group", "group MTU 4096 greater than port MTU 2048"]);
    });
}

#[test]
fn the_state_of_a_link_is_there_to_be_read_and_not_to_be_set() {
    Setup { ipoib: false, ..Setup::default() }.run(|bench| {
        let alpha = &bench.alpha;
        let shown = || READ_ONLY.map(|name| alpha.get(name));
        let counted = || ["broadcast_state", "link_state", "sa_last_failure"].map(|name| alpha.counter(name));
        assert_eq!(shown(), ["0", "none", "stopped", "0", "none"]);
        alpha.set("_ibd_create_broadcast_group", "0").unwrap();
        let (stream, _) = alpha.open(PLAIN);
        bench.settle();
        assert_eq!(shown()[..3], ["0", "none", "waits for broadcast group"]);
        assert_eq!((counted()[1], shown()[4].as_str()), (3, "no broadcast group"));
        bench.world.set_cable(alpha.port(), false);
        bench.wait_for("down", fakekernel::Nanos::from_secs(10), || {
            alpha.get("_ibd_link_state") == "waits for port"
        });
        bench.world.set_cable(alpha.port(), true);
        bench.sm.set_partitions(vec![partition(true)]);
        bench.wait_for("up", fakekernel::Nanos::from_secs(120), || alpha.get("_ibd_link_state") == "up");
        bench.settle();
        assert_eq!(shown()[..3], ["1", "joined", "up"]);
        assert_eq!(shown()[4], "none");
        assert_eq!(counted()[..2], [3, 5]);
        assert_eq!(counted()[2].to_string(), shown()[3]);
        for name in READ_ONLY {
            assert_eq!(alpha.set(name, "1"), Err(Errno::ENOTSUP), "{name}");
            let info = property_info(&alpha.kernel, LINK, &PropertyId::Private(name.to_owned())).unwrap();
            assert_eq!(info.permission, Permission::ReadOnly, "{name}");
        }
        drop(stream);
        bench.settle();
        assert_eq!((alpha.get("_ibd_link_state"), alpha.counter("link_state")), ("stopped".to_owned(), 0));
    });
}

#[test]
fn the_properties_have_their_names_defaults_and_bounds() {
    holds(|bench| {
        let alpha = &bench.alpha;
        let mut names = lab_gldv3::private_properties(&alpha.kernel, LINK).unwrap();
        names.retain(|name| !READ_ONLY.contains(&name.as_str()));
        assert_eq!(names, NUMBERS.map(|(name, ..)| name));
        for (name, default, least, most, _) in NUMBERS {
            let info = property_info(&alpha.kernel, LINK, &PropertyId::Private(name.to_owned())).unwrap();
            assert_eq!(info.permission, Permission::ReadWrite, "{name}");
            assert_eq!(info.default, Some(PropertyValue::Text(default.to_string())), "{name}");
            assert_eq!(alpha.get(name), default.to_string());
            for wrong in [(i64::from(least) - 1).to_string(), (i64::from(most) + 1).to_string()] {
                assert_eq!(alpha.set(name, &wrong), Err(Errno::EINVAL), "{name}={wrong}");
            }
            for wrong in ["", "many", "1x", "--1", "99999999999999999999"] {
                assert_eq!(alpha.set(name, wrong), Err(Errno::EINVAL), "{name}={wrong}");
            }
            for right in [least, most, default] {
                alpha.set(name, &format!("{right:#x}")).unwrap();
                assert_eq!(alpha.get(name), right.to_string());
            }
        }
    });
}

#[test]
fn a_started_link_is_busy_for_what_needs_a_new_queue_pair() {
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        for (name, default, .., live) in NUMBERS {
            let expected = if live { Ok(()) } else { Err(Errno::EBUSY) };
            assert_eq!(bench.alpha.set(name, &default.to_string()), expected, "{name}");
        }
        drop(stream);
        bench.settle();
        for (name, default, ..) in NUMBERS {
            assert_eq!(bench.alpha.set(name, &default.to_string()), Ok(()), "{name}, stopped again");
        }
    });
}

#[test]
fn an_unknown_property_is_not_supported_and_a_link_is_of_datagrams_until_it_is_told_otherwise() {
    holds(|bench| {
        let alpha = &bench.alpha;
        assert_eq!(alpha.set("_ibd_rc_num_of_nothing", "600"), Err(Errno::ENOTSUP));
        let linkmode =
            |value| set_property(&alpha.kernel, LINK, &PropertyId::IbLinkMode, &PropertyValue::U32(value));
        let now = || get_property(&alpha.kernel, LINK, &PropertyId::IbLinkMode);
        assert_eq!(now(), Ok(PropertyValue::U32(0)));
        assert_eq!(linkmode(2), Err(Errno::EINVAL));
        for mode in [0, 1, 1, 0] {
            assert_eq!(linkmode(mode), Ok(()));
            assert_eq!(now(), Ok(PropertyValue::U32(mode)));
        }
        let (stream, _) = alpha.open_up(PLAIN);
        assert_eq!((linkmode(0), linkmode(1)), (Ok(()), Err(Errno::EBUSY)));
        drop(stream);
    });
}

#[test]
fn the_broadcast_group_property_follows_the_membership_and_cannot_be_set() {
    holds(|bench| {
        let alpha = &bench.alpha;
        assert_eq!(alpha.get("_ibd_broadcast_group"), "0");
        let (stream, _) = alpha.open_up(PLAIN);
        assert_eq!(alpha.get("_ibd_broadcast_group"), "1");
        assert_eq!(alpha.set("_ibd_broadcast_group", "1"), Err(Errno::ENOTSUP));
        drop(stream);
        bench.settle();
        assert_eq!(alpha.get("_ibd_broadcast_group"), "0");
    });
}

#[test]
fn moderation_changes_while_traffic_flows_and_not_while_coalescing_is_fixed() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_ud_tx_comp_usec", "77").unwrap();
        bench.beta.set("_ibd_ud_rx_comp_count", "9").unwrap();
        for n in 0..100_u8 {
            alpha.transmit(address_of(&beta), &[n; 64], Offload::default()).unwrap();
        }
        bench.settle();
        let all: Vec<u8> = std::iter::from_fn(|| heard.try_next()).map(|packet| packet.payload[0]).collect();
        assert_eq!(all, (0..100).collect::<Vec<u8>>());
        bench.alpha.set("_ibd_coalesce_completions", "0").unwrap();
        assert_eq!(bench.alpha.set("_ibd_ud_tx_comp_usec", "78"), Err(Errno::ENOTSUP));
        assert_eq!(bench.alpha.get("_ibd_ud_tx_comp_usec"), "77");
    });
}

#[test]
fn the_mtu_of_a_port_s_own_node_can_be_read_and_not_set() {
    Setup { driver: Driver::Ibp, seeds: 1, ..Setup::default() }.run(|bench| {
        let info = property_info(&bench.alpha.kernel, "ibp0", &PropertyId::Mtu).unwrap();
        assert_eq!(info.permission, Permission::ReadOnly);
    });
}

#[test]
fn the_adapter_interrupts_after_as_many_sends_as_the_administrator_says() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
        let qpn = u32::from_be_bytes(address_of(&alpha).0[..4].try_into().unwrap());
        let qpn = fabric::Qpn::truncating(qpn);
        let (completed, sends) = (|| hca.sends_completed(qpn).expect("it stands"), 256_u64);
        bench.alpha.set("_ibd_ud_tx_comp_count", &sends.to_string()).unwrap();
        let before = completed();
        for _ in 0..10 * sends {
            alpha.transmit(address_of(&beta), &[0; 64], Offload::default()).unwrap();
        }
        bench.settle();
        let completions = u64::from(hca.send_moderation(qpn).expect("it stands").count);
        let sent = completions * 10 * sends / (completed() - before);
        assert!((sends / 2..=sends).contains(&sent), "an interrupt after {sent} sends, not {sends}");
    });
}

#[test]
fn rings_of_another_size_carry_more_than_they_hold() {
    holds(|bench| {
        for host in [&bench.alpha, &bench.beta] {
            host.set("_ibd_ud_num_rwqe", "2000").unwrap();
            host.set("_ibd_ud_num_swqe", "1000").unwrap();
        }
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let count = 3000_u32;
        for n in 0..count {
            alpha.transmit(address_of(&beta), &n.to_be_bytes().repeat(100), Offload::default()).unwrap();
        }
        bench.settle();
        let all = std::iter::from_fn(|| heard.try_next());
        let numbers: Vec<u32> =
            all.map(|packet| u32::from_be_bytes(packet.payload[..4].try_into().unwrap())).collect();
        let expected: Vec<u32> = (0..count).collect();
        assert!(
            numbers == expected,
            "{} of {count} packets, or in another order; alpha {:?}, beta {:?}",
            numbers.len(),
            bench.alpha.counters(),
            bench.beta.counters()
        );
    });
}
