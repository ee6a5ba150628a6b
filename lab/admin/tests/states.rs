//! What commands show of addresses, interfaces and statistics that are not as they usually are.

#![forbid(unsafe_code)]

mod scripted;

use admin::AddressState;
use scripted::{Scripted, run};

#[test]
fn ifconfig_shows_an_address_that_somebody_else_has_as_a_duplicate_that_is_not_up() {
    let mut system = Scripted::new();
    system.interfaces[1].addresses[0].state = AddressState::Duplicate;
    let (out, ..) = run(&system, "ifconfig pFFFF.ibp0 inet");
    let flags =
        "pFFFF.ibp0: flags=4001000842<BROADCAST,RUNNING,MULTICAST,IPv4,DUPLICATE> mtu 65520 index 2\n";
    assert!(out.starts_with(flags), "{out}");
    let (out, ..) = run(&system, "ifconfig pFFFF.ibp0 inet6");
    assert!(out.starts_with("pFFFF.ibp0: flags=2000841<UP,RUNNING,MULTICAST,IPv6> "), "{out}");
    system.interfaces[1].addresses[1].state = AddressState::Duplicate;
    let (out, ..) = run(&system, "ifconfig pFFFF.ibp0 inet6");
    assert!(out.starts_with("pFFFF.ibp0: flags=4002000840<RUNNING,MULTICAST,IPv6,DUPLICATE> "), "{out}");
    let (out, ..) = run(&system, "ipadm show-if -p -o ifname,state");
    assert_eq!(out, "lo0:ok\npFFFF.ibp0:down\n", "no address of it is up");
}

#[test]
fn ifconfig_shows_an_address_as_up_that_is_probed_for_or_has_no_carrier() {
    let mut system = Scripted::new();
    for state in [AddressState::Tentative, AddressState::Inaccessible] {
        system.interfaces[1].addresses[0].state = state;
        let (out, ..) = run(&system, "ifconfig pFFFF.ibp0 inet");
        assert!(out.starts_with("pFFFF.ibp0: flags=1000843<UP,BROADCAST,"), "{state:?}: {out}");
    }
}

#[test]
fn ping_goes_by_the_interface_that_is_named_or_not_at_all() {
    let system = Scripted::new();
    for interface in ["pFFFF.ibp0", "2", "10.0.0.1"] {
        assert_eq!(run(&system, &format!("ping -i {interface} bob")).0, "bob is alive\n", "{interface}");
    }
    for (interface, to) in [("nope", "bob"), ("nope", "10.0.0.1"), ("lo0", "bob"), ("1", "bob"), ("0", "bob")]
    {
        let (_, err, exit) = run(&system, &format!("ping -i {interface} {to}"));
        let why = format!("ping: {interface} is an invalid IPv4 interface\n");
        assert_eq!((err, exit), (why, 1), "{interface} {to}");
    }
    let (_, err, _) = run(&system, "ping -i nope fe80::1");
    assert_eq!(err, "ping: nope is an invalid IPv6 interface\n");
}
