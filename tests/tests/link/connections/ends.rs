//! What is left of connections and of attempts when they end: nothing, whoever ends them and whenever.

use fabric::{Direction, Only, Pick};
use fakekernel::Nanos;
use lab_gldv3::Stream;

use super::opened::{connected, pattern, send};
use super::{CM, REQ};
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
