//! Every packet is in one counter.

use fabric::LinkFaults;
use fakekernel::Nanos;
use lab_gldv3::Offload;

use super::closing::lose_ends;
use super::guest::Guest;
use super::opened::{connected, pattern, send, set_connected};
use super::unwanted::v4;
use super::{LEGACY, accepting, holds, payloads};
use crate::bench::{IPV4, PLAIN, Setup, address_of};
use crate::rings::{self, BOTH};

#[test]
fn what_has_come_when_a_link_stops_and_nobody_has_taken_is_counted() {
    holds(|bench| {
        const DATAGRAMS: usize = 100;
        const MESSAGES: i64 = 4;
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        send(&alpha, &beta, &pattern(60));
        bench.settle();
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("beta has one");
        let late = fabric::Nanos(50_000_000);
        adapter.set_late_interrupts(Some((late, late)));
        (0..DATAGRAMS).for_each(|_| send(&alpha, &beta, &pattern(60)));
        (0..MESSAGES).for_each(|_| guest.send(0, 5_000, PLAIN));
        fakekernel::sleep(Nanos::from_millis(5));
        (0..MESSAGES).for_each(|_| assert_eq!(guest.ask("probe_sent", 0), 0));
        drop(beta);
        adapter.set_late_interrupts(None);
        bench.settle();
        assert_eq!(payloads(&heard).len(), 1);
        assert_eq!(bench.beta.counter("rx_drop_link_reset"), DATAGRAMS as u64 + MESSAGES as u64);
        guest.leave();
    });
}

#[test]
fn what_neighbours_send_on_a_connection_between_the_links_stop_and_the_connections_end_is_counted() {
    holds(|bench| {
        const CONNECTIONS: i64 = 8;
        const LEN: i64 = 5_000;
        let guest = Guest::new(bench, 2 * CONNECTIONS);
        let open = |channels: std::ops::Range<i64>| {
            let (beta, heard, qpn) = accepting(bench);
            for channel in channels {
                guest.aim(&bench.beta, LEGACY + qpn, 0x100 + channel as u32, 65_524);
                guest.run("probe_lifetime", 19);
                guest.run("probe_connect", channel);
            }
            (beta, heard)
        };
        // Nobody answers to the end of these, so of ibcm's twelve places four are left.
        let (beta, heard) = open(0..CONNECTIONS);
        lose_ends(bench);
        drop((beta, heard));
        let ended = |all: i64| super::counted(bench, "ended") == all as u64;
        bench.wait_for("they are gone", Nanos::from_secs(5), || ended(CONNECTIONS));
        let (beta, heard) = open(CONNECTIONS..2 * CONNECTIONS);
        drop(beta);
        bench.settle();
        let mut arrived = 0;
        guest.run("probe_write", LEN << 16 | i64::from(PLAIN));
        for _ in 0..10 {
            for channel in CONNECTIONS..2 * CONNECTIONS {
                // Of one that is closed already the adapter may refuse it.
                guest.ask("probe_send", LEN << 16 | channel);
            }
            fakekernel::sleep(Nanos::from_millis(5));
            let sent = || Some(guest.ask("probe_sent", 0)).filter(|status| *status >= 0);
            arrived += std::iter::from_fn(sent).filter(|status| *status == 0).count();
        }
        bench.wait_for("all are over", Nanos::from_secs(60), || ended(2 * CONNECTIONS));
        assert!(arrived > 0 && payloads(&heard).is_empty());
        assert_eq!(bench.beta.counter("rx_drop_link_reset"), arrived as u64);
        guest.leave();
    });
}

#[test]
fn of_a_packet_that_is_cut_and_finds_room_for_some_pieces_each_is_counted_once() {
    fn slow(config: &mut fabric::HcaConfig) {
        config.send_latency = fabric::Nanos(50_000_000);
        config.attr.max_chan_sz = 16;
    }
    Setup { hca: slow, ..Setup::default() }.run(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, to_beta) = bench.beta.open_up(IPV4);
        bench.settle();
        send(&alpha, &beta, &v4(100, 0));
        bench.settle();
        drop(payloads(&to_beta));
        let full = || bench.alpha.counter("tx_drop_queue_full");
        let (sent, dropped) = (bench.alpha.statistics().opackets, full());
        alpha.transmit(address_of(&beta), &v4(65_515, 0), Offload::default()).expect("the stream is bound");
        fakekernel::sleep(Nanos::from_secs(3));
        let heard = payloads(&to_beta).len() as u64;
        let (sent, dropped) = (bench.alpha.statistics().opackets - sent, full() - dropped);
        // Each piece carries 2,024 octets.
        assert_eq!((sent, sent + dropped), (heard, 65_495_u64.div_ceil(2_024)), "{dropped} dropped");
        assert!(heard > 0 && dropped > 0);
    });
}

#[test]
fn what_goes_on_connections_is_no_post_of_a_ring() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        let posts = || bench.alpha.named("tx_ring_0", "tx_posts");
        let before = posts();
        (0..10).for_each(|_| send(&alpha, &beta, &pattern(20_000)));
        bench.settle();
        assert_eq!((payloads(&to_beta).len(), posts()), (11, before));
    });
}

#[test]
fn what_fits_a_datagram_leaves_as_one_while_the_connection_is_full_whichever_ring_it_comes_by() {
    const FLOWS: u16 = 32;
    Setup { conf: BOTH, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, IPV4);
        let large = v4(20_000, 0);
        // The second one has the ring remember the connection.
        for _ in 0..2 {
            send(&alpha, &beta, &large);
            bench.settle();
        }
        let far = LinkFaults { delay: fabric::Nanos(50_000_000), ..LinkFaults::default() };
        bench.world.fabric().set_faults(bench.beta.port(), far, far);
        let full = || bench.alpha.counter("tx_drop_queue_full");
        while full() == 0 {
            send(&alpha, &beta, &large);
        }
        let dropped = full();
        (0..FLOWS).for_each(|flow| rings::send(&alpha, address_of(&beta), flow, 1));
        bench.settle();
        let small = payloads(&to_beta).into_iter().filter(|payload| payload.len() < large.len()).count();
        assert_eq!((small, full() - dropped), (usize::from(FLOWS), 0), "{:?}", bench.alpha.counters());
    });
}
