//! tshark, and what it says of a capture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What is asked of every frame.
const FIELDS: [&str; 49] = [
    "frame.len",
    "frame.interface_name",
    "frame.packet_flags_direction",
    "ipoib.type",
    "ipoib.daddr.qpn",
    "ipoib.dgid",
    "ipoib.grh.sqpn",
    "ipoib.grh.sgid",
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
    "infiniband.lrh.lnh",
    "infiniband.lrh.pktlen",
    "infiniband.grh.sgid",
    "infiniband.grh.dgid",
    "infiniband.bth.opcode",
    "infiniband.bth.p_key",
    "infiniband.bth.padcnt",
    "infiniband.bth.destqp",
    "infiniband.deth.q_key",
    "infiniband.deth.srcqp",
    "arp.opcode",
    "arp.hw.type",
    "arp.src.hw",
    "arp.src.proto_ipv4",
    "arp.dst.proto_ipv4",
    "ip.id",
    "ip.src",
    "ip.dst",
    "ip.len",
    "ip.proto",
    "ip.checksum.status",
    "icmp.type",
    "icmp.checksum.status",
    "udp.dstport",
    "udp.length",
    "udp.checksum.status",
    "tcp.dstport",
    "tcp.len",
    "tcp.checksum.status",
    "tcp.payload",
    "data.data",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.plen",
    "icmpv6.type",
    "icmpv6.checksum.status",
    "icmpv6.nd.ns.target_address",
    "icmpv6.opt.length",
    "icmpv6.opt.src_linkaddr",
];

/// Checksums are verified.
const PREFERENCES: [&str; 3] =
    ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "tcp.check_checksum:TRUE"];

/// One frame: a field's name and all its values.
#[derive(Debug)]
pub struct Row(BTreeMap<&'static str, String>);

impl Row {
    pub fn get(&self, field: &str) -> &str {
        self.0.get(field).unwrap_or_else(|| panic!("{field} is not asked for"))
    }

    /// What tells the test's packets from others: an IPv4 identification, or who is asked for.
    pub fn key(&self) -> String {
        ["ip.id", "arp.dst.proto_ipv4", "icmpv6.nd.ns.target_address"].map(|field| self.get(field)).concat()
    }

    pub fn expect(&self, field: &str, value: impl Into<String>, file: &str) {
        assert_eq!(self.get(field), value.into(), "{file}: {field} of {self:?}");
    }
}

/// Fields of every frame of a capture.
pub fn fields(capture: &Path, filter: &str, names: &[&'static str]) -> Vec<Vec<String>> {
    let (lines, ok, said) = dump(capture, filter, names);
    assert!(ok, "{}: {said}", capture.display());
    lines
}

fn dump(capture: &Path, filter: &str, names: &[&str]) -> (Vec<Vec<String>>, bool, String) {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-T", "fields", "-E", "separator=|", "-Y", filter]);
    command.args(names.iter().flat_map(|name| ["-e", name]));
    command.args(PREFERENCES.iter().flat_map(|preference| ["-o", preference]));
    let output = command.output().expect("tshark is installed (make test does it)");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| line.split('|').map(str::to_owned).collect());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (lines.collect(), output.status.success(), said)
}

fn row(values: Vec<String>) -> Row {
    Row(FIELDS.into_iter().zip(values).collect())
}

/// Every frame of a capture.
pub fn rows(capture: &Path) -> Vec<Row> {
    fields(capture, "frame", &FIELDS).into_iter().map(row).collect()
}

/// Those of a capture that is being written: it may end in the middle of one, or have none.
pub fn rows_so_far(capture: &Path) -> Vec<Row> {
    dump(capture, "frame", &FIELDS).0.into_iter().map(row).collect()
}
