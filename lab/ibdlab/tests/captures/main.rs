//! What the lab writes is opened by tshark, and says what was sent: the fabric's pcapng, a link's pcap, snoop's files.
//!
//! These run on the wall clock and wait for conditions.

#[path = "../lab/mod.rs"]
mod lab;
mod management;
mod sent;
mod tshark;

use std::fs;
use std::path::Path;
use std::process::Child;

use lab::{Lab, root};
use sent::{Sent, Station};
use tshark::Row;

const LINK: &str = "pFFFF.ibp0";

/// A lab with two hosts that reach each other.
fn two_hosts() -> (Lab, [Station; 2]) {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    lab.until("alice answers", || lab.run("bob", "ping alice 1").1 == 0);
    let station = |host: &str, ip: [u8; 4]| {
        let (said, _) = lab.run(host, &format!("ifconfig {LINK}"));
        Station::new(host, ip, &said)
    };
    let stations = [station("alice", [10, 0, 0, 1]), station("bob", [10, 0, 0, 2])];
    (lab, stations)
}

/// A capture that runs until it is interrupted.
struct Running(Child);

impl Running {
    /// Waits until it says that it has begun.
    fn start(lab: &Lab, words: &[&str], file: &str, begun: &str) -> Self {
        let said = format!("{file}.words");
        let child = lab.start(words, &said);
        lab.until("it captures", || fs::read_to_string(&said).is_ok_and(|said| said.contains(begun)));
        Self(child)
    }

    fn end(mut self, lab: &Lab) {
        lab.interrupt(&self.0);
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

/// Everybody captures while each host sends its packets from a file.
fn capture(lab: &Lab, packets: &[(&Station, Vec<Sent>)]) -> [String; 5] {
    let file = |name: &str| lab.path(name);
    let [fabric, alice, bob] = ["fabric.pcapng", "alice.pcap", "bob.pcap"].map(file);
    let [alice_snoop, bob_snoop] = ["alice.snoop", "bob.snoop"].map(file);
    let listen = |words: &[&str], file: &str| Running::start(lab, words, file, "capturing in");
    let snoop = |host: &str, file: &str| {
        Running::start(lab, &["exec", host, "--", "snoop", "-d", LINK, "-o", file], file, "Using device")
    };
    let running = [
        listen(&["capture", &fabric], &fabric),
        listen(&["capture", &alice, "alice", LINK], &alice),
        listen(&["capture", &bob, "bob", LINK], &bob),
        snoop("alice", &alice_snoop),
        snoop("bob", &bob_snoop),
    ];
    let (said, code) = lab.ibdlab(&["capture", &fabric]);
    assert!(code == 1 && said.contains("a capture of the fabric is under way"), "{said}");
    for (from, packets) in packets {
        let lines = lab.path("frames");
        fs::write(&lines, packets.iter().map(Sent::line).collect::<String>()).expect("written");
        assert_eq!(lab.ibdlab(&["send", &from.host, LINK, &lines]), (String::new(), 0));
    }
    let last = packets.iter().map(|(from, packets)| (*from, packets.last().expect("a packet").key.clone()));
    for (from, key) in last {
        let other = if from.host == "alice" { &bob } else { &alice };
        lab.until("the last one has arrived", || {
            // A file that is being written may end in the middle of a packet.
            tshark::rows_so_far(Path::new(other)).iter().any(|row| row.key() == key)
        });
    }
    running.into_iter().for_each(|running| running.end(lab));
    [fabric, alice, bob, alice_snoop, bob_snoop]
}

/// The one row of a packet, in a capture of a link.
fn find<'a>(rows: &'a [Row], sent: &Sent, file: &str) -> &'a Row {
    let mine: Vec<&Row> = rows.iter().filter(|row| row.key() == sent.key).collect();
    assert_eq!(mine.len(), 1, "{file}: {} {}: {mine:?}", sent.name, sent.key);
    mine[0]
}

