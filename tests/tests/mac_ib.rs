//! The InfiniBand MAC-type plugin as it ships, loaded and asked through the framework's registry: each row of the plugin
//! contract, and the three places where it is more careful than the C plugin.

#![forbid(unsafe_code)]

#[path = "gldv3_provider/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of providers")]
mod rig;

use fakekernel::{Ctx, Errno, FaultKind, FaultPlan};
use lab_gldv3::{HeaderFacts, Plugin, PluginRecord};

use rig::{Host, examine};

const IDENT: &str = "mac_ib";
const DL_IB: u32 = 0x1a;

const UNICAST: u32 = 0;
const MULTICAST: u32 = 1;
const BROADCAST: u32 = 2;

/// The broadcast address that is registered: scope and P_Key are zero.
const BROADCAST_ADDRESS: [u8; 20] =
    [0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
/// A station's address.
const STATION: [u8; 20] = [0, 0, 4, 7, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 1, 2, 3, 4];
/// 239.1.2.3's.
const GROUP: [u8; 20] = [0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xf, 1, 2, 3];

/// `address` with some of its bytes changed.
fn with(mut address: [u8; 20], changes: &[(usize, u8)]) -> [u8; 20] {
    changes.iter().for_each(|(at, byte)| address[*at] = *byte);
    address
}

/// A packet as it travels inside the system.
fn packet(source: &[u8; 20], destination: &[u8; 20], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&source[..], destination, &kind.to_be_bytes(), &[0, 0], payload].concat()
}

/// What a raw writer writes.
fn raw(destination: &[u8; 20], kind: u16, reserved: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&destination[..], &kind.to_be_bytes(), &reserved, payload].concat()
}

/// Examines the loaded plugin, then unloads it: no message is left, and the lab finds nothing else.
#[track_caller]
fn plugin(body: impl Fn(&Plugin, &Host) + Clone + Send + 'static) {
    examine(move |host| {
        let plugin = Plugin::hold(&host.kernel, IDENT).expect("mac_ib loads");
        body(&plugin, host);
        drop(plugin);
        assert_eq!(host.kernel.genunix().live_messages(), 0, "messages are left");
        host.kernel.module(IDENT).expect("it is loaded").unload().expect("nobody uses it");
        assert!(!Plugin::is_registered(&host.kernel, IDENT));
    });
}

mod registration {
    use super::*;

    #[test]
    fn record_names_the_media_the_address_length_and_broadcast_and_has_no_tables() {
        plugin(|plugin, _| {
            let record = PluginRecord {
                ident: IDENT.into(),
                mactype: DL_IB,
                nativetype: DL_IB,
                address_length: 20,
                broadcast: BROADCAST_ADDRESS.to_vec(),
                statistics: 0,
                mappings: 0,
                flags: 0xe,
                verifies_pdata: false,
            };
            assert_eq!(plugin.record(), record);
        });
    }

    #[test]
    fn linkage_text_is_the_one_modinfo_has_always_shown() {
        plugin(|_, host| {
            let module = host.kernel.module(IDENT).unwrap();
            assert_eq!(module.linkage_info(), [("Infiniband MAC Type plugin 1.0".to_owned(), -1)]);
            assert_eq!(module.class(), "mac");
        });
    }

    #[test]
    fn plugin_is_registered_from_its_installation_to_its_unload() {
        examine(|host| {
            assert!(!Plugin::is_registered(&host.kernel, IDENT));
            let module = host.kernel.modload("mac/mac_ib").unwrap();
            assert!(Plugin::is_registered(&host.kernel, IDENT));
            module.unload().unwrap();
            assert!(!Plugin::is_registered(&host.kernel, IDENT));
            let again = host.kernel.modload("mac/mac_ib").unwrap();
            assert!(Plugin::is_registered(&host.kernel, IDENT));
            again.unload().unwrap();
        });
    }

