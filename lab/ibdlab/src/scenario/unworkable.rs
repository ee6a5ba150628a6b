//! What each part of a scenario allows by itself, and no run can do together, is refused when it is read.

use std::path::Path;

use super::parse;
use super::refusals::{GOOD, PING, refusal};

/// Before, statistics and capture were compared all the same, and a sound driver failed.
#[test]
fn counts_behind_what_makes_statistics_and_wire_differ_is_refused() {
    let behind = |step: &str| refusal(PING, &format!("{step}\n[[step]]\ncounts = {{}}"));
    for (step, expected) in [
        (
            "sm-restart = { away_ms = 100, breaks = \"a\" }",
            "14: `counts` cannot stand behind `sm-restart` with `breaks`: a driver counts what its adapter took and never sent",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, qp-breaks = { host = \"a\" } }] }",
            "14: `counts` cannot stand behind `trouble` with `qp-breaks`: a driver counts",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, subnet-prefix = { prefix = 1 } }] }",
            "14: `counts` cannot stand behind `trouble` with `subnet-prefix`: a port takes",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, unload = { host = \"a\" } }] }",
            "14: `counts` cannot stand behind `trouble` with `unload`: a host's statistics begin anew",
        ),
        (
            "unload-under-traffic = { host = \"a\", within_ms = 9 }",
            "14: `counts` cannot stand behind `unload-under-traffic`: a host's statistics begin anew",
        ),
    ] {
        let message = behind(step);
        assert!(message.starts_with(expected), "{step}: {message}\nshould start with\n{expected}");
    }
    for step in [
        "sm-restart = { away_ms = 100 }",
        "flap = { host = \"a\", down_ms = 100, breaks = \"b\" }",
        "trouble = { within_ms = 9, event = [{ at_us = 1, port-down = { host = \"a\" } }] }",
    ] {
        let message = behind(step);
        assert!(message.starts_with("accepted"), "{step}: {message}");
    }
}

