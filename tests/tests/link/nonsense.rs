//! A subnet administrator whose records make no sense, or contradict what was asked.

use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload};
use sm::fault::FaultAction;
use sm::{Attribute, Method};

use crate::bench::{Bench, PLAIN, address_of, group, holds};

const MINUTE: Nanos = Nanos::from_secs(60);
const GROUP: u32 = 0x0006_0001;

/// Where in an MCMemberRecord, and in a PathRecord.
const MGID: usize = 0;
const PORT_GID: usize = 16;
const MLID: usize = 36;
const MTU: usize = 38;
const GROUP_PKEY: usize = 40;
const GROUP_SL: usize = 44;
const PATH_DLID: usize = 40;
const PATH_PKEY: usize = 50;
const PATH_SL: usize = 53;
const PATH_MTU: usize = 54;

/// An IPoIB group of the partition that is not the broadcast group.
const ANOTHER: &[u8] = &[0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
/// A port nobody has.
const NOBODY: &[u8] = &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

fn records_with(bench: &Bench, attribute: Attribute, method: Method, at: usize, bytes: &'static [u8]) {
    bench.fault(attribute, Some(method), None, FaultAction::Overwrite { at, bytes });
}

/// Alpha is started under these records, does not come up, and does once they make sense; nothing is left when it is closed.
fn keeps_alpha_down(bench: &Bench, method: Method, at: usize, bytes: &'static [u8]) {
    records_with(bench, Attribute::MC_MEMBER_RECORD, method, at, bytes);
    let (stream, _) = bench.alpha.open(PLAIN);
    fakekernel::sleep(Nanos::from_secs(20));
    assert_eq!(bench.alpha.state(), LinkState::Down, "{method:?} {at} {bytes:x?}");
    bench.no_faults();
    bench.wait_for("up", MINUTE, || bench.alpha.state() == LinkState::Up);
    bench.settle();
    assert_eq!(bench.memberships_of_alpha(), 1, "{method:?} {at} {bytes:x?}");
    drop(stream);
    bench.wait_for("left", MINUTE, || bench.memberships_of_alpha() == 0);
}

#[test]
fn a_link_does_not_come_up_on_a_record_of_its_broadcast_group_that_makes_no_sense() {
    holds(|bench| {
        for method in [Method::GET_TABLE, Method::SET] {
            keeps_alpha_down(bench, method, MGID, ANOTHER);
            keeps_alpha_down(bench, method, MGID, NOBODY);
            for mlid in [&[0, 0], &[0, 5], &[0xbf, 0xff], &[0xff, 0xff]] {
                keeps_alpha_down(bench, method, MLID, mlid);
            }
            for mtu in [&[0x80], &[0x86], &[0xbf]] {
                keeps_alpha_down(bench, method, MTU, mtu);
            }
        }
    });
}

#[test]
fn a_link_leaves_its_groups_although_they_were_granted_to_another_port() {
    holds(|bench| {
        records_with(bench, Attribute::MC_MEMBER_RECORD, Method::SET, PORT_GID, NOBODY);
        let (stream, _) = bench.alpha.open_up(PLAIN);
        stream.enable_multicast(group(GROUP)).unwrap();
        bench.wait_for("both groups", MINUTE, || bench.memberships_of_alpha() == 2);
        bench.settle();
        drop(stream);
        bench.wait_for("left", MINUTE, || bench.memberships_of_alpha() == 0);
        bench.no_faults();
    });
}

#[test]
fn nothing_is_sent_to_a_group_at_an_address_that_is_none_and_it_is_reached_when_it_has_one() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        beta.enable_multicast(group(GROUP)).unwrap();
        bench.settle();
        records_with(bench, Attribute::MC_MEMBER_RECORD, Method::SET, MLID, &[0, 2]);
        let sent = bench.alpha.counter("tx_drop_lookup_failed");
        alpha.transmit(group(GROUP), b"too early", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(bench.alpha.counter("tx_drop_lookup_failed"), sent + 1);
        bench.no_faults();
        bench.wait_for("it arrives", MINUTE, || {
            alpha.transmit(group(GROUP), b"now", Offload::default()).unwrap();
            heard.try_next().is_some_and(|packet| packet.payload == b"now")
        });
        drop((alpha, beta));
        bench.wait_for("left", MINUTE, || bench.memberships_of_alpha() == 0);
    });
}

