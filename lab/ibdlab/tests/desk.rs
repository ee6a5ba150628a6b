//! Labs that stay up, and illumos's commands in them: scripts against what the original prints, what outlives a lab, Linux's programs.
//!
//! These run on the wall clock and wait for conditions.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};

use lab::{Lab, root, without_linux};

/// The directory of scripts that have a lab of their own.
fn scripts(kind: &str) -> PathBuf {
    root().join("tests/admin").join(kind)
}

/// A device that the machine does not have any more, as its link is remembered.
const REMOVED: &str = "net0\tclass=int,1;media=int,4;devname=string,e1000g0;\n";

/// Every script of a directory on alice, each in a lab where nobody has configured anything. What comes first on bob stands beside it.
fn run_scripts(kind: &str, sm: &str) {
    let directory = scripts(kind);
    let mut ran = 0;
    let mut names: Vec<PathBuf> =
        fs::read_dir(&directory).expect("scripts").flatten().map(|entry| entry.path()).collect();
    names.sort();
    for script in names.iter().filter(|name| name.extension().is_some_and(|extension| extension == "sh")) {
        let lab = Lab::new();
        lab.write("alice", "etc/dladm/datalink.conf", REMOVED);
        lab.up(&directory.join("lab.toml"), &["--sm", sm]);
        let before = script.with_extension("bob");
        if before.exists() {
            let (said, code) = lab.exec("bob", &["sh", path(&before)]);
            assert_eq!((said.as_str(), code), ("", 0), "{}", before.display());
        }
        let (said, _) = lab.exec("alice", &["sh", path(script)]);
        let expected = fs::read_to_string(script.with_extension("expected")).expect("what is expected");
        assert_eq!(said, expected, "{} under {sm}:\n{said}", script.display());
        lab.down();
        ran += 1;
    }
    assert!(ran > 0, "no script in {}", directory.display());
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of this tree")
}

#[test]
fn scripts_print_what_illumos_prints() {
    run_scripts("one-key", "embedded");
    run_scripts("two-keys", "embedded");
}

#[test]
fn scripts_print_the_same_under_opensm() {
    run_scripts("one-key", "opensm");
    run_scripts("two-keys", "opensm");
}

#[test]
fn what_is_configured_for_good_outlives_the_lab_and_what_is_not_does_not() {
    let lab = Lab::new();
    let scenario = scripts("two-keys").join("lab.toml");
    lab.up(&scenario, &[]);
    for line in [
        "dladm create-part -l ibp0 -P ffff pFFFF.ibp0",
        "dladm create-part -t -l ibp0 -P 8001 p8001.ibp0",
        "dladm set-linkprop -p _ibd_num_ah=1024 pFFFF.ibp0",
        "dladm set-linkprop -t -p _ibd_hash_size=64 pFFFF.ibp0",
        "dladm rename-link pFFFF.ibp0 ib0",
        "dladm rename-link ibp1 spare1",
        "ipadm create-if ib0",
        "ipadm create-addr -T static -a 10.0.0.1/24 ib0/v4",
        "ipadm create-addr -t -T static -a 10.0.1.1/24 ib0/other",
        "ipadm create-addr -T addrconf ib0/v6",
    ] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    let shown = |line: &str| lab.run("alice", line).0;
    assert_eq!(shown("dladm show-part -p -o link,pkey,flags"), "ib0:FFFF:----\np8001.ibp0:8001:----\n");
    assert_eq!(shown("ipadm show-addr -p -o addrobj,addr ib0/other"), "ib0/other:10.0.1.1/24\n");
    assert_eq!(shown("dladm show-phys -p -o link,device spare1"), "spare1:ibp1\n");
    lab.down();
    lab.up(&scenario, &[]);
    assert_eq!(shown("dladm show-part -p -o link,pkey,flags"), "ib0:FFFF:----\n");
    let properties = "dladm show-linkprop -c -o property,value -p _ibd_num_ah,_ibd_hash_size ib0";
    assert_eq!(shown(properties), "_ibd_num_ah:1024\n_ibd_hash_size:32\n");
    assert_eq!(shown("dladm show-phys -p -o link,device spare1"), "spare1:ibp1\n");
    let addresses = "ipadm show-addr -p -o addrobj,type,state ib0/";
    let good = "ib0/v4:static:ok\nib0/v6:addrconf:ok\n";
    lab.until("nobody else has the addresses", || shown(addresses) == good);
    let line = "dladm delete-part ib0";
    assert_eq!(lab.run("alice", line).1, 1, "it is in use");
    assert_eq!(lab.run("alice", "ipadm delete-if ib0"), (String::new(), 0));
    assert_eq!(lab.run("alice", line), (String::new(), 0));
    lab.down();
    lab.up(&scenario, &[]);
    assert_eq!(shown("dladm show-part -p -o link"), "");
    assert_eq!(shown("ipadm show-addr -p -o addrobj"), "lo0/v4\nlo0/v6\n");
    lab.down();
}

