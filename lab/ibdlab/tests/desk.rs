//! Labs that stay up, and illumos's commands in them: scripts against what the original prints, refusals, what outlives a lab.
//!
//! These run on the wall clock and wait for conditions.

mod lab;

use std::fs;
use std::io::{Read, Write};
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
fn a_prefix_that_no_address_can_have_is_told_at_boot_and_the_rest_comes_up() {
    let lab = Lab::new();
    let item =
        |name: &str, address: &str| format!("_ifname=pFFFF.ibp0;_aobjname=pFFFF.ibp0/{name};{address};\n");
    let file = [
        "_ifname=pFFFF.ibp0;_family=2;\n_ifname=pFFFF.ibp0;_family=26;\n".to_owned(),
        item("bad", "_ipv4addr=10.0.0.7/99"),
        item("worse", "_ipv6addr=fd00::7/200"),
        item("v4", "_ipv4addr=10.0.0.8/24"),
    ];
    lab.write("alice", "etc/ipadm/ipadm.conf", &file.concat());
    let link = "pFFFF.ibp0\tclass=int,256;media=int,26;pkey=int,65535;linkover=string,ibp0;\n";
    lab.write("alice", "etc/dladm/datalink.conf", link);
    let (said, code) = lab.ibdlab(&["up", "scenarios/desk.toml"]);
    let told = [
        "lab lab is up: alice, bob\n".to_owned(),
        format!("alice: etc/ipadm/ipadm.conf: not understood: {}", item("bad", "_ipv4addr=10.0.0.7/99")),
        format!("alice: etc/ipadm/ipadm.conf: not understood: {}", item("worse", "_ipv6addr=fd00::7/200")),
    ];
    assert_eq!((said, code), (told.concat(), 0));
    let addresses = lab.run("alice", "ipadm show-addr -p -o addrobj").0;
    assert_eq!(addresses, "lo0/v4\npFFFF.ibp0/v4\nlo0/v6\n");
    lab.down();
}

#[test]
fn a_capture_of_the_fabric_ends_at_the_packet_that_was_asked_for() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    // More than 20 frames between two looks at the capture.
    let mut traffic = lab.start_at("bob", &["sh", "-c", "exec ping -s -I 0.01 alice 20000 >/dev/null"]);
    for count in ["20", "1", "0"] {
        let file = lab.path("capture");
        let (said, code) = lab.ibdlab(&["capture", "--count", count, &file]);
        assert!(code == 0 && said.ends_with(&format!("\n{count} packets\n")), "{said}");
    }
    traffic.interrupt();
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

/// Commands that go on until somebody ends them, each with how many of its lines are read.
const ENDLESS: [&str; 5] = [
    "snoop -d pFFFF.ibp0 2>/dev/null | head -2",
    "snoop -v -d pFFFF.ibp0 2>/dev/null | head -1",
    "ping -s -I 0.1 bob | head -2",
    "kstat -p -m link 1 | head -1",
    "dladm show-link -s -i 1 pFFFF.ibp0 | head -1",
];

#[test]
fn a_command_whose_reader_has_had_enough_ends_as_by_sigpipe_and_lets_the_link_go() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let mut traffic = lab.start_at("bob", &["sh", "-c", "exec ping -s -I 0.05 alice >/dev/null"]);
    for line in ENDLESS {
        let (command, reader) = line.split_once(" | ").expect("a pipe");
        let file = lab.path("code");
        let script = format!("{{ {command}; echo $? >{file}; }} | {reader} | wc -l");
        let (said, code) = lab.exec("alice", &["sh", "-c", &script]);
        let lines = format!("{}\n", &reader["head -".len()..]);
        assert_eq!((said, code), (lines, 0), "{line}");
        // 128 and the number of SIGPIPE.
        lab.until("the command has ended", || fs::read_to_string(&file).is_ok_and(|text| text == "141\n"));
        fs::remove_file(&file).expect("it was there");
    }
    traffic.interrupt();
    // A link that somebody still snoops on is busy.
    assert_eq!(lab.run("alice", "ipadm delete-if pFFFF.ibp0"), (String::new(), 0));
    let delete = || lab.run("alice", "dladm delete-part pFFFF.ibp0");
    lab.until("nobody has the link", || delete() == (String::new(), 0));
    lab.down();
}

