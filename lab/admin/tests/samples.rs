//! What the original prints for the same host: tables, lists, states. No machine was asked: the lines follow from the format
//! strings and field widths of the commands' sources. A `·` stands for a blank at the end of a line.

#![forbid(unsafe_code)]

mod scripted;

use std::time::Duration;

use lab_gldv3::LinkState;
use scripted::{Scripted, run};

/// Runs a command line and compares all that it prints.
fn prints(system: &Scripted, line: &str, expected: &str) {
    let (out, err, exit) = run(system, line);
    assert_eq!((err.as_str(), exit), ("", 0), "{line}");
    assert_eq!(out, expected.trim_start_matches('\n').replace('·', " "), "{line}\n{out}");
}

#[test]
fn show_part_lists_partitions_with_their_keys() {
    let system = Scripted::new().with_more_partitions();
    prints(
        &system,
        "dladm show-part",
        "
LINK         PKEY  OVER         STATE    FLAGS
pFFFF.ibp0   FFFF  ibp0         up       ----
p8001.ibp0   8001  ibp0         down     f---
pFFFF.ibp1   FFFF  ibp1         down     f---
",
    );
    let line = "dladm show-part -p -o link,pkey,over,state,flags pFFFF.ibp0";
    prints(&system, line, "pFFFF.ibp0:FFFF:ibp0:up:----\n");
    prints(&system, "dladm show-part -p -o link -l ibp1", "pFFFF.ibp1\n");
}

#[test]
fn show_ib_lists_ports_with_their_guids() {
    let mut system = Scripted::new();
    prints(
        &system,
        "dladm show-ib",
        "
LINK         HCAGUID         PORTGUID        PORT STATE  PKEYS
ibp0         2C903000A1B2C   2C903000A1B2D   1    up     FFFF,8001
ibp1         2C903000A1B2C   2C903000A1B2E   2    down   FFFF
",
    );
    prints(&system, "dladm show-ib -p -o hcaguid,pkeys ibp0", "2C903000A1B2C:FFFF,8001\n");
    system.guids = (0xf452_1403_00ab_cde0, [0xf452_1403_00ab_cde1, 0]);
    prints(
        &system,
        "dladm show-ib ibp0",
        "
LINK         HCAGUID         PORTGUID        PORT STATE  PKEYS
ibp0         F452140300ABCDE0 F452140300ABCDE1 1  up     FFFF,8001
",
    );
    system.pkeys[0] = vec![0x8000, 0xffff, 0x7fff, 0];
    prints(&system, "dladm show-ib -p -o pkeys ibp0", ",FFFF,7FFF\n");
}

#[test]
fn show_link_lists_ports_and_partitions() {
    let system = Scripted::new();
    {
        let mut links = system.links.borrow_mut();
        let mut legacy = links[2].clone();
        (legacy.id, legacy.name, legacy.mtu) = (4, "ibd0".into(), 2044);
        legacy.part = Some((0xffff, 2, false));
        legacy.counters = [0; 6];
        links.push(legacy);
    }
    prints(
        &system,
        "dladm show-link",
        "
LINK        CLASS     MTU    STATE    BRIDGE     OVER
ibp0        phys      65520  up       --         --
ibp1        phys      65520  down     --         --
pFFFF.ibp0  part      65520  up       --         ibp0
ibd0        part      2044   up       --         ibp1
",
    );
    prints(&system, "dladm show-link -p -o link,over pFFFF.ibp0", "pFFFF.ibp0:ibp0\n");
}

#[test]
fn show_link_counts_packets() {
    let system = Scripted::new();
    system.links.borrow_mut().remove(1);
    prints(
        &system,
        "dladm show-link -s",
        "
LINK           IPACKETS  RBYTES  IERRORS   OPACKETS    OBYTES      OERRORS
ibp0           0         0       0         0           0           0
pFFFF.ibp0     1234      105780  0         1210        101664      0
",
    );
}

