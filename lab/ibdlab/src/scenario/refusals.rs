//! What a scenario cannot ask for is refused when it is read, with the line and what was expected there.

use std::path::Path;

use super::parse;

/// A file that is read; lines are counted from 1.
pub(super) const GOOD: &str = r#"name = "two hosts"
[fabric]
mtu = 2048
[[partition]]
pkey = 0xffff
[[host]]
name = "a"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "b"
addresses = ["10.0.0.2/24", "fd00::2/64"]
[[step]]
ping = { from = "a", to = "10.0.0.2", count = 3 }
"#;

pub(super) const PING: &str = "ping = { from = \"a\", to = \"10.0.0.2\", count = 3 }";

/// What is said of the file with `old` replaced by `new`, behind the file's name.
pub(super) fn refusal(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    let text = GOOD.replacen(old, new, 1);
    match parse(Path::new("s"), &text) {
        Ok(_) => format!("accepted:\n{text}"),
        Err(error) => error.to_string().trim_start_matches("s:").to_owned(),
    }
}

pub(super) fn check(cases: &[(&str, &str, &str)]) {
    for (old, new, expected) in cases {
        let message = refusal(old, new);
        assert!(message.starts_with(expected), "{message}\nshould start with\n{expected}");
    }
}

pub(super) fn check_steps(cases: &[(&str, &str)]) {
    for (step, expected) in cases {
        let message = refusal(PING, step);
        assert!(message.starts_with(expected), "{step}: {message}\nshould start with\n{expected}");
    }
}

#[test]
fn a_number_outside_its_range_is_refused_with_its_name_and_the_range() {
    check(&[
        ("count = 3", "count = 4294967295", "13: count is 4294967295: expected 1 to 65535"),
        ("count = 3", "count = 0", "13: count is 0: expected 1 to 65535"),
        ("count = 3", "count = -3", "13: count is -3: expected 1 to 65535"),
        ("count = 3", "count = \"3\"", "13: invalid type: string \"3\", expected a whole number"),
        (
            "count = 3",
            "count = 3, sizes = [9223372036854775807]",
            "13: sizes is 9223372036854775807: expected 0 to 65507",
        ),
        ("count = 3", "count = 3, sizes = [64, 70000]", "13: sizes is 70000: expected 0 to 65507"),
        (
            "name = \"b\"",
            "name = \"b\"\nguid = 0xffff_ffff_ffff_ffff",
            "11: guid is 0xffffffffffffffff: expected 0x1 to 0xfffffffffffffff7",
        ),
        (
            "name = \"b\"",
            "name = \"b\"\ngroups = 4294967295",
            "11: groups is 4294967295: expected 0 to 16383",
        ),
        ("name = \"b\"", "name = \"b\"\nports = 300", "11: ports is 300: expected 1 to 8"),
        ("name = \"b\"", "name = \"b\"\nports = 2\nunplugged = [2, 2]", "12: port 2 is named twice"),
        ("pkey = 0xffff", "pkey = 0x1ffff", "5: pkey is 0x1ffff: expected 0x1 to 0xffff"),
        (
            "mtu = 2048",
            "mtu = 2048\nsa_delay_ms = 9223372036854775807",
            "4: sa_delay_ms is 9223372036854775807: expected 0 to 600000",
        ),
    ]);
    check_steps(&[
        (
            "multicast = { from = \"a\", to = \"b\", group = \"239.1.1.1\", count = 4294967295 }",
            "13: count is 4294967295: expected 1 to 20000",
        ),
        (
            "link = { host = \"a\", delay_us = 9223372036854775807, for_ms = 1 }",
            "13: delay_us is 9223372036854775807: expected 0 to 21600000000",
        ),
        (
            "link = { host = \"a\", jitter_us = 9223372036854775807, for_ms = 1 }",
            "13: jitter_us is 9223372036854775807: expected 0 to 21600000000",
        ),
        ("link = { host = \"a\", loss = 2000000, for_ms = 1 }", "13: loss is 2000000: expected 0 to 1000000"),
        ("flap = { host = \"a\", down_ms = 0 }", "13: down_ms is 0: expected 1 to 21600000"),
        ("pkey-moves = { host = \"a\", away_ms = 0 }", "13: away_ms is 0: expected 1 to 21600000"),
        (
            "tcp = { from = \"a\", to = \"10.0.0.2\", bytes = \"1000GiB\" }",
            "13: bytes is 1073741824000: expected 0",
        ),
    ]);
}

