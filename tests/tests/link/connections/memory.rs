//! What connections take of memory: that of the driver, and the work queues of the adapter as the reference adapter's driver sizes them.

use fabric::Guid;
use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload};

use super::linux::{Linux, Mode};
use super::opened::{SDU, set_connected};
use super::{counted_by, payloads};
use crate::bench::{Bench, PLAIN, Setup, address_of};

/// Bytes that alpha's host and its adapter have for the driver.
fn taken(bench: &Bench) -> u64 {
    let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
    bench.alpha.kernel.genunix().heap_use().0 as u64 + adapter.queue_bytes()
}

#[test]
fn an_idle_link_with_connections_and_no_peers_takes_less_than_six_megabytes() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let attached = taken(bench);
        set_connected(&bench.alpha, true);
        let (_alpha, _heard) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let open = taken(bench) - attached;
        assert!(open < 6_000_000, "{open} bytes");
    });
}

#[test]
fn an_idle_link_with_connections_takes_little_more_than_one_megabyte_more_than_one_of_datagrams() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let datagrams = taken(bench);
        drop(alpha);
        set_connected(&bench.alpha, true);
        let (_alpha, _heard) = bench.alpha.open_up(PLAIN);
        bench.settle();
        let more = taken(bench) - datagrams;
        println!("{more} bytes more");
        assert!((1_000_000..1_400_000).contains(&more), "{more} bytes more");
    });
}

#[test]
fn an_idle_peer_connected_both_ways_takes_less_than_160_kib_beyond_what_all_share() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        const PEERS: u64 = 9;
        /// Of a peer.
        const MOST: u64 = 160 << 10;
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(PLAIN);
        let guid = |n: u64| Guid(0x0002_c903_0001_0000 + n * 0x100);
        let hosts: Vec<_> = (0..PEERS).map(|n| bench.another_host(&format!("peer{n}"), guid(n))).collect();
        let peers: Vec<_> = hosts
            .iter()
            .map(|host| {
                set_connected(host, true);
                host.open_up(PLAIN)
            })
            .collect();
        bench.settle();
        let payload = vec![7; SDU];
        let send = |from: &lab_gldv3::Stream, to: LinkAddress| {
            from.transmit(to, &payload, Offload::default()).expect("it is bound");
        };
        let mut after = Vec::new();
        for (stream, heard) in &peers {
            send(&alpha, address_of(stream));
            send(stream, address_of(&alpha));
            bench.settle();
            assert_eq!((payloads(heard).len(), payloads(&to_alpha).len()), (1, 1));
            after.push(taken(bench));
        }
        let counts = ["opened", "accepted"].map(|name| counted_by(&bench.alpha, name));
        assert_eq!(counts, [PEERS, PEERS]);
        // The first one makes what all share.
        let first = after[0];
        let more = after[PEERS as usize - 1] - first;
        let each = more / (PEERS - 1);
        println!("{each} bytes for each further peer");
        assert!(each <= MOST, "{each} bytes for each further peer: {after:?}");
        drop((alpha, to_alpha));
        drop(peers);
        fakekernel::sleep(Nanos::from_secs(90));
        hosts.iter().for_each(|host| host.unload());
    });
}

#[test]
fn what_waits_behind_connections_to_neighbours_that_take_nothing_any_more_is_bounded_in_octets() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        const NEIGHBOURS: u64 = 8;
        /// All of them together, and each beside; and what else there is meanwhile.
        const MOST: u64 = (8 << 20) + NEIGHBOURS * (256 << 10) + (1 << 20);
        let neighbours: Vec<Linux> =
            (0..NEIGHBOURS).map(|number| Linux::another(bench, Mode::Datagram, number)).collect();
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let send_to = |neighbour: &Linux, len| {
            alpha.transmit(neighbour.address(), &vec![7; len], Offload::default()).expect("it is bound");
        };
        // The first finds the way, the second waits for a connection, the third goes on it.
        for len in [20_000, 20_001, 20_002] {
            neighbours.iter().for_each(|neighbour| send_to(neighbour, len));
            fakekernel::sleep(Nanos::from_secs(2));
        }
        assert_eq!(counted_by(&bench.alpha, "opened"), NEIGHBOURS);
        neighbours.iter().for_each(|neighbour| assert!(bench.world.set_cable(neighbour.port(), false)));
        let before = taken(bench);
        for neighbour in &neighbours {
            (0..100).for_each(|_| send_to(neighbour, SDU));
        }
        let more = taken(bench) - before;
        assert!(more < MOST, "{more} bytes");
        // One alone has room for what does not go at once.
        assert!(more > 8 << 20, "{more} bytes");
        drop(alpha);
        neighbours.into_iter().for_each(|neighbour| neighbour.leave(bench));
        fakekernel::sleep(Nanos::from_secs(90));
    });
}
