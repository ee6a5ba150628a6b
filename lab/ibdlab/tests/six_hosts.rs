//! Six hosts, three partitions, a real OpenSM and Linux's own programs; then every packet is accounted for.
//!
//! As root, on the wall clock: a minute of `iperf3`, with a web server, SSH and a listener beside it.

mod lab;

use std::fs;
use std::process::{Child, Command, Stdio};

use ibdlab::desk::{HostStatus, IpStatus, Status};
use lab::{Lab, root, without_linux};

const SCENARIO: &str = "scenarios/six-hosts.toml";
const SECONDS: &str = "60";
/// Bits per second of each of the four flows.
const RATE: &str = "10M";
/// A group that two of the three in a partition are in, and how often it is sent to.
const GROUP: &str = "224.0.0.1";
const TO_GROUP: u64 = 20;

/// Who is in which partition beside the default one, and the address there. frank is in 8001 without an address: he listens.
const PARTITIONS: [(&str, &str, &str); 4] = [
    ("alice", "8001", "10.1.0.1"),
    ("bob", "8001", "10.1.0.2"),
    ("carol", "8002", "10.2.0.3"),
    ("dave", "8002", "10.2.0.4"),
];

/// A program in a host's namespace; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What all counters of a host say.
#[derive(Debug)]
struct HostAccounts {
    name: String,
    links: Vec<LinkAccount>,
    /// Lines of `kstat`: what the drivers did not send.
    drops: String,
}

/// What all counters of a link with IP on it say.
#[derive(Debug)]
struct LinkAccount {
    name: String,
    /// `IPACKETS` and `OPACKETS` of `dladm show-link -s`.
    came: u64,
    went: u64,
    /// The TUN device's own count of what it got.
    device: u64,
    ip: IpStatus,
}

impl HostAccounts {
    /// Whether each link's incoming packets balance and what its links did not send is what the drivers dropped.
    fn balance(&self) -> bool {
        let numbers =
            self.drops.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        let unsent: u64 = self.links.iter().map(LinkAccount::unsent).sum();
        self.links.iter().all(LinkAccount::balances) && numbers.sum::<u64>() == unsent
    }
}

impl LinkAccount {
    fn balances(&self) -> bool {
        let before_device = self.ip.resolution + self.ip.unknown_sap + self.ip.device_refused;
        self.device + before_device == self.ip.received && self.came == self.ip.received + self.ip.queue_full
    }

    /// How many packets IP gave to the link that the link did not send.
    fn unsent(&self) -> u64 {
        self.ip.transmitted - self.ip.transmit_refused - self.went
    }
}

/// The lab, and the namespaces of its hosts.
struct Six {
    lab: Lab,
    namespaces: Vec<(String, String)>,
}

impl Six {
    fn up() -> Self {
        let lab = Lab::new();
        lab.up(&root().join(SCENARIO), &["--sm", "opensm"]);
        let mut six = Self { lab, namespaces: Vec::new() };
        let named =
            six.status().hosts.into_iter().map(|host| (host.name, host.namespace.expect("TUN devices")));
        six.namespaces = named.collect();
        six
    }

    fn status(&self) -> Status {
        serde_json::from_str(&self.lab.ibdlab(&["status", "--json"]).0).expect("a status")
    }

