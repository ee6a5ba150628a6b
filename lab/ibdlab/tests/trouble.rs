//! Timelines of trouble, each over many seeds: afterwards every link is as good as new, by itself.

mod rig;

use rig::failures;

#[test]
fn every_kind_of_event_at_once_and_all_is_well_again() {
    let failures = failures("trouble.toml", 10);
    assert!(failures.is_empty(), "{} of 10 seeds failed:\n{}", failures.len(), failures.join("\n"));
}
