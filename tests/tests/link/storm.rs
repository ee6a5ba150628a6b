//! What a subnet administrator is asked by many hosts that hear of the same change at once.

use std::collections::BTreeSet;

use fabric::{Guid, HcaConfig};
use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload, ReceiveQueue, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid, Method, Status};

use crate::bench::{Bench, Host, PLAIN, Setup};

const HOSTS: u64 = 8;
/// Ports that every host sends to, on adapters without a driver.
const ADAPTERS: u64 = 8;
const PORTS: u8 = 15;
const PEERS: u64 = ADAPTERS * PORTS as u64;
/// GUID of a port that is not there; those behind it are not, either.
const NOBODY: u64 = 0x0002_c903_0009_0000;
/// How long the paths that a new subnet manager put in doubt take to be asked for.
const SPREAD: Nanos = Nanos::from_secs(60);

/// Hosts beside alpha and beta, every one's link, and the addresses they send to.
struct Cluster {
    more: Vec<Host>,
    links: Vec<(Stream, ReceiveQueue)>,
    peers: Vec<LinkAddress>,
}

impl Cluster {
    /// Every host knows the way to every peer.
    fn new(bench: &Bench, hosts: u64) -> Self {
        let nodes = 2..hosts;
        let more: Vec<Host> = nodes
            .map(|n| bench.another_host(&format!("host{n}"), Guid(0x0002_c903_0001_0000 + n * 0x100)))
            .collect();
        let peers = (0..ADAPTERS).flat_map(|n| {
            let config = HcaConfig::new(Guid(0x0002_c903_0002_0000 + n * 0x100), PORTS);
            let ports: Vec<Guid> = config.ports.iter().map(|port| port.guid).collect();
            bench.world.add_hca(&bench.beta.kernel, config).expect("GUIDs are unique");
            ports.into_iter().map(address)
        });
        let peers = peers.collect();
        let all = [&bench.alpha, &bench.beta].into_iter().chain(&more);
        let links = all.map(|host| host.open_up(PLAIN)).collect();
        let cluster = Self { more, links, peers };
        let before = bench.paths_asked(&cluster);
        cluster.everybody_sends_to_everybody(bench);
        bench.wait_for("every path is known", Nanos::from_secs(30), || {
            bench.paths_asked(&cluster) == before + hosts * PEERS && cluster.nothing_waits()
        });
        cluster
    }

    fn hosts<'a>(&'a self, bench: &'a Bench) -> impl Iterator<Item = &'a Host> {
        [&bench.alpha, &bench.beta].into_iter().chain(&self.more)
    }

    fn everybody_sends_to_everybody(&self, bench: &Bench) {
        for (link, _) in &self.links {
            for to in &self.peers {
                link.transmit(*to, &[0; 60], Offload::default()).expect("the stream is bound");
            }
            bench.settle();
        }
    }

    fn nothing_waits(&self) -> bool {
        self.links.iter().all(|(link, _)| link.transmit_queue() == 0)
    }

    fn end(self) {
        drop(self.links);
        self.more.iter().for_each(Host::unload);
    }
}

/// A queue pair that nobody has, on a port that is there.
fn address(port: Guid) -> LinkAddress {
    let mut bytes = [0; 20];
    bytes[3] = 0x48;
    bytes[4..12].copy_from_slice(&fabric::Gid::DEFAULT_PREFIX.to_be_bytes());
    bytes[12..].copy_from_slice(&port.0.to_be_bytes());
    LinkAddress(bytes)
}

impl Bench {
    /// By all drivers together.
    fn paths_asked(&self, cluster: &Cluster) -> u64 {
        cluster.hosts(self).map(|host| host.counter("sa_paths")).sum()
    }
}

/// Another subnet manager is there, and every port is told so twice.
fn another_sm(bench: &Bench) {
    bench.sm.fail_over(Lid(bench.sm.inspect(|sm| sm.lid().0) + 0x200), Lid(Lid::FIRST_MULTICAST.0 + 16));
}