#[test]
fn what_a_command_cannot_say_is_told_and_is_no_success() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    let ibdlab = env!("CARGO_BIN_EXE_ibdlab");
    for command in
        ["kstat -p", "dladm show-ib", &format!("{ibdlab} fabric groups"), &format!("{ibdlab} sa groups")]
    {
        let (said, code) = lab.exec("alice", &["sh", "-c", &format!("{command} >/dev/full")]);
        let words = "ibdlab: standard output: No space left on device (os error 28)\n";
        assert_eq!((said.as_str(), code), (words, 1), "{command}");
    }
    // Where the first lines are all that is wanted of what ends by itself, nothing is wrong.
    let (said, _) = lab.exec("alice", &["sh", "-c", &format!("{ibdlab} sa groups | head -1 | wc -l")]);
    assert_eq!(said, "1\n");
    lab.down();
}

/// A question of ARP to everybody, as the plugin has the broadcast address, for an address that nobody has.
const FRAME: &str = "# destination, IPoIB header, ARP
00ffffffff10401b00000000 00000000ffffffff 08060000
002008001404000100000048fe800000000000000002c903000a1b2d0a000001
00000000000000000000000000000000000000000a000009
";

#[test]
fn a_frame_from_a_file_goes_out_as_it_is() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let (file, words) = (lab.path("frames"), lab.path("words"));
    let frame = FRAME.lines().skip(1).collect::<String>();
    fs::write(&file, format!("# one frame\n{frame}\n")).expect("written");
    let ibdlab = env!("CARGO_BIN_EXE_ibdlab");
    let script = format!(
        "snoop -r -c 1 -d pFFFF.ibp0 arp and host 10.0.0.9 2>{words} & until grep -qs Using {words}; do sleep 1; done; \
         {ibdlab} send alice pFFFF.ibp0 {file}; wait"
    );
    let expected = "    10.0.0.1 -> *            ARP C Who is 10.0.0.9, 10.0.0.9 ?\n";
    assert_eq!(lab.exec("bob", &["sh", "-c", &script]), (expected.to_owned(), 0));
    for (text, why) in [
        ("0", "line 1: expected pairs of hexadecimal digits"),
        ("00ff", "pFFFF.ibp0: 0 of 1 frames were taken"),
    ] {
        fs::write(&file, text).expect("written");
        let (said, code) = lab.ibdlab(&["send", "alice", "pFFFF.ibp0", &file]);
        assert!(code == 1 && said.contains(why), "{said}");
    }
    let (said, code) = lab.ibdlab(&["send", "alice", "nothing0", &file]);
    assert!(code == 1 && said.contains("nothing0: ENOENT"), "{said}");
    lab.down();
}

#[test]
fn several_labs_are_told_apart_and_a_dead_one_is_cleared_away() {
    let lab = Lab::new();
    let scenario = root().join("scenarios/desk.toml");
    lab.up(&scenario, &["--lab", "one"]);
    lab.up(&scenario, &["--lab", "two"]);
    let (said, code) = lab.ibdlab(&["up", path(&scenario), "--lab", "one"]);
    assert!(code == 1 && said.contains("the lab `one` is up already"), "{said}");
    let (said, code) = lab.ibdlab(&["exec", "alice", "--", "dladm", "show-ib"]);
    assert!(code == 1 && said.contains("several labs are up, say which with --lab: one, two"), "{said}");
    let (said, code) = lab.ibdlab(&["exec", "--lab", "two", "carol", "--", "true"]);
    assert!(code == 1 && said.contains("there is no host `carol`, expected one of alice, bob"), "{said}");
    lab.kill("one");
    let (said, code) = lab.ibdlab(&["exec", "--lab", "one", "alice", "--", "dladm", "show-ib"]);
    assert!(code == 1 && said.contains("the lab `one` is not up any more"), "{said}");
    lab.up(&scenario, &["--lab", "one"]);
    lab.kill("one");
    let (said, code) = lab.ibdlab(&["down", "--lab", "one"]);
    assert!(code == 1 && said.contains("the lab `one` is not up any more"), "{said}");
    assert!(!lab.directory_of("one").exists());
    assert_eq!(lab.ibdlab(&["down"]), (String::new(), 0));
    let (said, code) = lab.ibdlab(&["status"]);
    assert!(code == 1 && said.contains("no lab is up"), "{said}");
}

