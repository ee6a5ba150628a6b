//! What an administrator can change beyond the C driver's properties, and the queue pair that completes nothing.

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload, PropertyId, PropertyValue, Stream, property_info};
use sm::fault::FaultAction;
use sm::{Attribute, Method};

use crate::bench::{Bench, Driver, Host, PLAIN, Setup, address_of, group, holds};

const STALLED: &str = "no send has completed";

fn sends_hang(bench: &Bench, host: &Host, hang: bool) {
    bench.world.fabric().hca(host.adapter()).expect("the adapter is there").set_sends_hang(hang);
}

fn lines(host: &Host, with: &str) -> usize {
    host.console().iter().filter(|line| line.contains(with)).count()
}

/// Sends every 100 ms for so long.
fn chatter(from: &Stream, to: &Stream, seconds: u64) {
    for n in 0..seconds * 10 {
        let _ = from.transmit(address_of(to), &n.to_ne_bytes().repeat(20), Offload::default());
        fakekernel::sleep(Nanos::from_millis(100));
    }
}

#[test]
fn a_queue_pair_that_completes_no_sends_is_replaced_within_its_timeout() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let before = bench.machine.now();
        sends_hang(bench, &bench.alpha, true);
        while bench.alpha.counter("tx_timeouts") == 0 {
            chatter(&alpha, &beta, 1);
            assert!(bench.machine.now().since(before) < Nanos::from_secs(60), "{:?}", bench.alpha.counters());
        }
        let took = bench.machine.now().since(before);
        // A quarter as long again, and the second in which it is looked for here.
        assert!((Nanos::from_secs(30)..=Nanos::from_millis(39_000)).contains(&took), "{took}");
        assert_eq!(lines(&bench.alpha, STALLED), 1, "{:?}", bench.alpha.console());
        sends_hang(bench, &bench.alpha, false);
        // The queue pair that is tried first hangs as well; the next one tells.
        bench.wait_for("well again", Nanos::from_secs(60), || {
            while heard.try_next().is_some() {}
            let _ = alpha.transmit(address_of(&beta), &[7; 60], Offload::default());
            bench.settle();
            heard.try_next().is_some() && bench.alpha.named("port", "qp_stalled") == 1
        });
        assert_eq!(bench.alpha.counter("tx_timeouts"), 1);
        assert_eq!(lines(&bench.alpha, "hangs, and another one sends"), 1, "{:?}", bench.alpha.console());
    });
}

/// Before, the queue pair was replaced every few seconds, each time with another link address.
#[test]
fn an_adapter_that_stays_hung_is_no_reason_for_another_address() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        let own = address_of(&alpha);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        sends_hang(bench, &bench.alpha, true);
        chatter(&alpha, &beta, 600);
        assert_eq!((bench.alpha.counter("tx_timeouts"), bench.alpha.named("port", "qp_stalled")), (1, 0));
        assert_eq!((address_of(&alpha), bench.alpha.state()), (own, LinkState::Up));
        drop(alpha);
        sends_hang(bench, &bench.alpha, false);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
    });
}

/// Before, a stall of five seconds gave the link another address, and fault management was told that the adapter is broken.
#[test]
fn a_port_without_credits_keeps_its_address_and_every_packet() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let (own, hca) =
            (address_of(&alpha), bench.world.fabric().hca(bench.alpha.adapter()).expect("it is there"));
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        while heard.try_next().is_some() {}
        for round in 0..3 {
            hca.set_no_credits(true);
            for n in 0..300_u16 {
                alpha.transmit(address_of(&beta), &n.to_be_bytes().repeat(30), Offload::default()).unwrap();
            }
            fakekernel::sleep(Nanos::from_secs(20));
            assert_eq!(bench.alpha.get("_ibd_link_state"), "up, sends wait");
            assert_eq!((bench.alpha.counter("link_state"), bench.alpha.state()), (6, LinkState::Up));
            assert!(heard.try_next().is_none(), "nothing leaves");
            hca.set_no_credits(false);
            fakekernel::sleep(Nanos::from_secs(3));
            let came: Vec<u16> = std::iter::from_fn(|| heard.try_next())
                .filter(|packet| packet.payload.len() == 60)
                .map(|packet| u16::from_be_bytes([packet.payload[0], packet.payload[1]]))
                .collect();
            assert!(came.iter().copied().eq(0..300), "{} of 300 came in order", came.len());
            assert_eq!((bench.alpha.get("_ibd_link_state"), address_of(&alpha)), ("up".to_owned(), own));
            assert_eq!(bench.alpha.counter("tx_timeouts"), round + 1);
        }
        assert_eq!(bench.alpha.named("port", "qp_stalled"), 0);
        assert_eq!(bench.alpha.kernel.ereports().len(), 0);
        assert!(lines(&bench.alpha, "sends complete again, after 20 s") > 0, "{:?}", bench.alpha.console());
    });
}