#[test]
fn more_hosts_than_there_is_memory_for_are_refused_at_the_first_one_too_many() {
    let hosts = |count: usize| -> String {
        let address = |n: usize| format!("10.1.{}.{}/16", n / 250, n % 250 + 1);
        let host = |n| format!("[[host]]\nname = \"h{n}\"\naddresses = [\"{}\"]\n", address(n));
        "name = \"many\"\n".to_owned() + &(0..count).map(host).collect::<String>()
    };
    assert_eq!(parse(Path::new("s"), &hosts(1001)).map(|scenario| scenario.host.len()).ok(), Some(1001));
    let refused = parse(Path::new("s"), &hosts(2000)).expect_err("too many").to_string();
    assert_eq!(refused, "s:3005: there are 2000 hosts: expected up to 1001");
}

/// A timeline of one event.
pub(super) fn event(event: &str) -> String {
    format!("trouble = {{ within_ms = 10, event = [\n{{ at_us = 1, {event} }} ] }}")
}

#[test]
fn a_number_of_an_event_outside_its_range_is_refused() {
    let huge = "9223372036854775807";
    for (what, expected) in [
        (format!("interrupts-late = {{ host = \"a\", to_us = {huge}, for_ms = 1 }}"), "14: to_us is 9"),
        (format!("commands-slow = {{ host = \"a\", to_us = 1, for_ms = {huge} }}"), "14: for_ms is 9"),
        (format!("sa = {{ does = {{ late = {huge} }}, for_ms = 1 }}"), "14: late is 9"),
        (format!("switch-reboot = {{ for_ms = {huge} }}"), "14: for_ms is 9"),
        (
            "sm-restart = { mlids_later = 0xffff }".to_owned(),
            "14: mlids_later is 0xffff: expected 0x0 to 0x3000",
        ),
        ("sm-failover = { lid = 0xc000 }".to_owned(), "14: lid is 0xc000: expected 0x1 to 0xbfff"),
        (
            "strangers = { host = \"a\", claim = \"groups\", per_second = 0, for_ms = 1 }".to_owned(),
            "14: per_second is 0: expected 1 to 100000",
        ),
        ("pkey-added = { host = \"a\", index = 64 }".to_owned(), "14: index is 64: expected 0 to 63"),
    ] {
        let message = refusal(PING, &event(&what));
        assert!(message.starts_with(expected), "{message}\nshould start with\n{expected}");
    }
    let message = refusal(PING, "trouble = { within_ms = 10, event = [{ at_us = -1, sm-stop = {} }] }");
    assert_eq!(message, "13: at_us is -1: expected 0 to 21600000000");
    let message = refusal(PING, "trouble = { within_ms = 10, event = [{ sm-stop = {} }] }");
    assert_eq!(message, "13: expected `at_us` or `on` beside the event");
}

#[test]
fn a_call_that_an_event_cannot_wait_for_is_refused() {
    for (on, expected) in [
        (
            "host = \"nobody\", call = \"cv_wait\"",
            "14: host `nobody` is not defined, expected one of `a`, `b`",
        ),
        ("host = \"a\", call = \"cv_wait\", pass = 0", "14: pass is 0: expected 1 to 4294967295"),
        ("host = \"a\"", "14: missing field `call`"),
    ] {
        let message = refusal(PING, &event(&format!("on = {{ {on} }}, sm-stop = {{}}")));
        assert!(message.starts_with(expected), "{message}\nshould start with\n{expected}");
    }
}

