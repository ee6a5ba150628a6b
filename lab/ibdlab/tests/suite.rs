//! The suite for a real machine (tests/illumos) on two hosts of the lab: every case that their commands allow. What is left out
//! stands in its README.

mod lab;

use std::fs;
use std::process::Command;

use lab::{Lab, root};

const CASES: [&str; 10] = [
    "partitions",
    "second-partition",
    "plumb",
    "ping",
    "ipv6",
    "mtu",
    "fragments",
    "properties",
    "snoop",
    "port-bounce",
];

#[test]
fn what_a_real_machine_is_asked_two_hosts_of_the_lab_answer() {
    let lab = Lab::new();
    lab.up(&root().join("tests/admin/two-keys/lab.toml"), &[]);
    let shown = ["dladm show-part", "dladm show-link", "ipadm show-if", "ipadm show-addr"];
    let state = || ["alice", "bob"].map(|host| shown.map(|line| lab.run(host, line)));
    let before = state();

    let ibdlab = env!("CARGO_BIN_EXE_ibdlab");
    let (results, config, scratch) = (lab.path("results"), lab.path("config"), lab.path(""));
    let text = format!(
        "SIDES=machines\nA_REACH='{ibdlab} exec alice -- sh -c'\nB_REACH='{ibdlab} exec bob -- sh -c'\n\
         A_PORT=ibp0\nB_PORT=ibp0\nPKEY2=8001\nROUNDS=2\nSCRATCH={scratch}\n\
         PORT_DOWN='{ibdlab} fabric unplug alice'\nPORT_UP='{ibdlab} fabric plug alice'\n"
    );
    fs::write(&config, text).expect("written");
    let mut run = Command::new("sh");
    run.arg(root().join("tests/illumos/run")).args(["-o", &results]).args(CASES);
    run.env("IPOIB_CONFIG", config).env("IPOIB_WORK", lab.path("work")).envs(lab.environment());
    let output = run.output().expect("sh");
    let said =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let report = fs::read_to_string(format!("{results}/report")).unwrap_or_default();
    for (case, line) in CASES.iter().zip(report.lines()) {
        assert!(line.starts_with(&format!("{case} PASS ")), "{line}\n{said}");
    }
    assert!(output.status.success() && report.lines().count() == CASES.len(), "{said}");
    assert_eq!(state(), before, "the hosts are as they were");
    lab.down();
}