#[test]
fn show_phys_lists_devices() {
    let system = Scripted::new();
    prints(
        &system,
        "dladm show-phys",
        "
LINK         MEDIA                STATE      SPEED  DUPLEX    DEVICE
ibp0         Infiniband           up         32000  unknown   ibp0
ibp1         Infiniband           down       2000   unknown   ibp1
",
    );
    prints(
        &system,
        "dladm show-phys -m ibp0",
        "
LINK         SLOT     ADDRESS            INUSE CLIENT
ibp0         primary  unknown            no   --
",
    );
}

#[test]
fn show_linkprop_lists_properties_in_the_order_of_the_original() {
    let system = Scripted::new();
    let properties = "linkmode,autopush,zone,state,mtu,maxbw,priority,protection";
    prints(
        &system,
        &format!("dladm show-linkprop -p {properties} pFFFF.ibp0"),
        "
LINK         PROPERTY        PERM VALUE          DEFAULT        POSSIBLE
pFFFF.ibp0   linkmode        rw   cm             cm             cm,ud·
pFFFF.ibp0   autopush        rw   --             --             --·
pFFFF.ibp0   zone            rw   --             --             --·
pFFFF.ibp0   state           r-   up             up             up,down·
pFFFF.ibp0   mtu             r-   65520          65520          65520·
pFFFF.ibp0   maxbw           rw   --             --             --·
pFFFF.ibp0   priority        rw   high           high           low,medium,high·
pFFFF.ibp0   protection      rw   --             --             mac-nospoof,
                                                                restricted,
                                                                ip-nospoof,
                                                                dhcp-nospoof·
",
    );
    let (out, ..) = run(&system, "dladm show-linkprop -c -o property pFFFF.ibp0");
    assert_eq!(
        out.lines().collect::<Vec<_>>().join(","),
        "linkmode,autopush,zone,state,mtu,maxbw,cpus,cpus-effective,pool,pool-effective,priority,protection,\
         allowed-ips,allowed-dhcp-cids,rxrings,rxrings-effective,txrings,txrings-effective,txrings-available,\
         rxrings-available,rxhwclnt-available,txhwclnt-available"
    );
    let (out, ..) = run(&system, "dladm show-linkprop -c -o property,possible -p mtu ibp0");
    assert_eq!(out, "mtu:1500-65520\n");
}

#[test]
fn show_linkprop_shows_private_properties_that_are_named() {
    let system = Scripted::new();
    prints(
        &system,
        "dladm show-linkprop -p _ibd_rc_num_swqe,_ibd_broadcast_group pFFFF.ibp0",
        "
LINK         PROPERTY        PERM VALUE          DEFAULT        POSSIBLE
pFFFF.ibp0   _ibd_rc_num_swqe rw  511            511            --·
pFFFF.ibp0   _ibd_broadcast_group r- 1           --             --·
",
    );
    let line = "dladm show-linkprop -c -o property,value,possible -p linkmode pFFFF.ibp0";
    prints(&system, line, "linkmode:cm:cm,ud\n");
}

#[test]
fn ipadm_lists_interfaces_and_addresses() {
    let system = Scripted::new();
    let lines = "_ifname=pFFFF.ibp0;_family=2;\n_ifname=pFFFF.ibp0;_family=26;\n";
    system.files.borrow_mut().insert("etc/ipadm/ipadm.conf".into(), lines.into());
    prints(
        &system,
        "ipadm show-if",
        "
IFNAME     CLASS     STATE    CURRENT      PERSISTENT
lo0        VIRTUAL   ok       -m-v------46 ---
pFFFF.ibp0 IP        ok       bm--------46 -46
",
    );
    let table = "
ADDROBJ           TYPE     STATE        ADDR
lo0/v4            static   ok           127.0.0.1/8
pFFFF.ibp0/v4     static   ok           10.0.0.1/24
lo0/v6            static   ok           ::1/128
pFFFF.ibp0/v6     addrconf ok           fe80::202:c903:a:1b2d/10
";
    prints(&system, "ipadm show-addr", table);
    prints(&system, "ipadm", table);
    prints(
        &system,
        "ipadm show-addr -p -o addrobj,addr pFFFF.ibp0/",
        "pFFFF.ibp0/v4:10.0.0.1/24\npFFFF.ibp0/v6:fe80\\:\\:202\\:c903\\:a\\:1b2d/10\n",
    );
}

