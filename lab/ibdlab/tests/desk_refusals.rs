//! What the commands of a lab that is up refuse, or cannot write down, leaves everything as it was.
//!
//! These run on the wall clock and wait for conditions.

mod lab;

use std::io::Read;

use lab::{Lab, root};

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
        "ipadm: Could not create address: Could not open DLPI link",
        1,
    ),
    ("ipadm delete-addr pFFFF.ibp0/v9", "ipadm: could not delete address: Object not found", 1),
    ("ping nobody", "ping: unknown host nobody", 1),
];

#[test]
fn what_is_refused_says_why_and_leaves_everything_as_it_was() {
    let lab = Lab::new();
    lab.up(&root().join("tests/admin/two-keys/lab.toml"), &[]);
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