#[test]
fn a_lab_that_dies_while_it_is_asked_is_said_to_be_gone() {
    let lab = Lab::new();
    for (heard, answer) in [(0, ""), (1, ""), (1, "{\"Out\":\"ha"), (4096, "")] {
        let (_lock, socket) = lab.stand_in("one");
        let dying = std::thread::spawn(move || {
            let (mut client, _) = socket.accept().expect("a client");
            let _ = client.read(&mut vec![0; heard]).expect("a request");
            client.write_all(answer.as_bytes()).expect("it listens");
        });
        let (said, code) = lab.ibdlab(&["exec", "--lab", "one", "alice", "--", "dladm", "show-ib"]);
        assert_eq!((said.as_str(), code), ("ibdlab: the lab `one` is not up any more\n", 1), "{heard}");
        dying.join().expect("it died as it should");
    }
    let (_lock, socket) = lab.stand_in("two");
    drop(socket);
    let (said, _) = lab.ibdlab(&["status", "--lab", "two"]);
    assert_eq!(said, "ibdlab: the lab `two` is not up any more\n");
    fs::remove_file(lab.socket("two")).expect("it was there");
    let (said, _) = lab.ibdlab(&["status", "--lab", "two"]);
    assert_eq!(said, "ibdlab: the lab `two` is not ready yet\n");
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
fn what_cannot_come_up_says_why_and_leaves_nothing() {
    let lab = Lab::new();
    for (scenario, more, why) in [
        ("scenarios/desk.toml", &["--module", "alice/ibp=Makefile"][..], "loading the driver"),
        ("scenarios/nowhere.toml", &[], "scenarios/nowhere.toml: No such file"),
        ("scenarios/desk.toml", &["--lab", "../x"], "`../x` is no name for a lab"),
    ] {
        let (said, code) = lab.ibdlab(&[&["up", scenario], more].concat());
        assert!(code == 1 && said.contains(why), "{said}");
        assert_eq!(
            lab.ibdlab(&["status"]),
            ("ibdlab: no lab is up: `ibdlab up SCENARIO` starts one\n".into(), 1)
        );
    }
}

#[test]
fn a_pulled_cable_and_a_new_subnet_manager_are_seen_at_the_desk() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    let state = || lab.run("alice", "dladm show-link -p -o state pFFFF.ibp0").0;
    let broadcast_of_both = || {
        let (groups, _) = lab.ibdlab(&["fabric", "groups"]);
        groups.lines().any(|line| line.contains("ff12:401b:ffff::ffff:ffff alice/1 bob/1"))
    };
    lab.until("both are in the broadcast group", broadcast_of_both);
    assert_eq!(lab.ibdlab(&["fabric", "unplug", "alice"]), (String::new(), 0));
    lab.until("the link is down", || state() == "down\n");
    let shown = "dladm show-ib -p -o port,state";
    assert_eq!(lab.run("alice", shown).0, "1:down\n2:down\n");
    assert_eq!(lab.ibdlab(&["fabric", "plug", "alice", "1"]), (String::new(), 0));
    lab.until("the link is up", || state() == "up\n");
    assert_eq!(lab.ibdlab(&["fabric", "restart-sm"]), (String::new(), 0));
    lab.until("both are in the broadcast group again", broadcast_of_both);
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

#[test]
fn a_signal_ends_a_lab_as_down_does() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    let log = lab.log("lab");
    lab.terminate("lab");
    lab.until("it has ended", || lab.ibdlab(&["status"]).1 == 1);
    assert_eq!(std::io::read_to_string(log).expect("the log"), "", "nothing was left behind");
}