    #[test]
    fn unload_in_use_is_refused_before_anything_is_undone() {
        examine(|host| {
            let plugin = Plugin::hold(&host.kernel, IDENT).unwrap();
            let module = host.kernel.module(IDENT).unwrap();
            for _ in 0..2 {
                assert_eq!(module.unload(), Err(Errno::EBUSY));
                assert!(module.is_installed() && Plugin::is_registered(&host.kernel, IDENT));
                // mod_remove comes after mactype_unregister, so a refusal leaves the linkage alone.
                assert_eq!(module.calls_of("mod_remove"), 0);
                assert_eq!(plugin.unicast_verify(&STATION), Ok(()));
            }
            drop(plugin);
            module.unload().unwrap();
            assert_eq!(module.calls_of("mod_remove"), 1);
        });
    }

    #[test]
    fn second_plugin_of_the_name_is_refused_and_leaves_nothing() {
        examine(|host| {
            let usurper = host.load("usurper", "mac", &[]).expect("the name is free");
            assert_eq!(host.kernel.modload("mac/mac_ib").unwrap_err(), Errno::EEXIST);
            usurper.unload().unwrap();
            host.kernel.modload("mac/mac_ib").unwrap().unload().unwrap();
        });
    }

    #[test]
    fn registry_refuses_what_is_incomplete() {
        examine(|host| {
            let usurper = host.load("usurper", "mac", &[]).unwrap();
            let answers: Vec<i64> =
                (0..6).map(|case| usurper.call_probe("probe_registry", Some(Ctx::User), case)).collect();
            let [ok, inval, exist, nxio] =
                [0, Errno::EINVAL.0, Errno::EEXIST.0, Errno::ENXIO.0].map(i64::from);
            assert_eq!(answers, [ok, inval, inval, inval, exist, nxio]);
            usurper.unload().unwrap();
        });
    }
}

mod addresses {
    use super::*;

    /// What the three operations say of an address: legal as a station's, legal to join, class.
    #[track_caller]
    fn says(plugin: &Plugin, address: [u8; 20], unicast: bool, multicast: bool, class: u32) {
        let answer = |legal| if legal { Ok(()) } else { Err(Errno::EINVAL) };
        assert_eq!(plugin.unicast_verify(&address), answer(unicast), "unicst_verify of {address:02x?}");
        assert_eq!(plugin.multicast_verify(&address), answer(multicast), "multicst_verify of {address:02x?}");
        let facts = plugin.header_info(&[&packet(&STATION, &address, 0x800, &[])]).unwrap();
        assert_eq!(facts.kind, class, "class of {address:02x?}");
    }

    #[test]
    fn group_is_no_station_and_may_be_joined() {
        plugin(|plugin, _| says(plugin, GROUP, false, true, MULTICAST));
    }

    #[test]
    fn broadcast_is_neither_a_station_nor_joined() {
        plugin(|plugin, _| says(plugin, BROADCAST_ADDRESS, false, false, BROADCAST));
    }

    /// The C plugin takes both for stations.
    #[test]
    fn reserved_byte_hides_neither_a_group_nor_broadcast() {
        plugin(|plugin, _| {
            for reserved in [0x01, 0x40, 0x80, 0xff] {
                says(plugin, with(GROUP, &[(0, reserved)]), false, true, MULTICAST);
                says(plugin, with(BROADCAST_ADDRESS, &[(0, reserved)]), false, false, BROADCAST);
            }
        });
    }

    #[test]
    fn any_other_queue_pair_is_a_station_whatever_its_gid() {
        plugin(|plugin, _| {
            says(plugin, STATION, true, false, UNICAST);
            says(plugin, [0; 20], true, false, UNICAST);
            says(plugin, with(STATION, &[(0, 0x80)]), true, false, UNICAST);
            for (byte, value) in [(1, 0xfe), (2, 0x7f), (3, 0x00)] {
                says(plugin, with(GROUP, &[(byte, value)]), true, false, UNICAST);
                says(plugin, with(BROADCAST_ADDRESS, &[(byte, value)]), true, false, UNICAST);
            }
        });
    }