#[test]
fn ifconfig_shows_the_link_address_to_the_privileged_alone() {
    let mut system = Scripted::new();
    let inet = "
pFFFF.ibp0: flags=1000843<UP,BROADCAST,RUNNING,MULTICAST,IPv4> mtu 65520 index 2
\tinet 10.0.0.1 netmask ffffff00 broadcast 10.0.0.255
";
    let link = "\tipib 80:0:0:48:fe:80:0:0:0:0:0:0:0:2:c9:3:0:a:1b:2d·\n";
    prints(&system, "ifconfig pFFFF.ibp0 inet", &format!("{inet}{link}"));
    system.privileged = false;
    prints(&system, "ifconfig pFFFF.ibp0 inet", inet);
}

#[test]
fn arp_and_netstat_list_link_addresses() {
    let system = Scripted::new();
    let ipv4 = "
Net to Media Table: IPv4
Device   IP Address               Mask      Flags      Phys Addr
------ -------------------- --------------- -------- ---------------
pFFFF.ibp0 10.0.0.1             255.255.255.255 SPLA     80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:1b:2d
pFFFF.ibp0 10.0.0.2             255.255.255.255          80:00:00:49:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:1c:11
pFFFF.ibp0 10.0.0.9             255.255.255.255 U       ·
pFFFF.ibp0 224.0.0.22           255.255.255.255 S        00:ff:ff:ff:ff:10:40:1b:00:00:00:00:00:00:00:00:00:00:00:16
";
    prints(&system, "arp -an", ipv4);
    prints(&system, "netstat -np -f inet", ipv4);
    let ipv6 = "
Net to Media Table: IPv6
 If   Physical Address    Type      State      Destination/Mask
----- -----------------  ------- ------------ ---------------------------
pFFFF.ibp0 80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:1b:2d  local   REACHABLE    fe80::202:c903:a:1b2d     ·
pFFFF.ibp0 80:00:00:49:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:1c:11  dynamic STALE        fe80::202:c903:a:1c11     ·

";
    prints(&system, "netstat -pn", &format!("{ipv4}{ipv6}"));
    let place = "80:0:0:49:fe:80:0:0:0:0:0:0:0:2:c9:3:0:a:1c:11";
    prints(&system, "arp bob", &format!("bob (10.0.0.2) at {place}\n"));
    let (out, _, exit) = run(&system, "arp 10.0.0.77");
    assert_eq!((out.as_str(), exit), ("10.0.0.77 (10.0.0.77) -- no entry\n", 1));
}

#[test]
fn cfgadm_lists_attachment_points() {
    prints(
        &Scripted::new(),
        "cfgadm -al",
        "
Ap_Id                          Type         Receptacle   Occupant     Condition
hca:2C903000A1B2C              IB-HCA       connected    configured   ok
ib                             IB-Fabric    connected    configured   ok
ib::2C903000A1B2D,0,ipib       IB-PORT      connected    configured   ok
ib::2C903000A1B2E,0,ipib       IB-PORT      connected    configured   ok
",
    );
}