#[test]
fn an_event_that_cannot_happen_is_refused() {
    for (what, expected) in [
        ("raw-packet = { to = \"a\", bytes = \"zz\" }", "14: `z` of bytes is no hexadecimal digit"),
        (
            "raw-packet = { to = \"a\", bytes = \"080\" }",
            "14: bytes has 3 digits, expected two for each byte",
        ),
        (
            "commands-slow = { host = \"a\", from_us = 500, to_us = 3, for_ms = 10 }",
            "14: from_us is 500: expected at most to_us, which is 3",
        ),
        (
            "allocation-fails = { host = \"a\", kind = \"kmem\", module = \"nosuch\", times = 1 }",
            "14: `a` has no module `nosuch`, expected `ibd` or `mac_ib`",
        ),
        (
            "property-set = { host = \"a\", name = \"mtu\", value = \"65520\" }",
            "14: `mtu` is no private property: its name begins with `_`",
        ),
        (
            "subnet-prefix = { prefix = 0x7fff_ffff_ffff_fffe }, port-up = { host = \"a\" }",
            "14: `subnet-prefix` is a second event, expected one",
        ),
    ] {
        let message = refusal(PING, &event(what));
        assert!(message.starts_with(expected), "{message}\nshould start with\n{expected}");
    }
}

#[test]
fn an_address_that_no_interface_can_have_is_refused() {
    for (address, what) in [
        ("224.0.0.1/24", "a multicast address"),
        ("ff02::1/64", "a multicast address"),
        ("0.0.0.0/0", "the unspecified address"),
        ("::/0", "the unspecified address"),
        ("127.0.0.1/8", "a loopback address"),
        ("::1/128", "a loopback address"),
        ("0.0.0.7/8", "an address of this network (0.0.0.0/8)"),
        ("255.255.255.255/32", "a reserved address (240.0.0.0/4)"),
        ("10.0.0.255/24", "the broadcast address of its subnet"),
    ] {
        let message = refusal("\"10.0.0.2/24\"", &format!("\"10.0.0.2/24\", \"{address}\""));
        assert_eq!(message, format!("11: {address} is {what}, which no interface can have"));
    }
}

#[test]
fn an_address_has_one_owner_in_a_partition() {
    check(&[
        (
            "\"10.0.0.2/24\"",
            "\"10.0.0.2/24\", \"10.0.0.1/24\"",
            "11: 10.0.0.1 is an address of `a` already, in the same partition",
        ),
        ("\"10.0.0.2/24\"", "\"10.0.0.2/24\", \"10.0.0.2/16\"", "11: 10.0.0.2 is there twice"),
    ]);
}

#[test]
fn partitions_and_guids_are_there_once() {
    check(&[
        (
            "pkey = 0xffff",
            "pkey = 0xffff\n[[partition]]\npkey = 0x7fff",
            "7: partition 0x7fff is there twice",
        ),
        (
            "name = \"b\"",
            "name = \"b\"\nguid = 5\naddresses = [\"10.0.0.3/24\"]\n[[host]]\nname = \"c\"\nguid = 6",
            "15: the adapter of `c` has the GUIDs 0x6 to 0x7, that of `b` 0x5 to 0x6: none can be in both",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\nguid = 0x0002_c903_0000_1011",
            "8: the adapter of `b` has the GUIDs 0x2c90300001010 to 0x2c90300001011, that of `a`",
        ),
    ]);
}