    #[test]
    fn scope_pkey_and_signature_do_not_matter() {
        plugin(|plugin, _| {
            for scope in [0x11, 0x12, 0x15, 0x18, 0x1e] {
                for pkey in [[0x80, 0x01], [0xff, 0xff]] {
                    for signature in [[0x40, 0x1b], [0x60, 0x1b], [0x12, 0x34]] {
                        let changes =
                            [(5, scope), (6, signature[0]), (7, signature[1]), (8, pkey[0]), (9, pkey[1])];
                        says(plugin, with(BROADCAST_ADDRESS, &changes), false, false, BROADCAST);
                        says(plugin, with(GROUP, &changes), false, true, MULTICAST);
                    }
                }
            }
        });
    }

    #[test]
    fn every_byte_of_the_group_id_matters() {
        plugin(|plugin, _| {
            for (byte, value) in BROADCAST_ADDRESS.into_iter().enumerate().skip(10) {
                let address = with(BROADCAST_ADDRESS, &[(byte, value ^ 1)]);
                says(plugin, address, false, true, MULTICAST);
            }
        });
    }

    #[test]
    fn gid_prefix_does_not_make_a_group() {
        plugin(|plugin, _| says(plugin, with(GROUP, &[(4, 0xfe), (5, 0x80)]), false, true, MULTICAST));
    }
}

mod saps {
    use super::*;

    const BEFORE: u32 = 0x5555_5555;

    #[test]
    fn saps_up_to_255_are_legal_and_bind_to_the_llc_key() {
        plugin(|plugin, _| {
            for sap in 0..=255 {
                assert_eq!(plugin.sap_verify(sap, BEFORE), (true, 0), "sap {sap}");
            }
        });
    }

    #[test]
    fn types_from_256_to_65535_bind_to_themselves() {
        plugin(|plugin, _| {
            for sap in [256, 257, 1500, 1501, 1535, 1536, 0x800, 0x806, 0x86dd, 65534, 65535] {
                assert_eq!(plugin.sap_verify(sap, BEFORE), (true, sap), "sap {sap}");
            }
        });
    }

    #[test]
    fn anything_above_65535_is_refused_and_the_answer_untouched() {
        plugin(|plugin, _| {
            for sap in [65536, 65537, 0x0001_0800, u32::MAX] {
                assert_eq!(plugin.sap_verify(sap, BEFORE), (false, BEFORE), "sap {sap}");
            }
        });
    }

    #[test]
    fn nobody_need_want_the_key() {
        plugin(|plugin, _| {
            for (sap, legal) in [(0, true), (255, true), (256, true), (65535, true), (65536, false)] {
                assert_eq!(plugin.sap_is_legal(sap), legal, "sap {sap}");
            }
        });
    }
}

mod header {
    use super::*;

    #[test]
    fn header_is_44_bytes_of_destination_and_big_endian_type() {
        plugin(|plugin, _| {
            for sap in [0u16, 1, 255, 256, 0x800, 0x806, 0x86dd, 65535] {
                let header = plugin.header(&STATION, sap.into(), b"payload", 0).unwrap();
                assert_eq!(header.bytes.len(), 44);
                assert_eq!(header.bytes[20..40], STATION);
                assert_eq!(header.bytes[40..42], sap.to_be_bytes());
                assert_eq!(header.bytes[42..44], [0, 0]);
                assert!(!header.linked, "the payload is the caller's to link");
            }
        });
    }

    /// The C plugin leaves whatever was in the memory there.
    #[test]
    fn source_is_zero_and_no_memory_of_others() {
        plugin(|plugin, _| {
            assert_eq!(plugin.header(&GROUP, 0x800, b"", 0).unwrap().bytes[..20], [0; 20]);
        });
    }

    #[test]
    fn extra_room_lies_behind_the_header() {
        plugin(|plugin, _| {
            for extra in [0, 1, 20, 100, 2000, 9000] {
                let header = plugin.header(&STATION, 0x800, b"", extra).unwrap();
                assert_eq!(header.bytes.len(), 44);
                assert!(header.room >= extra, "{} bytes of room for {extra}", header.room);
            }
        });
    }

    #[test]
    fn sap_above_65535_makes_no_header() {
        plugin(|plugin, _| {
            for sap in [65536, 0x0001_0800, u32::MAX] {
                assert_eq!(plugin.header(&STATION, sap, b"", 0), None);
            }
        });
    }

