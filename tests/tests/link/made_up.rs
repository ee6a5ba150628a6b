//! Hosts that make IP turn to addresses that they have made up: groups that are joined for one question, and ports without a path. What that
//! costs, and what it takes from others. IP's packets are sent here as IP sends them.

use fabric::Guid;
use fakekernel::Nanos;
use lab_gldv3::LinkAddress;
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, PLAIN, Setup, address_of, group};
use crate::forged::{absent, came, link_address, send};

const ARP: u32 = 0x0806;
const IPV6: u32 = 0x86dd;

fn one_setup(seeds: u64, test: fn(&Bench)) {
    Setup { seeds, ..Setup::default() }.run(test);
}

/// What IP asks the group of an address for which it has a packet: the link's form of the group, and a neighbour solicitation.
fn solicitation(own: LinkAddress, n: u32, has_source: bool) -> (LinkAddress, Vec<u8>) {
    let [_, a, b, c] = n.to_be_bytes();
    let mut to = [0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x60, 0x1b, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    to[17..].copy_from_slice(&[a, b, c]);
    let target = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, a, b, c];
    let mut packet = vec![0x60, 0, 0, 0, 0, 48, 58, 255];
    let mut source = [0; 16];
    if has_source {
        (source[0], source[15]) = (0xfd, 1);
    }
    packet.extend(source);
    packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    packet.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(target);
    packet.extend([1, 3]);
    packet.extend(own.0);
    packet.extend([0, 0]);
    (LinkAddress(to), packet)
}

/// Pings from made-up IPv6 addresses have IP ask a group for each. Each was a join, and the all-routers group one more: 4,027 in 3 s, and what
/// else was to be joined waited behind.
#[test]
fn two_thousand_made_up_askers_cost_few_joins() {
    one_setup(4, |bench| {
        let (ipv6, _) = bench.alpha.open_up(IPV6);
        let (plain, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        beta.enable_multicast(group(1)).unwrap();
        bench.settle();
        let (own, before) = (address_of(&ipv6), bench.alpha.counter("sa_joins"));
        for step in 0..1_000 {
            for n in [2 * step, 2 * step + 1] {
                let (to, packet) = solicitation(own, n, true);
                send(&ipv6, to, &packet);
            }
            if step == 500 {
                plain.enable_multicast(group(2)).unwrap();
                (3..13).for_each(|n| send(&plain, group(n), &[1; 60]));
                send(&plain, group(1), &[1; 60]);
            }
            if step == 700 {
                // The first one is sent before the switches know.
                send(&plain, group(1), &[1; 60]);
            }
            fakekernel::sleep(Nanos::from_millis(1));
            if step == 600 {
                assert_eq!(bench.memberships_of_alpha(), 3, "IP's own groups are joined");
            }
        }
        let joins = bench.alpha.counter("sa_joins") - before;
        assert!((200..450).contains(&joins), "{joins} joins, {:?}", bench.alpha.counters());
        assert!(bench.alpha.counter("tx_drop_questions") > 1_000, "{:?}", bench.alpha.counters());
        bench.settle();
        assert!(came(&heard) >= 1);
    });
}

/// Whether another host has an address is asked by who is about to take it: no stranger makes IP ask.
#[test]
fn a_question_about_an_own_address_waits_for_no_other() {
    one_setup(4, |bench| {
        let (ipv6, _) = bench.alpha.open_up(IPV6);
        let own = address_of(&ipv6);
        let joins = || bench.alpha.counter("sa_joins");
        for n in 0..1_000 {
            let (to, packet) = solicitation(own, n, true);
            send(&ipv6, to, &packet);
        }
        fakekernel::sleep(Nanos::from_millis(20));
        let refused = bench.alpha.counter("tx_drop_questions");
        let before = joins();
        for n in 5_000..5_010 {
            let (to, packet) = solicitation(own, n, false);
            send(&ipv6, to, &packet);
        }
        fakekernel::sleep(Nanos::from_millis(20));
        assert_eq!(bench.alpha.counter("tx_drop_questions"), refused);
        assert!(joins() - before >= 10, "{} joins", joins() - before);
    });
}

/// Addresses that ARP had told a minute before: 900 questions to the SA in half a second, and with an SA that takes 20 ms a neighbour waited
/// for 1.6 s.
#[test]
fn addresses_that_were_made_up_before_are_paid_for() {
    one_setup(4, |bench| {
        let (plain, _) = bench.alpha.open_up(PLAIN);
        let (arp, _) = bench.alpha.open_up(ARP);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        let to = address_of(&beta);
        speaks(bench, to);
        bench.settle();
        drop(arp);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Delay(sm::Nanos(20_000_000)));
        let before = bench.alpha.counter("sa_paths");
        for step in 0..450 {
            send(&plain, absent(2 * step), &[0; 60]);
            send(&plain, absent(2 * step + 1), &[0; 60]);
            if step == 300 {
                send(&plain, to, &[1; 60]);
            }
            fakekernel::sleep(Nanos::from_millis(1));
            if step == 400 {
                assert_eq!(came(&heard), 1, "{:?}", bench.alpha.counters());
            }
        }
        let questions = bench.alpha.counter("sa_paths") - before;
        assert!(questions <= 400 + 225 + 1, "{questions} questions");
    });
}

/// Beta says who it is, under its own GID.
fn speaks(bench: &Bench, link: LinkAddress) {
    let (speaker, _) = bench.beta.open(ARP);
    send(&speaker, speaker.details().broadcast, &question(link, [10, 0, 0, 2]));
}

fn question(sender: LinkAddress, ip: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0, 32, 8, 0, 20, 4, 0, 1];
    bytes.extend(sender.0);
    bytes.extend(ip);
    bytes.extend([0; 20]);
    bytes.extend([10, 0, 0, 222]);
    bytes
}

/// The forger's queue pairs took all places of acquaintances: its neighbours were cut off as soon as a flood began.
#[test]
fn queue_pairs_that_one_host_makes_up_displace_no_neighbour() {
    one_setup(2, |bench| {
        let (plain, _) = bench.alpha.open_up(PLAIN);
        let (arp, _) = bench.alpha.open_up(ARP);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        let (own, to) = (address_of(&arp), address_of(&beta));
        speaks(bench, to);
        send(&plain, to, &[1; 60]);
        bench.settle();
        let forger = bench.another_host("forger", Guid(0x0002_c903_0007_0000));
        let (speaker, _) = forger.open_up(ARP);
        let guid = u64::from_be_bytes(address_of(&speaker).0[12..].try_into().unwrap());
        for n in 0..600 {
            let forged = link_address(0x10_0000 + n, guid);
            send(&speaker, speaker.details().broadcast, &question(forged, [10, 0, 1, n as u8]));
            fakekernel::sleep(Nanos::from_millis(1));
        }
        // Until the path is forgotten.
        fakekernel::sleep(Nanos::from_secs(700));
        assert_eq!(bench.alpha.named("paths", "entries"), 0);
        came(&heard);
        let answer = |n: u32| {
            let mut bytes = question(own, [10, 0, 0, 1]);
            bytes[7] = 2;
            bytes[32..52].copy_from_slice(&absent(n).0);
            bytes
        };
        for step in 0..1_000 {
            (0..3).for_each(|n| send(&arp, absent(3 * step + n), &answer(3 * step + n)));
            if step >= 300 && step % 25 == 0 {
                send(&plain, to, &[1; 60]);
            }
            fakekernel::sleep(Nanos::from_millis(1));
        }
        bench.settle();
        assert_eq!(came(&heard), 28, "{:?}", bench.alpha.counters());
        drop(speaker);
        forger.unload();
    });
}