#[test]
fn a_broadcast_group_that_no_link_finds_is_refused() {
    check(&[
        ("pkey = 0xffff", "pkey = 0xffff\nsl = 16", "6: sl is 16: expected 0 to 15"),
        ("pkey = 0xffff", "pkey = 0xffff\nqkey = 0", "6: qkey is 0x0: expected 0x1 to 0xffffffff"),
        (
            "pkey = 0xffff",
            "pkey = 0xffff\nflow_label = 0x100000",
            "6: flow_label is 0x100000: expected 0x0 to 0xfffff",
        ),
        (
            "pkey = 0xffff",
            "pkey = 0xffff\nscope = 3",
            "6: no link looks for its broadcast group in scope 3, expected 2, 5, 8 or 14",
        ),
        (
            "pkey = 0xffff",
            "pkey = 0xffff\nipoib = false\ntclass = 3",
            "7: `tclass` is of the broadcast group that the subnet manager makes, and `ipoib` is false",
        ),
    ]);
}

#[test]
fn a_host_that_cannot_join_its_partition_s_group_is_refused() {
    check(&[
        (
            "name = \"b\"",
            "name = \"b\"\nmtu = 256",
            "11: `b` has an MTU of 256 and cannot join the broadcast group of its partition, which has 2048",
        ),
        (
            "pkey = 0xffff",
            "pkey = 0xffff\nrate = 16",
            "8: `a` has ports of 20 Gb/s (rate 6) and cannot join the broadcast group of its partition, which has 100",
        ),
        (
            "pkey = 0xffff",
            "pkey = 0x8005",
            "7: P_Key 0xffff, which is a host's if nothing is said, is in no partition of this file",
        ),
    ]);
}

#[test]
fn a_host_that_stays_down_has_a_reason_and_takes_no_part() {
    check(&[
        (
            "name = \"b\"",
            "name = \"b\"\nstays_down = true",
            "11: `b` can be in the broadcast group of its partition, and `stays_down` says that it cannot",
        ),
        (
            "name = \"b\"",
            "name = \"b\"\nmtu = 256\nstays_down = true",
            "15: `b` cannot be in its partition or its broadcast group here: its link is down",
        ),
    ]);
    check(&[
        (
            "name = \"b\"",
            "name = \"b\"\ndriver = \"ibp\"\nmembership = \"limited\"",
            "10: `b` is a limited member of its partition and has no link: expected `stays_down = true`",
        ),
        (
            "name = \"b\"",
            "name = \"b\"\nmembership = \"limited\"\nstays_down = true",
            "10: `b` is a limited member, of whose P_Key no `ibd` is made: expected `ibp`",
        ),
    ]);
    check_steps(&[
        (
            "membership-changes = { host = \"a\", to = \"limited\" }\n[[step]]\nflap = { host = \"a\", down_ms = 1 }",
            "15: `a` cannot be in its partition or its broadcast group here: its link is down",
        ),
        (
            "group-changes = { pkey = 0x8001 }",
            "13: the subnet manager makes no broadcast group with P_Key 0x8001",
        ),
        ("group-changes = { pkey = 0xffff, mtu = 4096 }", "13: MTU 4096 is larger than the fabric's 2048"),
        ("group-changes = { pkey = 0xffff, rate = 99 }", "13: rate is 99: expected 2 to 24"),
        (
            "group-changes = { pkey = 0xffff, rate = 16 }\n[[step]]\nflap = { host = \"a\", down_ms = 1 }",
            "15: `a` cannot be in its partition or its broadcast group here: its link is down",
        ),
    ]);
}

#[test]
fn the_default_partition_s_group_fits_a_fabric_of_small_mtu() {
    let text = GOOD.replacen("mtu = 2048\n[[partition]]\npkey = 0xffff", "mtu = 256", 1);
    let scenario = parse(Path::new("s"), &text).expect("a good file");
    assert_eq!(*scenario.partition[0].get_ref().mtu.get_ref(), 256);
}

#[test]
fn a_step_is_one_step() {
    check_steps(&[
        ("", "12: a [[step]] is empty: expected a step as `ping = {"),
        ("up = {}\nresolve = {}", "12: a [[step]] has `"),
        ("counts = {}\n[[step]]\ncounts = {}", "14: `counts` is there twice: the first one ends the capture"),
    ]);
}

