//! What is left of connections and of attempts when they end: nothing, whoever ends them and whenever.

use fabric::{Direction, Only, Pick};
use fakekernel::Nanos;
use lab_gldv3::Stream;

use super::opened::{connected, pattern, send};
use super::{CM, REQ, RTU, counted, counted_by, payloads};
use crate::bench::{Bench, PLAIN, Setup};

/// How long a REQ waits for its answer: twice what a packet may live on the way and what the other side may take, as a code.
const INTERVAL: Nanos = Nanos(4_096 << 18);
/// The REQ and three more.
const TIMES: u64 = 4;

/// Sends a packet that needs a connection; its REQ is out.
fn ask(bench: &Bench, from: &Stream, to: &Stream) {
    send(from, to, &pattern(20_000));
    let out = || lab_ibtf::connected(&bench.alpha.kernel).opening == 1;
    while !out() {
        fakekernel::sleep(Nanos::from_micros(1));
    }
}

/// What neighbours are asked is lost.
fn lose_requests(bench: &Bench) {
    let only = Only::Management { class: CM, attribute: REQ };
    let all = Pick { only, skip: 0, times: 1_000 };
    bench.world.fabric().lose(bench.alpha.port(), Direction::ToSwitch, all);
}

#[test]
fn a_link_that_stops_while_the_communication_manager_gives_an_attempt_up_leaves_nothing_behind() {
    for before in 0..30 {
        let test = move |bench: &Bench| {
            let (alpha, _, beta, _) = connected(bench, PLAIN);
            lose_requests(bench);
            ask(bench, &alpha, &beta);
            fakekernel::sleep(Nanos(INTERVAL.0 * TIMES - 200 * before));
            drop((alpha, beta));
        };
        Setup { seeds: 8, ..Setup::default() }.run(test);
    }
}

/// `ibcm` takes so long to tell a host of a connection that stands.
const TELLING: Nanos = Nanos::from_secs(2);

#[test]
fn a_link_that_stops_while_a_connection_it_opened_stands_and_is_about_to_be_told_ends_it_when_it_is() {
    let test = |bench: &Bench| {
        let (alpha, _, beta, _) = connected(bench, PLAIN);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, Some(TELLING));
        ask(bench, &alpha, &beta);
        fakekernel::sleep(Nanos::from_millis(100));
        assert_eq!(lab_ibtf::connected(&bench.alpha.kernel).established, 1);
        drop((alpha, beta));
        fakekernel::sleep(TELLING);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, None);
    };
    Setup::default().run(test);
}

#[test]
fn a_link_that_stops_while_a_connection_it_accepted_stands_and_is_about_to_be_told_ends_it_well() {
    let test = |bench: &Bench| {
        let (alpha, _, beta, _) = connected(bench, PLAIN);
        lab_ibtf::set_telling_time(&bench.beta.kernel, Some(TELLING));
        ask(bench, &alpha, &beta);
        fakekernel::sleep(Nanos::from_millis(100));
        assert_eq!(lab_ibtf::connected(&bench.beta.kernel).established, 1);
        drop((alpha, beta));
        fakekernel::sleep(TELLING);
        lab_ibtf::set_telling_time(&bench.beta.kernel, None);
    };
    Setup::default().run(test);
}

#[test]
fn a_link_that_stops_takes_an_offer_back_that_nobody_takes_up() {
    let test = |bench: &Bench| {
        let (alpha, _, beta, _) = connected(bench, PLAIN);
        let only = Only::Management { class: CM, attribute: RTU };
        let all = Pick { only, skip: 0, times: 1_000 };
        bench.world.fabric().lose(bench.alpha.port(), Direction::ToSwitch, all);
        // Its packet would do for an RTU.
        lab_ibtf::set_telling_time(&bench.alpha.kernel, Some(TELLING));
        ask(bench, &alpha, &beta);
        fakekernel::sleep(Nanos::from_millis(100));
        assert_eq!(lab_ibtf::connected(&bench.beta.kernel).opening, 1);
        drop((alpha, beta));
        bench.wait_for("it is over", Nanos::from_millis(2_500), || counted(bench, "ended") == 1);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, None);
    };
    Setup::default().run(test);
}

/// Beta has offered alpha a connection, and hears neither RTU nor packet.
fn nobody_takes_up_an_offer(bench: &Bench, alpha: &Stream, beta: &Stream) {
    let only = Only::Management { class: CM, attribute: RTU };
    let all = Pick { only, skip: 0, times: 1_000 };
    bench.world.fabric().lose(bench.alpha.port(), Direction::ToSwitch, all);
    lab_ibtf::set_telling_time(&bench.alpha.kernel, Some(Nanos::from_secs(8)));
    ask(bench, alpha, beta);
    fakekernel::sleep(Nanos::from_millis(100));
    assert_eq!(lab_ibtf::connected(&bench.beta.kernel).opening, 1);
}

#[test]
fn an_offer_that_is_taken_back_is_freed_when_the_communication_manager_has_told_and_not_when_its_queue_pair_is_empty()
 {
    let test = |bench: &Bench| {
        let (alpha, _, beta, _) = connected(bench, PLAIN);
        nobody_takes_up_an_offer(bench, &alpha, &beta);
        lab_ibtf::set_aborting_time(&bench.beta.kernel, Some(TELLING));
        drop((alpha, beta));
        bench.wait_for("it is over", Nanos::from_secs(5), || counted(bench, "ended") == 1);
        lab_ibtf::set_aborting_time(&bench.beta.kernel, None);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, None);
    };
    Setup::default().run(test);
}

#[test]
fn an_attempt_whose_queue_pair_fails_before_its_connection_is_told_is_freed_when_it_is() {
    let test = |bench: &Bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, Some(TELLING));
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
        let before = adapter.qpns();
        ask(bench, &alpha, &beta);
        fakekernel::sleep(Nanos::from_millis(100));
        assert_eq!(lab_ibtf::connected(&bench.alpha.kernel).established, 1);
        let made = adapter.qpns().into_iter().find(|qpn| !before.contains(qpn)).expect("that of the attempt");
        assert!(adapter.break_qpn(made));
        fakekernel::sleep(Nanos::from_secs(1));
        assert_eq!(counted_by(&bench.alpha, "open_failed"), 0, "ibcm is about to tell");
        fakekernel::sleep(TELLING);
        assert_eq!(counted_by(&bench.alpha, "open_failed"), 1);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, None);
        fakekernel::sleep(Nanos::from_secs(60));
        assert!(payloads(&to_beta).is_empty(), "what waited was too long for a datagram");
        send(&alpha, &beta, &pattern(20_001));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(20_001)], "the next attempt is as good as any");
    };
    Setup::default().run(test);
}
