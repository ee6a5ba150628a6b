//! What the bench measures of the C driver beside ours with a kernel and an adapter that do next to nothing: each packet arrives, of either.

use std::time::Duration;

use conformance::probe::workspace_root;
use ibdlab::bench::Bench;
use ibdlab::bench::bare_kernel::Path;

use super::object;

#[test]
fn every_packet_of_either_driver_comes_through_with_a_kernel_that_does_next_to_nothing() {
    let bench = Bench {
        seed: 7,
        proto: workspace_root().join("proto/kernel"),
        peer: object("ibp").parent().map(Into::into),
        // More than the C driver has buffers, so each is used again.
        packets: 16_384,
        rounds: 1,
        mtu: 2048,
        chain: 1,
        most_addresses: 1,
        instructions: None,
        sa_delay: Duration::ZERO,
        sa_delay_source: String::new(),
    };
    let report = bench.bare_kernel().expect("all arrive");
    let found: Vec<_> =
        report.facts.iter().map(|fact| (fact.what.clone(), fact.driver.as_str(), fact.value > 0.0)).collect();
    let each = |path: Path| ["ours", "peer"].map(|driver| (path.what(), driver, true));
    assert_eq!(found, Path::ALL.into_iter().flat_map(each).collect::<Vec<_>>());
    assert!(report.targets.iter().all(|target| target.met.is_some()), "{:?}", report.targets);
}
