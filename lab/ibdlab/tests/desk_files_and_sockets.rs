//! A desk whose files are spoiled, whose clients say too much or nothing, and whose directories are another user's.
//!
//! These run on the wall clock and wait for conditions.

mod lab;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::{Lab, root};

const DESK: &str = "scenarios/desk.toml";
const LINK: &str = "etc/dladm/datalink.conf";
const ADDRESS: &str = "etc/ipadm/ipadm.conf";

fn connect(lab: &Lab) -> UnixStream {
    let stream = UnixStream::connect(lab.socket("lab")).expect("the lab is up");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

/// The first line of an answer; empty if there is none.
fn answer(stream: &UnixStream) -> String {
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

/// Where a host keeps its files.
fn files(lab: &Lab, host: &str) -> PathBuf {
    Path::new(&lab.path("state")).join("lab").join(host)
}

/// Before, a line of any length was kept, and such a client had no answer.
#[test]
fn a_line_without_an_end_is_refused() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let stream = connect(&lab);
    let piece = vec![b'['; 1 << 20];
    // The lab may close before it has all of it.
    let _ = (0..17).try_for_each(|_| (&stream).write_all(&piece));
    let said = answer(&stream);
    assert!(said.contains("a line of more than 16777216 octets"), "{said}");
    // One that has an end is not repeated in whole.
    let stream = connect(&lab);
    (&stream).write_all(&piece).and_then(|()| (&stream).write_all(b"\n")).expect("written");
    let said = answer(&stream);
    assert!(said.contains("not understood: [[[") && said.len() < 1000, "{}", said.len());
    assert_eq!(lab.run("alice", "ping alice"), ("alice is alive\n".into(), 0));
    lab.down();
}

/// Before, each client had a thread, however many there were.
#[test]
fn clients_beyond_the_most_are_refused_until_others_end() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let silent: Vec<UnixStream> = (0..128).map(|_| connect(&lab)).collect();
    lab.until("they are counted", || lab.ibdlab(&["status"]).1 == 1);
    let (said, code) = lab.ibdlab(&["status"]);
    assert_eq!(
        (said.as_str(), code),
        ("ibdlab: 128 commands are under way in this lab, and it takes no more\n", 1)
    );
    drop(silent);
    lab.until("they are gone", || lab.ibdlab(&["status"]).1 == 0);
    lab.down();
}

/// It waits for its answers to be read, as a program does whose pipe is full, and ends with the lab.
#[test]
fn a_client_that_reads_nothing_does_not_keep_a_lab_from_ending() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let deaf: Vec<UnixStream> = (0..4)
        .map(|_| {
            let stream = connect(&lab);
            let request = "{\"version\":1,\"request\":{\"run\":{\"host\":\"alice\",\"arguments\":[\"ping\",\"-s\",\"-I\",\
                           \"0.01\",\"bob\"],\"rows\":24,\"privileged\":true,\"directory\":\"/\"}}}\n";
            (&stream).write_all(request.as_bytes()).expect("written");
            stream
        })
        .collect();
    // What waits for a client is bounded, and alice goes on.
    let mut first = String::new();
    let mut reader = BufReader::new(&deaf[0]);
    while !first.contains("icmp_seq=20") {
        first.clear();
        reader.read_line(&mut first).expect("it pings");
    }
    assert_eq!(lab.run("bob", "ping alice"), ("alice is alive\n".into(), 0));
    lab.down();
}

/// Before, they were passed over without a word, and a pipe was waited for.
#[test]
fn spoiled_files_of_a_host_are_named_with_their_lines() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    lab.down();
    let whole = lab.read("alice", LINK);
    let lines = whole.lines().count();
    lab.write("alice", LINK, &format!("{whole}garbage{{{{{{\nx0\tclass=int,none;\n"));
    fs::write(files(&lab, "bob").join(ADDRESS), b"_ifname=a;_family=2;\n\x01\xff\xfe\n").expect("written");
    lab.write("alice", "etc/zones/index", "red:lost:/:\n");
    lab.write("alice", "etc/zones/red.xml", "<zone\n");
    let (said, code) = lab.ibdlab(&["up", DESK]);
    assert_eq!(code, 0, "{said}");
    let place = |host: &str, file: &str| files(&lab, host).join(file).display().to_string();
    for expected in [
        format!("alice: {}:{}: not understood, left out: garbage{{{{{{\n", place("alice", LINK), lines + 1),
        format!(
            "alice: {}:{}: not understood, left out: x0\\tclass=int,none;\n",
            place("alice", LINK),
            lines + 2
        ),
        format!("alice: {}:1: not understood, left out: red:lost:/:\n", place("alice", "etc/zones/index")),
        format!("alice: {}: not understood: it is no zone\n", place("alice", "etc/zones/red.xml")),
        format!("bob: {}: line 2 is not UTF-8\n", place("bob", ADDRESS)),
    ] {
        assert_eq!(said.matches(&expected).count(), 1, "no `{expected}` in\n{said}");
    }
    // The lines that are whole count.
    assert_eq!(lab.run("alice", "dladm show-part -p -o link").0, "pFFFF.ibp0\n");
    lab.down();
}

