//! Labs that stay up: how they come and end, and what goes in and out of them beside the commands' own words.
//!
//! These run on the wall clock and wait for conditions.

mod lab;

use std::fs;
use std::io::{Read, Write};

use lab::{Lab, root};

#[test]
fn several_labs_are_told_apart_and_a_dead_one_is_cleared_away() {
    let lab = Lab::new();
    let scenario = root().join("scenarios/desk.toml");
    lab.up(&scenario, &["--lab", "one"]);
    lab.up(&scenario, &["--lab", "two"]);
    let (said, code) = lab.ibdlab(&["up", "scenarios/desk.toml", "--lab", "one"]);
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

/// Before, a second scenario got the addresses of the first without a word.
#[test]
fn a_scenario_whose_hosts_have_files_of_another_one_is_told_so() {
    let lab = Lab::new();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "name = \"second\"\n[[host]]\nname = \"alice\"\ndriver = \"ibp\"\naddresses = [\"192.168.5.1/24\"]\n\
                [[host]]\nname = \"carol\"\ndriver = \"ibp\"\naddresses = [\"192.168.5.2/24\"]\n";
    fs::write(file.path(), text).expect("written");
    let second = file.path().to_str().expect("a path");
    let desk = root().join("scenarios/desk.toml");
    lab.up(&desk, &[]);
    let first = lab.run("alice", "ipadm show-addr -p -o addr pFFFF.ibp0/v4").0;
    lab.down();
    let (said, code) = lab.ibdlab(&["up", desk.to_str().expect("a path")]);
    assert!(code == 0 && !said.contains("--fresh"), "{said}");
    lab.down();
    for fresh in [&[][..], &["--fresh"]] {
        let (said, code) = lab.ibdlab(&[&["up", second], fresh].concat());
        let told = said.contains("the files of alice are of ") && said.contains("scenarios/desk.toml");
        assert_eq!((code, told), (0, fresh.is_empty()), "{said}");
        let now = lab.run("alice", "ipadm show-addr -p -o addr pFFFF.ibp0/v4").0;
        assert_eq!(now == first, fresh.is_empty(), "{now}");
        lab.down();
    }
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
fn what_does_not_come_as_a_hosts_files_have_it_is_told_when_the_lab_is_up() {
    let lab = Lab::new();
    let line = "p1\tclass=int,256;media=int,26;pkey=int,65535;linkover=string,ibp9;\n";
    lab.write("alice", "etc/dladm/datalink.conf", line);
    let (said, code) = lab.ibdlab(&["up", "scenarios/desk.toml"]);
    assert_eq!((said.as_str(), code), ("lab lab is up: alice, bob\nalice: p1: object not found\n", 0));
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
fn a_signal_ends_a_lab_as_down_does() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    let log = lab.log("lab");
    lab.terminate("lab");
    lab.until("it has ended", || lab.ibdlab(&["status"]).1 == 1);
    assert_eq!(std::io::read_to_string(log).expect("the log"), "", "nothing was left behind");
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
