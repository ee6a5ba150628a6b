//! What one peer, one group or a slow administrator costs everybody else: nothing.

use std::collections::BTreeMap;

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload, Stream};
use sm::fault::FaultAction;
use sm::partition::{Membership, Ports};
use sm::{Attribute, Method, Partition};

use crate::bench::{self, Bench, Driver, Host, PLAIN, Setup, address_of, group, holds};

/// A peer nobody has: beta's address with another GUID.
fn nobody(beta: LinkAddress, n: u8) -> LinkAddress {
    let mut bytes = beta.0;
    bytes[12..].fill(0xee);
    bytes[19] = n;
    LinkAddress(bytes)
}

fn send(from: &Stream, to: LinkAddress, bytes: &[u8]) {
    from.transmit(to, bytes, Offload::default()).expect("the stream is bound");
}

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn a_peer_that_is_being_resolved_for_minutes_does_not_disturb_traffic_to_another() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let to = address_of(&beta);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        for n in 0..100_u32 {
            for peer in 0..4 {
                send(&alpha, nobody(to, peer), &[0; 100]);
            }
            let sent = bench.machine.now();
            send(&alpha, to, &n.to_be_bytes());
            let packet = heard.next(sent + SECOND).expect("a packet to a known peer arrives within a second");
            assert_eq!(packet.payload, n.to_be_bytes());
            let took = bench.machine.now().since(sent);
            assert!(took < Nanos::from_millis(2), "{took} while others are resolved");
            fakekernel::sleep(SECOND);
        }
        assert_eq!(bench.alpha.statistics().noxmtbuf, 0, "nothing was given back to the MAC layer");
        bench.no_faults();
    });
}

#[test]
fn two_unreachable_peers_cost_one_lookup_each_per_back_off() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let to = address_of(&beta);
        bench.count(Attribute::PATH_RECORD, Method::GET_TABLE);
        for _ in 0..60 {
            for peer in 0..2 {
                for _ in 0..50 {
                    send(&alpha, nobody(to, peer), &[0; 100]);
                }
            }
            fakekernel::sleep(SECOND);
        }
        let asked = bench.faulted();
        assert!((2..=2 * 12).contains(&asked), "{asked} lookups in a minute for 6000 packets");
        let dropped = bench.alpha.counter("tx_drop_unreachable") + bench.alpha.counter("tx_drop_queue_full");
        assert_eq!(dropped, 2 * 50 * 60, "every packet is accounted for: {:?}", bench.alpha.counters());
    });
}

#[test]
fn a_group_nobody_has_costs_one_join_per_back_off_and_unicast_flows() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        bench.count(Attribute::MC_MEMBER_RECORD, Method::SET);
        for n in 0..60_u32 {
            for _ in 0..50 {
                send(&alpha, group(0xe001_0203), &[0; 100]);
            }
            send(&alpha, address_of(&beta), &n.to_be_bytes());
            assert_eq!(
                heard.next(bench.machine.now() + SECOND).expect("unicast arrives within a second").payload,
                n.to_be_bytes()
            );
            fakekernel::sleep(SECOND);
        }
        let asked = bench.faulted();
        assert!((1..=24).contains(&asked), "{asked} joins in a minute for 3000 packets");
    });
}

/// Of a join that failed, unlike one that was refused, nobody knows whether it was granted. Nor is a group of which that is known
/// asked for as fast as the administrator answers, whether it was joined before or not.
#[test]
fn a_group_about_which_a_busy_administrator_says_nothing_costs_one_join_per_back_off() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let groups = [0xe001_0203, 0xe001_0204];
        beta.enable_multicast(group(groups[0])).unwrap();
        send(&alpha, group(groups[0]), &[0; 100]);
        bench.settle();
        let busy = FaultAction::Refuse(sm::Status::NO_RESOURCES);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, busy);
        bench.sm.restart(sm::Lid(0xc000));
        for _ in 0..60 {
            for to in groups.into_iter().cycle().take(100) {
                send(&alpha, group(to), &[0; 100]);
            }
            fakekernel::sleep(SECOND);
        }
        let asked = bench.faulted();
        // Beta and both links' other groups ask, too.
        assert!((2..=120).contains(&asked), "{asked} joins in a minute for 6000 packets");
        bench.no_faults();
    });
}

