//! What a link tells the MAC layer about itself: what has changed, and nothing else. Whoever is told of an address, changed or not,
//! takes the interface's addresses down and up again.

use std::sync::{Arc, Mutex};

use fakekernel::Nanos;
use lab_gldv3::{LinkState, Notification, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid};

use crate::bench::{Bench, PLAIN, Setup, holds};

const SECOND: Nanos = Nanos::from_secs(1);

/// What a stream is told from now on.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Notification>>>);

impl Heard {
    fn of(stream: &Stream) -> Self {
        let heard = Self::default();
        let into = heard.clone();
        stream.on_notify(move |notification| into.0.lock().expect("not poisoned").push(notification));
        heard.take();
        heard
    }

    fn take(&self) -> Vec<Notification> {
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
