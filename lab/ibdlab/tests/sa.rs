//! `ibdlab sa`: the subnet administrator is asked as a program asks it, embedded or OpenSM, and through libibumad.

mod lab;

use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::{Lab, left_out, root};
use opensm::{Adapter, OpenSm, Tools, Topology};
use serde_json::Value;
use sm::records::{McMemberRecord, mc_member_mask};
use sm::{Attribute, Gid, Guid, JoinState, Method, Partition, QKey, SaMad};

const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";
const ALICE: &str = "fe80::2:c903:a:1b2d";

/// A lab's answer, and whether there may be more.
fn ask(lab: &Lab, words: &str) -> (Vec<Value>, bool) {
    let words: Vec<&str> = words.split(' ').collect();
    let (said, code) = lab.ibdlab(&[&["sa", "--json"], &words[..]].concat());
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{words:?}: {said}"));
    assert_eq!(code, 0);
    (answer["rows"].as_array().expect("rows").clone(), answer["possibly_cut"] == true)
}

fn column(rows: &[Value], name: &str) -> Vec<String> {
    let text = |row: &Value| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
    rows.iter().map(text).collect()
}

/// The questions, whoever answers them.
fn questions(sm: &str) {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &["--sm", sm]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let in_broadcast = || column(&ask(&lab, &format!("members {BROADCAST}")).0, "member");
    lab.until("both are in the broadcast group", || in_broadcast().len() == 2);
    let (members, cut) = ask(&lab, &format!("members {BROADCAST}"));
    assert!(!cut);
    let mut named = column(&members, "member");
    named.sort();
    assert_eq!(named, ["alice/1", "bob/1"]);
    assert_eq!(column(&members, "joined"), ["full", "full"]);

    // What the manager itself says of its groups, and what its administrator tells.
    let listed = || {
        let (groups, _) = lab.ibdlab(&["fabric", "groups"]);
        let mgid = |line: &str| line.split(' ').nth(1).map(str::to_owned);
        let mut groups: Vec<String> = groups.lines().filter_map(mgid).collect();
        groups.sort();
        groups
    };
    lab.until("the groups are those of the manager's list", || {
        let (groups, cut) = ask(&lab, "groups");
        let mut told = column(&groups, "mgid");
        told.sort();
        assert!(!cut && told.len() > 3, "more than one MAD has room for, asked for in portions: {told:?}");
        told == listed()
    });
    let (groups, _) = ask(&lab, "groups");
    let broadcast = groups.iter().find(|group| group["mgid"] == BROADCAST).expect("the broadcast group");
    assert_eq!((&broadcast["pkey"], &broadcast["qkey"]), (&"0xffff".into(), &"0x00000b1b".into()));
    assert_eq!((&broadcast["mtu"], &broadcast["scope"]), (&2048.into(), &2.into()));
    let (everybody, cut) = ask(&lab, "members");
    assert!(!cut && everybody.len() > groups.len(), "{everybody:?}");

    let (ports, _) = ask(&lab, "ports");
    let port = |name: &str| {
        ports.iter().find(|port| port["name"] == name).unwrap_or_else(|| panic!("{name}: {ports:?}"))
    };
    let (alice, bob) = (port("alice/1"), port("bob/1"));
    assert_eq!((&alice["state"], &bob["state"]), (&"active".into(), &"active".into()));
    let (paths, cut) = ask(&lab, "--host bob paths alice bob");
    assert!(!cut && !paths.is_empty());
    assert_eq!((&paths[0]["slid"], &paths[0]["dlid"]), (&alice["lid"], &bob["lid"]));
    assert_eq!(ask(&lab, &format!("paths {ALICE} bob")).0, paths, "a port by its GID");
    let (partitions, _) = ask(&lab, "partitions");
    let of_alice = partitions.iter().find(|row| row["name"] == "alice/1").expect("alice's");
    assert_eq!(of_alice["pkeys"], serde_json::json!(["0xffff", "0x8001"]));
    let (nodes, cut) = ask(&lab, "nodes");
    assert!(!cut && column(&nodes, "portguid").contains(&"0002c903000a1b2d".to_owned()), "{nodes:?}");

    let (said, code) = lab.ibdlab(&["sa", "members", BROADCAST]);
    assert_eq!((said.lines().next(), code), (Some("MGID                       MEMBER   JOINED"), 0));
    let refusals: [(&[&str], &str); 8] = [
        (&["sa", "paths", "alice"], "from where to where? `sa paths SRC DST`"),
        (&["sa", "paths", "alice", "carol"], "`carol` is neither a GID nor one of alice/1, alice/2, bob/1"),
        (&["sa", "groups", "alice"], "`alice`: nothing more to say"),
        (&["sa", "members", "alice"], "`alice` is no group: its GID begins with ff"),
        (&["sa", "--host", "carol", "groups"], "there is no host `carol`"),
        (&["sa", "--port", "3", "groups"], "alice has no port 3"),
        // The second port has no cable.
        (&["sa", "--port", "2", "groups"], "the port knows no subnet administrator"),
        (&["sa", "--sm-key", "0", "partitions"], "the subnet administrator refuses: ERR_REQ_INVALID"),
    ];
    for (words, why) in refusals {
        let (said, code) = lab.ibdlab(words);
        assert!(code == 1 && said.contains(why), "{words:?}: {said}");
    }
    lab.down();
}