#[test]
fn every_form_of_capture_has_the_packets_as_they_were_sent() {
    let (lab, [alice, bob]) = two_hosts();
    let packets = [(&alice, sent::all(&alice, &bob, 0x7a00)), (&bob, sent::all(&bob, &alice, 0x7b00))];
    let [fabric, alice_pcap, bob_pcap, alice_snoop, bob_snoop] = capture(&lab, &packets);
    lab.down();
    for file in [&alice_snoop, &bob_snoop] {
        let rows = tshark::rows(Path::new(file));
        for sent in packets.iter().flat_map(|(_, packets)| packets) {
            let row = find(&rows, sent, file);
            sent.check_packet(false, row, file);
            row.expect("frame.len", (4 + sent.payload.len()).to_string(), file);
        }
    }
    for file in [&alice_pcap, &bob_pcap] {
        let rows = tshark::rows(Path::new(file));
        for (from, sent) in
            packets.iter().flat_map(|(from, packets)| packets.iter().map(move |sent| (from, sent)))
        {
            let row = find(&rows, sent, file);
            sent.check_packet(false, row, file);
            sent.check_link_addresses(from, row, file);
            row.expect("frame.len", (40 + 4 + sent.payload.len()).to_string(), file);
        }
    }
    let rows = tshark::rows(Path::new(&fabric));
    for (from, sent) in
        packets.iter().flat_map(|(from, packets)| packets.iter().map(move |sent| (from, sent)))
    {
        let to = if from.host == "alice" { "bob/1" } else { "alice/1" };
        let mine: Vec<&Row> = rows.iter().filter(|row| row.key() == sent.key).collect();
        let ways: Vec<(&str, &str)> = mine
            .iter()
            .map(|row| (row.get("frame.interface_name"), row.get("frame.packet_flags_direction")))
            .collect();
        let out = format!("{}/1", from.host);
        assert_eq!(ways, [(out.as_str(), "0x00000002"), (to, "0x00000001")], "{}", sent.name);
        for row in mine {
            sent.check_packet(true, row, &fabric);
            sent.check_headers(from, row);
        }
    }
}

#[test]
fn a_capture_of_a_link_can_be_sent_again() {
    let (lab, [alice, bob]) = two_hosts();
    let packets = [(&alice, sent::all(&alice, &bob, 0x7a00)), (&bob, sent::all(&bob, &alice, 0x7b00))];
    let [fabric, alice_pcap, _, alice_snoop, _] = capture(&lab, &packets);
    let again = lab.path("again.pcap");
    let listening = Running::start(&lab, &["capture", &again, "bob", LINK], &again, "capturing in");
    let send = |words: &[&str]| lab.ibdlab(&[&["send"], words, &["alice", LINK]].concat());
    let to_bob = bob.address.map(|octet| format!("{octet:x}")).join(":");
    let everything = |file: &str, words: &[&str]| {
        let (said, code) = lab.ibdlab(&[&["send"][..], words, &["alice", LINK, file]].concat());
        assert_eq!((said.as_str(), code), ("", 0), "{file}");
    };
    everything(&alice_pcap, &[]);
    everything(&alice_snoop, &["--to", &to_bob]);
    let (said, code) = lab.ibdlab(&["send", "alice", LINK, &alice_snoop]);
    assert!(code == 1 && said.contains("a snoop file has no destinations: say one with --to"), "{said}");
    let (said, code) = lab.ibdlab(&["send", "alice", LINK, &fabric]);
    assert!(code == 1 && said.contains("has LIDs and no link addresses: send a capture of a link"), "{said}");
    let (said, code) = send(&["--to", "10.0.0.2"]);
    assert!(code == 2 && said.contains("`10.0.0.2` is no link address"), "{said}");
    // Each packet of alice to bob or to everybody comes from the pcap, and again from snoop's file.
    let times = |sent: &Sent| {
        tshark::rows_so_far(Path::new(&again)).iter().filter(|row| row.key() == sent.key).count()
    };
    for sent in &packets[0].1 {
        lab.until(&sent.name, || times(sent) == 2);
    }
    listening.end(&lab);
    lab.down();
}

#[test]
fn a_capture_ends_by_itself_when_it_has_what_was_asked_for_and_says_what_is_in_the_way() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let file = lab.path("three.pcap");
    let words = ["capture", "--count", "3", &file, "bob", LINK];
    let mut running = Running::start(&lab, &words, &file, "capturing in");
    lab.until("it has three", || {
        let _ = lab.run("alice", "ping bob 1");
        running.0.try_wait().expect("it is ours").is_some()
    });
    assert!(fs::read_to_string(format!("{file}.words")).is_ok_and(|said| said.ends_with("3 packets\n")));
    assert_eq!(tshark::rows(Path::new(&file)).len(), 3);
    for (words, why) in [
        (&["capture", "/nowhere/x"][..], "/nowhere/x: No such file"),
        (&["capture", "/nowhere/x", "bob", LINK], "/nowhere/x: No such file"),
        (&["capture", &file, "bob", "nothing0"], "nothing0: ENOENT"),
        (&["capture", &file, "carol", LINK], "there is no host `carol`"),
    ] {
        let (said, code) = lab.ibdlab(words);
        assert!(code == 1 && said.contains(why), "{said}");
    }
    lab.down();
}