#[test]
fn kstat_prints_a_line_for_each_statistic_by_name() {
    let system = Scripted::new();
    system.links.borrow_mut()[2].state = LinkState::Unknown;
    prints(
        &system,
        "kstat -p link:0:pFFFF.ibp0",
        "
link:0:pFFFF.ibp0:class\tnet
link:0:pFFFF.ibp0:crtime\t85.123456789
link:0:pFFFF.ibp0:ierrors\t0
link:0:pFFFF.ibp0:ifspeed\t32000000000
link:0:pFFFF.ibp0:ipackets64\t1234
link:0:pFFFF.ibp0:link_state\t4294967295
link:0:pFFFF.ibp0:obytes64\t101664
link:0:pFFFF.ibp0:oerrors\t0
link:0:pFFFF.ibp0:opackets64\t1210
link:0:pFFFF.ibp0:rbytes64\t105780
link:0:pFFFF.ibp0:snaptime\t90.000000005
",
    );
    prints(&system, "kstat -p -m link -n pFFFF* -s ifspeed", "link:0:pFFFF.ibp0:ifspeed\t32000000000\n");
    let (out, err, exit) = run(&system, "kstat -p nothing:::");
    assert_eq!((out.as_str(), err.as_str(), exit), ("", "", 1));
}

#[test]
fn ping_tells_who_is_alive() {
    let system = Scripted::new();
    prints(&system, "ping bob", "bob is alive\n");
    let (out, _, exit) = run(&system, "ping -s bob 56 2");
    assert_eq!(exit, 0);
    assert!(
        out.starts_with("PING bob: 56 data bytes\n64 bytes from bob (10.0.0.2): icmp_seq=0. time=0.412 ms\n")
    );
    assert!(out.contains(
        "\n----bob PING Statistics----\n2 packets transmitted, 2 packets received, 0% packet loss\n"
    ));
}

/// `check_reply` of illumos looks at identifier and sequence number, and the command ends with as many answers as it is to send
/// requests. Before, there was 100% loss.
#[test]
fn ping_to_all_tells_who_has_answered() {
    let system = Scripted::new();
    prints(&system, "ping 10.0.0.255", "10.0.0.255 is alive\n");
    let (out, _, exit) = run(&system, "ping -s 10.0.0.255 56 3");
    assert_eq!(exit, 0);
    let line = |who: &str, n| format!("64 bytes from {who}: icmp_seq={n}. time=0.412 ms\n");
    let lines = [line("bob (10.0.0.2)", 0), line("10.0.0.3", 0), line("bob (10.0.0.2)", 1)].concat();
    assert!(out.contains(&lines), "{out}");
    assert!(out.contains("2 packets transmitted, 3 packets received, 1.50 times amplification\n"), "{out}");
    let (out, ..) = run(&system, "ping -n -s 10.0.0.255 56 3");
    assert!(out.contains("from 10.0.0.2: icmp_seq=1. "), "{out}");
}

/// As in `finish` and `pinger` of `ping.c`. Before, the deviation was not that of a sample, and a request that was not sent ended the command.
#[test]
fn ping_reckons_as_illumos_does() {
    let (out, ..) = run(&Scripted::new(), "ping -s bob 56 1");
    assert!(out.ends_with("min/avg/max/stddev = 0.412/0.412/0.412/-nan\n"), "{out}");
    let (out, ..) = run(&Scripted::new(), "ping -s bob 4 2");
    assert!(out.contains("\n12 bytes from bob (10.0.0.2): icmp_seq=1. \n"), "{out}");
    assert!(out.ends_with("0% packet loss\n"), "{out}");
    let system = Scripted { refused_echoes: 1, ..Scripted::new() };
    let (out, err, exit) = run(&system, "ping -s bob 56 2");
    assert_eq!(exit, 0, "{err}");
    assert!(err.starts_with("ping: sendto "), "{err}");
    assert!(out.contains("data bytes\nping: wrote bob 64 chars, ret=-1\n64 bytes from bob"), "{out}");
    assert!(out.contains("2 packets transmitted, 1 packets received, 50% packet loss\n"), "{out}");
}

#[test]
fn ping_counts_answers_that_come_after_the_next_request() {
    let system = Scripted { round_trip: Duration::from_millis(180), ..Scripted::new() };
    let (out, _, exit) = run(&system, "ping -s -I 0.05 bob 56 5");
    assert_eq!(exit, 0);
    assert_eq!(out.matches("time=180.000 ms").count(), 5, "{out}");
    assert!(out.contains("5 packets transmitted, 5 packets received, 0% packet loss"), "{out}");
    // The last request was sent after 200 ms.
    assert_eq!(system.now.get(), Duration::from_millis(380));
}