#[test]
fn the_embedded_administrator_answers_a_program() {
    questions("embedded");
}

#[test]
fn opensm_answers_a_program_in_portions_that_ibsim_carries() {
    questions("opensm");
}

const PORTS: [Guid; 2] = [Guid(0x0002_c903_0000_1001), Guid(0x0002_c903_0000_2001)];

/// Joins a group in a port's name, as `OpenSm`'s own clients do.
fn join(opensm: &OpenSm, port: Guid, mgid: Gid) {
    let (sender, arrived) = channel();
    let sender = Mutex::new(sender);
    opensm.set_sink(Some(Arc::new(move |_, arrival| {
        // The test may be over.
        if let Ok(sender) = sender.lock() {
            let _ = sender.send(arrival.mad);
        }
    })));
    let record = McMemberRecord {
        mgid,
        port_gid: Gid::of_port(Gid::DEFAULT_PREFIX, port),
        q_key: QKey::IPOIB,
        p_key: sm::PKey::DEFAULT_FULL,
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    };
    let request = SaMad::request(Method::SET, Attribute::MC_MEMBER_RECORD, 1, mc_member_mask::CREATE);
    let manager = opensm.snapshot().expect("the subnet").ports[&port].info.master_sm_lid;
    opensm.send(port, manager, &request.with_record(&record).emit()).expect("sent");
    let answer = arrived.recv_timeout(Duration::from_secs(60)).expect("an answer");
    assert_eq!(SaMad::parse(&answer).expect("a MAD").status, sm::Status::SUCCESS);
}

const MANY: [Guid; 4] = [Guid(0x1001), Guid(0x2001), Guid(0x3001), Guid(0x4001)];

/// Four members of the broadcast group.
fn opensm_with_many_members() -> OpenSm {
    let adapter = |port: Guid| Adapter {
        name: format!("{port}"),
        node: Guid(port.0 - 1),
        port,
        link: opensm::Link::default(),
    };
    let tools = Tools::find().expect("make test installs OpenSM and ibsim");
    let topology = Topology::new(MANY.map(adapter)).expect("a subnet");
    let opensm = OpenSm::start(tools, topology, &[Partition::default_open()]).expect("OpenSM");
    let broadcast = Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff };
    MANY.iter().for_each(|port| join(&opensm, *port, broadcast));
    opensm
}

/// What `ibdlab sa --adapter` prints to either stream in this environment, and its exit code.
fn through_libibumad(environment: &[(&str, std::ffi::OsString)], words: &[&str]) -> (String, String, i32) {
    // umad2sim writes a tree into the working directory.
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    command.args(["sa", "--adapter"]).args(words).current_dir(directory.path());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("ibdlab starts");
    let [said, warned] =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (said, warned, output.status.code().unwrap_or(-1))
}