#[test]
fn a_capture_of_snoop_is_what_tshark_expects() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let file = lab.path("capture");
    let script = format!(
        "snoop -q -c 4 -o {file} -d pFFFF.ibp0 icmp 2>{file}.words & \
         until grep -qs Using {file}.words; do sleep 1; done; \
         while kill -0 $! 2>/dev/null; do ping -s bob 1000 1 >/dev/null; done"
    );
    assert_eq!(lab.exec("alice", &["sh", "-c", &script]), (String::new(), 0));
    let mut tshark = std::process::Command::new("tshark");
    tshark.args(["-r", &file, "-T", "fields", "-e", "frame.encap_type", "-e", "frame.len", "-e", "ip.src"]);
    let output = tshark.args(["-e", "icmp.type", "-e", "icmp.seq"]).output().expect("tshark");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').skip(1).collect()).collect();
    let echo = |from, kind, sequence| vec!["1032", from, kind, sequence];
    let expected = [
        echo("10.0.0.1", "8", "0"),
        echo("10.0.0.2", "0", "0"),
        echo("10.0.0.1", "8", "0"),
        echo("10.0.0.2", "0", "0"),
    ];
    assert_eq!(fields, expected, "{said}{}", String::from_utf8_lossy(&output.stderr));
    lab.down();
}

/// A command line that is refused, what it says, and its exit code.
type Refusal = (&'static str, &'static str, i32);

