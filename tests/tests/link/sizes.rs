//! Queues of any size an administrator may ask for: an adapter rounds them, and a completion queue to one place fewer.

use fabric::Qpn;
use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload};

use crate::bench::{Bench, Host, PLAIN, Setup, address_of};

/// No powers of two, as administrators write them; 4000 is the default of the C driver.
const SIZES: [u32; 4] = [513, 600, 4000, 8000];

fn hca(bench: &Bench, of: &Host) -> fabric::Hca {
    bench.world.fabric().hca(of.adapter()).expect("it is plugged in")
}

/// Whoever takes completions sleeps until every receive has completed.
fn a_receiver_sleeps<const SIZE: u32>(bench: &Bench) {
    bench.beta.set("_ibd_ud_num_rwqe", &SIZE.to_string()).unwrap();
    let (alpha, beta, _heard) = bench.talking(PLAIN);
    let (to, before) = (address_of(&beta), bench.beta.statistics().ipackets);
    let asleep = fabric::Nanos(2_000_000_000);
    hca(bench, &bench.beta).set_late_interrupts(Some((asleep, asleep)));
    let sent = SIZE.next_power_of_two() + 8;
    for n in 0..sent {
        alpha.transmit(to, &[0; 60], Offload::default()).unwrap();
        if n % 256 == 255 {
            fakekernel::sleep(Nanos::from_millis(1));
        }
    }
    hca(bench, &bench.beta).set_late_interrupts(None);
    let came = || bench.beta.statistics().ipackets - before;
    bench.wait_for("the receiver wakes up", Nanos::from_secs(10), || came() >= SIZE.into());
    assert!(came() < sent.into(), "the ring was never full");
    assert_eq!(address_of(&beta), to, "{SIZE}: another queue pair: {:?}", bench.beta.console());
    assert_eq!(bench.beta.state(), LinkState::Up, "{:?}", bench.beta.console());
}

#[test]
fn a_receive_queue_of_any_size_that_nobody_empties_fills_up_and_loses_no_queue_pair() {
    for test in [
        a_receiver_sleeps::<{ SIZES[0] }>,
        a_receiver_sleeps::<{ SIZES[1] }>,
        a_receiver_sleeps::<{ SIZES[2] }>,
        a_receiver_sleeps::<{ SIZES[3] }>,
    ] {
        Setup { seeds: 1, ..Setup::default() }.run(test);
    }
}

/// Every send the queue takes is out when the queue pair breaks: all of them complete at once.
fn all_sends_fail<const SIZE: u32>(bench: &Bench) {
    bench.alpha.set("_ibd_ud_num_swqe", &SIZE.to_string()).unwrap();
    let (alpha, beta, _heard) = bench.talking(PLAIN);
    let hca = hca(bench, &bench.alpha);
    hca.set_sends_hang(true);
    for _ in 0..SIZE.next_power_of_two() + 8 {
        alpha.transmit(address_of(&beta), &[0; 60], Offload::default()).unwrap();
    }
    let own = u32::from_be_bytes(address_of(&alpha).0[..4].try_into().expect("four bytes"));
    hca.set_sends_hang(false);
    assert!(hca.break_qpn(Qpn::truncating(own)));
    bench.settle();
    let console = bench.alpha.console();
    // One place has the greeting, which has left and told nobody.
    assert!(
        bench.alpha.counter("tx_failed") >= u64::from(SIZE) - 1,
        "not all of {SIZE} were out: {:?}, {console:?}",
        bench.alpha.counters()
    );
    assert!(!console.iter().any(|line| line.contains("completion queue error")), "{SIZE}: {console:?}");
}

#[test]
fn a_send_queue_of_any_size_that_fails_as_a_whole_fits_its_completion_queue() {
    for test in [
        all_sends_fail::<{ SIZES[0] }>,
        all_sends_fail::<{ SIZES[1] }>,
        all_sends_fail::<{ SIZES[2] }>,
        all_sends_fail::<{ SIZES[3] }>,
    ] {
        Setup { seeds: 1, ..Setup::default() }.run(test);
    }
}
