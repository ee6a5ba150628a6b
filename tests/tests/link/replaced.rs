//! A link whose queue pair is replaced: it broke, or the P_Key moved. Nobody else has to do anything about it.

use fabric::{PKey, Qpn};
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Stream};
use sm::fault::FaultAction;
use sm::partition::GroupParams;
use sm::{Attribute, Lid, MtuCode};

use crate::announced::{Heard, addresses};
use crate::bench::{Bench, PLAIN, Setup, address_of, group, holds, partition};
use crate::connections::opened::set_connected;
use crate::rings::{BOTH, rings};

const SECOND: Nanos = Nanos::from_secs(1);
const GROUP: u32 = 0x0008_0001;

fn adapter(bench: &Bench) -> fabric::Hca {
    bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's")
}

fn qpn(address: LinkAddress) -> Qpn {
    let LinkAddress([_, a, b, c, ..]) = address;
    Qpn::truncating(u32::from_be_bytes([0, a, b, c]))
}

/// What may happen to alpha's queue pair.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Broken,
    PKeyMoved,
}

impl Blow {
    fn falls(self, bench: &Bench, alpha: &Stream) {
        match self {
            Self::Broken => {
                assert!(adapter(bench).break_qpn(qpn(address_of(alpha))), "it has another number")
            }
            Self::PKeyMoved => {
                let table = [PKey(0x7fff), PKey(0), PKey(0xffff)];
                bench.world.fabric().set_pkeys(bench.alpha.port(), &table).expect("alpha's port");
            }
        }
        let deadline = bench.machine.now() + SECOND;
        let was = bench.machine.now();
        while bench.alpha.state() == LinkState::Up && bench.machine.now() < was + Nanos::from_millis(20) {
            fakekernel::sleep(Nanos::from_micros(20));
        }
        while bench.alpha.state() != LinkState::Up {
            assert!(bench.machine.now() < deadline, "{self:?}: {:?}", bench.alpha.console());
            fakekernel::sleep(Nanos::from_micros(100));
        }
    }
}

fn send(from: &Stream, to: LinkAddress, bytes: &[u8]) {
    from.transmit(to, bytes, Offload::default()).expect("the stream is bound");
}

/// How long it takes until a packet that is sent every millisecond is heard.
fn heard_after(bench: &Bench, from: &Stream, to: LinkAddress, heard: &ReceiveQueue) -> Nanos {
    let before = bench.machine.now();
    loop {
        send(from, to, b"after it");
        fakekernel::sleep(Nanos::from_millis(1));
        let took = bench.machine.now().since(before);
        if std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"after it") {
            return took;
        }
        assert!(took < SECOND, "not heard: {:?}", bench.alpha.console());
    }
}

/// Both links up and in a group that either has sent to; what alpha hears, and what beta.
fn in_a_group(bench: &Bench) -> (Stream, ReceiveQueue, Stream, ReceiveQueue) {
    let (alpha, at_alpha) = bench.alpha.open_up(PLAIN);
    let (beta, at_beta) = bench.beta.open_up(PLAIN);
    for stream in [&alpha, &beta] {
        stream.enable_multicast(group(GROUP)).expect("a group");
    }
    bench.settle();
    for (from, to) in [(&alpha, &beta), (&beta, &alpha)] {
        send(from, group(GROUP), b"before");
        send(from, address_of(to), b"before");
    }
    bench.settle();
    assert_eq!([&at_alpha, &at_beta].map(|heard| std::iter::from_fn(|| heard.try_next()).count()), [2, 2]);
    (alpha, at_alpha, beta, at_beta)
}

const SOON: Nanos = Nanos::from_millis(3);

fn groups_go_on_without_a_subnet_manager(bench: &Bench, blow: Blow) {
    let (alpha, at_alpha, beta, at_beta) = in_a_group(bench);
    bench.sm.stop();
    blow.falls(bench, &alpha);
    let took = heard_after(bench, &beta, group(GROUP), &at_alpha);
    assert!(took <= SOON, "{blow:?}: alpha hears its group after {took}");
    let took = heard_after(bench, &alpha, group(GROUP), &at_beta);
    assert!(took <= SOON, "{blow:?}: alpha reaches its group after {took}");
    let took = heard_after(bench, &alpha, address_of(&beta), &at_beta);
    assert!(took <= SOON, "{blow:?}: alpha reaches beta after {took}");
    let took = heard_after(bench, &beta, address_of(&alpha), &at_alpha);
    assert!(took <= SOON, "{blow:?}: beta reaches alpha, where it is now, after {took}");
}

#[test]
fn a_queue_pair_that_breaks_without_a_subnet_manager_leaves_its_groups_as_they_are() {
    holds(|bench| groups_go_on_without_a_subnet_manager(bench, Blow::Broken));
}

#[test]
fn a_p_key_that_moves_without_a_subnet_manager_leaves_groups_as_they_are() {
    holds(|bench| groups_go_on_without_a_subnet_manager(bench, Blow::PKeyMoved));
}