    /// A program of Linux in a host's namespace.
    fn program(&self, host: &str, line: &str) -> Command {
        let (_, namespace) = self.namespaces.iter().find(|(name, _)| name == host).expect("a host");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "sh", "-c", &format!("exec {line}")]).stdin(Stdio::null());
        command
    }

    fn start(&self, host: &str, line: &str) -> Running {
        Running(self.program(host, line).stdout(Stdio::piped()).spawn().expect("it starts"))
    }

    /// What a program that ends well has written.
    fn output(&self, host: &str, line: &str) -> String {
        let output = self.program(host, line).stderr(Stdio::inherit()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{host}: {line}: {}: {said}", output.status);
        said
    }

    /// Waits until somebody listens on a TCP port of the host.
    fn listens(&self, host: &str, port: u16) {
        let wanted = format!(":{port:04X} ");
        let sockets = || self.output(host, "cat /proc/net/tcp /proc/net/tcp6");
        self.lab.until(&format!("{host} listens on {port}"), || sockets().contains(&wanted));
    }

    fn number(&self, host: &str, link: &str, counter: &str) -> u64 {
        let file = format!("/sys/class/net/{link}/statistics/{counter}");
        self.output(host, &format!("cat {file}")).trim().parse().expect("a number")
    }

    /// `IPACKETS` and `OPACKETS` of `dladm show-link -s`.
    fn packets(&self, host: &str, link: &str) -> [u64; 2] {
        let (said, code) = self.lab.run(host, &format!("dladm show-link -s {link}"));
        let row: Vec<&str> = said.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert!(code == 0 && row.len() == 7, "{said}");
        [row[1], row[4]].map(|cell| cell.parse().expect("a number"))
    }

    /// A number of the UDP sockets of a host, by its name in `/proc/net/snmp`.
    fn udp(&self, host: &str, name: &str) -> u64 {
        let text = self.output(host, "cat /proc/net/snmp");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("Udp:"))
            .map(|line| line.split(' ').collect())
            .collect();
        let column = rows[0].iter().position(|known| *known == name).expect("a counter of UDP");
        rows[1][column].parse().expect("a number")
    }

    fn make_partitions(&self) {
        for (host, pkey, address) in PARTITIONS {
            let link = format!("p{pkey}.ibp0");
            for line in [
                format!("dladm create-part -l ibp0 -P {pkey} {link}"),
                format!("ipadm create-if {link}"),
                format!("ipadm create-addr -T static -a {address}/24 {link}/v4"),
            ] {
                assert_eq!(self.lab.run(host, &line), (String::new(), 0), "{host}: {line}");
            }
        }
        assert_eq!(self.lab.run("frank", "dladm create-part -l ibp0 -P 8001 p8001.ibp0"), (String::new(), 0));
        for (from, to) in [("alice", "10.1.0.2"), ("carol", "10.2.0.4"), ("frank", "10.0.0.5")] {
            self.lab.until(&format!("{from} reaches {to}"), || {
                self.lab.run(from, &format!("ping {to} 1")).1 == 0
            });
        }
    }
}

/// Packets that `iperf3 --bidir` missed, both ways, and that it sent.
fn lost_and_sent(report: &str) -> (u64, u64) {
    let report: serde_json::Value = serde_json::from_str(report).expect("a report of iperf3");
    let sum = |name: &str, field: &str| report["end"][name][field].as_u64().expect("a sum of iperf3");
    let both = |field| sum("sum", field) + sum("sum_bidir_reverse", field);
    (both("lost_packets"), both("packets"))
}

impl Six {
    /// A minute both ways between the two in each partition; what was lost and sent in each.
    fn a_minute_of_datagrams(&self, beside: impl FnOnce()) -> [(u64, u64); 2] {
        let servers = ["bob", "dave"].map(|host| {
            let server = self.start(host, "iperf3 --server --one-off --json");
            self.listens(host, 5201);
            server
        });
        let line =
            |to| format!("iperf3 --client {to} --udp --bidir --time {SECONDS} --bitrate {RATE} --json");
        let clients =
            [("alice", "10.1.0.2"), ("carol", "10.2.0.4")].map(|(host, to)| self.start(host, &line(to)));
        beside();
        let lost = clients.map(|mut client| {
            let report = client.0.stdout.take().expect("piped");
            lost_and_sent(&std::io::read_to_string(report).expect("a report"))
        });
        drop(servers);
        lost
    }

    /// A file from erin's web server, and a command at erin's by SSH, both in the default partition.
    fn a_web_server_and_ssh(&self) {
        let directory = self.lab.path("erin");
        fs::create_dir(&directory).expect("made");
        let file: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(format!("{directory}/file"), &file).expect("written");
        let _web = self.start("erin", &format!("busybox httpd -f -p 80 -h {directory}"));
        self.listens("erin", 80);
        self.output("frank", &format!("curl --silent --fail --output {directory}/copy http://10.0.0.5/file"));
        assert!(fs::read(format!("{directory}/copy")).expect("fetched") == file, "the file arrived changed");

        // The server takes keys from root's home alone; it is given one of its own.
        let script = format!(
            "dropbearkey -t ed25519 -f {directory}/server >&2 && \
             dropbearkey -t ed25519 -f {directory}/client | grep ^ssh- > {directory}/client.pub && \
             mount -t tmpfs -o mode=700 home ~root && mkdir -m 700 ~root/.ssh && \
             cp {directory}/client.pub ~root/.ssh/authorized_keys && chmod 600 ~root/.ssh/authorized_keys && \
             exec dropbear -F -s -r {directory}/server -P {directory}/pid -p 22"
        );
        let _ssh = self.start("erin", &format!("unshare --mount sh -c '{script}'"));
        self.listens("erin", 22);
        let ssh = format!(
            "HOME={directory} dbclient -y -i {directory}/client root@10.0.0.5 sha256sum {directory}/file"
        );
        let there = self.output("bob", &format!("env {ssh}"));
        assert_eq!(there, self.output("erin", &format!("sha256sum {directory}/file")));
    }