#[test]
fn an_administrator_that_does_not_answer_leaves_keeps_nobody_from_a_path() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        for n in 0..8 {
            alpha.enable_multicast(group(0xe001_0000 + n)).unwrap();
        }
        bench.settle();
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), None, FaultAction::Silent);
        for n in 0..8 {
            alpha.disable_multicast(group(0xe001_0000 + n)).unwrap();
        }
        bench.settle();
        // Another queue pair number is another address: its path has to be asked for.
        let mut stranger = address_of(&beta).0;
        stranger[1] ^= 1;
        let before = bench.alpha.statistics().opackets;
        send(&alpha, LinkAddress(stranger), &[0; 100]);
        send(&alpha, address_of(&beta), b"and this");
        let known =
            heard.next(bench.machine.now() + SECOND).expect("a known peer is not kept from its packet");
        assert_eq!(known.payload, b"and this");
        bench.settle();
        assert_eq!(bench.alpha.statistics().opackets - before, 2);
        bench.no_faults();
    });
}

#[test]
fn a_peer_in_use_is_not_forgotten_for_a_thousand_that_were_used_once() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let to = address_of(&beta);
        let stranger = |n: u32| {
            let mut bytes = to.0;
            bytes[1..4].copy_from_slice(&(0x10_0000 + n).to_be_bytes()[1..]);
            LinkAddress(bytes)
        };
        for n in 0..70_000 {
            send(&alpha, stranger(n), &[0; 40]);
            if n % 50 == 49 {
                send(&alpha, to, &[0; 40]);
                fakekernel::sleep(Nanos::from_millis(4));
            }
        }
        bench.settle();
        let found = || bench.alpha.named("paths", "found");
        let before = found();
        assert_eq!(before, 70_001, "each address was found once, beta's among them");
        send(&alpha, stranger(1), &[0; 40]);
        bench.settle();
        assert_eq!(found() - before, 1, "the one used longest ago was not forgotten");
    });
}

/// Links that one port has, each in a partition of its own.
const PARTITIONS: u16 = 16;

#[test]
fn each_of_sixteen_links_that_meet_the_same_trouble_is_named() {
    let setup = Setup { driver: Driver::Ibp, conf: &[("ibd_create_broadcast_group", 0)], ..Setup::default() };
    setup.run(|bench| {
        // The subnet manager is there.
        let (_up, _) = bench.alpha.open_up(PLAIN);
        let pkeys = || 0x8001..0x8001 + PARTITIONS;
        let partition =
            |key| Partition::new("one of many", sm::PKey(key)).with_members(Ports::All, Membership::Full);
        let all = [bench::partition(true)].into_iter().chain(pkeys().map(partition)).collect();
        bench.sm.set_partitions(all);
        bench.settle();
        let streams: Vec<Stream> = pkeys()
            .map(|pkey| {
                let link = format!("part{pkey}");
                lab_gldv3::create_partition(&bench.alpha.kernel, bench::PORT_LINK, pkey, &link, true)
                    .expect("a partition");
                let stream = Stream::open(&bench.alpha.kernel, &link).expect("the link opens");
                stream.bind(PLAIN).expect("the stream binds");
                stream
            })
            .collect();
        fakekernel::sleep(Nanos::from_secs(3));
        let console = bench.alpha.console();
        for pkey in pkeys() {
            let named = format!("PKEY {pkey:02x}: IPoIB broadcast group absent");
            assert!(console.iter().any(|line| line.contains(&named)), "not {pkey:#x}: {console:?}");
        }
        drop(streams);
        for pkey in pkeys() {
            let link = format!("part{pkey}");
            bench.wait_for("deleted", Nanos::from_secs(60), || {
                lab_gldv3::delete_partition(&bench.alpha.kernel, &link).is_ok()
            });
        }
    });
}

/// What a host has logged since it had logged `before` messages: of messages that say the same, but for numbers and addresses, none comes
/// within a second of the one before. How many there are.
pub fn each_cause_is_told_once_a_second_at_most(host: &Host, before: usize) -> usize {
    let messages = host.kernel.genunix().messages().split_off(before);
    let mut last = BTreeMap::new();
    for message in &messages {
        let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
        let cause: Vec<&str> = message.text.split_whitespace().filter(is_word).collect();
        if let Some(before) = last.insert(cause, message.at) {
            assert!(message.at.since(before) >= SECOND, "{before} and {message}");
        }
    }
    messages.len()
}

