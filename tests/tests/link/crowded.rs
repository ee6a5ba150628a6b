//! More groups at once than the link has room for, and more than the adapter has places for.

use fabric::HcaConfig;
use fakekernel::Nanos;
use lab_gldv3::{Offload, ReceiveQueue, Stream};

use crate::bench::{Bench, PLAIN, Setup, group};

/// Until a join is answered, and the switch has its route.
const PAUSE: Nanos = Nanos::from_millis(10);
const GROUP: u32 = 0x0006_0001;
/// Groups that beta is in at a time: the SM has MLIDs for 1,024.
const WINDOW: u32 = 1_000;

fn many_places(hca: &mut HcaConfig) {
    hca.attr.max_mcg = 2 * WINDOW;
}

/// Beta joins so many groups, the one after the other, and alpha sends to each as soon as there is one. How many packets arrive.
fn reached(bench: &Bench, (alpha, beta, heard): &(Stream, Stream, ReceiveQueue), groups: u32) -> u32 {
    let mut arrived = 0;
    for n in 0..groups {
        beta.enable_multicast(group(GROUP + n)).unwrap();
        if n >= WINDOW {
            beta.disable_multicast(group(GROUP + n - WINDOW)).unwrap();
        }
        fakekernel::sleep(PAUSE);
        // The switch has no route for the first one yet.
        for _ in 0..2 {
            alpha.transmit(group(GROUP + n), &[n as u8; 60], Offload::default()).unwrap();
            fakekernel::sleep(PAUSE);
        }
        let heard = std::iter::from_fn(|| heard.try_next());
        arrived += u32::from(heard.filter(|packet| packet.payload == [n as u8; 60]).count() > 0);
    }
    bench.settle();
    arrived
}

/// IPv6 asks for each neighbour in a group of its own. Before, a link kept 960 groups that it had sent to for 15 to 30 minutes, and reached
/// no other one meanwhile: 960 of 1,000 packets arrived, and nothing said why.
#[test]
fn the_group_of_each_neighbour_is_reached_however_many_were_before() {
    Setup { hca: many_places, seeds: 1, ..Setup::default() }.run(|bench| {
        let talking = bench.talking(PLAIN);
        let groups = if std::env::var_os("WHOLE").is_some() { 20_000 } else { WINDOW };
        let questions = || bench.alpha.calls("ibt_join_mcg") + bench.alpha.calls("ibt_leave_mcg");
        let before = questions();
        assert_eq!(reached(bench, &talking, groups), groups);
        // A join of each, and a leave of each that gave way; a group that is gone is left as well.
        let asked = questions() - before;
        assert!(asked <= u64::from(2 * groups), "{asked} questions for {groups} groups");
        assert_eq!(bench.alpha.named("groups", "no_room"), 0);
        let full = |line: &String| line.contains("too many multicast groups");
        assert!(!bench.alpha.console().iter().any(full));
    });
}
