//! What a link tells the MAC layer about itself: what has changed, and nothing else. Whoever is told of an address, changed or not,
//! takes the interface's addresses down and up again.

use std::sync::{Arc, Mutex};

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Notification, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid};

use crate::bench::{Bench, PLAIN, Setup, address_of, holds};

const SECOND: Nanos = Nanos::from_secs(1);

/// What a stream is told from now on.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<Notification>>>);

impl Heard {
    pub fn of(stream: &Stream) -> Self {
        let heard = Self::default();
        let into = heard.clone();
        stream.on_notify(move |notification| into.0.lock().expect("not poisoned").push(notification));
        heard.take();
        heard
    }

    pub fn take(&self) -> Vec<Notification> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

/// An open link that is up and has told all there is to tell.
fn up(bench: &Bench) -> (Stream, Heard) {
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    bench.settle();
    let heard = Heard::of(&alpha);
    (alpha, heard)
}

fn wait_for(bench: &Bench, what: &str, state: LinkState) {
    bench.wait_for(what, SECOND, || bench.alpha.state() == state);
}

#[test]
fn a_port_that_goes_down_and_comes_back_tells_carrier_and_nothing_else() {
    holds(|bench| {
        let (_alpha, heard) = up(bench);
        bench.world.set_cable(bench.alpha.port(), false);
        wait_for(bench, "down", LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        wait_for(bench, "up again", LinkState::Up);
        bench.settle();
        let speed = bench.alpha.statistics().ifspeed;
        assert_eq!(heard.take(), [Notification::LinkDown, Notification::LinkUp { speed }]);
    });
}

#[test]
fn a_subnet_manager_that_starts_again_is_nothing_to_tell() {
    holds(|bench| {
        let (_alpha, heard) = up(bench);
        bench.sm.stop();
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
        fakekernel::sleep(SECOND);
        assert_eq!((bench.alpha.state(), heard.take()), (LinkState::Up, Vec::new()));
    });
}

/// Ports whose codes end below what they do: the administrator is asked how fast they are.
fn fast(test: fn(&Bench)) {
    fn fdr(config: &mut fabric::HcaConfig) {
        config.ports[0].speed = fabric::LinkSpeed::Fdr;
    }
    Setup { hca: fdr, ..Setup::default() }.run(test);
}

#[test]
fn a_speed_that_is_known_later_is_told_without_the_address() {
    fast(|bench| {
        bench.settle();
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        let (_alpha, heard) = up(bench);
        let before = bench.alpha.statistics().ifspeed;
        bench.no_faults();
        bench.world.set_cable(bench.alpha.port(), false);
        wait_for(bench, "down", LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("its speed", SECOND, || bench.alpha.statistics().ifspeed != before);
        bench.settle();
        let told = heard.take();
        let carrier =
            |told: &Notification| matches!(told, Notification::LinkDown | Notification::LinkUp { .. });
        assert!(told.iter().all(carrier), "{told:?}");
    });
}

/// What the subnet administrator does while a link is opened.
#[derive(Clone, Copy, Debug)]
enum Administrator {
    Answers,
    Silent,
    Dead,
}

impl Administrator {
    fn turns(self, bench: &Bench) {
        match self {
            Self::Answers => {}
            Self::Silent => bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent),
            Self::Dead => bench.sm.stop(),
        }
    }

    fn turns_back(self, bench: &Bench) {
        match self {
            Self::Answers => {}
            Self::Silent => bench.no_faults(),
            Self::Dead => bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16)),
        }
    }
}

/// Opens alpha's link: its stream, what it hears of itself, and how long opening and binding took.
fn open(bench: &Bench) -> (Stream, Heard, Nanos) {
    let before = bench.machine.now();
    let (alpha, _) = bench.alpha.open(PLAIN);
    let took = bench.machine.now().since(before);
    let bound = address_of(&alpha);
    // What was told before the bind was answered is on its way to whoever asked to be told by then.
    fakekernel::sleep(Nanos::from_millis(100));
    assert_eq!(address_of(&alpha), bound);
    let heard = Heard::of(&alpha);
    (alpha, heard, took)
}

pub fn addresses(told: &[Notification]) -> Vec<LinkAddress> {
    let address = |told: &Notification| match told {
        Notification::Address(address) => Some(*address),
        _ => None,
    };
    told.iter().filter_map(address).collect()
}

/// Threads change often, and each command takes the adapter a time of its own.
fn restless(config: &mut fakekernel::Config) {
    (config.switch_one_in, config.preempt_one_in, config.preempt_at_most) = (4, 50, Nanos::from_millis(2));
}