#[test]
fn a_link_that_sends_seldom_or_never_is_left_alone() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        for minutes in 0..30 {
            alpha.transmit(address_of(&beta), &[minutes; 60], Offload::default()).unwrap();
            fakekernel::sleep(Nanos::from_secs(60));
        }
        chatter(&alpha, &beta, 60);
        assert_eq!(bench.alpha.counter("tx_timeouts"), 0);
    });
}

#[test]
fn nobody_watches_when_the_timeout_is_zero() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "0").unwrap();
        sends_hang(bench, &bench.alpha, true);
        chatter(&alpha, &beta, 120);
        assert_eq!((bench.alpha.counter("tx_timeouts"), bench.alpha.state()), (0, LinkState::Up));
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        chatter(&alpha, &beta, 15);
        assert!(bench.alpha.counter("tx_timeouts") > 0);
        sends_hang(bench, &bench.alpha, false);
    });
}

#[test]
fn a_timeout_that_is_lowered_counts_at_once() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "3600").unwrap();
        sends_hang(bench, &bench.alpha, true);
        chatter(&alpha, &beta, 21);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        chatter(&alpha, &beta, 2);
        assert!(bench.alpha.counter("tx_timeouts") > 0);
        sends_hang(bench, &bench.alpha, false);
    });
}

#[test]
fn a_stall_is_found_at_any_point_of_a_stop() {
    Setup { seeds: 24, ..Setup::default() }.run(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        sends_hang(bench, &bench.alpha, true);
        chatter(&alpha, &beta, 1);
        for _ in 0..200 {
            let _ = alpha.transmit(address_of(&beta), &[1; 60], Offload::default());
        }
        // Also while another queue pair is tried.
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 2_500_000));
        sends_hang(bench, &bench.alpha, bench.machine.now().0 % 2 == 0);
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 / 7 % 2_500_000));
        drop(alpha);
        sends_hang(bench, &bench.alpha, false);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
    });
}

#[test]
fn as_many_paths_are_asked_at_a_time_as_an_administrator_can_allow_and_no_packet_is_dropped() {
    holds(|bench| {
        const MOST: u8 = 64;
        bench.alpha.set("_ibd_path_lookups", &MOST.to_string()).unwrap();
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        bench.settle();
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Delay(sm::Nanos(100_000_000)));
        let before = bench.alpha.counter("sa_paths");
        for neighbour in 0..MOST {
            // A port of its own, which is not there: queue pairs of one port share a question.
            let LinkAddress(mut to) = address_of(&beta);
            to[18] ^= neighbour + 1;
            alpha.transmit(LinkAddress(to), &[neighbour; 60], Offload::default()).unwrap();
        }
        fakekernel::sleep(Nanos::from_secs(10));
        assert_eq!(bench.alpha.counter("tx_drop_lookup_failed"), 0, "{:?}", bench.alpha.counters());
        assert_eq!(bench.alpha.counter("sa_paths") - before, u64::from(MOST));
    });
}

