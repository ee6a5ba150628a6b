//! A TUN device is to Linux's programs what the interface is to IP, whatever the link says meanwhile.

mod lab;

use std::sync::Arc;
use std::sync::mpsc::channel;

use ibdlab::host::{TunBridge, Upper};
use ibdlab::linux::{Namespace, Tun, run};
use lab::without_linux;
use lab_gldv3::OffloadCapability;
use lab_ip::layer::{LinkInfo, Wanted};
use lab_ip::link_addr::LinkAddr;
use smoltcp::wire::IpCidr;

const DEVICE: &str = "ibd0";

/// A namespace with a device, and the interface behind it.
struct Linux {
    namespace: Namespace,
    tun: Arc<Tun>,
    interface: TunBridge,
}

impl Linux {
    fn new(name: &str) -> Self {
        let namespace = Namespace::create(name).expect("a namespace");
        let tun = Arc::new(Tun::create(&namespace, DEVICE, &[], 2044).expect("a device"));
        let (_, nothing) = channel();
        let interface = TunBridge::new(link(0, 2044), Vec::new(), tun.clone(), nothing);
        Self { namespace, tun, interface }
    }

    /// What Linux has, once it was told: MTU and addresses, those left out that it has made itself.
    fn has(&self) -> (u64, Vec<String>) {
        self.tun.follow(&self.namespace).expect("Linux takes it");
        let mut ip = std::process::Command::new("ip");
        let output =
            run(ip.args(["-n", self.namespace.name(), "-j", "addr", "show", "dev", DEVICE])).expect("ip");
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let addresses = shown[0]["addr_info"].as_array().expect("a list").iter();
        let own = addresses.filter(|address| address["prefixlen"] != 64);
        let text = |address: &serde_json::Value| {
            format!("{}/{}", address["local"].as_str().unwrap_or_default(), address["prefixlen"])
        };
        (shown[0]["mtu"].as_u64().expect("a number"), own.map(text).collect())
    }
}

/// A link with this last byte of its address, or without one.
fn link(last: u8, sdu: usize) -> LinkInfo {
    let mut own = LinkAddr::ZERO;
    if last > 0 {
        own.0[3] = 0x48;
        own.0[4..].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0, 0x10, last]);
    }
    LinkInfo { own, broadcast: LinkAddr::ZERO, sdu, offload: OffloadCapability::default() }
}

fn wanted(fixed: &[&str], link_local: bool) -> Wanted {
    let fixed = fixed.iter().map(|text| text.parse::<IpCidr>().expect("an address")).collect();
    Wanted { fixed, link_local, dhcp: None }
}

#[test]
fn an_address_is_given_to_linux_once_though_the_link_tells_its_own_meanwhile() {
    if without_linux() {
        return;
    }
    let mut linux = Linux::new("once");
    linux.interface.set_info(link(1, 2044));
    linux.interface.set_addresses(wanted(&["10.0.0.6/24"], false));
    assert_eq!(linux.has(), (2044, vec!["10.0.0.6/24".to_owned()]));
    // The interface's addresses are down until the link was asked.
    linux.interface.link_mut().take_down();
    assert_eq!(linux.has().1, ["10.0.0.6/24"]);
    linux.interface.set_addresses(wanted(&["10.0.0.6/24", "10.0.1.6/24"], true));
    let all = ["10.0.0.6/24", "10.0.1.6/24", "fe80::202:c903:0:1001/10"];
    assert_eq!(linux.has().1, all);
    linux.interface.set_info(link(1, 2044));
    assert_eq!(linux.has().1, all);
    linux.interface.set_addresses(wanted(&["10.0.1.6/24"], true));
    assert_eq!(linux.has().1, all[1..]);
}

#[test]
fn linux_hears_of_an_address_and_a_size_that_become_known_later() {
    if without_linux() {
        return;
    }
    let mut linux = Linux::new("later");
    linux.interface.set_addresses(wanted(&[], true));
    assert_eq!(linux.has(), (2044, Vec::new()), "the link has not said what it is");
    linux.interface.set_info(link(1, 4092));
    assert_eq!(linux.has(), (4092, vec!["fe80::202:c903:0:1001/10".to_owned()]));
    linux.interface.set_info(link(2, 2044));
    assert_eq!(linux.has(), (2044, vec!["fe80::202:c903:0:1002/10".to_owned()]));
}

#[test]
fn an_address_that_linux_refuses_keeps_no_other_one_away() {
    if without_linux() {
        return;
    }
    let mut linux = Linux::new("refused");
    linux.namespace.ip(&["addr", "add", "10.0.0.6/24", "dev", DEVICE]).expect("somebody else does it");
    linux.interface.set_info(link(1, 4092));
    linux.interface.set_addresses(wanted(&["10.0.0.6/24", "10.0.1.6/24"], true));
    let why = linux.tun.follow(&linux.namespace).expect_err("it is there").to_string();
    assert!(why.contains("10.0.0.6/24"), "{why}");
    let all = ["10.0.0.6/24", "10.0.1.6/24", "fe80::202:c903:0:1001/10"].map(str::to_owned);
    assert_eq!(linux.has(), (4092, all.to_vec()));
}