/// Places for groups of an adapter, and the step that needs one more. Before, the run went on for minutes and said what was not heard.
#[test]
fn an_adapter_without_places_for_the_groups_of_a_step_is_refused() {
    let refused = |groups: u32, step: &str| {
        let text = GOOD.replacen("name = \"b\"", &format!("name = \"b\"\ngroups = {groups}"), 1);
        let read = parse(Path::new("s"), &text.replacen(PING, step, 1));
        read.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (step, name, needed) in [
        ("up = {}", "up", 1),
        ("turns = { group = \"ff15::7\" }", "turns", 5),
        ("multicast = { from = \"a\", to = \"b\", group = \"239.1.1.1\", count = 3 }", "multicast", 5),
        ("sm-restart = { away_ms = 100 }", "sm-restart", 5),
        ("trouble = { within_ms = 10, event = [] }", "trouble", 6),
    ] {
        let expected = format!(
            "s:10: `b` has `groups = {}`, and `{name}` needs {needed}: what has no place is not heard",
            needed - 1
        );
        assert_eq!(refused(needed - 1, step), expected);
        assert_eq!(refused(needed, step), "");
    }
    assert_eq!(refused(1, PING), "");
}

/// The link of each host is on port 1. Before, a host without a cable there waited until `attach` failed.
#[test]
fn a_host_whose_first_port_has_no_cable_is_refused() {
    let ports = |driver: &str, unplugged: &str| {
        let said = format!("name = \"b\"\ndriver = \"{driver}\"\nports = 2\nunplugged = {unplugged}");
        refusal("name = \"b\"", &said)
    };
    for driver in ["ibd", "ibp"] {
        for unplugged in ["[1]", "[2, 1]"] {
            assert_eq!(
                ports(driver, unplugged),
                "13: `b` has its link on port 1, and `unplugged` names that port"
            );
        }
        assert!(ports(driver, "[2]").starts_with("accepted"));
    }
}

/// Before, `flap` found no port of such a host, and others said that it does not answer.
#[test]
fn a_step_that_asks_a_host_without_an_adapter_is_refused() {
    let behind = |step: &str| refusal(PING, &format!("hca-removal = {{ host = \"b\" }}\n[[step]]\n{step}"));
    for step in [
        "flap = { host = \"b\", down_ms = 100 }",
        "flap = { host = \"a\", down_ms = 100, breaks = \"b\" }",
        PING,
        "ping = { from = \"b\", to = \"10.0.0.1\", count = 3 }",
        "tcp = { from = \"a\", to = \"fd00::2\", bytes = \"1KiB\" }",
        "multicast = { from = \"a\", to = \"b\", group = \"239.1.1.1\", count = 3 }",
        "pkey-moves = { host = \"b\", away_ms = 100 }",
        "hca-removal = { host = \"b\" }",
        "sm-restart = { away_ms = 100, breaks = \"b\" }",
        "unload-under-traffic = { host = \"b\", within_ms = 9 }",
        "fault-points = { host = \"b\", phase = \"attach\" }",
        "membership-changes = { host = \"b\", to = \"both\" }",
        "up = {}",
    ] {
        let expected = "`b` has no adapter: a step `hca-removal` before this one has pulled it";
        let message = behind(step);
        assert!(message.ends_with(expected), "{step}: {message}");
    }
    for step in ["flap = { host = \"a\", down_ms = 100 }", "sm-restart = { away_ms = 100 }", "unload = {}"] {
        assert!(behind(step).starts_with("accepted"), "{step}: {}", behind(step));
    }
    let back = behind(&format!("trouble = {{ within_ms = 9, event = [] }}\n[[step]]\n{PING}"));
    assert!(back.starts_with("accepted"), "a trouble puts adapters back: {back}");
}

/// Two hosts of one partition, with these lines for the partition and for each host, on both sides of a router.
fn beyond(partition: &str, hosts: [&str; 2], step: &str) -> String {
    let text = GOOD.replacen("mtu = 2048", "router = { paths = true }", 1);
    let text = text.replacen("pkey = 0xffff", &format!("pkey = 0xffff\nscope = 5\n{partition}"), 1);
    let text = text.replacen("name = \"a\"", &format!("name = \"a\"\n{}", hosts[0]), 1);
    let text = text.replacen("name = \"b\"", &format!("name = \"b\"\nsubnet = 2\n{}", hosts[1]), 1);
    let read = parse(Path::new("s"), &text.replacen(PING, step, 1));
    read.err().map(|error| error.to_string()).unwrap_or_default()
}

/// The router passes on what has two hops and more. Before, hosts that could not ask for one another were one link.
#[test]
fn hosts_whose_groups_have_no_hop_to_the_router_are_not_one_link() {
    for limit in [0, 1] {
        let limit = format!("hop_limit = {limit}");
        let refused = beyond(&limit, [""; 2], PING);
        let expected = format!(
            "10.0.0.2 is an address of `b`, in another subnet than `a`: `{limit}` of their partition lets no packet to a group cross the router"
        );
        assert!(refused.ends_with(&expected), "{refused}");
        assert_eq!(beyond(&limit, [""; 2], "resolve = {}"), "", "each has its own link");
    }
    assert_eq!(beyond("hop_limit = 2", [""; 2], PING), "");
}

/// Before, the first packets waited for a connection that could not be, and were lost.
#[test]
fn a_connection_across_the_router_is_refused() {
    let cm = "properties = { linkmode = \"cm\" }";
    let accepts = "conf = { ibd_rc_accept = 1 }";
    for (hosts, opens, takes) in [([cm, cm], "a", "b"), ([cm, accepts], "a", "b"), ([accepts, cm], "b", "a")]
    {
        let expected = format!(
            "`{opens}` has `linkmode = \"cm\"` and `{takes}` takes connections in another subnet: none crosses the router"
        );
        let refused = beyond("", hosts, PING);
        assert!(refused.ends_with(&expected), "{refused}");
        assert_eq!(beyond("hop_limit = 1", hosts, "resolve = {}"), "", "they are not one link");
    }
    assert_eq!(beyond("", [cm, ""], PING), "");
}