    #[test]
    fn shortage_of_memory_makes_no_header() {
        plugin(|plugin, host| {
            // The payload is made first.
            host.machine.set_fault(FaultKind::ALLOCB, FaultPlan::Nth(1));
            assert_eq!(plugin.header(&STATION, 0x800, b"payload", 0), None);
            assert!(plugin.header(&STATION, 0x800, b"payload", 0).is_some());
        });
    }

    #[test]
    fn absurd_extra_room_makes_no_header() {
        plugin(|plugin, _| assert_eq!(plugin.header(&STATION, 0x800, b"", usize::MAX - 10), None));
    }
}

mod header_info {
    use super::*;

    const FACTS: HeaderFacts = HeaderFacts {
        header_size: 44,
        packet_size: 0,
        destination: 20,
        source: Some(0),
        original_sap: 0x800,
        bind_sap: 0x800,
        kind: UNICAST,
        tag_untouched: true,
    };

    #[test]
    fn facts_of_a_packet_alias_its_header() {
        plugin(|plugin, _| {
            let packet = packet(&STATION, &STATION, 0x800, &[5; 100]);
            assert_eq!(plugin.header_info(&[&packet]), Ok(FACTS));
        });
    }

    #[test]
    fn header_alone_will_do() {
        plugin(|plugin, _| {
            let (header, payload) = (packet(&STATION, &GROUP, 0x86dd, &[]), [7; 64]);
            let facts = HeaderFacts { original_sap: 0x86dd, bind_sap: 0x86dd, kind: MULTICAST, ..FACTS };
            assert_eq!(plugin.header_info(&[&header]), Ok(facts));
            assert_eq!(plugin.header_info(&[&header, &payload]), Ok(facts));
        });
    }

    #[test]
    fn header_must_be_in_the_first_block() {
        plugin(|plugin, _| {
            let packet = packet(&STATION, &STATION, 0x800, &[5; 100]);
            for first in [0, 1, 20, 40, 43] {
                let blocks = [&packet[..first], &packet[first..]];
                assert_eq!(plugin.header_info(&blocks), Err(Errno::EINVAL), "first block of {first} bytes");
                assert_eq!(plugin.header_info(&blocks[..1]), Err(Errno::EINVAL));
            }
        });
    }

    #[test]
    fn packet_without_grh_has_no_source() {
        plugin(|plugin, _| {
            // Only the first word counts: the rest of a GRH that did not come may hold anything.
            let nobody = with([0xaa; 20], &[(0, 0), (1, 0), (2, 0), (3, 0)]);
            let facts = plugin.header_info(&[&packet(&nobody, &STATION, 0x800, &[])]);
            assert_eq!(facts, Ok(HeaderFacts { source: None, ..FACTS }));
            for byte in 0..4 {
                let somebody = with([0; 20], &[(byte, 1)]);
                assert_eq!(plugin.header_info(&[&packet(&somebody, &STATION, 0x800, &[])]), Ok(FACTS));
            }
        });
    }

    #[test]
    fn type_is_not_folded_to_the_llc_key() {
        plugin(|plugin, _| {
            for kind in [0u16, 5, 255, 256, 65535] {
                let facts = plugin.header_info(&[&packet(&STATION, &STATION, kind, &[])]).unwrap();
                assert_eq!((facts.original_sap, facts.bind_sap), (kind.into(), kind.into()));
            }
        });
    }

    #[test]
    fn reserved_bytes_do_not_matter() {
        plugin(|plugin, _| {
            let mut packet = packet(&STATION, &STATION, 0x800, &[]);
            packet[42..44].copy_from_slice(&[0xff, 0xff]);
            assert_eq!(plugin.header_info(&[&packet]), Ok(FACTS));
        });
    }

    /// It is called for every packet, several times, from any thread: no lock, no memory, no call at all.
    #[test]
    fn no_call_of_the_kernel_is_made() {
        plugin(|plugin, host| {
            let module = host.kernel.module(IDENT).unwrap();
            let calls = || module.imports().iter().map(|import| module.calls_of(import)).sum::<u64>();
            let before = calls();
            plugin.header_info(&[&packet(&STATION, &GROUP, 0x800, &[])]).unwrap();
            plugin.header_info(&[&[0; 10]]).unwrap_err();
            plugin.unicast_verify(&STATION).unwrap();
            plugin.multicast_verify(&GROUP).unwrap();
            plugin.sap_verify(0x800, 0);
            assert_eq!(calls(), before);
        });
    }

