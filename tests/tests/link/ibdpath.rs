//! The command `ibdpath` as it ships, on a link of the lab: its questions go to the driver's object, and its waiting is the lab's.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use conformance::probe::workspace_root;
use fakekernel::genunix::Cred;
use fakekernel::{Errno, Nanos};
use lab_gldv3::{Offload, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, Driver, Host, LINK, PLAIN, Setup, address_of};

const PATH_INFO: i32 = 0x6171_0004;
const OPEN: u32 = 0;
const ASK: u32 = 1;

/// The command, compiled once.
fn command() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let root = workspace_root();
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("ibdpath");
        let status = Command::new("gcc")
            .args(["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-include", "stdint.h", "-I"])
            .arg(root.join("usr/src/uts/common"))
            .arg("-I")
            .arg(root.join("usr/src/cmd/ibdpath"))
            .arg(root.join("usr/src/cmd/ibdpath/ibdpath.c"))
            .arg(root.join("tests/ibdpath/lab.c"))
            .arg("-o")
            .arg(&program)
            .status();
        assert!(status.expect("gcc runs").success());
        (dir, program)
    });
    program
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    status: i32,
    out: String,
    errors: String,
}

/// Runs the command on a host until it ends.
fn ibdpath(host: &Host, arguments: &[&str]) -> Ended {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("lab");
    let listener = UnixListener::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("it can be asked");
    let mut process = Command::new(command())
        .args(arguments)
        .env("LAB_SOCKET", &socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    loop {
        if let Ok((connection, _)) = listener.accept() {
            connection.set_nonblocking(false).expect("it can be waited for");
            serve(host, connection);
            break;
        }
        if process.try_wait().expect("it is ours").is_some() {
            break;
        }
        std::thread::yield_now();
    }
    let output = process.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended {
        status: output.status.code().expect("no signal"),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// Does what the kernel does for it, until it has gone.
fn serve(host: &Host, mut connection: UnixStream) {
    let mut stream = None;
    loop {
        let mut words = [0; 8];
        if connection.read_exact(&mut words).is_err() {
            return;
        }
        let word = |at: usize| u32::from_ne_bytes(words[at..at + 4].try_into().expect("four bytes"));
        let (operation, number) = (word(0), word(4));
        let mut answer = Vec::new();
        let mut argument = || {
            let mut bytes = vec![0; number as usize];
            connection.read_exact(&mut bytes).expect("it sends what it says");
            bytes
        };
        let result = match operation {
            OPEN => {
                let name = String::from_utf8(argument()).expect("text");
                Stream::open_passive(&host.kernel, &name).map(|opened| stream = Some(opened)).map_err(
                    |errno| {
                        // As libdlpi says it.
                        if errno == Errno::ENOENT { Errno::ENODEV } else { errno }
                    },
                )
            }
            ASK => {
                let stream = stream.as_ref().expect("opened first");
                let told = stream.ioctl(Cred::ROOT, PATH_INFO, &argument());
                told.map(|(_, bytes)| answer = bytes)
            }
            _ => {
                fakekernel::sleep(Nanos::from_millis(number.into()));
                Ok(())
            }
        };
        let errno = result.err().map_or(0, |errno| errno.0);
        connection.write_all(&errno.to_ne_bytes()).expect("it waits for this");
        if errno == 0 {
            connection.write_all(&answer).expect("it waits for this");
        }
    }
}

fn colons(address: [u8; 20]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn with_both_drivers(test: fn(&Bench)) {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { driver, seeds: 2, ..Setup::default() }.run(test);
    }
}

#[test]
fn a_table_shows_how_a_neighbour_and_the_broadcast_group_are_reached() {
    with_both_drivers(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let ended = ibdpath(&bench.alpha, &[LINK, "255.255.255.255", &colons(address_of(&beta).0)]);
        assert_eq!((ended.status, ended.errors.as_str()), (0, ""));
        let lines: Vec<&str> = ended.out.lines().collect();
        assert_eq!(lines[0], "ADDRESS                 SLID   DLID   PKEY SL MTU  RATE  LIFETIME AGE");
        let broadcast: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(broadcast[0], "255.255.255.255");
        assert!(broadcast[2].starts_with("0xc0"), "{broadcast:?}");
        assert_eq!((broadcast[3], broadcast[5], broadcast[7]), ("FFFF", "2048", "--"));
        let port: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!((port[0], port[3], port[5]), (colons(address_of(&beta).0).as_str(), "FFFF", "4096"));
        assert_eq!(port.len(), 9);
    });
}

#[test]
fn parsable_output_escapes_colons_unless_there_is_one_field() {
    with_both_drivers(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let to = colons(address_of(&beta).0);
        let one = ibdpath(&bench.alpha, &["-p", "-o", "neighbour", LINK, &to]);
        assert_eq!(one, Ended { status: 0, out: format!("{to}\n"), errors: String::new() });
        let two = ibdpath(&bench.alpha, &["-p", "-o", "Neighbour,pkey,kind,grh", LINK, &to]);
        assert_eq!(two.out, format!("{}:FFFF:port:no\n", to.replace(':', "\\:")));
        let group = ibdpath(&bench.alpha, &["-p", "-o", "lifetime,kind,grh", LINK, "255.255.255.255"]);
        assert!(matches!(group.out.as_str(), ":group:yes\n"), "{group:?}");
        let gid = ibdpath(&bench.alpha, &["-p", "-o", "sgid", LINK, &to]);
        let guid = &address_of(&alpha).0[12..];
        let last = format!("{:x}", u16::from_be_bytes([guid[6], guid[7]]));
        assert!(gid.out.starts_with("fe80::") && gid.out.trim_end().ends_with(&last), "{gid:?}");
    });
}

/// An advertisement for fe80::2, as IP has it.
fn advertisement(flags: u8, place: [u8; 20]) -> Vec<u8> {
    let ip = |n: u8| [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
    let head = [0x60, 0, 0, 0, 0, 48, 58, 255];
    let message = [136, 0, 0, 0, flags, 0, 0, 0];
    [&head[..], &ip(2), &ip(1), &message, &ip(2), &[2, 3], &place, &[0, 0]].concat()
}

/// RFC 4861 section 7.2.5. Before, an advertisement of an anycast or proxy station replaced the place that IP keeps, and so there was
/// no path to it.
#[test]
fn ibdpath_keeps_the_place_that_ip_keeps() {
    const IPV6: u32 = 0x86dd;
    const OVERRIDE: u8 = 0x20;
    with_both_drivers(|bench| {
        let (alpha, _) = bench.alpha.open_up(IPV6);
        let (beta, _) = bench.beta.open_up(IPV6);
        let place = address_of(&beta).0;
        let mut another = place;
        another[19] ^= 0x55;
        for (flags, place) in [(OVERRIDE, place), (0, another), (0x40, another)] {
            beta.transmit(address_of(&alpha), &advertisement(flags, place), Offload::default()).unwrap();
            bench.settle();
            let ended = ibdpath(&bench.alpha, &["-p", "-o", "kind", LINK, "fe80::2"]);
            assert_eq!((ended.errors.as_str(), ended.out.as_str()), ("", "port\n"), "{flags:x}");
        }
    });
}

#[test]
fn each_failure_is_told_beside_what_succeeds_and_in_the_exit_status() {
    with_both_drivers(|bench| {
        bench.world.set_cable(bench.alpha.port(), false);
        let closed = ibdpath(&bench.alpha, &[LINK, "224.0.0.1"]);
        bench.world.set_cable(bench.alpha.port(), true);
        let down = "ibdpath: 224.0.0.1: the link is not up\n";
        assert_eq!(closed, Ended { status: 1, out: String::new(), errors: down.into() });
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let mut nobody = address_of(&beta).0;
        nobody[19] ^= 0x55;
        let arguments =
            ["-p", "-o", "kind", LINK, "10.0.0.9", "::", "10.0.0", &colons(nobody), "255.255.255.255"];
        let ended = ibdpath(&bench.alpha, &arguments);
        let expected = format!(
            "ibdpath: 10.0.0.9: no ARP or neighbour discovery seen for it; send it something first\n\
             ibdpath: ::: an address nobody can have, or a link that is not ibd's or ibp's\n\
             ibdpath: 10.0.0: neither an IP address nor a link address of 20 bytes\n\
             ibdpath: {}: no path, or no answer from the subnet administrator\n",
            colons(nobody)
        );
        assert_eq!(ended, Ended { status: 1, out: "group\n".into(), errors: expected });
        let nowhere = ibdpath(&bench.alpha, &["net7", "10.0.0.1"]);
        assert_eq!((nowhere.status, nowhere.errors.as_str()), (1, "ibdpath: net7: no such link\n"));
    });
}

#[test]
fn it_waits_as_long_as_it_is_told_for_an_sa_that_is_silent() {
    with_both_drivers(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let to = colons(address_of(&beta).0);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        for (arguments, seconds) in [(&["-w", "0"][..], 0), (&[], 5), (&["-w", "7"], 7)] {
            let before = bench.machine.now();
            let ended = ibdpath(&bench.alpha, &[arguments, &[LINK, &to]].concat());
            assert_eq!(ended.errors, format!("ibdpath: {to}: not known yet\n"));
            assert_eq!((ended.status, ended.out.as_str()), (1, ""));
            let took = bench.machine.now().since(before);
            assert!((seconds * 1000..seconds * 1000 + 50).contains(&(took.0 / 1_000_000)), "{took}");
        }
        bench.no_faults();
    });
}

#[test]
fn a_wrong_command_line_says_what_is_wrong_with_it() {
    let usage = "usage: ibdpath [-w seconds] [[-p] -o field[,...]] link address...\n";
    for (arguments, status, complaint, with_usage) in [
        (&[][..], 2, "", true),
        (&["ibd0"], 2, "", true),
        (&["-x", "ibd0", "10.0.0.1"], 2, "unknown option -x", true),
        (&["-w"], 2, "option -w needs an argument", true),
        (&["-w", "1x", "ibd0", "10.0.0.1"], 2, "1x: not a number of seconds up to 3600", true),
        (
            &["-w", "99999999999999999999", "ibd0", "1.1.1.1"],
            2,
            "99999999999999999999: not a number of seconds up to 3600",
            true,
        ),
        (&["-p", "ibd0", "10.0.0.1"], 2, "-p requires -o", true),
        (&["-p", "-o", "all", "ibd0", "10.0.0.1"], 1, "output field `all' invalid in parsable mode", false),
        (&["-p", "-o", "sl,nonsense", "ibd0", "10.0.0.1"], 1, "unknown output field: `nonsense'", false),
        (&["-o", "nonsense", "ibd0", "10.0.0.1"], 1, "no valid output fields", false),
    ] {
        let output = Command::new(command()).args(arguments).output().expect("it runs");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(complaint.is_empty() || errors.contains(&format!("ibdpath: {complaint}\n")), "{errors}");
        assert_eq!(errors.ends_with(usage), with_usage, "{errors}");
        assert!(output.stdout.is_empty());
    }
}