#[test]
fn ping_waits_ten_seconds_for_somebody_who_never_answered_and_a_second_for_the_rest() {
    let system = Scripted::new();
    let (out, _, exit) = run(&system, "ping -s -I 0.5 10.0.0.9 56 2");
    assert_eq!((exit, system.now.get()), (1, Duration::from_secs(11)), "{out}");
    let (_, _, exit) = run(&system, "ping 10.0.0.9 3");
    assert_eq!((exit, system.now.get()), (1, Duration::from_secs(14)));
}

#[test]
fn a_header_comes_again_on_each_page() {
    let system = Scripted::new();
    for id in 10..40 {
        let mut link = system.links.borrow()[2].clone();
        (link.id, link.name) = (id, format!("p{id}"));
        system.links.borrow_mut().push(link);
    }
    let (out, ..) = run(&system, "dladm show-part -o link");
    let headers: Vec<usize> =
        out.lines().enumerate().filter(|(_, line)| *line == "LINK").map(|(at, _)| at).collect();
    // 23 rows fit a window of 24 with their header.
    assert_eq!(headers, [0, 24]);
}

#[test]
fn ipmpstat_lists_addresses_groups_and_interfaces() {
    use admin::{Group, GroupAddress, GroupMember};
    let mut system = Scripted::new();
    let member =
        |name: &str, link, active, nominated| GroupMember { name: name.into(), link, active, nominated };
    let address = |ip: &str, member: Option<&str>| GroupAddress {
        address: ip.parse().expect("an address"),
        member: member.map(str::to_owned),
    };
    let names = ["pFFFF.ibp0", "pFFFF.ibp1"];
    system.groups = vec![
        Group {
            name: "ipmp0".into(),
            members: vec![
                member(names[0], LinkState::Down, false, false),
                member(names[1], LinkState::Up, true, true),
            ],
            addresses: vec![address("10.0.0.1", Some(names[1])), address("fd00::1", Some(names[1]))],
        },
        Group { name: "ipmp1".into(), members: Vec::new(), addresses: vec![address("10.1.0.1", None)] },
    ];
    prints(
        &system,
        "ipmpstat -g",
        "
GROUP       GROUPNAME   STATE     FDT       INTERFACES
ipmp0       ipmp0       degraded  --        pFFFF.ibp1 [pFFFF.ibp0]
ipmp1       ipmp1       failed    --        --
",
    );
    prints(
        &system,
        "ipmpstat -i",
        "
INTERFACE   ACTIVE  GROUP       FLAGS     LINK      PROBE     STATE
pFFFF.ibp0  no      ipmp0       -------   down      disabled  failed
pFFFF.ibp1  yes     ipmp0       --mbM--   up        disabled  ok
",
    );
    prints(
        &system,
        "ipmpstat -an",
        "
ADDRESS                   STATE  GROUP       INBOUND     OUTBOUND
10.0.0.1                  up     ipmp0       pFFFF.ibp1  pFFFF.ibp1
fd00::1                   up     ipmp0       pFFFF.ibp1  pFFFF.ibp1
10.1.0.1                  up     ipmp1       --          --
",
    );
    prints(&system, "ipmpstat -gP -o group,state", "ipmp0:degraded\nipmp1:failed\n");
    for line in ["ipmpstat", "ipmpstat -g -a", "ipmpstat -gP", "ipmpstat -x"] {
        assert_eq!(run(&system, line).2, 1, "{line}");
    }
}

#[test]
fn netstat_has_a_value_for_each_column_of_its_interfaces() {
    let (out, _, exit) = run(&Scripted::new(), "netstat -i");
    assert_eq!(exit, 0);
    let mut columns = 0;
    for line in out.lines().filter(|line| !line.is_empty()) {
        let words = line.split_whitespace().count();
        columns = if line.starts_with("Name") { words } else { columns };
        assert_eq!(words, columns, "{out}");
    }
}