#[test]
fn nothing_is_sent_to_a_port_at_an_address_that_is_none() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        for dlid in [&[0, 0], &[0xc0, 0], &[0xff, 0xff]] {
            records_with(bench, Attribute::PATH_RECORD, Method::GET_TABLE, PATH_DLID, dlid);
            let dropped = bench.alpha.counter("tx_drop_lookup_failed");
            alpha.transmit(address_of(&beta), b"to whom", Offload::default()).unwrap();
            bench.settle();
            assert_eq!(bench.alpha.counter("tx_drop_lookup_failed"), dropped + 1, "{dlid:x?}");
            bench.no_faults();
            fakekernel::sleep(MINUTE);
        }
        alpha.transmit(address_of(&beta), b"at last", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().map(|packet| packet.payload), Some(b"at last".to_vec()));
    });
}

#[test]
fn a_way_that_carries_less_than_the_link_is_in_the_log() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        // Exactly 1024 bytes.
        records_with(bench, Attribute::PATH_RECORD, Method::GET_TABLE, PATH_MTU, &[0x83]);
        alpha.transmit(address_of(&beta), b"short", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().map(|packet| packet.payload), Some(b"short".to_vec()));
        let told = bench.alpha.console();
        let narrow = |line: &String| line.contains("carries 1024 bytes") && line.contains("2048");
        assert_eq!(told.iter().filter(|line| narrow(line)).count(), 1, "{told:?}");
        bench.no_faults();
    });
}

/// A link's P_Key is its own, whatever the group's record says; a service level has no value that is none. (Rates: `speeds.rs`.)
#[test]
fn a_group_of_another_p_key_and_the_last_service_level_keep_no_packet_back() {
    // A search that is told another service level has the join refused: it asks for that one.
    const BOTH: &[Method] = &[Method::GET_TABLE, Method::SET];
    const FIELDS: [(usize, &[u8], &[Method]); 3] =
        [(GROUP_PKEY, &[0x12, 0x34], BOTH), (GROUP_PKEY, &[0, 0], BOTH), (GROUP_SL, &[0xf0], &[Method::SET])];
    holds(|bench| {
        let (beta, heard) = bench.beta.open_up(PLAIN);
        records_with(bench, Attribute::PATH_RECORD, Method::GET_TABLE, PATH_SL, &[0x0f]);
        for (at, bytes, methods) in FIELDS {
            methods.iter().for_each(|&method| {
                records_with(bench, Attribute::MC_MEMBER_RECORD, method, at, bytes);
            });
            let faulted = bench.faulted();
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            assert!(bench.faulted() >= faulted + methods.len() as u64, "the records were right");
            for (to, payload) in [(address_of(&beta), b"one"), (group(u32::MAX), b"all")] {
                alpha.transmit(to, payload, Offload::default()).unwrap();
                bench.settle();
                assert_eq!(
                    heard.try_next().map(|packet| packet.payload),
                    Some(payload.to_vec()),
                    "{bytes:x?}"
                );
            }
            assert_ne!(
                bench.alpha.counter("sa_paths"),
                0,
                "the path's record had the last service level, too"
            );
            bench.no_faults();
            drop(alpha);
            bench.wait_for("left", MINUTE, || bench.memberships_of_alpha() == 0);
        }
    });
}

#[test]
fn nothing_is_sent_on_a_path_of_a_p_key_that_the_port_does_not_have() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        records_with(bench, Attribute::PATH_RECORD, Method::GET_TABLE, PATH_PKEY, &[0x12, 0x34]);
        alpha.transmit(address_of(&beta), b"in which partition", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(bench.alpha.counter("tx_drop_unreachable"), 1);
        assert_eq!(heard.try_next().map(|packet| packet.payload), None);
        bench.no_faults();
        fakekernel::sleep(MINUTE);
        alpha.transmit(address_of(&beta), b"at last", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().map(|packet| packet.payload), Some(b"at last".to_vec()));
    });
}
