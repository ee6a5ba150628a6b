//! A second subnet behind a router: what a driver makes of it, with the paths that illumos's `ibcm` gives, and with the paths that it refuses.

mod rig;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use fabric::wire::Packet;
use fabric::{Direction, Gid, Guid, Nanos, Reason, Tap};
use ibdlab::campaign::Search;
use ibdlab::desk::rehearsal::{Rehearsal, rehearse};
use ibdlab::report::SmKind;
use ibdlab::run::run;
use ibdlab::scenario::{RouterSpec, Scenario, load};

fn scenario() -> Scenario {
    load(&rig::root().join("scenarios/two-subnets.toml")).expect("a scenario")
}

fn rehearsed(scenario: Scenario, script: impl FnOnce(&Rehearsal) -> Result<()> + Send + 'static) {
    let root = tempfile::tempdir().expect("a directory");
    let done = rehearse(scenario, &rig::proto(), 1, root.path().to_owned(), script);
    done.unwrap_or_else(|why| panic!("{why:#}"));
}

#[test]
fn hosts_of_two_subnets_talk_through_a_router() {
    let file = rig::root().join("scenarios/two-subnets.toml");
    for seed in 1..=4 {
        assert_eq!(rig::one(&file, seed), Ok(()), "seed {seed}");
    }
}

/// The line that a driver's log has about a neighbour of another subnet.
const LINE: &str =
    "no path to fec0000000000002:0002c90300001021: IBTF finds none to another InfiniBand subnet";

/// illumos's `ibcm` asks the SA for no path to another prefix (`ibcm_get_single_pathrec`): a neighbour behind the router answers ARP, which comes by
/// multicast, and is not reached. Before the mend nothing said why: the counter's text blamed the SA, which was not asked.
#[test]
fn a_neighbour_behind_a_router_is_not_reached_and_the_log_says_why() {
    let mut scenario = scenario();
    scenario.fabric.router = Some(RouterSpec::default());
    rehearsed(scenario, |desk| {
        let alice = desk.host("alice");
        let (said, code) = desk.run("alice", "ping 192.168.7.3");
        ensure!(code == 0, "of its own subnet: {said}");
        let (said, code) = desk.run("alice", "ping -s 192.168.7.2 56 20");
        ensure!(code != 0 && said.contains("0 packets received"), "{said}");
        let log: Vec<String> = alice.kernel.genunix().messages().into_iter().map(|line| line.text).collect();
        ensure!(log.iter().any(|line| line.contains(LINE)), "{log:?}");
        let lines = log.iter().filter(|line| line.contains(LINE)).count();
        ensure!(lines <= 21, "once a second at most: {log:?}");
        // Nothing came to the router that it could not pass on.
        let drops = desk.infiniband.fabric().drops();
        ensure!(drops.is_empty(), "{drops:?}");
        Ok(())
    });
}

/// What stays in the subnet has no GRH; what goes through the router has one, with the SA's hop limit.
#[test]
fn packets_through_a_router_have_the_hops_that_the_sa_says() {
    rehearsed(scenario(), |desk| {
        let (fabric, frames) = (desk.infiniband.fabric(), Arc::new(Frames::default()));
        fabric.set_tap(Some(frames.clone()));
        for to in ["192.168.7.2", "192.168.7.3", "192.168.7.4"] {
            let (said, code) = desk.run("alice", &format!("ping {to}"));
            ensure!(code == 0, "{said}");
        }
        fabric.set_tap(None);
        let seen = frames.0.lock().expect("no test panics with it").clone();
        let port = desk.host("alice").port;
        let sent = |seen: &Seen| seen.port == port && seen.direction == Direction::ToSwitch;
        let beyond = |seen: &Seen| seen.dgid.is_some_and(|gid| gid.prefix == 0xfec0_0000_0000_0002);
        let hops: BTreeSet<u8> =
            seen.iter().filter(|one| sent(one) && beyond(one)).map(|one| one.hop_limit).collect();
        ensure!(hops == BTreeSet::from([255]), "{hops:?}");
        let bob = desk.host("bob").port;
        let came = |seen: &Seen| seen.port == bob && seen.direction == Direction::FromSwitch && beyond(seen);
        let hops: BTreeSet<u8> = seen.iter().filter(|one| came(one)).map(|one| one.hop_limit).collect();
        ensure!(hops == BTreeSet::from([254]), "{hops:?}");
        let local = seen.iter().filter(|one| sent(one) && one.dgid.is_none()).count();
        ensure!(local > 0, "carol is reached without a GRH");
        Ok(())
    });
}

/// Random fabrics, some with a router.
#[test]
fn random_fabrics_of_two_subnets_end_well() {
    let fabrics = (0..rig::some_of(2_000)).map(|index| Search::Fabrics(SmKind::Embedded).scenario(1, index));
    let mut with_a_router = 0;
    for scenario in fabrics.filter(|scenario| scenario.fabric.router.is_some()) {
        with_a_router += 1;
        let name = scenario.name.clone();
        let report =
            run(scenario, rig::options(1), |_| {}).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let failed = report.steps.iter().find(|step| !step.ok);
        assert!(failed.is_none(), "{name}: {failed:?}");
    }
    assert!(with_a_router > 3, "{with_a_router}");
}

/// A unicast frame at a port.
#[derive(Clone, Copy)]
struct Seen {
    port: Guid,
    direction: Direction,
    dgid: Option<Gid>,
    hop_limit: u8,
}

#[derive(Default)]
struct Frames(Mutex<Vec<Seen>>);

impl Tap for Frames {
    fn frame(&self, _at: Nanos, port: Guid, direction: Direction, _refused: Option<Reason>, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        if packet.lrh.dlid.is_unicast() {
            let (dgid, hop_limit) = packet.grh.map(|grh| (grh.dgid, grh.hop_limit)).unzip();
            let hop_limit = hop_limit.unwrap_or_default();
            self.0.lock().expect("no test panics with it").push(Seen { port, direction, dgid, hop_limit });
        }
    }
}
