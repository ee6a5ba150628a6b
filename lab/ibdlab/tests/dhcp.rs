//! DHCP at the desk (RFC 4390): illumos's commands on one host, an unmodified dnsmasq in the namespace of the other.
//!
//! This runs on the wall clock and waits for conditions.

mod lab;

use std::fs;
use std::process::{Child, Command, Stdio};

use lab::{Lab, root, without_linux};

/// Where alice's identifier comes from: type 0, four octets of zero, her port's GID.
const CLIENT: &str = "00:00:00:00:00:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:1b:2d";
/// The first renewal comes after so many seconds.
const RENEWAL: u32 = 5;

/// dnsmasq in bob's namespace; it ends with this.
struct Server {
    process: Child,
    log: String,
    leases: String,
}

impl Server {
    fn start(lab: &Lab) -> Self {
        let (status, _) = lab.ibdlab(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let namespace = status["hosts"][1]["namespace"].as_str().expect("a namespace").to_owned();
        let [log, leases] = ["dnsmasq.log", "dnsmasq.leases"].map(|name| lab.path(name));
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &namespace,
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
        ]);
        command.args(["--port=0", "--user=root", "--pid-file=", "--no-ping", "--log-dhcp"]);
        command.args(["--interface=ibd0", "--bind-dynamic", "--dhcp-authoritative"]);
        command.arg("--dhcp-range=192.168.77.100,192.168.77.110,2m");
        command.arg(format!("--dhcp-option=option:T1,{RENEWAL}"));
        command.args([format!("--log-facility={log}"), format!("--dhcp-leasefile={leases}")]);
        let process = command.stdin(Stdio::null()).spawn().expect("dnsmasq starts");
        let server = Self { process, log, leases };
        lab.until("dnsmasq serves", || server.said("DHCP, IP range") > 0);
        server
    }

    /// How many lines of its log have these words.
    fn said(&self, words: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(words)).count()
    }

    fn leases(&self) -> String {
        fs::read_to_string(&self.leases).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have gone with its namespace.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What tshark says of each message of a capture.
fn decoded(file: &str) -> Vec<Vec<String>> {
    let fields = [
        "dhcp.option.dhcp",
        "dhcp.hw.type",
        "dhcp.hw.len",
        "dhcp.flags.bc",
        "ip.src",
        "ip.dst",
        "dhcp.ip.client",
        "dhcp.option.value",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", file, "-T", "fields", "-E", "separator=|"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let cells = |line: &str| line.split('|').map(str::to_owned).collect();
    said.lines().map(cells).collect()
}

#[test]
fn a_real_server_gives_renews_and_takes_back_an_address() {
    if without_linux() {
        return;
    }
    let lab = Lab::new();
    let scenario = root().join("lab/ibdlab/tests/data/dhcp.toml");
    lab.up(&scenario, &[]);
    let server = Server::start(&lab);
    assert_eq!(lab.run("alice", "ipadm create-if ibd0"), (String::new(), 0));
    let file = lab.path("capture");
    let script = format!(
        "snoop -q -c 6 -o {file} -d ibd0 udp 2>{file}.words & \
         until grep -qs Using {file}.words; do sleep 1; done; \
         ipadm create-addr -T dhcp -w 100 ibd0/dhcp && ipadm show-addr -p -o type,state,addr ibd0/dhcp; wait"
    );
    let (said, code) = lab.exec("alice", &["sh", "-c", &script]);
    let address = said.trim_end().strip_prefix("dhcp:ok:").and_then(|rest| rest.strip_suffix("/24"));
    let address = address.unwrap_or_else(|| panic!("{said}{code}")).to_owned();
    assert!(address.starts_with("192.168.77.1"), "{address}");

    // What went over the link until the first renewal had its answer.
    let messages = decoded(&file);
    let (nobody, all, bob, own) = ("0.0.0.0", "255.255.255.255", "192.168.77.1", address.as_str());
    // Kind, hardware type and length, broadcast flag, from, to, the client's address.
    let expected = [
        ["1", "0x20", "0", "1", nobody, all, nobody],
        ["2", "0x20", "0", "1", bob, all, nobody],
        ["3", "0x20", "0", "1", nobody, all, nobody],
        ["5", "0x20", "0", "1", bob, all, nobody],
        ["3", "0x20", "0", "0", own, bob, own],
        ["5", "0x20", "0", "0", bob, own, own],
    ];
    let fields: Vec<&[String]> = messages.iter().map(|message| &message[..7]).collect();
    assert_eq!(fields, expected, "{messages:?}");
    for asked in messages.iter().step_by(2) {
        let identifier = asked[7].split(',').nth(1).unwrap_or_default();
        assert_eq!(identifier, CLIENT.replace(':', ""), "21 octets behind the kind: {messages:?}");
    }

    // What the server made of it.
    let of_client = format!("(ibd0) {address} {CLIENT}");
    lab.until("it acknowledged twice", || server.said(&format!("DHCPACK{of_client}")) >= 2);
    assert_eq!(server.said(&format!("DHCPOFFER{of_client}")), 1);
    lab.until("its lease is written down", || server.leases().contains(&address));
    let leases = server.leases();
    let lease = leases.lines().find(|line| line.contains(&address)).expect("a lease");
    assert!(lease.ends_with(CLIENT), "{leases}");
    assert_eq!(lab.run("alice", &format!("ping {bob}")), (format!("{bob} is alive\n"), 0));

    // The configuration outlives the lab, and the identifier brings the same address.
    lab.down();
    drop(server);
    lab.up(&scenario, &[]);
    let server = Server::start(&lab);
    let shown = || lab.run("alice", "ipadm show-addr -p -o type,state,addr ibd0/dhcp").0;
    lab.until("it has the address again", || shown() == format!("dhcp:ok:{address}/24\n"));

    assert_eq!(lab.run("alice", "ipadm delete-addr -r ibd0/dhcp"), (String::new(), 0));
    lab.until("the server knows", || server.said(&format!("DHCPRELEASE{of_client}")) == 1);
    lab.until("nothing is written down", || !server.leases().contains(&address));
    let (said, code) = lab.run("bob", "ipadm create-addr -T dhcp ibd0/more");
    assert_eq!((said.as_str(), code), ("ipadm: Could not create address: Could not start dhcpagent\n", 1));
    lab.down();
}

#[test]
fn without_a_server_the_agent_goes_on_asking() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    let (said, code) = lab.run("alice", "ipadm create-addr -t -T dhcp -w 1 pFFFF.ibp0/dhcp");
    let expected = "ipadm: Could not create address: Communication with dhcpagent timed out\n";
    assert_eq!((said.as_str(), code), (expected, 1));
    let shown = "ipadm show-addr -p -o type,state,current,addr pFFFF.ibp0/dhcp";
    assert_eq!(lab.run("alice", shown).0, "dhcp:down:-----:?\n");
    assert_eq!(lab.run("alice", "ipadm delete-addr pFFFF.ibp0/dhcp"), (String::new(), 0));
    lab.down();
}