#[test]
fn libibumad_asks_a_real_opensm_and_a_cut_answer_is_told_apart() {
    let adapter = |port: Guid| Adapter {
        name: format!("{port}"),
        node: Guid(port.0 - 1),
        port,
        link: opensm::Link::default(),
    };
    let tools = Tools::find().expect("make test installs OpenSM and ibsim");
    let topology = Topology::new(PORTS.map(adapter)).expect("a subnet");
    let opensm = OpenSm::start(tools, topology, &[Partition::default_open()]).expect("OpenSM");
    let environment = opensm.client_environment(PORTS[0]).expect("a port of it");
    let ipv4 = |id: u64| Gid { prefix: 0xff12_401b_ffff_0000, guid: id };
    join(&opensm, PORTS[1], ipv4(0xffff_ffff));
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "groups"]);
    assert!(code == 0 && said.contains(BROADCAST), "{said}{warned}");
    assert!(!warned.contains("may have been cut"), "{warned}");
    let gids = PORTS.map(|port| Gid::of_port(Gid::DEFAULT_PREFIX, port).to_string());
    let (said, warned, code) =
        through_libibumad(&environment, &["ibsim0", "--json", "paths", &gids[0], &gids[1]]);
    assert_eq!(code, 0, "{said}{warned}");
    let answer: Value = serde_json::from_str(&said).expect("JSON");
    let lids = opensm.snapshot().expect("the subnet").ports;
    assert_eq!(answer["rows"][0]["slid"], lids[&PORTS[0]].info.lid.to_string());
    assert_eq!(answer["rows"][0]["dlid"], lids[&PORTS[1]].info.lid.to_string());
    // Four records do not fit, and nothing but the length says so. In portions each of them is there.
    (1..=3).for_each(|id| join(&opensm, PORTS[1], ipv4(id)));
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "groups"]);
    assert!(code == 0 && !warned.contains("may have been cut"), "{said}{warned}");
    for id in [0xffff_ffff, 1, 2, 3] {
        assert!(said.contains(&ipv4(id).to_string()), "{said}");
    }
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "--json", "ports"]);
    assert!(code == 0 && !warned.contains("may have been cut"), "{said}{warned}");
    let ports: Value = serde_json::from_str(&said).expect("JSON");
    let lid_of = |port: &Guid| lids[port].info.lid.to_string();
    let told = column(ports["rows"].as_array().expect("rows"), "lid");
    assert!(PORTS.iter().all(|port| told.contains(&lid_of(port))), "{told:?}");
    assert!(told.len() > 3, "the switch has several: {told:?}");
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "partitions"]);
    assert!(code == 0 && !warned.contains("may have been cut"), "{said}{warned}");
    assert_eq!(said.matches("0xffff").count(), 3, "of both adapters and of the manager's: {said}");
    // Of a group's members nobody knows which to ask for alone.
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "members", BROADCAST]);
    assert!(code == 0 && said.contains(&gids[1]), "{said}{warned}");
    assert!(!warned.contains("may have been cut"), "there is one: {warned}");
    let many = &opensm_with_many_members();
    let environment = many.client_environment(MANY[0]).expect("a port of it");
    let (said, warned, code) = through_libibumad(&environment, &["ibsim0", "members", BROADCAST]);
    assert!(code == 0 && said.lines().count() == 4, "three of four: {said}");
    assert!(warned.contains("ibdlab: an answer filled a MAD and may have been cut"), "{warned}");
    let (_, warned, code) = through_libibumad(&environment, &["mlx5_0", "groups"]);
    assert_eq!(code, 1);
    assert_eq!(
        warned.lines().last(),
        Some("ibdlab: this machine has no InfiniBand adapter mlx5_0, expected one of ibsim0")
    );
}

#[test]
fn a_machine_without_an_adapter_says_so_in_one_line() {
    let adapters = std::fs::read_dir("/sys/class/infiniband_mad");
    let has_one = adapters.is_ok_and(|mut entries| entries.next().is_some());
    if left_out("no adapter", has_one.then(|| "this machine has an InfiniBand adapter".to_owned())) {
        return;
    }
    let (said, warned, code) = through_libibumad(&[], &["mlx5_0", "groups"]);
    assert_eq!((said.as_str(), code, warned.lines().count()), ("", 1, 1), "{warned}");
    assert!(warned.starts_with("ibdlab: ") && warned.contains("/sys/class/infiniband_mad"), "{warned}");
}
