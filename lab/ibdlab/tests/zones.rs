//! A partition in a zone with an IP instance of its own, at the desk.
//!
//! This runs on the wall clock and waits for conditions.

mod lab;

use lab::{Lab, root};

const CONFIGURE: &str = "create; set autoboot=true; set ip-type=exclusive; add net; set physical=p8001.ibp0; end; \
                         verify; commit";

/// A lab whose alice has a zone `web` with the partition 8001, in which bob is as well.
fn with_a_zone() -> Lab {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    for host in ["alice", "bob"] {
        lab.until("the P_Key is there", || {
            lab.run(host, "dladm create-part -l ibp0 -P 8001 p8001.ibp0") == (String::new(), 0)
        });
    }
    for line in ["ipadm create-if p8001.ibp0", "ipadm create-addr -T static -a 10.1.0.2/24 p8001.ibp0/v4"] {
        assert_eq!(lab.run("bob", line), (String::new(), 0), "{line}");
    }
    assert_eq!(lab.exec("alice", &["zonecfg", "-z", "web", CONFIGURE]), (String::new(), 0));
    for line in [
        "zoneadm -z web install",
        "zoneadm -z web boot",
        "zlogin web ipadm create-if p8001.ibp0",
        "zlogin web ipadm create-addr -T static -a 10.1.0.1/24 p8001.ibp0/v4",
    ] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    lab
}

fn in_zone(lab: &Lab, line: &str) -> (String, i32) {
    lab.run("alice", &format!("zlogin web {line}"))
}

/// `prep_args` of `zlogin.c`, and `ipadm_create_addr` makes the interface. Before, a program of that name was sought, and there was no
/// interface.
#[test]
fn zlogin_gives_what_it_is_told_to_a_shell() {
    let lab = with_a_zone();
    let script = "ipadm delete-if p8001.ibp0; ipadm create-addr -T static -a 10.1.0.7/24 p8001.ibp0/v4;
        ipadm show-addr -p -o addr p8001.ibp0/v4";
    assert_eq!(lab.exec("alice", &["zlogin", "web", script]), ("10.1.0.7/24\n".into(), 0));
    assert_eq!(lab.exec("alice", &["zlogin", "web", "echo", "a  b", "c; exit 3"]), ("a b c\n".into(), 3));
    lab.down();
}

#[test]
fn a_partition_of_a_zone_is_seen_there_and_administered_by_its_owner() {
    let lab = with_a_zone();
    lab.until("bob answers the zone", || in_zone(&lab, "ping 10.1.0.2 1").1 == 0);
    let shown = |line: &str| in_zone(&lab, line).0;
    assert_eq!(shown("dladm show-link -p -o link,class,state"), "p8001.ibp0:part:up\n");
    assert_eq!(shown("ipadm show-addr -p -o addrobj,state"), "lo0/v4:ok\np8001.ibp0/v4:ok\nlo0/v6:ok\n");
    assert_eq!(shown("kstat -p link:0:p8001.ibp0:link_state"), "link:0:p8001.ibp0:link_state\t1\n");
    assert_eq!(shown("kstat -p link:0:pFFFF.ibp0:link_state"), "", "that of the global zone");
    assert_eq!(shown("dladm show-ib -p -o link"), "");
    assert_eq!(shown("zoneadm list"), "web\n");
    for (line, why) in [
        ("dladm show-linkprop -p mtu p8001.ibp0", "object not found"),
        ("dladm set-linkprop -p _ibd_num_ah=1024 p8001.ibp0", "permission denied"),
        ("dladm create-part -f -l ibp0 -P 9000 part9", "ibp0"),
        ("dladm delete-part p8001.ibp0", "permission denied"),
        ("ipadm create-if pFFFF.ibp0", "Could not open DLPI link"),
        ("snoop -c 1 -d pFFFF.ibp0", "DLPI link does not exist"),
        ("zoneadm -z web halt", "can only be done from the global zone"),
    ] {
        let (said, code) = in_zone(&lab, line);
        assert!(code != 0 && said.contains(why), "{line}: {said}{code}");
    }
    lab.down();
}

