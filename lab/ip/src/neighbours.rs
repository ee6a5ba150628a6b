//! Who is where: IP address to link address, for ARP and ND alike.
//!
//! A pure machine. Packets for an address that is being asked for wait in a bounded queue; an entry in use is
//! asked for again before it is forgotten, so that a peer whose link address changed is found again.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::link_addr::LinkAddr;

const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_TIMES: u32 = 3;
const FRESH_FOR: Duration = Duration::from_secs(60);
/// The largest datagram has 293 fragments at the smallest MTU.
const QUEUE: usize = 320;

/// What to do with a packet `P` for a neighbour.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<P> {
    /// Known: send it there.
    Send(LinkAddr, P),
    /// Known, but ask again as well: the entry is old.
    SendAndAsk(LinkAddr, P),
    /// Queued; this is the first packet, so ask now.
    Ask,
    /// Queued behind an outstanding question.
    Wait,
}

#[derive(Debug, Default)]
struct Entry<P> {
    link: Option<LinkAddr>,
    fresh_until: Duration,
    /// When to ask again and how often we have asked; `None` when no question is out.
    asking: Option<(Duration, u32)>,
    queue: VecDeque<P>,
}

/// Counters, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions sent (requests, solicitations).
    pub asked: u64,
    /// Addresses learned or refreshed.
    pub learned: u64,
    /// Packets dropped because the neighbour did not answer, or the queue was full.
    pub unresolved: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Neighbours<P> {
    entries: BTreeMap<IpAddr, Entry<P>>,
    counters: Counters,
}

impl<P: Default> Neighbours<P> {
    /// `packet` is to go to the neighbour `ip`.
    pub fn lookup(&mut self, now: Duration, ip: IpAddr, packet: P) -> Lookup<P> {
        let entry = self.entries.entry(ip).or_default();
        let first_question = entry.asking.is_none();
        match entry.link {
            Some(link) if now < entry.fresh_until || !first_question => Lookup::Send(link, packet),
            Some(link) => {
                entry.ask(now, &mut self.counters);
                Lookup::SendAndAsk(link, packet)
            }
            None => {
                if entry.queue.len() == QUEUE {
                    entry.queue.pop_front();
                    self.counters.unresolved += 1;
                }
                entry.queue.push_back(packet);
                if first_question {
                    entry.ask(now, &mut self.counters);
                    Lookup::Ask
                } else {
                    Lookup::Wait
                }
            }
        }
    }

    /// `ip` is at `link`. An unknown neighbour is entered only if it `asked_us`. Answers what was waiting for it.
    pub fn learn(&mut self, now: Duration, ip: IpAddr, link: LinkAddr, asked_us: bool) -> Vec<P> {
        if !asked_us && !self.entries.contains_key(&ip) {
            return Vec::new();
        }
        let entry = self.entries.entry(ip).or_default();
        entry.link = Some(link);
        entry.fresh_until = now + FRESH_FOR;
        entry.asking = None;
        self.counters.learned += 1;
        entry.queue.drain(..).collect()
    }

    /// The known link address of `ip`.
    pub fn get(&self, ip: &IpAddr) -> Option<LinkAddr> {
        self.entries.get(ip)?.link
    }

    /// Is `ip` known, and not asked for again before `at`?
    pub fn is_fresh(&self, ip: &IpAddr, at: Duration) -> bool {
        self.entries.get(ip).is_some_and(|entry| entry.link.is_some() && at < entry.fresh_until)
    }

    /// Do packets wait until `ip` answers?
    pub fn is_asking(&self, ip: &IpAddr) -> bool {
        self.entries.get(ip).is_some_and(|entry| !entry.queue.is_empty())
    }

    /// Everything known, in address order.
    pub fn iter(&self) -> impl Iterator<Item = (&IpAddr, LinkAddr)> {
        self.entries.iter().filter_map(|(ip, entry)| Some((ip, entry.link?)))
    }

    /// Everybody there is a row for: where, if that is known, and whether it was learnt not long ago.
    pub fn rows(&self, now: Duration) -> impl Iterator<Item = (IpAddr, Option<LinkAddr>, bool)> {
        self.entries.iter().map(move |(ip, entry)| (*ip, entry.link, now < entry.fresh_until))
    }