    #[test]
    fn every_operation_on_packets_runs_at_interrupt_level() {
        plugin(|_, host| {
            let kernel = host.kernel.clone();
            let examined = host.kernel.spawn("interrupt", Ctx::Soft { pil: 6 }, move || {
                let plugin = Plugin::hold_registered(&kernel, IDENT).unwrap();
                plugin.header_info(&[&packet(&STATION, &STATION, 0x800, &[])]).unwrap();
                plugin.header(&STATION, 0x800, b"payload", 0).unwrap();
                plugin.cook(&[&raw(&STATION, 0x800, [0; 2], b"payload")], false).unwrap();
                plugin.uncook(&[&packet(&STATION, &STATION, 0x800, b"payload")], false).unwrap();
                plugin.unicast_verify(&STATION).unwrap();
                plugin.multicast_verify(&GROUP).unwrap();
                assert!(plugin.sap_is_legal(0x800));
            });
            examined.join();
        });
    }
}

mod cooking {
    use super::*;

    #[test]
    fn raw_packet_gets_a_header_of_its_own_and_loses_its_prefix() {
        plugin(|plugin, _| {
            let cooked = plugin.cook(&[&raw(&GROUP, 0x806, [0, 0], b"payload")], false).unwrap();
            assert_eq!(cooked, [packet(&[0; 20], &GROUP, 0x806, &[]), b"payload".to_vec()]);
        });
    }

    #[test]
    fn fewer_than_24_bytes_are_refused() {
        plugin(|plugin, _| {
            let raw = raw(&STATION, 0x800, [0, 0], b"p");
            for len in [0, 1, 20, 22, 23] {
                assert_eq!(plugin.cook(&[&raw[..len]], false), None, "{len} bytes");
                assert_eq!(
                    plugin.cook(&[&raw[..len], &raw[len..]], false),
                    None,
                    "{len} bytes in the first block"
                );
            }
        });
    }

    #[test]
    fn just_24_bytes_leave_an_empty_block() {
        plugin(|plugin, _| {
            let cooked = plugin.cook(&[&raw(&STATION, 0x800, [0, 0], b"")], false).unwrap();
            assert_eq!(cooked, [packet(&[0; 20], &STATION, 0x800, &[]), Vec::new()]);
            let cooked = plugin.cook(&[&raw(&STATION, 0x800, [0, 0], b"p")], false).unwrap();
            assert_eq!(cooked[1], b"p");
        });
    }