/// Opens alpha's link, and closes it once it is up; the address it had throughout.
fn opened_and_up(bench: &Bench, administrator: Administrator) -> LinkAddress {
    administrator.turns(bench);
    let (alpha, heard, took) = open(bench);
    let bound = address_of(&alpha);
    assert!(took < Nanos::from_millis(200), "{administrator:?}: binding took {took}");
    assert_ne!(bound.0[..4], [0; 4], "{administrator:?}: no queue pair");
    fakekernel::sleep(Nanos::from_millis(20));
    administrator.turns_back(bench);
    bench.wait_for("up", Nanos::from_secs(300), || bench.alpha.state() == LinkState::Up);
    assert_eq!(address_of(&alpha), bound, "{administrator:?}");
    assert_eq!(addresses(&heard.take()), [], "{administrator:?}");
    bound
}

#[test]
fn the_answer_to_a_bind_has_the_address_for_good_with_and_without_an_administrator() {
    Setup { seeds: 1_000, machine: restless, ..Setup::default() }.run(|bench| {
        bench.settle();
        lab_ibtf::set_command_time(&bench.alpha.kernel, Some((Nanos::ZERO, Nanos::from_millis(10))));
        let [answers, silent, dead] = [Administrator::Answers, Administrator::Silent, Administrator::Dead]
            .map(|administrator| opened_and_up(bench, administrator));
        assert!(answers != silent && silent != dead, "each opening has queue pairs of its own");
    });
}

/// The bound within which a link is opened that cannot have its address: a second, and what a clock tick and the rest take.
const BOUND: Nanos = Nanos::from_millis(1_050);

fn gid_of(address: LinkAddress) -> [u8; 16] {
    address.0[4..].try_into().expect("sixteen bytes")
}

fn without_a_queue_pair(bench: &Bench, open: (Stream, Heard, Nanos)) -> (Stream, Heard) {
    let (alpha, heard, took) = open;
    assert!((Nanos::from_millis(900)..BOUND).contains(&took), "binding took {took}");
    assert_eq!(bench.alpha.state(), LinkState::Down);
    let address = address_of(&alpha);
    assert_eq!(address.0[..4], [0; 4], "{address:x?}");
    assert_eq!(address.0[12..], bench.alpha.port().0.to_be_bytes(), "{address:x?}");
    (alpha, heard)
}

#[test]
fn a_link_whose_p_key_is_missing_is_opened_with_its_gid_and_told_its_number_when_the_p_key_comes() {
    holds(|bench| {
        bench.settle();
        let fabric = bench.world.fabric();
        fabric.set_pkeys(bench.alpha.port(), &[fabric::PKey(0x8123)]).expect("alpha's port");
        let (alpha, heard) = without_a_queue_pair(bench, open(bench));
        let gid = gid_of(address_of(&alpha));
        bench.sm.stop();
        fabric.set_pkeys(bench.alpha.port(), &[fabric::PKey(0x8123), fabric::PKey(0xffff)]).expect("alpha's");
        bench.settle();
        let known = address_of(&alpha);
        assert_eq!((gid_of(known), addresses(&heard.take())), (gid, vec![known]));
        assert_ne!(known.0[..4], [0; 4], "it has a queue pair, though no subnet manager");
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
        bench.wait_for("up", Nanos::from_secs(300), || bench.alpha.state() == LinkState::Up);
        // The manager has put the P_Key where it always does: another queue pair had to be made.
        let now = address_of(&alpha);
        assert_eq!((gid_of(now), addresses(&heard.take())), (gid, vec![now]));
    });
}

#[test]
fn a_port_that_does_not_answer_keeps_nobody_from_opening_its_link_for_more_than_a_second() {
    holds(|bench| {
        bench.settle();
        let (least, most) = (Nanos::from_secs(30), Nanos::from_secs(30));
        lab_ibtf::set_command_time(&bench.alpha.kernel, Some((least, most)));
        let (alpha, heard, took) = open(bench);
        lab_ibtf::set_command_time(&bench.alpha.kernel, None);
        assert!(took < BOUND, "binding took {took}");
        bench.wait_for("up", Nanos::from_secs(300), || bench.alpha.state() == LinkState::Up);
        assert_eq!(addresses(&heard.take()), [address_of(&alpha)], "told once, when it is known");
    });
}

#[test]
fn nothing_is_let_in_before_the_broadcast_group_is_known() {
    holds(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        bench.settle();
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        let (alpha, heard) = bench.alpha.open(PLAIN);
        let sent = bench.beta.statistics().opackets;
        for _ in 0..5 {
            beta.transmit(address_of(&alpha), b"early", lab_gldv3::Offload::default()).expect("bound");
        }
        bench.settle();
        assert_eq!(bench.beta.statistics().opackets - sent, 5, "they are under way");
        let refused = bench.world.fabric().drops().get(&fabric::Reason::Qkey).copied();
        assert_eq!((heard.try_next(), refused), (None, Some(5)));
        bench.no_faults();
    });
}