/// See above; a link may lead anywhere, and what is there is read if it is a file.
#[test]
fn what_is_no_file_in_a_hosts_place_for_one_is_named() {
    let lab = Lab::new();
    let path = files(&lab, "alice").join(LINK);
    type Spoil = fn(&Path);
    let cases: [(Spoil, &str); 4] = [
        (|path| fs::create_dir(path).expect("made"), "not a regular file"),
        (
            |path| assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success()),
            "not a regular file",
        ),
        (|path| symlink("/dev/zero", path).expect("made"), "not a regular file"),
        (|path| drop(fs::File::create(path).and_then(|file| file.set_len(17 << 20))), "larger than 16 MiB"),
    ];
    for (spoil, why) in cases {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        spoil(&path);
        // A host without that file is set up anew, which cannot be written down.
        let (said, _) = lab.ibdlab(&["up", DESK]);
        assert!(said.contains(&format!("{}: {why}", path.display())), "{said}");
        let _ = lab.ibdlab(&["down"]);
        let removed =
            if path.is_dir() && !path.is_symlink() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        removed.expect("removed");
    }
}

/// A capture to read is a file too.
#[test]
fn snoop_reads_no_device_and_no_pipe() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let pipe = lab.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for file in ["/dev/zero", &pipe, "/"] {
        let (said, code) = lab.run("alice", &format!("snoop -i {file}"));
        assert!(said.contains("not a regular file") && code != 0, "{file}: {said}");
    }
    lab.down();
}

/// Before, the lab had the file open until another capture began, and its file system could not be unmounted.
#[test]
fn a_capture_that_fails_closes_its_file() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    for what in [&["/dev/full"][..], &["/dev/full", "alice", "pFFFF.ibp0"]] {
        let (said, code) = lab.ibdlab(&[&["capture"], what].concat());
        assert!(code == 1 && said.contains("No space left on device"), "{said}");
        let daemon = lab.daemon("lab").expect("it is up");
        let open = fs::read_dir(format!("/proc/{}/fd", daemon.as_raw_pid())).expect("it lives").flatten();
        let open: Vec<PathBuf> = open.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
        assert!(!open.contains(&PathBuf::from("/dev/full")), "{open:?}");
    }
    lab.down();
}

/// Before, `sudo -E` had root keep labs and hosts' files where the user can replace any directory on the way.
#[test]
fn root_keeps_nothing_where_another_user_can_change_it() {
    let lab = Lab::new();
    let home = lab.path("home");
    fs::create_dir(&home).expect("made");
    if chown(&home, Some(4711), Some(4711)).is_err() {
        // Only root has something to fear, and can make such a directory.
        return;
    }
    for variable in ["IBDLAB_RUNTIME", "IBDLAB_STATE"] {
        for below in [home.clone(), format!("{home}/a/b")] {
            let output = lab.command(&["up", DESK]).env(variable, &below).output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = format!("ibdlab: {variable}: another user can change what is at {below}");
            assert!(!output.status.success() && said.starts_with(&expected), "{said}");
        }
    }
    let link = lab.path("link");
    symlink(&home, &link).expect("made");
    let output = lab.command(&["up", DESK]).env("IBDLAB_RUNTIME", &link).output().expect("it starts");
    assert!(!output.status.success(), "a link leads there");

    // As `sudo -E` has it: what is the user's is not taken.
    let mine = lab.path("tmp");
    fs::create_dir(&mine).expect("made");
    let as_sudo = |arguments: &[&str]| {
        let mut command = lab.command(arguments);
        command.env_remove("IBDLAB_RUNTIME").env_remove("IBDLAB_STATE").env("TMPDIR", &mine);
        command.env("XDG_RUNTIME_DIR", &home).env("XDG_STATE_HOME", &home).env("HOME", &home);
        command.output().expect("it starts")
    };
    let output = as_sudo(&["up", DESK]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(as_sudo(&["down"]).status.success());
    assert_eq!(fs::read_dir(&home).expect("it is there").count(), 0);
    assert!(Path::new(&mine).join("ibdlab-0/.state/lab/alice").join(LINK).exists());
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o777)).expect("set");
    let output = lab.command(&["up", DESK]).env("IBDLAB_RUNTIME", &mine).output().expect("it starts");
    assert!(!output.status.success(), "everybody can write there");
}

/// Before, `down` said nothing for half a minute, and `up` that the lab is up.
#[test]
fn a_lab_that_takes_long_to_end_says_for_whom_it_waits() {
    let lab = Lab::new();
    let text = fs::read_to_string(root().join(DESK)).expect("a scenario");
    let slow = lab.path("slow.toml");
    fs::write(&slow, text).expect("written");
    lab.up(Path::new(&slow), &[]);
    // A daemon whose host does not halt: this one stands still, and its lab says so.
    fs::write(lab.directory_of("lab").join("ends"), "bob").expect("written");
    let (said, code) = lab.ibdlab(&["up", &slow]);
    assert_eq!((said.as_str(), code), ("ibdlab: the lab `lab` is about to end: it waits for bob\n", 1));
    lab.down();
    assert!(!lab.directory_of("lab").exists());

    let (lock, listener) = lab.stand_in("lab");
    fs::write(lab.directory_of("lab").join("ends"), "bob").expect("written");
    let words = lab.path("words");
    let mut down = lab.start(&["down"], &words);
    let (stream, _) = listener.accept().expect("it asks");
    let mut reader = BufReader::new(stream.try_clone().expect("another"));
    reader.read_line(&mut String::new()).expect("a request");
    (&stream).write_all(b"{\"exit\":0}\n").expect("written");
    let said = || fs::read_to_string(&words).unwrap_or_default();
    lab.until("it says so", || {
        said() == "waiting for bob to leave its groups and end (^C: it does so by itself)\n"
    });
    drop(lock);
    assert!(down.wait().expect("it was started").success());
}