    /// Each link of each host: what the driver counts is what the TUN device counts, what IP took, and what was lost by name.
    fn settle_accounts(&self) {
        let mut accounts = Vec::new();
        // Linux solicits routers and reports its groups when it likes: all is read while nothing comes or goes. What it sends to
        // groups that nobody is in waits a moment before the driver says that it could not.
        self.lab.until("the accounts of every host balance", || {
            let before = self.counted();
            accounts = self.accounts();
            let quiet = before == self.counted();
            let wrong: Vec<_> = accounts.iter().filter(|host| quiet && !host.balance()).collect();
            wrong.iter().for_each(|host| println!("does not balance yet: {host:#?}"));
            quiet && wrong.is_empty()
        });
        for host in &accounts {
            for LinkAccount { name, came, went, device, ip } in &host.links {
                println!(
                    "{:<6} {name:<12} in {came:>7}, device {device:>7}, out {went:>7}, {ip:?}",
                    host.name
                );
            }
        }
    }

    fn counted(&self) -> String {
        serde_json::to_string(&self.status().hosts).expect("JSON")
    }

    fn accounts(&self) -> Vec<HostAccounts> {
        let account = |host: &str, name: String, ip: IpStatus| {
            let [came, went] = self.packets(host, &name);
            LinkAccount { came, went, device: self.number(host, &name, "rx_packets"), name, ip }
        };
        let of_host = |host: HostStatus| HostAccounts {
            links: host
                .links
                .into_iter()
                .filter_map(|link| Some(account(&host.name, link.name, link.ip?)))
                .collect(),
            drops: self.lab.run(&host.name, "kstat -p -n datagram -s tx_drop_*").0,
            name: host.name,
        };
        self.status().hosts.into_iter().map(of_host).collect()
    }

    /// Packets of a link that were lost in a place with a name: in the two hosts' drivers, in IP, and in Linux.
    fn lost_by_name(&self, hosts: [&str; 2], link: &str) -> u64 {
        let status = self.status();
        let of_host = |host: &str| {
            let of = status.hosts.iter().find(|known| known.name == host).expect("a host");
            let found = of.links.iter().find(|known| known.name == link).expect("a link");
            let ip = found.ip.expect("IP is on it");
            let in_lab =
                found.dropped + ip.device_refused + ip.queue_full + ip.transmit_refused + ip.unresolved;
            let in_linux = self.number(host, link, "tx_dropped")
                + self.number(host, link, "rx_dropped")
                + self.udp(host, "RcvbufErrors");
            in_lab + in_linux
        };
        hosts.map(of_host).iter().sum()
    }
}

/// Frames in a file of snoop's that match.
fn heard(file: &str, filter: &str) -> u64 {
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", file, "-Y", filter, "-T", "fields", "-e", "frame.number"]);
    let output = tshark.output().expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|_| 1).sum()
}

#[test]
fn a_minute_of_datagrams_in_two_partitions_is_accounted_for_to_the_last_packet() {
    if without_linux() {
        return;
    }
    let six = Six::up();
    six.make_partitions();

    let (file, words) = (six.lab.path("heard"), six.lab.path("words"));
    let snoop = format!("snoop -q -o {file} -d p8001.ibp0 2>{words}");
    let mut listener = six.lab.start_at("frank", &["sh", "-c", &format!("exec {snoop}")]);
    six.lab.until("frank listens", || fs::read_to_string(&words).is_ok_and(|text| text.contains("Using")));

    let datagrams = six.a_minute_of_datagrams(|| {
        six.a_web_server_and_ssh();
        let to_group = format!("ping -q -c {TO_GROUP} -i 0.1 -I p8001.ibp0 -W 1 {GROUP}");
        // Linux does not answer, so ping does not end well.
        drop(six.program("alice", &to_group).output().expect("ping starts"));
    });

    six.settle_accounts();
    for ((lost, sent), (hosts, link)) in
        datagrams.into_iter().zip([(["alice", "bob"], "p8001.ibp0"), (["carol", "dave"], "p8002.ibp0")])
    {
        let by_name = six.lost_by_name(hosts, link);
        println!("{link}: {sent} datagrams, {lost} lost, {by_name} packets lost by name");
        assert!(sent > 10_000, "{link}: {sent} datagrams in a minute");
        assert!(lost <= by_name, "{link}: {lost} of {sent} lost, of which {by_name} by name");
    }

    // Without its cable nothing comes any more, so the count is the last.
    assert_eq!(six.lab.ibdlab(&["fabric", "unplug", "frank"]), (String::new(), 0));
    let received = six.packets("frank", "p8001.ibp0")[0];
    listener.interrupt();
    assert_eq!(heard(&file, "frame"), received, "the file has what the listener received");
    assert_eq!(heard(&file, &format!("icmp.type == 8 && ip.dst == {GROUP}")), TO_GROUP);
    six.lab.down();
}
