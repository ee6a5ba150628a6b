//! `ibdlab status`: what a lab's hosts have, and the same as lines for a person, once or as it goes on.

use lab_gldv3::{LinkState, LinkSummary};
use serde::{Deserialize, Serialize};

use super::host::DeskHost;
use super::server::Lab;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    pub lab: String,
    pub subnet_manager: String,
    /// Nanoseconds since the lab's boot.
    pub at_ns: u64,
    pub hosts: Vec<HostStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HostStatus {
    pub name: String,
    pub driver: String,
    /// The network namespace whose programs use its links.
    pub namespace: Option<String>,
    /// Its zones that run, the global one not among them.
    pub zones: Vec<String>,
    pub links: Vec<LinkStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LinkStatus {
    pub name: String,
    pub state: String,
    /// Greatest payload, bytes.
    pub mtu: u32,
    /// Packets and bytes, as the driver counts them.
    pub packets_in: u64,
    pub packets_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Packets lost or refused, whatever the reason.
    pub dropped: u64,
    pub addresses: Vec<String>,
    /// Groups that IP hears on it.
    pub groups: Vec<String>,
    /// Nothing where IP is not on the link.
    pub ip: Option<IpStatus>,
}

/// Packets between a link and what is above IP: a host's own stack, or a TUN device. What the driver counts as received is
/// `received` and `queue_full`; what reaches the stack or the device is `received` without the four that follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IpStatus {
    /// Frames that the link gave to IP.
    pub received: u64,
    /// Of those: ARP and ND, which go no further.
    pub resolution: u64,
    /// Of those: with a SAP that nobody wants.
    pub unknown_sap: u64,
    /// Of those: IP of another version than the SAP says.
    pub wrong_version: u64,
    /// Of those: the TUN device did not take them.
    pub device_refused: u64,
    /// Frames for which IP's queue had no room.
    pub queue_full: u64,
    /// Packets that IP gave to the link, those it refused included; a large send is as many as it becomes.
    pub transmitted: u64,
    pub transmit_refused: u64,
    /// Packets whose neighbour did not answer.
    pub unresolved: u64,
    /// Packets without a destination or a way to it, or that asked the link for what it does not offer.
    pub unsendable: u64,
}

/// The state of the lab. On a thread of its machine.
pub fn of(lab: &Lab) -> Status {
    Status {
        lab: lab.name.clone(),
        subnet_manager: lab.sm.to_owned(),
        at_ns: fakekernel::now().0,
        hosts: lab.hosts.iter().map(|host| of_host(host)).collect(),
    }
}

fn of_host(host: &DeskHost) -> HostStatus {
    let links = lab_gldv3::links(&host.kernel).into_iter().map(|link| of_link(host, link)).collect();
    let namespace = host.namespace.as_ref().map(|namespace| namespace.name().to_owned());
    let zones = host.zones.all().iter().map(|zone| zone.name.clone()).collect();
    HostStatus { name: host.name.clone(), driver: host.driver_name().to_owned(), namespace, zones, links }
}

fn of_link(host: &DeskHost, link: LinkSummary) -> LinkStatus {
    let counters = lab_gldv3::mac_statistics(&host.kernel, &link.name).unwrap_or_default();
    let interfaces = host.ip.interfaces();
    let mine = interfaces.iter().filter(|interface| interface.name == link.name);
    let addresses = mine.flat_map(|interface| &interface.addresses);
    let addresses =
        addresses.filter_map(|address| address.address.map(|(ip, length)| format!("{ip}/{length}")));
    let neighbours = host.ip.neighbours();
    let groups = neighbours.iter().filter(|row| row.interface == link.name && row.address.is_multicast());
    LinkStatus {
        addresses: addresses.collect(),
        groups: groups.map(|row| row.address.to_string()).collect(),
        ip: host.ip.counts(&link.name),
        state: match link.state {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Unknown => "unknown",
        }
        .to_owned(),
        name: link.name,
        mtu: link.max_sdu,
        packets_in: counters.ipackets,
        packets_out: counters.opackets,
        bytes_in: counters.rbytes,
        bytes_out: counters.obytes,
        dropped: counters.ierrors + counters.oerrors + counters.norcvbuf + counters.noxmtbuf,
    }
}