#[test]
fn a_new_subnet_manager_is_asked_for_few_paths_in_its_first_second_and_for_each_within_a_minute() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let cluster = Cluster::new(bench, HOSTS);
        let before = bench.paths_asked(&cluster);
        another_sm(bench);
        let mut busiest = 0;
        let mut last = before;
        for _ in 0..SPREAD.0 / Nanos::from_secs(1).0 {
            fakekernel::sleep(Nanos::from_secs(1));
            let now = bench.paths_asked(&cluster);
            busiest = busiest.max(now - last);
            last = now;
        }
        fakekernel::sleep(Nanos::from_secs(2));
        let each = bench.paths_asked(&cluster) - before;
        let all = HOSTS * PEERS;
        // Ten by each host.
        assert!(busiest <= HOSTS * 10 * 3 / 2, "{busiest} of {all} known paths were asked for in one second");
        assert!((all..all + all / 20).contains(&each), "{each} questions about {all} known paths");
        cluster.end();
    });
}

#[test]
fn a_subnet_manager_that_has_not_looked_around_yet_takes_no_peer_away() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let cluster = Cluster::new(bench, 2);
        let dropped = || -> u64 {
            cluster
                .hosts(bench)
                .map(|host| host.counter("tx_drop_unreachable") + host.counter("tx_drop_lookup_failed"))
                .sum()
        };
        let sent = || -> u64 { cluster.hosts(bench).map(|host| host.statistics().opackets).sum() };
        another_sm(bench);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Refuse(Status::NO_RECORDS));
        for second in 0..150 {
            if second == 25 {
                assert!(bench.faulted() >= 2 * PEERS, "each is denied once: {}", bench.faulted());
                bench.no_faults();
            }
            let before = sent();
            for (link, _) in &cluster.links {
                for to in &cluster.peers {
                    link.transmit(*to, &[0; 60], Offload::default()).expect("the stream is bound");
                }
            }
            fakekernel::sleep(Nanos::from_secs(1));
            assert_eq!((dropped(), sent() - before), (0, 2 * PEERS), "packets lost after {second} s");
        }
        cluster.end();
    });
}

#[test]
fn who_waits_behind_calls_that_are_lost_goes_on_a_second_later_though_others_are_slow() {
    Setup { seeds: 20, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let send = |to| alpha.transmit(address(Guid(to)), &[0; 60], Offload::default()).expect("bound");
        let fault = |count, action| bench.fault(Attribute::PATH_RECORD, None, Some(count), action);
        let later = |millis: u64| FaultAction::Delay(sm::Nanos(millis * 1_000_000));
        // An administrator that was late once is asked for three paths at a time.
        fault(1, later(1_200));
        send(NOBODY);
        fakekernel::sleep(Nanos::from_secs(2));
        // Two that it never sees, one that it answers, and two that it takes its time for.
        fault(2, FaultAction::Silent);
        fault(1, later(100));
        fault(2, later(20_000));
        let denied = || bench.alpha.counter("tx_drop_unreachable");
        let before = denied();
        for n in 1..=12 {
            send(NOBODY + n);
            // What is lost began before what is answered.
            fakekernel::sleep(Nanos::from_millis(1));
        }
        fakekernel::sleep(Nanos::from_millis(900));
        assert_eq!(denied() - before, 1, "there is room for no other");
        fakekernel::sleep(Nanos::from_millis(600));
        assert_eq!(denied() - before, 8, "of 12, with two that are lost and two that are slow");
        bench.no_faults();
    });
}

#[test]
fn hosts_that_hear_of_a_new_subnet_manager_twice_join_again_once() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let cluster = Cluster::new(bench, HOSTS);
        bench.count(Attribute::MC_MEMBER_RECORD, Method::SET);
        let members = || -> usize {
            let members =
                |sm: &sm::Sm| sm.sa().memberships().map(|(_, member, _)| member).collect::<BTreeSet<_>>();
            bench.sm.inspect(members).len()
        };
        another_sm(bench);
        bench.wait_for("members again", Nanos::from_secs(1), || members() == HOSTS as usize);
        fakekernel::sleep(Nanos::from_secs(5));
        assert_eq!(bench.faulted(), HOSTS, "joins, of one group by each host");
        bench.no_faults();
        cluster.end();
    });
}
