//! How an adapter's interrupt comes to the driver: nobody else's work stands in between.

use fakekernel::Nanos;
use lab_gldv3::Offload;
use lab_ibtf::{Stranger, set_stranger};

use crate::bench::{Bench, PLAIN, Setup, address_of};

/// Longer than anything of the driver's, shorter than a timeout.
const HOLD: Nanos = Nanos::from_millis(20);
/// A packet to a driver that is not kept from it.
const PROMPT: Nanos = Nanos::from_millis(1);

/// Whoever has handlers in IBTL's threads on beta keeps every one of them.
fn with_a_stranger(bench: &Bench) {
    set_stranger(&bench.beta.kernel, Some(Stranger { cqs: 32, hold: HOLD, every: HOLD }));
    fakekernel::sleep(HOLD);
}

/// The longest that one of a few packets takes to come up at beta.
fn longest_way(bench: &Bench, disturbed: impl Fn(&Bench)) -> Nanos {
    let (alpha, beta, heard) = bench.talking(PLAIN);
    disturbed(bench);
    let mut longest = Nanos(0);
    for n in 0..40_u8 {
        fakekernel::sleep(Nanos::from_millis(3));
        let before = bench.machine.now();
        alpha.transmit(address_of(&beta), &[n; 60], Offload::default()).expect("the stream is bound");
        let packet = heard.next(before + Nanos::from_secs(1)).expect("it comes");
        assert_eq!(packet.payload[0], n);
        longest = longest.max(bench.machine.now().since(before));
    }
    set_stranger(&bench.beta.kernel, None);
    longest
}

#[test]
fn another_client_of_ibtl_with_slow_handlers_keeps_no_packet_waiting() {
    Setup::default().run(|bench| {
        let longest = longest_way(bench, with_a_stranger);
        assert!(longest < PROMPT, "a packet took {longest}");
    });
}

#[test]
fn a_burst_that_comes_while_another_client_has_ibtl_s_threads_is_received_whole() {
    Setup::default().run(|bench| {
        const BURST: u64 = 2_000;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        with_a_stranger(bench);
        let before = bench.beta.statistics().ipackets;
        for n in 0..BURST {
            alpha.transmit(address_of(&beta), &[1; 60], Offload::default()).expect("the stream is bound");
            // Twice as fast as QDR is with packets of 2 KB.
            if n % 64 == 63 {
                fakekernel::sleep(Nanos::from_micros(16));
            }
        }
        bench.settle();
        set_stranger(&bench.beta.kernel, None);
        let came = bench.beta.statistics().ipackets - before;
        assert_eq!(came, BURST, "{} were lost: {:?}", BURST - came, bench.beta.counters());
    });
}
