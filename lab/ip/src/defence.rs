//! Defence of addresses that somebody else uses, too (RFC 5227 section 2.4, RFC 4862 section 5.4.4), as illumos does it
//! (`ip_nce_conflict`): each time by an announcement, and not for ever.
//!
//! Pure: who claims which address goes in, what to do comes out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::link_addr::LinkAddr;

/// An address is defended so often, one of a DHCP server less (`_max_defend`, `_max_temp_defend`)...
const TIMES: u32 = 3;
const TIMES_OF_LEASED: u32 = 1;
/// ...unless so much time passes between two claims (`_defend_interval`).
const INTERVAL: Duration = Duration::from_secs(30);

/// How often each address has been defended, and when last.
#[derive(Clone, Debug, Default)]
pub struct Defence(BTreeMap<IpAddr, (u32, Duration)>);

impl Defence {
    /// The interface has these addresses now.
    pub fn keep(&mut self, has: impl Fn(&IpAddr) -> bool) {
        self.0.retain(|address, _| has(address));
    }

    /// Somebody claims an address that is ours. True if it is to be defended, false if it is to be given up.
    pub fn claimed(&mut self, now: Duration, address: IpAddr, leased: bool) -> bool {
        let (count, last) = self.0.entry(address).or_insert((0, now));
        if now.saturating_sub(*last).as_secs() > INTERVAL.as_secs() {
            *count = 0;
        }
        let defended = *count;
        (*count, *last) = (defended.saturating_add(1), now);
        defended < if leased { TIMES_OF_LEASED } else { TIMES }
    }
}

/// A line for the log of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Another place says by ARP that it has an address of ours, which is defended.
    Claimed(IpAddr, LinkAddr),
    /// The same by neighbour discovery, with or without a place.
    Advertised(IpAddr, Option<LinkAddr>),
    /// An address is not used any more.
    Duplicate(IpAddr, Option<LinkAddr>),
    /// It is used again.
    Recovered(IpAddr),
}

impl Notice {
    /// Whether it is a warning.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::Recovered(_))
    }

    /// In illumos's words, of the interface with that name.
    pub fn text(&self, interface: &str) -> String {
        let place = |place: &Option<LinkAddr>| place.map_or("<none>".to_owned(), octets);
        match self {
            Self::Claimed(address, at) => {
                let at = octets(*at);
                format!("proxy ARP problem?  Node '{at}' is using {address} on {interface}")
            }
            Self::Advertised(address, at) => {
                format!("node '{address}' is using {} on {interface}", place(at))
            }
            Self::Duplicate(address, at) => {
                format!("{interface} has duplicate address {address} (in use by {}); disabled", place(at))
            }
            Self::Recovered(address) => format!("recovered address {address} on {interface}"),
        }
    }
}

/// As `mac_colon_addr` writes a link address.
fn octets(address: LinkAddr) -> String {
    address.0.map(|octet| format!("{octet:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn an_address_is_defended_three_times_in_a_row_and_a_lease_once() {
        for (leased, times) in [(false, 3), (true, 1)] {
            let mut defence = Defence::default();
            let claims = [0, 30, 60, 61].map(|at| defence.claimed(Duration::from_secs(at), ADDRESS, leased));
            assert_eq!(claims.iter().filter(|defended| **defended).count(), times);
            assert!(!claims[3]);
            assert!(defence.claimed(Duration::from_secs(92), ADDRESS, leased), "a new quarrel");
        }
    }

    #[test]
    fn the_log_has_the_words_of_illumos() {
        let place = LinkAddr([0xa; 20]);
        let digits = ["0a"; 20].join(":");
        for (notice, text) in [
            (
                Notice::Claimed(ADDRESS, place),
                format!("proxy ARP problem?  Node '{digits}' is using 10.0.0.1 on l0"),
            ),
            (Notice::Advertised(ADDRESS, None), "node '10.0.0.1' is using <none> on l0".to_owned()),
            (
                Notice::Duplicate(ADDRESS, Some(place)),
                format!("l0 has duplicate address 10.0.0.1 (in use by {digits}); disabled"),
            ),
            (Notice::Recovered(ADDRESS), "recovered address 10.0.0.1 on l0".to_owned()),
        ] {
            assert_eq!(notice.text("l0"), text);
        }
    }
}