#[test]
fn repeated_failures_are_told_once_a_second_at_most() {
    holds(|bench| {
        let refuse = FaultAction::Refuse(sm::Status::REQ_INVALID);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, refuse);
        let (stream, _) = bench.alpha.open(PLAIN);
        for n in 0..40 {
            stream.enable_multicast(group(0xe002_0000 + n)).unwrap();
        }
        let before = bench.alpha.console().len();
        fakekernel::sleep(Nanos::from_secs(120));
        assert_ne!(each_cause_is_told_once_a_second_at_most(&bench.alpha, before), 0);
        let lines = bench.alpha.console();
        let last = lines.last().expect("the failure is told");
        assert!(last.contains("IPoIB broadcast group join failed"), "{last}");
        bench.no_faults();
        drop(stream);
    });
}

/// IBTF has no status of its own for most of what an SA says, and names the module that failed in some bits. Before, the log had these as
/// -1879048192.
#[test]
fn the_log_has_the_failure_of_a_module_in_hexadecimal() {
    holds(|bench| {
        let refuse = FaultAction::Refuse(sm::Status::NO_RESOURCES);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, refuse);
        let (_stream, _) = bench.alpha.open(PLAIN);
        bench.wait_for("told", Nanos::from_secs(60), || {
            let told = "IPoIB broadcast group join failed: ret = 0x90000000";
            bench.alpha.console().iter().any(|line| line.ends_with(told))
        });
        bench.no_faults();
    });
}

#[test]
fn an_interrupt_takes_its_share_of_a_burst_and_a_thread_the_rest() {
    holds(|bench| {
        bench.beta.set("_ibd_ud_num_rwqe", "4000").unwrap();
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.beta.port().0 - 1)).expect("beta's");
        // One interrupt for the whole burst.
        hca.set_late_interrupts(Some((fabric::Nanos(50_000_000), fabric::Nanos(50_000_000))));
        let count = 2_000_u32;
        for n in 0..count {
            send(&alpha, address_of(&beta), &n.to_be_bytes());
        }
        bench.settle();
        assert!(bench.beta.counter("rx_left") > 0, "one interrupt took the whole burst");
        let heard: Vec<u32> = std::iter::from_fn(|| heard.try_next())
            .map(|packet| u32::from_be_bytes(packet.payload.try_into().expect("four bytes")))
            .collect();
        assert!(heard == (0..count).collect::<Vec<u32>>(), "{} of {count}, or in another order", heard.len());
        // Less than `_ibd_ud_rx_intr_limit` says is what one interrupt takes, and more is not.
        for (burst, left) in [(255, false), (257, true)] {
            let before = bench.beta.counter("rx_left");
            (0..burst).for_each(|n: u32| send(&alpha, address_of(&beta), &n.to_be_bytes()));
            bench.settle();
            assert_eq!(bench.beta.counter("rx_left") > before, left, "{burst}");
        }
        hca.set_late_interrupts(None);
    });
}

fn back_in_business(bench: &Bench, alpha: &Stream, beta: &Stream) {
    bench.wait_for("both links up", Nanos::from_secs(60), || {
        [&bench.alpha, &bench.beta].iter().all(|host| host.state() == lab_gldv3::LinkState::Up)
    });
    send(alpha, address_of(beta), &[0; 40]);
}

#[test]
fn a_send_that_fails_is_recovered_from_without_an_administrator() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.alpha.port().0 - 1)).expect("alpha's");
        let qpn = u32::from_be_bytes([
            0,
            address_of(&alpha).0[1],
            address_of(&alpha).0[2],
            address_of(&alpha).0[3],
        ]);
        assert!(hca.break_qpn(fabric::Qpn::truncating(qpn)), "alpha's queue pair has another number");
        send(&alpha, address_of(&beta), b"into the void");
        bench.settle();
        back_in_business(bench, &alpha, &beta);
        bench.wait_for("a packet arrives", Nanos::from_secs(10), || {
            send(&alpha, address_of(&beta), b"again");
            heard.try_next().is_some_and(|packet| packet.payload == b"again")
        });
    });
}