#[test]
fn an_mtu_of_connected_mode_outlives_the_lab_whichever_property_was_set_last() {
    let lab = Lab::new();
    let scenario = root().join("scenarios/desk.toml");
    lab.up(&scenario, &[]);
    let shown = "dladm show-linkprop -c -o property,value -p linkmode,mtu p8001.ibp0";
    let expected = ("linkmode:cm\nmtu:9000\n".to_owned(), 0);
    for lines in [
        &["dladm create-part -f -l ibp0 -P 8001 p8001.ibp0", "dladm set-linkprop -p linkmode=cm p8001.ibp0"]
            [..],
        &["dladm set-linkprop -p linkmode=cm p8001.ibp0"],
    ] {
        for line in lines.iter().chain(&["dladm set-linkprop -p mtu=9000 p8001.ibp0"]) {
            assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
        }
        if lines.len() == 1 {
            assert_eq!(lab.run("alice", lines[0]), (String::new(), 0), "linkmode last");
        }
        assert_eq!(lab.run("alice", shown), expected);
        lab.down();
        lab.up(&scenario, &[]);
        assert_eq!(lab.run("alice", shown), expected);
    }
    lab.down();
}

#[test]
fn a_first_boot_gives_the_scenario_s_addresses_and_hosts_reach_each_other() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1") == ("bob is alive\n".into(), 0));
    let (status, _) = lab.ibdlab(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["hosts"][1]["links"][1]["addresses"][0], "10.0.0.2/24");
    assert!(status["hosts"][0]["links"][2]["packets_in"].as_u64() > Some(0), "{status}");
    lab.down();
}

#[test]
fn an_address_that_another_host_has_is_a_duplicate_until_it_is_free() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let create = "ipadm create-addr -T static -a 10.0.0.2/24 pFFFF.ibp0/more";
    assert_eq!(lab.run("alice", create), (String::new(), 0));
    let shown = |host: &str, object: &str| {
        lab.run(host, &format!("ipadm show-addr -p -o state,current pFFFF.ibp0/{object}")).0
    };
    lab.until("it is known", || !shown("alice", "more").starts_with("tentative"));
    assert_eq!(shown("alice", "more"), "duplicate:--p--\n");
    assert_eq!(shown("bob", "v4"), "ok:U-p--\n", "whoever had it keeps it");
    assert_eq!(lab.run("alice", "ping 10.0.0.2 1").1, 0, "and answers");
    let (flags, _) = lab.run("alice", "ifconfig pFFFF.ibp0 inet");
    let refused =
        "pFFFF.ibp0:1: flags=4001000842<BROADCAST,RUNNING,MULTICAST,IPv4,DUPLICATE> mtu 2044 index 2\n";
    assert!(flags.contains(refused), "{flags}");
    assert_eq!(lab.ibdlab(&["fabric", "unplug", "bob"]), (String::new(), 0));
    let (said, code) = lab.run("alice", "ping bob 1");
    assert_eq!((said.as_str(), code), ("no answer from bob\n", 1), "alice does not answer in its place");
    assert_eq!(lab.ibdlab(&["fabric", "plug", "bob"]), (String::new(), 0));
    assert_eq!(lab.run("alice", "ping 10.0.0.1"), ("10.0.0.1 is alive\n".into(), 0), "its own");
    assert_eq!(lab.run("alice", "ping localhost"), ("localhost is alive\n".into(), 0));
    assert_eq!(lab.run("alice", "ipadm delete-addr pFFFF.ibp0/more"), (String::new(), 0));
    assert_eq!(lab.run("bob", "ipadm delete-addr pFFFF.ibp0/v4"), (String::new(), 0));
    assert_eq!(lab.run("alice", create), (String::new(), 0));
    lab.until("alice has it", || shown("alice", "more") == "ok:U-p--\n");
    lab.down();
}