    /// Forgets all link addresses: our own changed, or the link went away.
    pub fn flush(&mut self) {
        self.entries.retain(|_, entry| !entry.queue.is_empty());
        for entry in self.entries.values_mut() {
            entry.link = None;
        }
    }

    /// Forgets everybody; what waited is dropped.
    pub fn clear(&mut self) {
        self.counters.unresolved += self.entries.values().map(|entry| entry.queue.len() as u64).sum::<u64>();
        self.entries.clear();
    }

    /// The addresses to ask for now. Gives up after three unanswered questions and drops what waited.
    pub fn poll(&mut self, now: Duration) -> Vec<IpAddr> {
        let mut ask = Vec::new();
        let counters = &mut self.counters;
        self.entries.retain(|ip, entry| match entry.asking {
            Some((at, times)) if at <= now && times >= ASK_TIMES => {
                counters.unresolved += entry.queue.len() as u64;
                false
            }
            Some((at, _)) if at <= now => {
                entry.ask(now, counters);
                ask.push(*ip);
                true
            }
            _ => true,
        });
        ask
    }

    /// When `poll` next has something to do.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.entries.values().filter_map(|entry| Some(entry.asking?.0)).min()
    }

    /// What has been asked for and given up since the interface was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P> Entry<P> {
    fn ask(&mut self, now: Duration, counters: &mut Counters) {
        let times = self.asking.map_or(0, |(_, times)| times);
        self.asking = Some((now + ASK_EVERY, times + 1));
        counters.asked += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const LINK: LinkAddr = LinkAddr([3; 20]);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn packets_wait_for_the_answer_in_order() {
        let mut table = Neighbours::default();
        assert_eq!(table.lookup(at(0), PEER, vec![1]), Lookup::Ask);
        assert_eq!(table.lookup(at(0), PEER, vec![2]), Lookup::Wait);
        assert_eq!(table.learn(at(1), PEER, LINK, false), [vec![1], vec![2]]);
        assert_eq!(table.lookup(at(1), PEER, vec![3]), Lookup::Send(LINK, vec![3]));
        assert_eq!(table.next_timeout(), None);
    }

    #[test]
    fn a_silent_peer_is_asked_three_times_and_given_up() {
        let mut table = Neighbours::default();
        assert_eq!(table.lookup(at(0), PEER, vec![1]), Lookup::Ask);
        assert_eq!(table.poll(at(1)), [PEER]);
        assert_eq!(table.poll(at(2)), [PEER]);
        assert!(table.poll(at(3)).is_empty());
        assert_eq!(table.counters(), Counters { asked: 3, learned: 0, unresolved: 1 });
        assert_eq!(table.next_timeout(), None);
    }

    #[test]
    fn an_old_entry_is_used_while_it_is_asked_for_again() {
        let mut table = Neighbours::default();
        table.learn(at(0), PEER, LINK, true);
        assert_eq!(table.lookup(at(61), PEER, vec![1]), Lookup::SendAndAsk(LINK, vec![1]));
        assert_eq!(table.lookup(at(61), PEER, vec![2]), Lookup::Send(LINK, vec![2]));
    }

    #[test]
    fn a_neighbour_is_fresh_for_a_minute() {
        let mut table = Neighbours::<Vec<u8>>::default();
        assert!(!table.is_fresh(&PEER, at(0)));
        table.learn(at(5), PEER, LINK, true);
        assert!(table.is_fresh(&PEER, at(64)) && !table.is_fresh(&PEER, at(65)));
    }

    #[test]
    fn a_stranger_s_announcement_is_not_entered() {
        let mut table = Neighbours::<Vec<u8>>::default();
        assert_eq!(table.learn(at(0), PEER, LINK, false), Vec::<Vec<u8>>::new());
        assert_eq!(table.get(&PEER), None);
    }

    #[test]
    fn the_queue_of_a_silent_peer_is_bounded() {
        let mut table = Neighbours::default();
        for n in 0..QUEUE + 36 {
            table.lookup(at(0), PEER, vec![n]);
        }
        assert_eq!(table.counters().unresolved, 36);
        assert_eq!(table.learn(at(0), PEER, LINK, false).first(), Some(&vec![36]));
    }
}