const REFUSALS: [Refusal; 37] = [
    // Names of links.
    ("dladm create-part -l ibp9 -P ffff p1", "dladm: invalid link name 'ibp9'", 1),
    (
        "dladm create-part -l pFFFF.ibp0 -P ffff p1",
        "dladm: partition ffff creation over pFFFF.ibp0 failed: operation not supported",
        1,
    ),
    ("dladm create-part -l ibp0 -P ffff 1p", "dladm: Invalid link name '1p'", 1),
    ("dladm create-part -l ibp0 -P ffff p01", "dladm: Invalid link name 'p01'", 1),
    ("dladm create-part -l ibp0 -P ffff name-1", "dladm: Invalid link name 'name-1'", 1),
    (
        "dladm create-part -l ibp0 -P ffff a2345678901234567890123456789012",
        "dladm: Invalid link name 'a2345678901234567890123456789012'",
        1,
    ),
    ("dladm delete-part p9", "dladm: invalid link name 'p9'", 1),
    ("dladm delete-part ibp0", "dladm: ibp0: partition deletion failed: invalid argument", 1),
    ("dladm show-link xyz0", "dladm: link xyz0 is not valid: object not found", 1),
    ("dladm show-phys pFFFF.ibp0", "dladm: failed to show physical link pFFFF.ibp0: invalid argument", 1),
    ("dladm show-part ibp0", "dladm: failed to show IB partition 'ibp0': invalid argument", 1),
    ("dladm show-ib pFFFF.ibp0", "dladm: failed to show IB Phys link 'pFFFF.ibp0': invalid argument", 1),
    ("dladm rename-link pFFFF.ibp0 ibp0", "dladm: rename operation failed: object already exists", 1),
    ("dladm rename-link pFFFF.ibp0 ib0", "dladm: rename operation failed: link busy", 1),
    // P_Keys.
    (
        "dladm create-part -l ibp0 -P 8000 p1",
        "dladm: partition 8000 creation over ibp0 failed: invalid PKEY",
        1,
    ),
    ("dladm create-part -l ibp0 -P ffffz p1", "dladm: Invalid pkey", 1),
    ("dladm create-part -l ibp0 -P -1 p1", "dladm: Invalid pkey", 1),
    (
        "dladm create-part -l ibp0 -P 8002 p1",
        "dladm: partition 8002 creation over ibp0 failed: PKEY is not present on the port",
        1,
    ),
    (
        "dladm create-part -l ibp0 -P ffff pFFFF.ibp0",
        "dladm: partition ffff creation over ibp0 failed: object already exists",
        1,
    ),
    (
        "dladm create-part -l ibp1 -P ffff p1",
        "dladm: partition ffff creation over ibp1 failed: port is down",
        1,
    ),
    // A property that fails takes the partition with it.
    (
        "dladm create-part -l ibp0 -P ffff -p _ibd_num_ah=31 p1",
        "dladm: partition ffff creation over ibp0 failed: invalid argument",
        1,
    ),
    ("dladm create-part -l ibp0 -P ffff -p linkmode p1", "dladm: invalid IB partition property", 1),
    (
        "dladm set-linkprop -p mtu=9000 pFFFF.ibp0",
        "dladm: warning: cannot set link property 'mtu' on 'pFFFF.ibp0': invalid argument",
        1,
    ),
    (
        "dladm set-linkprop -p state=down pFFFF.ibp0",
        "dladm: warning: cannot set link property 'state' on 'pFFFF.ibp0': read-only property",
        1,
    ),
    // In use.
    ("dladm delete-part pFFFF.ibp0", "dladm: pFFFF.ibp0: partition deletion failed: link busy", 1),
    // Without the privilege.
    (
        "ppriv -e -s A-sys_dl_config dladm create-part -l ibp0 -P 8001 p1",
        "dladm: partition 8001 creation over ibp0 failed: permission denied",
        1,
    ),
    (
        "ppriv -e -s A=basic dladm delete-part pFFFF.ibp0",
        "dladm: pFFFF.ibp0: partition deletion failed: permission denied",
        1,
    ),
    (
        "ppriv -e -s A=basic dladm set-linkprop -p _ibd_num_ah=64 pFFFF.ibp0",
        "dladm: warning: cannot set link property '_ibd_num_ah' on 'pFFFF.ibp0': permission denied",
        1,
    ),
    (
        "ppriv -e -s A=basic ipadm delete-if pFFFF.ibp0",
        "ipadm: Could not delete pFFFF.ibp0: Permission denied",
        1,
    ),
    (
        "ppriv -e -s A-sys_dl_config cfgadm -o comm=vppa,service=ibd -x add_service ib",
        "cfgadm: Hardware specific failure: failed to add ibd service incore ",
        1,
    ),
    // Options.
    ("dladm show-part -p", "dladm: -p requires -o", 1),
    ("dladm show-link -p -o nothing", "dladm: unknown output field: `nothing'", 1),
    // Addresses.
    (
        "ipadm create-addr -T static -a 10.0.0.1/24 pFFFF.ibp0/v4",
        "ipadm: Could not create address: Address object already exists",
        1,
    ),
    (
        "ipadm create-addr -T static -a 10.0.0.300/24 pFFFF.ibp0/v5",
        "ipadm: Could not create address: Invalid argument provided",
        1,
    ),
    (
        "ipadm create-addr -T static -a 10.0.0.3/24 ibp9/v4",
        "ipadm: Could not create address: Interface does not exist",
        1,
    ),
    ("ipadm delete-addr pFFFF.ibp0/v9", "ipadm: could not delete address: Object not found", 1),
    ("ping nobody", "ping: unknown host nobody", 1),
];