#[test]
fn the_configuration_file_tunes_every_link_of_either_driver() {
    const CONF: &[(&str, i32)] =
        &[("ibd_ud_num_rwqe", 1024), ("ibd_tx_timeout", 60), ("ibd_hash_size", 7), ("ibd_debug", 3)];
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { driver, conf: CONF, seeds: 1, ..Setup::default() }.run(|bench| {
            let got = ["_ibd_ud_num_rwqe", "_ibd_tx_timeout", "_ibd_hash_size", "_ibd_debug"];
            assert_eq!(got.map(|name| bench.alpha.get(name)), ["1024", "60", "32", "0"]);
            // A reset goes there, too.
            let defaults = got.map(|name| {
                let id = PropertyId::Private(name.to_owned());
                property_info(&bench.alpha.kernel, &bench.alpha.link(), &id).expect("it is there").default
            });
            let text = |value: &str| Some(PropertyValue::Text(value.to_owned()));
            assert_eq!(defaults, ["1024", "60", "32", "0"].map(text));
            let console = bench.alpha.console();
            let told = "ibd_debug=3 in the configuration file is not from 0 to 2: not used";
            assert!(console.iter().any(|line| line.contains(told)), "{console:?}");
            assert_eq!(lines(&bench.alpha, "in the configuration file"), 1, "one message for one cause");
            let (_alpha, _) = bench.alpha.open_up(PLAIN);
        });
    }
}

#[test]
fn a_join_that_is_not_answered_in_time_is_repeated() {
    holds(|bench| {
        bench.alpha.set("_ibd_join_timeout", "3").unwrap();
        bench.alpha.set("_ibd_join_retries", "2").unwrap();
        // IBTF asks again and again for minutes before it says that nobody answers.
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
        let (_alpha, _) = bench.alpha.open(PLAIN);
        fakekernel::sleep(Nanos::from_secs(20));
        assert!(lines(&bench.alpha, "IPoIB broadcast group join failed") > 0, "{:?}", bench.alpha.console());
        assert_eq!(bench.alpha.counter("sa_joins"), 2, "two out at most");
        bench.no_faults();
        bench.wait_for("up", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
    });
}

#[test]
fn joins_of_other_groups_are_given_up_and_repeated_as_that_of_the_broadcast_group() {
    holds(|bench| {
        bench.alpha.set("_ibd_join_timeout", "3").unwrap();
        bench.alpha.set("_ibd_join_retries", "2").unwrap();
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let joins = bench.alpha.counter("sa_joins");
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
        alpha.enable_multicast(group(5)).unwrap();
        alpha.transmit(group(6), &[6; 60], Offload::default()).unwrap();
        fakekernel::sleep(Nanos::from_secs(5));
        assert_eq!(bench.alpha.counter("tx_drop_lookup_failed"), 1, "{:?}", bench.alpha.counters());
        assert_eq!(lines(&bench.alpha, "Join multicast group failed"), 1, "{:?}", bench.alpha.console());
        fakekernel::sleep(Nanos::from_secs(15));
        // One for sending, and for hearing two: not a third one while both are out.
        assert_eq!(bench.alpha.counter("sa_joins") - joins, 3);
        bench.no_faults();
        let (to, other) = (group(5), group(6));
        beta.enable_multicast(other).unwrap();
        bench.wait_for("each hears the other's", Nanos::from_secs(300), || {
            while heard.try_next().is_some() {}
            alpha.transmit(other, &[6; 60], Offload::default()).unwrap();
            bench.settle();
            heard.try_next().is_some()
        });
        let (_alpha_too, heard) = bench.alpha.open(PLAIN);
        _alpha_too.enable_multicast(to).unwrap();
        bench.wait_for("and back", Nanos::from_secs(300), || {
            beta.transmit(to, &[5; 60], Offload::default()).unwrap();
            bench.settle();
            heard.try_next().is_some()
        });
    });
}

#[test]
fn link_is_closed_while_joins_that_were_given_up_are_not_answered_yet() {
    Setup { seeds: 12, ..Setup::default() }.run(|bench| {
        bench.alpha.set("_ibd_join_timeout", "1").unwrap();
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::SET), None, FaultAction::Silent);
        for n in 0..40 {
            alpha.enable_multicast(group(n)).unwrap();
        }
        fakekernel::sleep(Nanos::from_millis(bench.machine.now().0 % 20_000));
        bench.no_faults();
        fakekernel::sleep(Nanos::from_millis(bench.machine.now().0 % 70_000));
        drop(alpha);
        bench.wait_for("no membership is left", Nanos::from_secs(600), || bench.memberships_of_alpha() == 0);
    });
}