#[test]
fn a_ping_of_more_than_a_packet_holds_goes_in_fragments() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    for size in [2016, 2017, 10_000, 65_507] {
        let (said, code) = lab.run("alice", &format!("ping -s bob {size} 1"));
        let answer = format!("{} bytes from bob (10.0.0.2): icmp_seq=0.", size + 8);
        assert!(code == 0 && said.contains(&answer), "{said}");
    }
    let (said, code) = lab.run("alice", "ping -s bob 65508 1");
    assert!(code == 1 && said.contains("bad data size: 65508"), "{said}");
    lab.down();
}

#[test]
fn many_commands_at_once_leave_links_and_files_of_one_mind() {
    let lab = Lab::new();
    lab.up(&scripts("two-keys").join("lab.toml"), &[]);
    let script = "for n in 1 2 3 4 5 6 7 8; do
        (dladm create-part -f -l ibp0 -P 900$n part$n && ipadm create-if part$n &&
            ipadm create-addr -T static -a 10.0.$n.1/24 part$n/v4) &
        dladm create-part -f -l ibp0 -P 9000 part9 2>/dev/null &
        done; wait
        for n in 1 3 5 7; do (ipadm delete-if part$n && dladm delete-part part$n) & done; wait";
    assert_eq!(lab.exec("alice", &["sh", "-c", script]), (String::new(), 0));
    let shown = |line: &str| {
        let (said, _) = lab.run("alice", line);
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let parts = ["part2:9002", "part4:9004", "part6:9006", "part8:9008", "part9:9000"];
    assert_eq!(shown("dladm show-part -p -o link,pkey"), parts);
    assert_eq!(shown("dladm show-part -P -p -o link,pkey"), parts);
    let addresses = shown("ipadm show-addr -p -o addrobj,persistent");
    assert_eq!(addresses[2..], ["part2/v4:U--", "part4/v4:U--", "part6/v4:U--", "part8/v4:U--"]);
    lab.down();
}

#[test]
fn a_pulled_cable_and_a_new_subnet_manager_are_seen_at_the_desk() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    let state = || lab.run("alice", "dladm show-link -p -o state pFFFF.ibp0").0;
    // Each group and its members, without its MLID: a group that is made again has another one.
    let groups = || {
        let said = lab.ibdlab(&["fabric", "groups"]).0;
        let mut groups: Vec<_> =
            said.lines().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect();
        groups.sort();
        groups
    };
    let of_both = || groups().iter().filter(|group| group.ends_with(" alice/1 bob/1")).count();
    // The broadcast group, 224.0.0.1, ff02::1; and each one's solicited-node group.
    lab.until("both are in the groups of everyone", || of_both() == 3 && groups().len() == 6);
    let before = groups();
    assert_eq!(lab.ibdlab(&["fabric", "unplug", "alice"]), (String::new(), 0));
    lab.until("the link is down", || state() == "down\n");
    let shown = "dladm show-ib -p -o port,state";
    assert_eq!(lab.run("alice", shown).0, "1:down\n2:down\n");
    assert_eq!(lab.ibdlab(&["fabric", "plug", "alice", "1"]), (String::new(), 0));
    lab.until("the link is up", || state() == "up\n");
    // A request that is on its way as the manager stops is lost, and seconds pass until it is sent again.
    lab.until("both are in the groups of before", || groups() == before);
    assert_eq!(lab.ibdlab(&["fabric", "restart-sm"]), (String::new(), 0));
    lab.until("both are in them again", || groups() == before);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    for (words, why) in [
        (&["fabric", "unplug"][..], "of which host?"),
        (&["fabric", "unplug", "carol"], "there is no host `carol`"),
        (&["fabric", "unplug", "alice", "3"], "alice has no port 3"),
        (&["fabric", "restart-sm", "alice"], "`alice`: nothing more to say"),
    ] {
        let (said, code) = lab.ibdlab(words);
        assert!(code == 1 && said.contains(why), "{said}");
    }
    lab.down();
}