#[test]
fn what_is_refused_says_why_and_leaves_everything_as_it_was() {
    let lab = Lab::new();
    lab.up(&scripts("two-keys").join("lab.toml"), &[]);
    for line in [
        "dladm create-part -l ibp0 -P ffff pFFFF.ibp0",
        "ipadm create-if pFFFF.ibp0",
        "ipadm create-addr -T static -a 10.0.0.1/24 pFFFF.ibp0/v4",
    ] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    lab.until("the link is up", || lab.run("alice", "dladm show-part -p -o state pFFFF.ibp0").0 == "up\n");
    let state = || {
        let links = lab.run("alice", "dladm show-link -p -o link,class,mtu,state,over").0;
        let parts = lab.run("alice", "dladm show-part -P -p -o link,pkey,over").0;
        let properties =
            lab.run("alice", "dladm show-linkprop -c -o property,value -p _ibd_num_ah,linkmode pFFFF.ibp0").0;
        let addresses = lab.run("alice", "ipadm show-addr -p -o addrobj,addr").0;
        let files = ["etc/dladm/datalink.conf", "etc/ipadm/ipadm.conf", "kernel/drv/ib.conf"]
            .map(|file| lab.read("alice", file));
        (links, parts, properties, addresses, files)
    };
    let before = state();
    for (line, words, code) in REFUSALS {
        assert_eq!(lab.run("alice", line), (format!("{words}\n"), code), "{line}");
        assert_eq!(state(), before, "{line}");
    }
    // Those that print a usage.
    for line in [
        "dladm create-part -P ffff p1",
        "dladm create-part -l ibp0 p1",
        "dladm delete-part",
        "dladm nonsense",
        "ipadm create-if",
        "kstat -p -z",
        "dladm show-part -l",
    ] {
        let (said, code) = lab.run("alice", line);
        assert!(code != 0 && said.to_lowercase().contains("usage:"), "{line}: {said}");
        assert_eq!(state(), before, "{line}");
    }
    lab.down();
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    for line in [
        "dladm create-part -l ibp0 -P 8001 spare1",
        "dladm set-linkprop -p _ibd_num_ah=64 spare1",
        "dladm create-part -t -l ibp0 -P 8001 once1",
        "ipadm create-if -t once1",
        "ipadm create-addr -T static -a 10.3.0.1/24 once1/v4",
    ] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    // Where the new text is written before it takes the file's place.
    lab.write("alice", "etc/dladm/datalink.new/in the way", "");
    lab.write("alice", "etc/ipadm/ipadm.new/in the way", "");
    let state = || {
        [
            "dladm show-link -p -o link,class,over",
            "dladm show-part -P -p -o link,pkey,over",
            "dladm show-linkprop -c -o property,value -p _ibd_num_ah spare1",
            "ipadm show-addr -p -o addrobj,type,addr,persistent",
        ]
        .map(|line| lab.run("alice", line))
    };
    let before = state();
    for line in [
        "dladm create-part -l ibp0 -P 8001 more1",
        "dladm set-linkprop -p _ibd_num_ah=128 spare1",
        "dladm reset-linkprop -p _ibd_num_ah spare1",
        "dladm rename-link spare1 other1",
        "dladm rename-link ibp1 other1",
        "dladm delete-part spare1",
        "ipadm create-if spare1",
        "ipadm create-addr -T static -a 10.2.0.1/24 pFFFF.ibp0/more",
        "ipadm delete-addr pFFFF.ibp0/v4",
        "ipadm delete-if pFFFF.ibp0",
        "ipadm create-ipmp ipmp0",
    ] {
        let (said, code) = lab.run("alice", line);
        assert_eq!((said.to_lowercase().contains("operation failed"), code), (true, 1), "{line}: {said}");
        assert_eq!(state(), before, "{line}");
    }
    let mut log = String::new();
    lab.log("lab").read_to_string(&mut log).expect("text");
    assert!(log.contains("etc/dladm/datalink.conf: Is a directory"), "{log}");
    // What is for now alone needs no file.
    for line in ["ipadm delete-addr once1/v4", "ipadm delete-if once1", "dladm delete-part -t once1"] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    lab.down();
}

#[test]
fn what_does_not_come_as_a_hosts_files_have_it_is_told_when_the_lab_is_up() {
    let lab = Lab::new();
    let line = "p1\tclass=int,256;media=int,26;pkey=int,65535;linkover=string,ibp9;\n";
    lab.write("alice", "etc/dladm/datalink.conf", line);
    let (said, code) = lab.ibdlab(&["up", "scenarios/desk.toml"]);
    assert_eq!((said.as_str(), code), ("lab lab is up: alice, bob\nalice: p1: object not found\n", 0));
    lab.down();
}
