//! Many link addresses of one port: reached, bounded, and the SA is not asked for each of them.

use lab_gldv3::{LinkAddress, Offload};

use crate::bench::{Bench, PLAIN, Setup, address_of, holds};

/// As many addresses of beta's port as queue pairs could have: the GID is beta's, the queue pair number is `n`'s.
fn stranger(beta: LinkAddress, n: u32) -> LinkAddress {
    let mut bytes = beta.0;
    bytes[1..4].copy_from_slice(&(0x10_0000 + n).to_be_bytes()[1..]);
    LinkAddress(bytes)
}

/// Addresses of one port that are kept, though nothing else is sent to them.
const OF_PORT: u64 = 256;

fn send_to_each(bench: &Bench, count: u32) {
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    let (beta, _) = bench.beta.open_up(PLAIN);
    let to = address_of(&beta);
    bench.settle();
    let sent_before = bench.alpha.statistics().opackets;
    for round in 1..=2 {
        for n in 0..count {
            alpha.transmit(stranger(to, n), &[0; 40], Offload::default()).unwrap();
            // As a host that waits for answers would, a few at a time.
            if n % 64 == 63 {
                fakekernel::sleep(fakekernel::Nanos::from_millis(5));
            }
        }
        bench.settle();
        assert_eq!(bench.alpha.statistics().opackets - sent_before, u64::from(round * count));
    }
    let found = bench.alpha.named("paths", "found");
    assert!((count..=2 * count).contains(&(found as u32)), "each is found once or twice: {found}");
    assert!(bench.alpha.named("paths", "entries") <= OF_PORT, "few are kept");
    assert_eq!(bench.alpha.counter("sa_paths"), 1, "the port is asked for once");
}

#[test]
fn four_thousand_addresses_of_a_port_are_one_question() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| send_to_each(bench, 4_000));
}

#[test]
fn sixty_five_thousand_addresses_of_a_port_take_few_places() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| send_to_each(bench, 65_000));
}

#[test]
fn a_packet_to_an_address_that_no_port_can_have_goes_nowhere_and_nobody_is_asked_about_it() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        let LinkAddress(good) = address_of(&beta);
        // As a neighbour may claim to have it: the queue pairs of management, a group's GID, a GID of no port.
        let mut wrong = [good; 4];
        wrong[0][1..4].copy_from_slice(&[0, 0, 0]);
        wrong[1][1..4].copy_from_slice(&[0, 0, 1]);
        wrong[2][4..8].copy_from_slice(&[0xff, 0x12, 0x40, 0x1b]);
        wrong[3][12..].fill(0);
        let (asked, sent) = (bench.alpha.counter("sa_paths"), bench.alpha.statistics().opackets);
        for (n, address) in (1..).zip(wrong) {
            alpha.transmit(LinkAddress(address), b"to whom", Offload::default()).unwrap();
            bench.settle();
            assert_eq!(bench.alpha.counter("tx_drop_bad_destination"), n, "{address:x?}");
        }
        assert_eq!((bench.alpha.counter("sa_paths"), bench.alpha.statistics().opackets), (asked, sent));
    });
}
