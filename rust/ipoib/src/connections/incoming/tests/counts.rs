//! What is counted instead of walked through.

use super::*;
use crate::connections::incoming::room::LidCheck;
use crate::connections::incoming::tally::{Count, Port};

/// What a walk through all connections finds.
fn walked(machine: &Machine) -> (Count, u32, Vec<(Port, Count)>) {
    let (mut all, mut marked, mut ports) = (Count::default(), 0, Vec::<(Port, Count)>::new());
    let mut from = 0;
    while let Some((place, id)) = machine.peers.next_from(from) {
        from = place + 1;
        let identity = machine.peers.key(id).expect("a neighbour");
        for one in machine.peers.get(id).expect("a neighbour").all() {
            all.add(one);
            marked += u32::from(one.is_marked_everywhere());
            let port = Port::new(identity, one.lid, one.check);
            match ports.iter_mut().find(|(known, _)| *known == port) {
                Some((_, count)) => count.add(one),
                None => {
                    let mut count = Count::default();
                    count.add(one);
                    ports.push((port, count));
                }
            }
        }
    }
    (all, marked, ports)
}

/// The counts are what a walk finds.
pub(super) fn check(machine: &Machine) {
    let (all, marked, ports) = walked(machine);
    assert_eq!((machine.tally.all(), machine.tally.marked()), (all, marked));
    for (port, count) in ports {
        assert_eq!(machine.tally.of_port(&port), count, "{port:?}");
        assert_eq!(machine.tally.members(&port).all().count(), count.held as usize);
    }
}

fn visits(machine: &Machine) -> usize {
    machine.peers.visits() + machine.tally.visits()
}

/// The most places that one REQ of so many has looked at.
fn most_visits(
    machine: &mut Machine,
    requests: u32,
    check: impl Fn(&LinkAddr, u16) -> LidCheck + Copy,
    lid: impl Fn(u32) -> u16,
) -> usize {
    (0..requests)
        .map(|n| {
            let before = visits(machine);
            let peer = LinkAddr::unicast(Qpn::new(2 + n % 5_000).unwrap(), station(u64::from(n / 3)).gid());
            let _ = machine.requested(&peer, lid(n), check, at(1));
            visits(machine) - before
        })
        .max()
        .unwrap_or(0)
}

/// Each looked at 1,536 places, refused or not.
#[test]
fn a_flood_of_reqs_costs_a_few_looks_each() {
    let matches = |_: &LinkAddr, _: u16| LidCheck::Matches;
    let differs = |_: &LinkAddr, _: u16| LidCheck::Differs;
    for kind in [nobody_knows, matches, differs] {
        let mut machine = machine(1_536, 1_536);
        let most = most_visits(&mut machine, 80_000, kind, |n| n as u16);
        assert!(most < 1_000, "{most} places for one REQ");
        check(&machine);
        // Of one port.
        let most = most_visits(&mut machine, 1_000, kind, |_| 7);
        assert!(most < 1_000, "{most} places for one REQ");
    }
}

/// All places are taken by connections in use that nobody vouches for: the first one that the SA vouches for makes one of them go.
#[test]
fn one_that_is_less_is_found_though_few_are_looked_at() {
    let mut machine = machine(1_536, 1_536);
    for n in 0..1_344 {
        up(&mut machine, &station(n), at(0));
    }
    let less = |identity: &LinkAddr, _: u16| {
        if identity.gid() == station(900).gid() { LidCheck::Unknown } else { LidCheck::Matches }
    };
    // It is less from now on, as it asked when the SA had not spoken.
    let one = machine.peers.find(&station(900)).expect("it is there");
    machine.edit(one, |peer| peer.all_mut().for_each(|one| one.check = LidCheck::Unknown));
    let tries = (1..).find(|_| {
        assert_eq!(machine.requested(&station(2_000), 1, less, at(1)), Err(Refusal::NoRoom));
        !dismissed_of_busy(&mut machine, at(1)).is_empty()
    });
    assert!(tries <= Some(1_344 / 16 + 1), "{tries:?} tries");
}