#[test]
fn a_host_has_one_part_in_a_step() {
    check_steps(&[
        (
            "multicast = { from = \"a\", to = \"a\", group = \"239.1.1.1\", count = 3 }",
            "13: `a` has two parts in this step, expected different hosts",
        ),
        (
            "eavesdrop = { by = \"a\", from = \"a\", to = \"b\", group = \"239.1.1.1\", count = 3 }",
            "13: `a` has two parts in this step, expected different hosts",
        ),
        (
            "tcp = { from = \"b\", to = \"10.0.0.2\", bytes = \"1\" }",
            "13: 10.0.0.2 is an address of `b` itself",
        ),
    ]);
}

#[test]
fn a_group_that_ip_is_in_by_itself_is_refused() {
    let multicast = |group: &str| {
        let step = format!("multicast = {{ from = \"a\", to = \"b\", group = \"{group}\", count = 3 }}");
        refusal(PING, &step)
    };
    let all_hosts =
        "13: every host with an IPv4 address is in 224.0.0.1 all the time, expected another group";
    assert_eq!(multicast("224.0.0.1"), all_hosts);
    for (group, own) in [("ff15::1", "ff02::1"), ("ff0e::1:ff00:2", "ff02::1:ff00:2")] {
        let expected =
            format!("13: on an InfiniBand link {group} is the group of {own}, which IP itself is in");
        let message = multicast(group);
        assert!(message.starts_with(&expected), "{message}\nshould start with\n{expected}");
    }
    assert!(multicast("ff15::2").starts_with("accepted"));
}

#[test]
fn a_step_whose_family_a_host_lacks_is_refused() {
    let lacks = "13: `b` has no IPv6 address and cannot talk to ff15::7";
    for step in [
        "turns = { group = \"ff15::7\" }",
        "multicast = { from = \"a\", to = \"b\", group = \"ff15::7\", count = 3 }",
    ] {
        let text = GOOD.replacen(", \"fd00::2/64\"", "", 1).replacen(PING, step, 1);
        let error = parse(Path::new("s"), &text).expect_err(step).to_string();
        assert_eq!(error, format!("s:{lacks}"));
    }
    let mixed = GOOD.replacen(", \"fd00::1/64\"", "", 1).replacen("\"10.0.0.2/24\", ", "", 1);
    for step in ["trouble = { within_ms = 10, event = [] }", "sm-restart = { away_ms = 100 }"] {
        let error = parse(Path::new("s"), &mixed.replacen(PING, step, 1)).expect_err(step).to_string();
        let expected = "s:12: this step talks to a group on every link, and the hosts of partition 0xffff share no family: \
                        `b` has no IPv4 address, `a` no IPv6 address";
        assert_eq!(error, expected);
    }
}

#[test]
fn a_second_subnet_needs_a_router_and_its_hosts_need_paths() {
    const SECOND: &str = "name = \"b\"\nsubnet = 2";
    check(&[
        ("name = \"b\"", SECOND, "11: `b` is in another subnet, and `[fabric.router]` leads to none"),
        (PING, "router-away = { away_ms = 1 }", "12: there is no `[fabric.router]` to go"),
        ("mtu = 2048", "router = {}\nmtu = 2048\nrouters = 2", "5: unknown field `routers`"),
    ]);
    let two = |partition: &str, router: &str| {
        let text = GOOD.replacen("mtu = 2048", &format!("router = {{ {router} }}"), 1);
        let text = text.replacen("pkey = 0xffff", partition, 1).replacen("name = \"b\"", SECOND, 1);
        parse(Path::new("s"), &text).map(drop).map_err(|error| error.to_string())
    };
    let site = "pkey = 0xffff\nscope = 5";
    assert_eq!(two(site, "paths = true"), Ok(()));
    for (partition, router) in [(site, ""), ("pkey = 0xffff", "paths = true")] {
        let refused = two(partition, router).expect_err("alone in its subnet");
        assert!(refused.contains("10.0.0.2 is an address of `b`, in another subnet than `a`"), "{refused}");
    }
}
