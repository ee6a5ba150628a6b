//! Fabrics of two subnets, drawn apart: a fabric as it was drawn otherwise, some of its hosts behind a router.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_spanned::Spanned;

use super::at;
use crate::scenario::{PropertyText, RouterAwayStep, RouterSpec, Scenario, Step};

/// Makes the draw another one than that of fabrics.
const APART: u64 = 0x524f_5554_4552_5321;
/// One in so many fabrics that can have a router.
const ONE_IN: u32 = 2;
/// The site's scope.
const SITE: u8 = 5;
/// A hop limit with which packets to a group do not pass a router.
const LAST_HOP: u8 = 1;

/// Makes a fabric one of two subnets, now and then, if what is done on it can be done there.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if rng.random_range(0..ONE_IN) != 0 || !can_have_two(scenario) {
        return;
    }
    scenario.fabric.router = Some(RouterSpec { paths: true });
    for partition in scenario.partition.iter_mut().map(Spanned::as_mut) {
        if partition.group_scope() < SITE {
            partition.scope = Some(at(SITE));
        }
        partition.hop_limit = partition.hop_limit.take().filter(|limit| *limit.get_ref() > LAST_HOP);
    }
    for host in scenario.host.iter_mut().map(Spanned::as_mut) {
        host.subnet = at(rng.random_range(1..=2));
        // No connection crosses a router.
        let connected = PropertyText::Text("cm".to_owned());
        host.properties.retain(|_, value| *value.get_ref() != connected);
        // A group that a host makes is in scope 2, and no router passes that.
        let creates = "_ibd_create_broadcast_group".to_owned();
        host.properties.insert(creates, at(PropertyText::Number(0)));
    }
    scenario.step.retain(|step| !is_of_one_subnet(step.get_ref()));
    if rng.random() {
        let away = Step::RouterAway(RouterAwayStep { away_ms: [50, 1_000, 30_000][rng.random_range(0..3)] });
        let last = scenario.step.iter().position(|step| matches!(step.get_ref(), Step::Unload(_)));
        scenario.step.insert(last.unwrap_or(scenario.step.len()), at(away));
    }
}

/// Groups that the managers make, and ports that stay, as they are in them.
fn can_have_two(scenario: &Scenario) -> bool {
    let ready_made = scenario.partition.iter().all(|partition| partition.get_ref().ipoib);
    // A timeline would put an adapter back, and there is none.
    let changes = |step: &Step| {
        matches!(step, Step::GroupChanges(_) | Step::MembershipChanges(_) | Step::HcaRemoval(_))
    };
    ready_made && !scenario.step.iter().any(|step| changes(step.get_ref()))
}

fn is_of_one_subnet(step: &Step) -> bool {
    use Step::{FaultPoints, PkeyMoves, Trouble, UnloadUnderTraffic};
    matches!(step, PkeyMoves(_) | Trouble(_) | UnloadUnderTraffic(_) | FaultPoints(_))
}
