//! The C plugin beside ours, asked the same.

use std::collections::BTreeMap;

use fakekernel::{Config, Machine, Rule, Suppression, Suppressions};
use lab_gldv3::Plugin;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use conformance::probe::shipped;

use super::answers::{Difference, ask, crosses_pointers, difference};
use super::inputs::Input;
use super::object;
use super::rig::{Driver, Host};

const INPUTS: u64 = 1_000_000;

/// A host with this plugin and the counting driver, whose link is there for `link_details`.
fn host(machine: &Machine, name: &str, plugin: &std::path::Path) -> Host {
    let kernel = machine.add_host(name);
    lab_gldv3::provide(&kernel);
    kernel.add_object("mac/mac_ib", plugin);
    Host { machine: machine.clone(), kernel }
}

/// Uncook of a first block that is shorter than what it takes away.
fn crossed_pointers() -> Suppressions {
    Suppressions(vec![Suppression {
        host: Some("theirs".into()),
        module: "mac_ib".into(),
        rule: Rule::BadMessagePointers,
        call: Some("mtops_header_uncook".into()),
        function: None,
        evidence: "mac_ib_header_uncook adds 40 to b_rptr without a look at the length".into(),
    }])
}

/// How often each difference was seen.
type Seen = BTreeMap<Difference, u64>;

fn compare(ours: &(Plugin, Driver), theirs: &(Plugin, Driver), seed: u64) -> (Seen, u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut seen, mut crossed) = (Seen::new(), 0);
    for number in 0..INPUTS {
        let input = Input::any(&mut rng);
        crossed += u64::from(crosses_pointers(&input));
        let (a, b) = (ask(&ours.0, &ours.1, &input), ask(&theirs.0, &theirs.1, &input));
        match difference(&input, &a, &b) {
            Ok(None) => {}
            Ok(Some(known)) => *seen.entry(known).or_default() += 1,
            Err(()) => {
                panic!("seed {seed}, input {number}: {input:02x?}\nours {a:02x?}\nthe C plugin {b:02x?}")
            }
        }
    }
    (seen, crossed)
}

#[test]
fn a_million_answers_of_the_c_plugin_are_ours_but_for_three_differences() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let machine = Machine::new(Config { suppress: crossed_pointers(), ..Config::seeded(seed) });
    let hosts =
        [host(&machine, "ours", &shipped("mac", "mac_ib")), host(&machine, "theirs", &object("mac_ib"))];
    let noted = machine.clone();
    let (seen, crossed) = machine
        .run(move || {
            let [ours, theirs] = hosts.map(|host| {
                let driver = host.kernel.scope(|| host.driver());
                let plugin = Plugin::hold(&host.kernel, "mac_ib").expect("the driver has loaded it");
                (plugin, driver)
            });
            let outcome = compare(&ours, &theirs, seed);
            for (plugin, driver) in [ours, theirs] {
                drop(plugin);
                let kernel = driver.host.kernel.clone();
                kernel.scope(|| driver.leave());
            }
            outcome
        })
        .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    println!("seed {seed}: {INPUTS} inputs, differences {seen:?}");
    let all = [Difference::SourceIsZero, Difference::ShortUncook, Difference::ReservedByte];
    assert!(all.iter().all(|one| seen.contains_key(one)), "each must come up: {seen:?}");
    // The pointers of the C plugin's blocks were crossed each time the length says so, and at no other.
    let note = noted.notes().into_iter().find(|note| note.rule == Rule::BadMessagePointers);
    assert_eq!(note.map(|note| note.count), Some(crossed));
}
