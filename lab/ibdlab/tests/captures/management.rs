//! Subnet administration in captures of the fabric, as tshark decodes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::root;
use super::tshark::fields;

/// A run of a scenario and its capture.
fn run(directory: &Path, scenario: &str, more: &[&str]) -> PathBuf {
    let capture = directory.join("fabric.pcapng");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    command.current_dir(root()).arg("run").arg(scenario).arg("--capture").arg(&capture).args(more);
    let output = command.output().expect("ibdlab starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    capture
}

/// tshark's words for what subnet administration calls them.
const SUBNET_ADMINISTRATION: &str = "0x03";
const SET: &str = "0x02";
const GET_RESP: &str = "0x81";
const MC_MEMBER_RECORD: &str = "0x0038";
const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";

const DATAGRAM: [&str; 9] = [
    "infiniband.bth.destqp",
    "infiniband.deth.srcqp",
    "infiniband.deth.q_key",
    "infiniband.bth.opcode",
    "infiniband.mad.mgmtclass",
    "infiniband.mad.baseversion",
    "infiniband.lrh.pktlen",
    "infiniband.lrh.lnh",
    "infiniband.bth.p_key",
];

/// Of a join and its answer.
const JOIN: [&str; 9] = [
    "frame.interface_name",
    "frame.packet_flags_direction",
    "infiniband.mad.method",
    "infiniband.mad.transactionid",
    "infiniband.mad.status",
    "infiniband.mcmemberrecord.portgid",
    "infiniband.mcmemberrecord.mlid",
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
];

/// Every port's join of the broadcast group, its answer, and the frames that go where the answer says.
fn check(capture: &Path, hosts: &[&str]) {
    let mads = fields(capture, "infiniband.bth.destqp == 1", &DATAGRAM);
    assert!(mads.len() > 4 * hosts.len(), "{} MADs", mads.len());
    for mad in &mads {
        let rest = ["0x000001", "0x00000001", "0x0000000080010000", "100", SUBNET_ADMINISTRATION, "0x01"];
        assert_eq!(mad[..6], rest, "datagrams between two QP 1, of subnet administration");
        // LRH, BTH, DETH, 256 octets, ICRC.
        assert_eq!(mad[6..], ["72".to_owned(), "0x02".to_owned(), "65535".to_owned()]);
    }
    let filter = format!(
        "infiniband.mad.attributeid == {MC_MEMBER_RECORD} && infiniband.mcmemberrecord.mgid == {BROADCAST}"
    );
    let joins = fields(capture, &filter, &JOIN);
    let mut mlids = BTreeMap::new();
    for host in hosts {
        let of_host = |way: &str, method: &str| {
            let mut found =
                joins.iter().filter(|row| row[0] == format!("{host}/1") && row[1] == way && row[2] == method);
            found.next().unwrap_or_else(|| panic!("{host}: no {method} of the broadcast group: {joins:?}"))
        };
        let (asked, answered) = (of_host("0x00000002", SET), of_host("0x00000001", GET_RESP));
        assert_eq!(asked[3], answered[3], "{host}: one transaction");
        assert_eq!((asked[4].as_str(), answered[4].as_str()), ("0x0000", "0x0000"));
        assert_eq!(asked[5], answered[5], "{host}: the port that joins");
        assert_eq!(
            (&asked[7], &asked[8]),
            (&answered[8], &answered[7]),
            "{host}: to the manager's LID and back"
        );
        let mlid: u16 = u16::from_str_radix(answered[6].trim_start_matches("0x"), 16).expect("a LID");
        assert!(mlid >= 0xc000, "{mlid:#x}");
        mlids.insert(asked[5].clone(), mlid);
    }
    let sent = fields(
        capture,
        &format!("infiniband.grh.dgid == {BROADCAST} && frame.packet_flags_direction == 2"),
        &["infiniband.grh.sgid", "infiniband.lrh.dlid"],
    );
    assert!(!sent.is_empty(), "ARP goes to the broadcast group");
    for row in sent {
        let mlid = mlids.get(&row[0]).unwrap_or_else(|| panic!("{} sends and has not joined", row[0]));
        assert_eq!(row[1], mlid.to_string(), "the LID that the administrator has given");
    }
}

#[test]
fn joins_and_their_answers_are_datagrams_of_the_capture() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = run(directory.path(), "lab/ibdlab/tests/data/random-unload.toml", &[]);
    check(&capture, &["alice", "bob"]);
}

#[test]
fn with_opensm_too_as_the_hosts_have_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = run(directory.path(), "lab/ibdlab/tests/data/opensm.toml", &["--sm", "opensm"]);
    check(&capture, &["alice", "bob"]);
    let informs = fields(
        &capture,
        "infiniband.mad.attributeid == 0x0003 && infiniband.mad.method == 0x81",
        &["infiniband.mad.status"],
    );
    assert!(informs.len() >= 8, "four subscriptions of each host are answered: {informs:?}");
}