/// Two hosts that talk, and what alpha's IP is told from now on.
fn talking(bench: &Bench) -> (Stream, Stream, ReceiveQueue, Heard) {
    let (alpha, beta, heard) = bench.talking(PLAIN);
    bench.settle();
    let told = Heard::of(&alpha);
    (alpha, beta, heard, told)
}

fn tells_each_address_once(bench: &Bench, blows: &[Blow]) {
    let (alpha, _beta, _, told) = talking(bench);
    for blow in blows {
        let before = address_of(&alpha);
        blow.falls(bench, &alpha);
        bench.settle();
        let now = address_of(&alpha);
        assert_ne!(now, before, "{blow:?}");
        assert_eq!(addresses(&told.take()), [now], "{blow:?}");
        fakekernel::sleep(Nanos::from_secs(11));
    }
}

#[test]
fn a_link_tells_its_new_address_once_whenever_its_queue_pair_breaks_and_when_its_p_key_moves() {
    holds(|bench| {
        tells_each_address_once(bench, &[Blow::Broken, Blow::PKeyMoved, Blow::Broken, Blow::Broken]);
    });
}

#[test]
fn a_link_in_connected_mode_tells_its_new_address_once_and_never_one_without_the_flag() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        tells_each_address_once(bench, &[Blow::Broken, Blow::PKeyMoved, Blow::Broken, Blow::Broken]);
    });
}

#[test]
fn a_link_with_rings_tells_its_new_address_once_too() {
    rings(BOTH, 4, |bench| tells_each_address_once(bench, &[Blow::Broken, Blow::PKeyMoved, Blow::Broken]));
}

/// The subnet manager starts again with a broadcast group of other parameters.
fn another_group(bench: &Bench, params: GroupParams) {
    bench.sm.stop();
    bench.sm.set_partitions(vec![partition(false).with_ipoib(params)]);
    bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
}

/// Either reaches the other at its new address after the group has changed.
fn is_reached_with(bench: &Bench, params: GroupParams) {
    let (alpha, at_alpha) = bench.alpha.open_up(PLAIN);
    let (beta, at_beta) = bench.beta.open_up(PLAIN);
    bench.settle();
    let (told, before) = (Heard::of(&alpha), [&alpha, &beta].map(address_of));
    another_group(bench, params);
    bench.wait_for("both have another queue pair", Nanos::from_secs(60), || {
        before.iter().zip([&alpha, &beta]).all(|(before, link)| address_of(link) != *before)
    });
    for (from, to, heard) in [(&alpha, &beta, &at_beta), (&beta, &alpha, &at_alpha)] {
        bench.wait_for("a packet arrives", Nanos::from_secs(60), || {
            send(from, address_of(to), b"changed");
            bench.settle();
            std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"changed")
        });
    }
    assert_eq!(addresses(&told.take()), [address_of(&alpha)]);
}

#[test]
fn a_link_goes_on_with_another_queue_pair_when_its_q_key_changes() {
    holds(|bench| {
        is_reached_with(bench, GroupParams { q_key: sm::QKey(0x1234), ..GroupParams::default() });
    });
}

#[test]
fn a_link_goes_on_with_another_queue_pair_when_its_mtu_changes() {
    fn large(config: &mut fabric::HcaConfig) {
        config.ports[0].mtu = fabric::Mtu::M4096;
    }
    Setup { hca: large, ..Setup::default() }.run(|bench| {
        is_reached_with(bench, GroupParams { mtu: MtuCode::B4096, ..GroupParams::default() });
        let (alpha, _) = bench.alpha.open(PLAIN);
        assert_eq!(alpha.details().max_sdu, 4_092);
    });
}

fn without(bench: &Bench, call: &'static str, plan: FaultPlan) {
    bench.alpha.kernel.set_fault(FaultKind(call), Some(bench.alpha.driver().name()), plan);
}