    #[test]
    fn further_blocks_stay_behind() {
        plugin(|plugin, _| {
            let cooked =
                plugin.cook(&[&raw(&STATION, 0x800, [0, 0], b"one"), b"two", b"three"], false).unwrap();
            assert_eq!(cooked[1..], [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        });
    }

    #[test]
    fn reserved_bytes_of_the_caller_are_not_sent() {
        plugin(|plugin, _| {
            let cooked = plugin.cook(&[&raw(&STATION, 0x800, [0xab, 0xcd], b"")], false).unwrap();
            assert_eq!(cooked[0][42..44], [0, 0]);
        });
    }

    #[test]
    fn llc_saps_are_written_as_they_are() {
        plugin(|plugin, _| {
            for sap in [0u16, 5, 255] {
                let cooked = plugin.cook(&[&raw(&STATION, sap, [0, 0], b"")], false).unwrap();
                assert_eq!(cooked[0][40..42], sap.to_be_bytes());
            }
        });
    }

    #[test]
    fn shortage_of_memory_refuses_and_loses_nothing() {
        plugin(|plugin, host| {
            host.machine.set_fault(FaultKind::ALLOCB, FaultPlan::Nth(1));
            assert_eq!(plugin.cook(&[&raw(&STATION, 0x800, [0, 0], b"payload")], false), None);
        });
    }

    #[test]
    fn shared_message_is_copied_first_and_the_other_one_left_alone() {
        plugin(|plugin, _| {
            let cooked = plugin.cook(&[&raw(&STATION, 0x800, [0, 0], b"payload")], true).unwrap();
            assert_eq!(cooked, [packet(&[0; 20], &STATION, 0x800, &[]), b"payload".to_vec()]);
        });
    }

    /// The C framework frees the original, leaks the copy, and lets its caller free the original again.
    #[test]
    fn shared_message_that_is_refused_is_freed_once() {
        plugin(|plugin, _| assert_eq!(plugin.cook(&[&[0; 23]], true), None));
    }

    #[test]
    fn packet_loses_both_addresses_on_the_way_to_a_raw_reader() {
        plugin(|plugin, _| {
            let plain = plugin.uncook(&[&packet(&STATION, &GROUP, 0x806, b"payload")], false).unwrap();
            assert_eq!(plain, [[&[0x08, 0x06, 0, 0][..], b"payload"].concat()]);
        });
    }

    /// The C plugin moves the read pointer past the end of such a block.
    #[test]
    fn short_packet_loses_no_more_than_it_has() {
        plugin(|plugin, _| {
            for len in [0, 1, 20, 39, 40, 41, 43] {
                let plain = plugin.uncook(&[&vec![9; len]], false).unwrap();
                assert_eq!(plain, [vec![9; len.saturating_sub(40)]], "{len} bytes");
            }
        });
    }

    #[test]
    fn short_first_block_takes_nothing_from_the_next() {
        plugin(|plugin, _| {
            let plain = plugin.uncook(&[&[1; 39], &[2; 10]], false).unwrap();
            assert_eq!(plain, [Vec::new(), vec![2; 10]]);
        });
    }

    #[test]
    fn what_is_cooked_and_uncooked_is_type_zero_and_payload() {
        plugin(|plugin, _| {
            let cooked = plugin.cook(&[&raw(&GROUP, 0x86dd, [1, 2], b"payload")], false).unwrap();
            let blocks: Vec<&[u8]> = cooked.iter().map(Vec::as_slice).collect();
            let plain = plugin.uncook(&blocks, false).unwrap();
            assert_eq!(plain, [vec![0x86, 0xdd, 0, 0], b"payload".to_vec()]);
        });
    }

    #[test]
    fn shared_packet_is_copied_before_it_is_uncooked() {
        plugin(|plugin, _| {
            let plain = plugin.uncook(&[&packet(&STATION, &STATION, 0x800, b"payload")], true).unwrap();
            assert_eq!(plain, [[&[8, 0, 0, 0][..], b"payload"].concat()]);
        });
    }
}

mod link_details {
    use super::*;

    /// The details for a link of that speed, in bits per second, in a buffer of that size.
    fn details(speed: u64, size: usize) -> String {
        let result = rig::run(fakekernel::Config::default(), move |host| {
            let driver = host.driver();
            driver.call("probe_speed", speed as i64);
            let plugin = Plugin::hold(&host.kernel, IDENT).unwrap();
            let details = plugin.link_details(rig::LINK, size).expect("there is such a link");
            drop(plugin);
            driver.leave();
            details
        });
        result.unwrap_or_else(|halt| panic!("{halt}"))
    }

    #[test]
    fn speed_is_told_in_megabits() {
        assert_eq!(details(8_000_000_000, 200), "8000 Mbps");
        assert_eq!(details(0, 200), "0 Mbps");
        assert_eq!(details(56_000_000_000, 200), "56000 Mbps");
    }

    #[test]
    fn fractions_of_a_megabit_are_cut() {
        assert_eq!(details(2_500_999_999, 200), "2500 Mbps");
        assert_eq!(details(999_999, 200), "0 Mbps");
    }

    #[test]
    fn megabits_are_told_in_32_bits() {
        assert_eq!(details((1 << 32) * 1_000_000 + 7_000_000, 200), "7 Mbps");
    }

    #[test]
    fn text_is_cut_to_the_buffer() {
        assert_eq!(details(8_000_000_000, 10), "8000 Mbps");
        assert_eq!(details(8_000_000_000, 9), "8000 Mbp");
        assert_eq!(details(8_000_000_000, 1), "");
    }
}
