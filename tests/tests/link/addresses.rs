//! Many link addresses of one port: remembered, bounded, and nobody is asked for each of them.

use lab_gldv3::{LinkAddress, Offload};

use crate::bench::{Bench, PLAIN, Setup, address_of, holds};

/// As many addresses of beta's port as queue pairs could have: the GID is beta's, the queue pair number is `n`'s.
fn stranger(beta: LinkAddress, n: u32) -> LinkAddress {
    let mut bytes = beta.0;
    bytes[1..4].copy_from_slice(&(0x10_0000 + n).to_be_bytes()[1..]);
    LinkAddress(bytes)
}

/// Ways that a link finds besides: to its broadcast group.
const GROUPS: u64 = 0;
/// Addresses that are looked up side by side.
const AT_ONCE: u64 = 16;

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
    assert_eq!(bench.alpha.named("paths", "found"), u64::from(count) + GROUPS, "each is found once");
    // Places that are free again before the first answer has told of the port are taken once more: 28 were the most of 24 seeds.
    let asked = bench.alpha.counter("sa_paths");
    assert!(asked <= 2 * AT_ONCE, "{asked}: until the port is known, and never again");
}

#[test]
fn four_thousand_addresses_of_one_port_are_found_once_and_the_administrator_is_asked_for_the_port() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| send_to_each(bench, 4_000));
}

#[test]
fn sixty_five_thousand_addresses_are_remembered() {
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
