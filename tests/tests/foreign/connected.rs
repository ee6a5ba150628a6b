//! The C driver in connected mode, on both hosts and on one of them: what the lab's connections, and ours, are held to by somebody who has
//! used real ones.

use super::traffic::Exchange;

const CONNECTED: &str = r#"
name = "two C drivers in connected mode"

[[host]]
name = "alice"
driver = "ibp"
properties = { linkmode = "cm" }
addresses = ["192.168.76.1/24", "fd00:76::1/64"]

[[host]]
name = "bob"
driver = "ibp"
properties = { linkmode = "cm" }
addresses = ["192.168.76.2/24", "fd00:76::2/64"]

[[step]]
attach = { after_ports = true }

[[step]]
up = {}

[[step]]
resolve = {}

[[step]]
ping = { from = "alice", to = "192.168.76.2", count = 50, sizes = [0, 56, 2016, 2017, 4096, 20_000, 65_492] }

[[step]]
ping = { from = "bob", to = "192.168.76.1", count = 50, sizes = [0, 56, 2016, 2017, 4096, 20_000, 65_492] }

[[step]]
ping = { from = "alice", to = "fd00:76::2", count = 50, sizes = [0, 56, 1992, 4000, 20_000] }

[[step]]
tcp = { from = "alice", to = "192.168.76.2", bytes = "8MiB" }

[[step]]
tcp = { from = "bob", to = "fd00:76::1", bytes = "8MiB" }

[[step]]
multicast = { from = "alice", to = "bob", group = "239.1.2.3", count = 20 }

[[step]]
unload = {}
"#;

const SEEDS: u64 = 3;

#[test]
fn two_c_drivers_connect_and_carry_64_kib_packets() {
    let mut exchange = Exchange::of(CONNECTED, &["alice", "bob"]);
    for seed in 1..=SEEDS {
        let report = exchange.goes_well(seed, false);
        let up = report.steps.iter().find(|step| step.step == "resolve").expect("a step");
        assert!(up.text.contains("192.168.76.2 is at 80:"), "connected mode shows: {}", up.text);
    }
}

#[test]
fn links_of_the_c_driver_go_down_and_up_with_their_connections() {
    let flaps = [
        "flap = { host = \"bob\", down_ms = 3_000 }",
        "ping = { from = \"alice\", to = \"192.168.76.2\", count = 20, sizes = [0, 20_000] }",
        "flap = { host = \"alice\", down_ms = 3_000 }",
        "ping = { from = \"bob\", to = \"192.168.76.1\", count = 20, sizes = [0, 20_000] }",
    ];
    let mut exchange = Exchange::of(CONNECTED, &["alice", "bob"]).and(&flaps);
    for seed in 1..=SEEDS {
        exchange.goes_well(seed, false);
    }
}

#[test]
fn ours_and_the_c_driver_connect_to_each_other_and_carry_64_kib_packets_both_ways() {
    let flaps = [
        "flap = { host = \"bob\", down_ms = 3_000 }",
        "ping = { from = \"alice\", to = \"192.168.76.2\", count = 20, sizes = [0, 20_000] }",
        "ping = { from = \"bob\", to = \"192.168.76.1\", count = 20, sizes = [0, 20_000] }",
    ];
    for foreign in ["alice", "bob"] {
        let mut exchange = Exchange::of(CONNECTED, &[foreign]).and(&flaps);
        for seed in 1..=SEEDS {
            exchange.goes_well(seed, false);
        }
    }
}

/// The C driver opens connections to ours, which takes them and sends datagrams.
const ONE_WAY: &str = r#"
name = "the C driver connects to ours"

[[host]]
name = "alice"
driver = "ibp"
properties = { linkmode = "cm" }
addresses = ["192.168.76.1/24", "fd00:76::1/64"]

[[host]]
name = "bob"
driver = "ibp"
properties = { _ibd_rc_accept = "1" }
addresses = ["192.168.76.2/24", "fd00:76::2/64"]

[[step]]
attach = { after_ports = true }

[[step]]
up = {}

[[step]]
resolve = {}

[[step]]
ping = { from = "alice", to = "192.168.76.2", count = 50, sizes = [0, 56, 2016, 2017, 4096, 20_000, 65_492] }

[[step]]
ping = { from = "bob", to = "192.168.76.1", count = 50, sizes = [0, 56, 2016, 2017, 4096, 20_000] }

[[step]]
ping = { from = "alice", to = "fd00:76::2", count = 50, sizes = [0, 56, 1992] }

[[step]]
tcp = { from = "alice", to = "192.168.76.2", bytes = "8MiB" }

[[step]]
tcp = { from = "bob", to = "fd00:76::1", bytes = "8MiB" }

[[step]]
multicast = { from = "alice", to = "bob", group = "239.1.2.3", count = 20 }

[[step]]
flap = { host = "bob", down_ms = 3_000 }

[[step]]
ping = { from = "alice", to = "192.168.76.2", count = 20, sizes = [0, 20_000] }

[[step]]
unload = {}
"#;

#[test]
fn the_c_driver_connects_to_ours_and_its_64_kib_packets_arrive() {
    let mut exchange = Exchange::of(ONE_WAY, &["alice"]);
    for seed in 1..=SEEDS {
        let report = exchange.goes_well(seed, false);
        let up = report.steps.iter().find(|step| step.step == "resolve").expect("a step");
        assert!(up.text.contains("192.168.76.2 is at 80:"), "ours takes connections: {}", up.text);
    }
}
