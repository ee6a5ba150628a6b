//! Connections of a link whose P_Key is taken away, however far the link and they have come.

use fabric::PKey;
use fakekernel::Nanos;
use sm::Attribute;
use sm::fault::FaultAction;

use super::guest::Guest;
use super::opened::{connected, pattern, send};
use super::{LEGACY, counted, counted_by, holds};
use crate::bench::{Bench, Host, PLAIN, address_of};

const SECOND: Nanos = Nanos::from_secs(1);

/// The port of a host is in no partition of the link's any more.
fn take_away(bench: &Bench, host: &Host) {
    bench.world.fabric().set_pkeys(host.port(), &[PKey(0x8002), PKey(0x7fff)]).expect("its port");
}

fn give_back(bench: &Bench, host: &Host) {
    bench.world.fabric().set_pkeys(host.port(), &[PKey(0xffff), PKey(0x7fff)]).expect("its port");
}

#[test]
fn connections_end_though_the_link_listens_without_its_group_and_whether_or_not_it_has_looked_at_them() {
    for looked in [true, false] {
        holds_with(looked);
    }
}

fn holds_with(looked: bool) {
    crate::bench::Setup::default().run(move |bench| {
        bench.beta.set("_ibd_rc_accept", "1").expect("it is closed");
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        let (beta, _heard) = bench.beta.open(PLAIN);
        fakekernel::sleep(SECOND);
        let qpn = u32::from_be_bytes(address_of(&beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + i64::from(qpn), 0x99, 65_524);
        guest.run("probe_connect", 0);
        if looked {
            bench.settle();
        }
        take_away(bench, &bench.beta);
        bench.wait_for("it is over", Nanos::from_secs(60), || counted(bench, "ended") == 1);
        bench.no_faults();
        give_back(bench, &bench.beta);
        guest.leave();
    });
}

#[test]
fn a_connection_that_is_told_to_stand_after_that_is_closed() {
    holds(|bench| {
        let (alpha, _, beta, _) = connected(bench, PLAIN);
        lab_ibtf::set_telling_time(&bench.alpha.kernel, Some(Nanos::from_secs(2)));
        send(&alpha, &beta, &pattern(20_000));
        fakekernel::sleep(Nanos::from_millis(100));
        assert_eq!(lab_ibtf::connected(&bench.alpha.kernel).established, 1);
        take_away(bench, &bench.alpha);
        fakekernel::sleep(Nanos::from_secs(3));
        lab_ibtf::set_telling_time(&bench.alpha.kernel, None);
        bench.wait_for("it is closed", Nanos::from_secs(10), || counted_by(&bench.alpha, "closed") == 1);
        give_back(bench, &bench.alpha);
    });
}

#[test]
fn a_link_that_stops_while_its_queue_pair_is_freed_for_that_leaves_nothing_behind() {
    for after in (200..=2_000).step_by(300) {
        let test = move |bench: &Bench| {
            let (alpha, _, beta, _) = connected(bench, PLAIN);
            send(&alpha, &beta, &pattern(20_000));
            bench.settle();
            assert_eq!(counted_by(&bench.alpha, "opened"), 1);
            let slow = Nanos::from_millis(200);
            lab_ibtf::set_command_time(&bench.alpha.kernel, Some((slow, slow)));
            take_away(bench, &bench.alpha);
            fakekernel::sleep(Nanos::from_millis(after));
            drop((alpha, beta));
            lab_ibtf::set_command_time(&bench.alpha.kernel, None);
            let closes = || bench.alpha.calls("ibt_close_hca");
            bench.wait_for("the adapter is closed for connections", Nanos::from_secs(30), || closes() == 1);
            give_back(bench, &bench.alpha);
        };
        crate::bench::Setup { seeds: 2, ..crate::bench::Setup::default() }.run(test);
    }
}