const HEADING: [&str; 10] =
    ["HOST", "LINK", "STATE", "MTU", "IN", "OUT", "IN", "OUT", "DROPPED", "ADDRESSES AND GROUPS"];

fn row(cells: [&str; 10]) -> String {
    let [host, link, state, mtu, packets_in, packets_out, bytes_in, bytes_out, dropped, rest] = cells;
    let line = format!(
        "{host:<8} {link:<12} {state:<8} {mtu:>5} {packets_in:>9} {packets_out:>9} {bytes_in:>11} \
         {bytes_out:>11} {dropped:>8}  {rest}"
    );
    line.trim_end().to_owned() + "\n"
}

impl Status {
    /// For a person: counted since the links came, or per second since `before`.
    pub fn lines(&self, before: Option<&Self>) -> String {
        let unit = if before.is_some() { "packets and bytes per second" } else { "packets and bytes" };
        let mut lines = format!("lab {}: subnet manager {}; {unit}\n", self.lab, self.subnet_manager);
        lines += &row(HEADING);
        for host in &self.hosts {
            for link in &host.links {
                let old = before.and_then(|before| before.link(&host.name, &link.name));
                let span = before.map_or(0, |before| self.at_ns.saturating_sub(before.at_ns));
                lines += &link.line(&host.name, old, span);
            }
        }
        lines
    }

    fn link(&self, host: &str, link: &str) -> Option<&LinkStatus> {
        let host = self.hosts.iter().find(|known| known.name == host)?;
        host.links.iter().find(|known| known.name == link)
    }
}

impl LinkStatus {
    /// `span_ns` after `old`, if there is one.
    fn line(&self, host: &str, old: Option<&Self>, span_ns: u64) -> String {
        let rate = |of: fn(&Self) -> u64| {
            let since = |old: &Self| u128::from(of(self).saturating_sub(of(old))) * 1_000_000_000;
            old.map_or(u128::from(of(self)), |old| since(old) / u128::from(span_ns.max(1))).to_string()
        };
        let rest = [&self.addresses[..], &self.groups].concat().join(" ");
        row([
            host,
            &self.name,
            &self.state,
            &self.mtu.to_string(),
            &rate(|link| link.packets_in),
            &rate(|link| link.packets_out),
            &rate(|link| link.bytes_in),
            &rate(|link| link.bytes_out),
            &self.dropped.to_string(),
            &rest,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(at_ns: u64, packets: u64) -> Status {
        let link = LinkStatus {
            name: "ibd0".into(),
            state: "up".into(),
            mtu: 2044,
            packets_in: packets,
            packets_out: 2 * packets,
            bytes_in: 100 * packets,
            bytes_out: 0,
            dropped: 7,
            addresses: vec!["10.0.0.1/24".into()],
            groups: vec!["224.0.0.1".into()],
            ip: None,
        };
        let host = HostStatus {
            name: "alice".into(),
            driver: "ibd".into(),
            namespace: None,
            zones: Vec::new(),
            links: vec![link],
        };
        Status { lab: "lab".into(), subnet_manager: "embedded".into(), at_ns, hosts: vec![host] }
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let (before, now) = (status(1_000_000_000, 10), status(3_000_000_000, 50));
        let cells = |text: String| -> Vec<String> {
            text.lines().nth(2).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let since = cells(now.lines(Some(&before)));
        assert_eq!(since[3..9], ["2044", "20", "40", "2000", "0", "7"]);
        let whole = cells(now.lines(None));
        assert_eq!(whole[3..9], ["2044", "50", "100", "5000", "0", "7"]);
    }

    #[test]
    fn a_link_that_is_new_is_counted_from_its_beginning() {
        let mut before = status(0, 10);
        before.hosts[0].links.clear();
        assert!(status(1, 50).lines(Some(&before)).contains(" 50 "));
    }
}