#[test]
fn a_queue_pair_that_breaks_again_soon_is_replaced_again() {
    holds(|bench| {
        let (alpha, beta, heard, told) = talking(bench);
        Blow::Broken.falls(bench, &alpha);
        let second = address_of(&alpha);
        assert!(adapter(bench).break_qpn(qpn(second)));
        bench.settle();
        bench.wait_for("up", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
        bench.settle();
        let third = address_of(&alpha);
        assert_ne!(third, second);
        assert_eq!(addresses(&told.take()), [second, third]);
        assert!(heard_after(bench, &alpha, address_of(&beta), &heard) <= SOON);
    });
}

#[test]
fn an_adapter_that_changes_no_q_key_of_a_queue_pair_has_links_all_the_same() {
    holds(|bench| {
        bench.settle();
        without(bench, "ibt_modify_ud_channel", FaultPlan::From(0));
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        bench.settle();
        assert!(heard_after(bench, &alpha, address_of(&beta), &heard) <= Nanos::from_millis(20));
        assert!(adapter(bench).break_qpn(qpn(address_of(&alpha))));
        bench.settle();
        bench.wait_for("up again", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
        assert!(heard_after(bench, &alpha, address_of(&beta), &heard) <= Nanos::from_millis(20));
    });
}

/// The place of alpha's P_Key in its port's table.
fn p_key_at(bench: &Bench, index: usize) {
    let mut table = [PKey(0); 3];
    table[index] = PKey(0xffff);
    bench.world.fabric().set_pkeys(bench.alpha.port(), &table).expect("alpha's port");
}

/// The P_Key moves, a send tells that the queue pair is broken while the port is asked about that, and the P_Key comes back after
/// `for_us`; each command takes the adapter a millisecond.
fn p_key_moves_for(bench: &Bench, alpha: &Stream, to: LinkAddress, for_us: u64) {
    let slow = Nanos::from_millis(1);
    lab_ibtf::set_command_time(&bench.alpha.kernel, Some((slow, slow)));
    p_key_at(bench, 1);
    fakekernel::sleep(Nanos::from_micros(100));
    assert!(adapter(bench).break_qpn(qpn(address_of(alpha))));
    send(alpha, to, b"fails");
    fakekernel::sleep(Nanos::from_micros(for_us));
    p_key_at(bench, 0);
    lab_ibtf::set_command_time(&bench.alpha.kernel, None);
    bench.settle();
}

#[test]
fn a_queue_pair_that_was_planned_before_its_p_key_moved_sends_once_that_is_back() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        bench.settle();
        for half_commands in 1..40 {
            p_key_moves_for(bench, &alpha, address_of(&beta), 500 * half_commands);
            bench.wait_for("up again", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
            heard_after(bench, &alpha, address_of(&beta), &heard);
            // The next one to break is the first in a while.
            fakekernel::sleep(Nanos::from_secs(11));
        }
    });
}

/// The places of the P_Key table of a host's port.
fn p_keys(bench: &Bench, host: &crate::bench::Host, table: [u16; 2]) {
    bench.world.fabric().set_pkeys(host.port(), &table.map(PKey)).expect("its port");
}

/// Two links that talk, and whose place in the P_Key tables another partition of both hosts gets.
fn another_partition_gets_the_place(bench: &Bench, bytes: usize) {
    const OTHER: u16 = 0x8002;
    let (alpha, at_alpha) = bench.alpha.open_up(PLAIN);
    let (beta, at_beta) = bench.beta.open_up(PLAIN);
    bench.settle();
    let heard = || [&at_alpha, &at_beta].map(|heard| std::iter::from_fn(|| heard.try_next()).count());
    let ways = [(&alpha, address_of(&beta)), (&beta, address_of(&alpha))];
    let talk = || {
        ways.iter().for_each(|(from, to)| send(from, *to, &vec![7; bytes]));
        bench.settle();
        heard()
    };
    assert_eq!([talk(), talk()], [[1, 1]; 2]);
    for host in [&bench.alpha, &bench.beta] {
        p_keys(bench, host, [OTHER, 0x7fff]);
    }
    let goes_down = || [&bench.alpha, &bench.beta].iter().all(|host| host.state() == LinkState::Down);
    bench.wait_for("down", SECOND, goes_down);
    bench.settle();
    assert_eq!(talk(), [0, 0], "they are not in that partition");
    for host in [&bench.alpha, &bench.beta] {
        p_keys(bench, host, [0xffff, 0x7fff]);
    }
    bench.wait_for("up again", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
    heard_after(bench, &beta, address_of(&alpha), &at_alpha);
}

#[test]
fn a_link_whose_p_key_is_taken_away_is_in_no_partition_that_gets_its_place() {
    holds(|bench| another_partition_gets_the_place(bench, 1_000));
}

#[test]
fn connections_of_a_link_whose_p_key_is_taken_away_are_in_no_partition_that_gets_its_place() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        set_connected(&bench.beta, true);
        another_partition_gets_the_place(bench, 20_000);
    });
}

#[test]
fn a_neighbour_with_a_new_queue_pair_is_reached_at_once_while_the_administrator_tells_no_path() {
    holds(|bench| {
        let (alpha, at_alpha) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        send(&beta, address_of(&alpha), b"before");
        bench.settle();
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        let asked = bench.beta.counter("sa_paths");
        Blow::Broken.falls(bench, &alpha);
        assert!(heard_after(bench, &beta, address_of(&alpha), &at_alpha) <= SOON);
        assert_eq!(bench.beta.counter("sa_paths"), asked, "its port is known");
        bench.no_faults();
        for _ in 0..60 {
            send(&beta, address_of(&alpha), b"in use");
            fakekernel::sleep(SECOND);
        }
        assert_eq!(bench.beta.counter("sa_paths"), asked + 1, "the administrator is asked in the background");
    });
}