#[test]
fn the_global_zone_keeps_the_properties_of_a_link_it_lends_and_gets_it_back() {
    let lab = with_a_zone();
    let shown = |line: &str| lab.run("alice", line).0;
    assert_eq!(shown("dladm show-linkprop -c -o value -p zone p8001.ibp0"), "web\n");
    assert_eq!(shown("dladm show-linkprop -c -o value -p mtu p8001.ibp0"), "2044\n");
    assert!(!shown("ipadm show-addr -p -o addrobj").contains("p8001"), "the zone has interfaces of its own");
    assert_eq!(lab.run("alice", "ping 10.1.0.2 1").1, 1, "and routes");
    let list = "0:global:running:/::ipkg:shared\n1:web:running:/zones/web::ipkg:excl\n";
    assert_eq!(shown("zoneadm list -cp"), list);
    for (line, why) in [
        ("ipadm create-if p8001.ibp0", "Could not open DLPI link"),
        ("dladm delete-part p8001.ibp0", "link busy"),
        ("zoneadm -z web boot", "zone is already booted"),
        ("zoneadm -z other boot", "No such zone configured"),
        ("zonecfg -z web delete", "installed"),
        ("zonecfg -z web set zonepath=web", "web is not an absolute path."),
        ("zonecfg -z web set zonepath=/web\"autoboot=\"true", "zonepath: Invalid argument."),
        ("zonecfg -z web add net; set physical=<a>0; end", "physical: Invalid argument."),
        ("ppriv -e -s A-all zlogin web true", "privilege"),
    ] {
        let (said, code) = lab.run("alice", line);
        assert!(code != 0 && said.contains(why), "{line}: {said}{code}");
    }
    assert_eq!(lab.run("alice", "zoneadm -z web halt"), (String::new(), 0));
    assert_eq!(shown("dladm show-linkprop -c -o value -p zone p8001.ibp0"), "\n");
    let (said, code) = in_zone(&lab, "true");
    assert!(code == 1 && said.contains("login allowed only to running zones"), "{said}");
    assert_eq!(lab.run("alice", "ipadm create-if -t p8001.ibp0"), (String::new(), 0));
    let (said, code) = lab.run("alice", "zoneadm -z web boot");
    assert!(code == 1 && said.contains("failed to add network device: Device busy"), "{said}");
    assert_eq!(lab.run("alice", "ipadm delete-if p8001.ibp0"), (String::new(), 0));
    lab.down();
}

#[test]
fn a_zone_that_is_made_anew_has_nothing_of_the_one_before() {
    let lab = with_a_zone();
    for line in ["zoneadm -z web halt", "zoneadm -z web uninstall"] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    assert!(!lab.has("alice", "zones/web"), "its files are gone");
    assert_eq!(lab.run("alice", "zonecfg -z web delete"), (String::new(), 0));
    assert!(!lab.has("alice", "etc/zones/web.xml"), "its configuration is gone");
    assert_eq!(lab.exec("alice", &["zonecfg", "-z", "web", CONFIGURE]), (String::new(), 0));
    for line in ["zoneadm -z web install", "zoneadm -z web boot"] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    assert_eq!(in_zone(&lab, "ipadm show-addr -p -o addrobj").0, "lo0/v4\nlo0/v6\n");
    lab.down();
}

#[test]
fn a_zone_comes_back_with_its_host_and_has_its_addresses() {
    let lab = with_a_zone();
    lab.down();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    assert_eq!(lab.run("alice", "zoneadm list").0, "global\nweb\n");
    lab.until("bob answers the zone", || in_zone(&lab, "ping 10.1.0.2 1").1 == 0);
    for line in ["zoneadm -z web halt", "zoneadm -z web uninstall", "zonecfg -z web delete"] {
        assert_eq!(lab.run("alice", line), (String::new(), 0), "{line}");
    }
    assert_eq!(lab.run("alice", "zoneadm list -c").0, "global\n");
    lab.down();
}
