//! Attempts to open connections that neighbours do not answer, of several links of a host at once.

use fabric::{Direction, HcaConfig, Only, Pick};
use fakekernel::Nanos;
use fakekernel::genunix::{KstatId, KstatValue};
use lab_gldv3::{LinkAddress, Offload, PropertyId, PropertyValue, Stream};

use super::guest::Guest;
use super::linux::{Linux, Mode, Way};
use super::opened::{pattern, set_connected};
use super::{CM, LEGACY, REQ, counted_by};
use crate::bench::{Bench, LINK, PLAIN, Setup};

const LINKS: [&str; 3] = [LINK, "ibd1", "ibd2"];
const MINUTE: Nanos = Nanos::from_secs(60);

/// Alpha has three ports.
fn three_ports() -> Setup {
    let hca = |config: &mut HcaConfig| *config = HcaConfig::new(config.guid, 3);
    Setup { hca, ..Setup::default() }
}

/// A link with connections on each of alpha's ports.
fn three_links(bench: &Bench) -> Vec<Stream> {
    let first = bench.alpha.port();
    (1..3).for_each(|n| bench.alpha.attach_port(fabric::Guid(first.0 + n)));
    let opened = LINKS.map(|link| {
        let connected = PropertyValue::U32(1);
        lab_gldv3::set_property(&bench.alpha.kernel, link, &PropertyId::IbLinkMode, &connected)
            .expect("it is closed");
        let stream = Stream::open(&bench.alpha.kernel, link).expect("the link opens");
        stream.bind(PLAIN).expect("the stream binds");
        stream
    });
    bench.settle();
    bench.settle();
    opened.into()
}

/// One of many names that a host has on its port.
fn identity(of: &Linux, number: u32) -> LinkAddress {
    let mut address = of.address();
    address.0[..4].copy_from_slice(&(0x8000_1000 | number).to_be_bytes());
    address
}

/// Sends each of these a packet that needs a connection.
fn ask(from: &Stream, identities: impl Iterator<Item = LinkAddress>) {
    let packet = pattern(20_000);
    identities.for_each(|to| _ = from.transmit(to, &packet, Offload::default()).expect("it is bound"));
}

/// Eight from each link: as many as one has out, and more than `ibcm` has in all.
fn ask_those_that_are_silent(links: &[Stream], of: &Linux) {
    for (link, from) in links.iter().zip([0, 8, 16]) {
        ask(link, (from..from + 8).map(|number| identity(of, number)));
    }
}

#[test]
fn links_that_stop_leave_no_attempt_to_the_communication_manager_that_waits_for_its_turn_there() {
    three_ports().run(|bench| {
        let neighbour = Linux::new(bench, Mode::Datagram);
        neighbour.keep_silent(true);
        let links = three_links(bench);
        ask_those_that_are_silent(&links, &neighbour);
        fakekernel::sleep(Nanos::from_millis(bench.machine.now().0 % 1_000));
        let before = bench.machine.now();
        drop(links);
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_millis(50), "{took}");
        neighbour.leave(bench);
    });
}

#[test]
fn an_adapter_that_is_pulled_while_links_wait_for_neighbours_that_are_silent_is_let_go_in_time() {
    three_ports().run(|bench| {
        let neighbour = Linux::new(bench, Mode::Datagram);
        neighbour.keep_silent(true);
        let links = three_links(bench);
        ask_those_that_are_silent(&links, &neighbour);
        fakekernel::sleep(Nanos::from_millis(bench.machine.now().0 % 1_000));
        let before = bench.machine.now();
        let pulled = bench.world.remove_hca(&bench.alpha.kernel, bench.alpha.adapter());
        assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
        let took = bench.machine.now().since(before);
        assert!(took < MINUTE, "{took}");
        drop(links);
        neighbour.leave(bench);
    });
}

#[test]
fn an_attempt_that_waits_behind_those_of_others_is_not_given_up_before_its_turn() {
    Setup::default().run(|bench| {
        const OTHERS: i64 = 16;
        let neighbour = Linux::new(bench, Mode::Datagram);
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let only = Only::Management { class: CM, attribute: REQ };
        let all = Pick { only, skip: 0, times: 10_000 };
        bench.world.fabric().lose(bench.alpha.port(), Direction::ToSwitch, all);
        let guest = Guest::new(bench, OTHERS);
        guest.aim(&bench.beta, LEGACY + 0x48, 0x99, 65_524);
        (0..OTHERS).for_each(|channel| guest.run("probe_begin", channel));
        bench.settle();
        ask(&alpha, (0..8).map(|number| identity(&neighbour, number)));
        bench.settle();
        assert_eq!(lab_ibtf::connected(&bench.alpha.kernel).opening, OTHERS as usize + 8);
        drop(alpha);
        fakekernel::sleep(MINUTE);
        guest.leave();
        neighbour.leave(bench);
    });
}

#[test]
fn links_of_a_module_have_twelve_attempts_out_at_once_and_each_has_some() {
    three_ports().run(|bench| {
        let neighbour = Linux::new(bench, Mode::Datagram);
        neighbour.keep_silent(true);
        let links = three_links(bench);
        ask_those_that_are_silent(&links, &neighbour);
        for _ in 0..100 {
            fakekernel::sleep(Nanos::from_millis(20));
            let out = lab_ibtf::connected(&bench.alpha.kernel).opening;
            assert!(out <= 12, "{out}");
        }
        for number in 0..3 {
            let opens = opens(bench, number);
            assert!(opens >= 1, "link {number}: {opens}");
        }
        drop(links);
        neighbour.leave(bench);
    });
}

/// Attempts of one of alpha's links.
fn opens(bench: &Bench, number: i32) -> u64 {
    let kernel = &bench.alpha.kernel;
    let is_it = |id: &KstatId| id.name == "connections" && id.instance == number;
    let id = kernel.kstats().into_iter().find(is_it).expect("it has listened");
    let values = kernel.scope(|| kernel.read_kstat(&id)).expect("it can be read");
    match values.into_iter().find(|(known, _)| known == "opens") {
        Some((_, KstatValue::U64(value))) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn neighbours_that_ask_for_hours_to_answer_hold_up_nobody_and_large_packets_are_told() {
    Setup::default().run(|bench| {
        const ASK: u64 = 16;
        let (slow, other) =
            (Linux::another(bench, Mode::Datagram, 0), Linux::another(bench, Mode::Datagram, 1));
        slow.ask_for_time(31);
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        // The way to either is known.
        for to in [&slow, &other] {
            alpha.transmit(to.address(), &pattern(100), Offload::default()).expect("it is bound");
        }
        bench.settle();
        ask(&alpha, (0..ASK as u32).map(|number| identity(&slow, number)));
        fakekernel::sleep(Nanos::from_millis(100));
        ask(&alpha, [other.address()].into_iter());
        bench.wait_for("the other is reached", Nanos::from_secs(2), || {
            other.heard().contains(&(Way::Connection, pattern(20_000)))
        });
        bench.settle();
        let counts = ["slow", "opens", "opened", "closed"].map(|name| counted_by(&bench.alpha, name));
        assert_eq!(counts, [ASK, ASK + 1, 1, ASK]);
        assert_eq!(lab_ibtf::connected(&bench.alpha.kernel).opening, 0);
        // Of those that wanted a connection none waits any more.
        assert_eq!(bench.alpha.counter("tx_drop_too_long"), ASK, "{:?}", bench.alpha.counters());
        drop(alpha);
        [slow, other].into_iter().for_each(|neighbour| neighbour.leave(bench));
    });
}
