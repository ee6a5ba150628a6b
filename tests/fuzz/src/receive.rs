//! The driver's receive path through the loaded object: any packets, from a sender that is no driver.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ibdlab::run::{Options, run};
use ibdlab::scenario::parse;

/// Two hosts, and the packets between them.
const WORLD: &str = r#"name = "any packets"
[[host]]
name = "alice"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "bob"
addresses = ["10.0.0.2/24", "fd00::2/64"]
[[step]]
attach = {}
[[step]]
up = {}
[[step]]
[step.trouble]
within_ms = 2
settle_ms = 60000
"#;
/// Packets of one run, every 10 us: making the machine is what takes the time, so there are many.
const MOST: usize = 200;
/// Bytes that a packet's length is given in, and whether it goes to the group.
const HEAD: usize = 2;

/// Each packet: two bytes (the top bit: to the broadcast group; the low twelve: its length), then its bytes. All must be well
/// afterwards, and nothing left behind.
pub fn receive_path(bytes: &[u8]) {
    let mut text = WORLD.to_owned();
    for (n, (broadcast, packet)) in packets(bytes).enumerate() {
        let digits: String = packet.iter().fold(String::new(), |mut digits, byte| {
            // Writing to a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        let _ = write!(
            text,
            "[[step.trouble.event]]\nat_us = {}\nraw-packet = {{ to = \"bob\", broadcast = {broadcast}, bytes = \"{digits}\" }}\n",
            n * 10
        );
    }
    if !text.contains("raw-packet") {
        return;
    }
    text.push_str("[[step]]\nunload = {}\n");
    let scenario = parse(Path::new("receive.toml"), &text).expect("written here");
    let options = Options::new(1, proto());
    let report = run(scenario, options, |_| {}).expect("the modules are built: `make modules`");
    if let Some(step) = report.steps.iter().find(|step| !step.ok) {
        panic!("{}: {}", step.step, step.text);
    }
}

fn packets(mut bytes: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let head = u16::from_be_bytes([head[0], head[1]]);
        let (packet, rest) = rest.split_at(usize::from(head & 0xfff).min(rest.len()));
        bytes = rest;
        Some((head & 0x8000 != 0, packet))
    })
    .take(MOST)
}

fn proto() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/kernel")
}