#[test]
fn programs_of_linux_use_the_links_of_hosts_with_tun_devices() {
    if without_linux() {
        return;
    }
    let lab = Lab::new();
    lab.up(&root().join("scenarios/linux-programs.toml"), &[]);
    let linux = |line: &str| lab.run("alice", &format!("env PATH=/usr/sbin:/usr/bin:/sbin:/bin {line}"));
    lab.until("bob answers Linux's ping", || linux("ping -q -c 1 -W 1 192.168.77.2").1 == 0);
    assert_eq!(lab.run("alice", "ping 192.168.77.2"), ("192.168.77.2 is alive\n".into(), 0));
    let add = "ipadm create-addr -T static -a 10.7.0.1/24 ibd0/more";
    assert_eq!(lab.run("alice", add), (String::new(), 0));
    assert!(linux("ip -br addr show dev ibd0").0.contains("10.7.0.1/24"));
    assert_eq!(lab.run("alice", "ipadm delete-addr ibd0/more"), (String::new(), 0));
    assert!(!linux("ip -br addr show dev ibd0").0.contains("10.7.0.1/24"));
    assert_eq!(lab.run("alice", "ipadm delete-if ibd0"), (String::new(), 0));
    assert_eq!(linux("ip -br addr show dev ibd0").1, 1, "the device is gone with the interface");
    let (status, _) = lab.ibdlab(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let namespace = status["hosts"][0]["namespace"].as_str().expect("a namespace").to_owned();
    assert!(Path::new("/run/netns").join(&namespace).exists(), "{namespace}");
    lab.down();
    assert!(!Path::new("/run/netns").join(&namespace).exists(), "{namespace}");
}

/// Two hosts with TUN devices, and adapters that cut large sends.
const LARGE_SENDS: &str = r#"name = "large sends at the desk"

[[host]]
name = "alice"
offloads = true
tun = true
addresses = ["192.168.77.1/24"]

[[host]]
name = "bob"
tun = true
addresses = ["192.168.77.2/24"]
"#;

#[test]
fn linux_s_large_sends_are_off_after_a_restart_without_the_link_s_and_on_after_one_with_them() {
    if without_linux() {
        return;
    }
    let lab = Lab::new();
    let scenario = lab.path("large-sends.toml");
    fs::write(&scenario, LARGE_SENDS).expect("written");
    lab.up(Path::new(&scenario), &[]);
    let features = |host: &str| {
        let line = "env PATH=/usr/sbin:/usr/bin:/sbin:/bin ethtool -k ibd0";
        let (said, _) = lab.run(host, line);
        let is_on =
            |feature: &str| said.lines().any(|line| line.trim().starts_with(&format!("{feature}: on")));
        ["tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation"]
            .map(is_on)
    };
    lab.until("Linux knows what alice's adapter can", || features("alice") == [true, true, false, false]);
    assert_eq!(features("bob"), [false; 4], "bob's can nothing");
    let replumb = |value: u8| {
        for line in [
            "ipadm delete-if ibd0".to_owned(),
            format!("dladm set-linkprop -p _ibd_lso_enable={value} ibd0"),
            "ipadm create-if ibd0".to_owned(),
            "ipadm create-addr -T static -a 192.168.77.1/24 ibd0/v4".to_owned(),
        ] {
            assert_eq!(lab.run("alice", &line), (String::new(), 0), "{line}");
        }
    };
    replumb(0);
    lab.until("large sends are off", || features("alice") == [true, false, false, false]);
    replumb(1);
    lab.until("large sends are on", || features("alice") == [true, true, false, false]);
    lab.until("bob answers", || lab.run("alice", "ping 192.168.77.2 1").1 == 0);
    lab.down();
}
