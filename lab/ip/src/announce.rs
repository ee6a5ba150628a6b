//! Telling neighbours one's link address: several times, as any one announcement may be lost, with illumos's count and pace
//! (`_arp_publish_count` and `_ndp_unsolicit_count`, both every `_arp_publish_interval` or `_ndp_unsolicit_interval`).
//!
//! Pure: addresses and the time go in; what to announce now comes out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// How often an IPv4 address is announced, and an IPv6 address.
const IPV4_TIMES: u32 = 5;
const IPV6_TIMES: u32 = 3;
/// From one announcement to the next.
const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Left {
    times: u32,
    next: Duration,
}

/// The addresses that are being announced.
#[derive(Clone, Debug, Default)]
pub struct Announcements(BTreeMap<IpAddr, Left>);

impl Announcements {
    /// Announces exactly these addresses, from the first time on, which is at the next poll.
    pub fn begin(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        let times = |address: &IpAddr| if address.is_ipv4() { IPV4_TIMES } else { IPV6_TIMES };
        self.0 = addresses
            .map(|address| (address, Left { times: times(&address), next: Duration::ZERO }))
            .collect();
    }

    /// Announces an address once, at the next poll, and then as it was announced before.
    pub fn once_more(&mut self, address: IpAddr) {
        let left = self.0.entry(address).or_insert(Left { times: 0, next: Duration::ZERO });
        *left = Left { times: left.times + 1, next: Duration::ZERO };
    }

    /// An address is announced no longer: somebody else claims it.
    pub fn stop(&mut self, address: &IpAddr) {
        self.0.remove(address);
    }

    /// The interface has these addresses now: others are announced no longer.
    pub fn keep(&mut self, has: impl Fn(&IpAddr) -> bool) {
        self.0.retain(|address, _| has(address));
    }

    /// The addresses to announce now.
    pub fn poll(&mut self, now: Duration) -> Vec<IpAddr> {
        let mut due = Vec::new();
        self.0.retain(|address, left| {
            if left.next <= now {
                due.push(*address);
                *left = Left { times: left.times - 1, next: now + INTERVAL };
            }
            left.times > 0
        });
        due
    }

    /// When `poll` has something to do next.
    pub fn poll_at(&self) -> Option<Duration> {
        self.0.values().map(|left| left.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_announced_five_times_in_eight_seconds_and_an_ipv6_address_three_times_in_four() {
        let addresses: [IpAddr; 2] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().expect("an address"));
        let mut announcements = Announcements::default();
        announcements.begin(addresses.into_iter());
        let mut times = [Vec::new(), Vec::new()];
        let mut now = Duration::from_secs(7);
        loop {
            for address in announcements.poll(now) {
                times[usize::from(address.is_ipv6())].push(now.as_secs() - 7);
            }
            let Some(at) = announcements.poll_at() else { break };
            now = at;
        }
        assert_eq!(times, [vec![0, 2, 4, 6, 8], vec![0, 2, 4]]);
    }

    #[test]
    fn an_address_that_went_is_announced_no_longer() {
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let mut announcements = Announcements::default();
        announcements.begin([address].into_iter());
        assert_eq!(announcements.poll(Duration::ZERO), [address]);
        announcements.keep(|_| false);
        assert_eq!(announcements.poll_at(), None);
    }
}