#[test]
fn what_a_link_goes_through_is_logged_when_it_is_wanted() {
    Setup { conf: &[("ibd_debug", 2)], ..Setup::default() }.run(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        for told in ["link: up", "SA: join", "SA: path"] {
            assert!(lines(&bench.alpha, told) > 0, "{told}: {:?}", bench.alpha.console());
        }
        bench.alpha.set("_ibd_debug", "1").unwrap();
        let before = lines(&bench.alpha, "SA: ");
        drop((alpha, beta));
        fakekernel::sleep(Nanos::from_secs(10));
        assert!(lines(&bench.alpha, "link: stopped") > 0, "{:?}", bench.alpha.console());
        assert_eq!(lines(&bench.alpha, "SA: "), before);
    });
}

fn alphas(bench: &Bench) -> fabric::Hca {
    bench.world.fabric().hca(bench.alpha.adapter()).expect("the adapter is there")
}

/// Before, one send that the adapter could not carry out gave the link another queue pair, and so another address.
#[test]
fn a_send_that_fails_by_itself_costs_no_address() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let own = address_of(&alpha);
        for round in 1..=3 {
            while heard.try_next().is_some() {}
            alphas(bench).fail_next_send();
            chatter(&alpha, &beta, 1);
            bench.settle();
            let came = std::iter::from_fn(|| heard.try_next()).count();
            assert!((5..10).contains(&came), "{came} of ten");
            assert_eq!((address_of(&alpha), bench.alpha.named("port", "qp_failed")), (own, 0));
            assert_eq!(lines(&bench.alpha, "a send failed; the queue pair sends again"), round);
            fakekernel::sleep(Nanos::from_secs(20));
        }
        assert_eq!(bench.alpha.kernel.ereports().len(), 0);
    });
}

/// While the adapter makes the queue pair send again, what is posted is flushed. Before, those completions were taken for a second failure
/// when they came behind that command, and the link got another address.
#[test]
fn flushed_sends_that_come_late_are_no_second_failure() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let own = address_of(&alpha);
        let (adapter, kernel) = (alphas(bench), &bench.alpha.kernel);
        lab_ibtf::set_command_time(kernel, Some((Nanos::from_millis(20), Nanos::from_millis(20))));
        let late = fabric::Nanos(15_000_000);
        adapter.set_late_interrupts(Some((late, late)));
        adapter.fail_next_send();
        for _ in 0..200 {
            let _ = alpha.transmit(address_of(&beta), &[7; 60], Offload::default());
            fakekernel::sleep(Nanos::from_millis(1));
        }
        lab_ibtf::set_command_time(kernel, None);
        adapter.set_late_interrupts(None);
        bench.settle();
        while heard.try_next().is_some() {}
        chatter(&alpha, &beta, 1);
        bench.settle();
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 10);
        assert_eq!((address_of(&alpha), bench.alpha.named("port", "qp_failed")), (own, 0));
        assert_eq!(lines(&bench.alpha, "a send failed; the queue pair sends again"), 1);
        assert!(bench.alpha.counter("tx_failed") > 20, "they were flushed");
    });
}

#[test]
fn a_second_send_that_fails_soon_has_the_queue_pair_replaced() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let own = address_of(&alpha);
        for _ in 0..2 {
            alphas(bench).fail_next_send();
            chatter(&alpha, &beta, 2);
        }
        bench.wait_for("well again", Nanos::from_secs(60), || {
            while heard.try_next().is_some() {}
            let _ = alpha.transmit(address_of(&beta), &[7; 60], Offload::default());
            bench.settle();
            heard.try_next().is_some()
        });
        assert_ne!(address_of(&alpha), own);
        assert_eq!(bench.alpha.named("port", "qp_failed"), 1);
    });
}
