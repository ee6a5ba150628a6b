//! Who is where: IP address to link address, for ARP and ND alike, in the states of RFC 4861 section 7.3 as illumos has them
//! (`ip_ndp.c`, `ip_arp.c`).
//!
//! A pure machine. Packets for an address that is being asked for wait in a bounded queue. An entry that is used though nothing has
//! confirmed it for a while is asked for again, at its own place, and forgotten if nothing answers.

mod learn;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::link_addr::LinkAddr;
pub use learn::Flags;

/// From one question to the next (`ND_RETRANS_TIMER`).
const ASK_EVERY: Duration = Duration::from_secs(1);
/// `ND_MAX_MULTICAST_SOLICIT` and `ND_MAX_UNICAST_SOLICIT`.
const ASK_TIMES: u32 = 3;
/// How long a confirmation counts (`ND_REACHABLE_TIME`).
const REACHABLE_FOR: Duration = Duration::from_secs(30);
/// From the first packet to a neighbour in doubt to the first question (`ND_DELAY_FIRST_PROBE_TIME`).
const DELAY: Duration = Duration::from_secs(5);
/// From the last unanswered question at a neighbour's own place until it is forgotten.
const LAST_HOPE: Duration = Duration::from_secs(2);
/// The largest datagram has 293 fragments at the smallest MTU.
const QUEUE: usize = 320;
/// Neighbours that are known at once. Another one takes the place of one in doubt.
const ENTRIES: usize = 1024;

/// What to do with a packet `P` for a neighbour.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<P> {
    /// Known: send it there.
    Send(LinkAddr, P),
    /// Queued; this is the first packet, so ask now.
    Ask,
    /// Queued behind an outstanding question.
    Wait,
}

/// A neighbour to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The address that is asked for.
    pub ip: IpAddr,
    /// Where it was; a group is asked if that is not known.
    pub at: Option<LinkAddr>,
}

/// How a neighbour is (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant says what its fields are")]
pub enum State {
    /// A group was asked so many times, and is asked again then.
    Incomplete { sent: u32, next: Duration },
    /// It was there at that time.
    Reachable { confirmed: Duration },
    /// It is said to be there.
    Stale,
    /// It is used, and asked for at that time.
    Delay { until: Duration },
    /// It was asked so many times, and is asked again or given up then.
    Probe { sent: u32, next: Duration },
}

#[derive(Debug)]
struct Entry<P> {
    /// None only while nothing has ever answered.
    link: Option<LinkAddr>,
    state: State,
    /// It says that it is a router.
    router: bool,
    /// Of its last packet or message.
    touched: Duration,
    queue: VecDeque<P>,
}

/// Counters, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions sent (requests, solicitations).
    pub asked: u64,
    /// Addresses learned or confirmed.
    pub learned: u64,
    /// Packets dropped because the neighbour did not answer, or the queue was full.
    pub unresolved: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Neighbours<P> {
    entries: BTreeMap<IpAddr, Entry<P>>,
    counters: Counters,
}

impl<P> Default for Neighbours<P> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), counters: Counters::default() }
    }
}

impl<P> Neighbours<P> {
    /// `packet` is to go to the neighbour `ip`.
    pub fn lookup(&mut self, now: Duration, ip: IpAddr, packet: P) -> Lookup<P> {
        if !self.entries.contains_key(&ip) {
            self.counters.asked += 1;
            let state = State::Incomplete { sent: 1, next: now + ASK_EVERY };
            self.insert(now, ip, None, state).queue.push_back(packet);
            return Lookup::Ask;
        }
        let counters = &mut self.counters;
        let Some(entry) = self.entries.get_mut(&ip) else { return Lookup::Wait };
        entry.touched = now;
        match entry.link {
            Some(link) => {
                entry.doubt(now);
                Lookup::Send(link, packet)
            }
            None => {
                if entry.queue.len() == QUEUE {
                    entry.queue.pop_front();
                    counters.unresolved += 1;
                }
                entry.queue.push_back(packet);
                Lookup::Wait
            }
        }
    }

    /// A new entry, in the place of another one if there are as many as there may be.
    fn insert(&mut self, now: Duration, ip: IpAddr, link: Option<LinkAddr>, state: State) -> &mut Entry<P> {
        if self.entries.len() >= ENTRIES {
            let in_doubt = |entry: &Entry<P>| (!matches!(entry.state, State::Stale), entry.touched);
            let oldest = self.entries.iter().min_by_key(|(_, entry)| in_doubt(entry)).map(|(ip, _)| *ip);
            let gone = oldest.and_then(|oldest| self.entries.remove(&oldest));
            self.counters.unresolved += gone.map_or(0, |entry| entry.queue.len() as u64);
        }
        let entry = Entry { link, state, router: false, touched: now, queue: VecDeque::new() };
        self.entries.entry(ip).insert_entry(entry).into_mut()
    }

    /// The known link address of `ip`.
    pub fn get(&self, ip: &IpAddr) -> Option<LinkAddr> {
        self.entries.get(ip)?.link
    }

    /// Whether `ip` is known, and will be at `at`, even if it is used from now on and answers nothing.
    pub fn stays_until(&self, ip: &IpAddr, now: Duration, at: Duration) -> bool {
        let known = self.entries.get(ip).filter(|entry| entry.link.is_some());
        known.is_some_and(|entry| at < entry.forgotten_at(now))
    }

    /// Do packets wait until `ip` answers?
    pub fn is_asking(&self, ip: &IpAddr) -> bool {
        self.entries.get(ip).is_some_and(|entry| !entry.queue.is_empty())
    }

    /// Everything known, in address order.
    pub fn iter(&self) -> impl Iterator<Item = (&IpAddr, LinkAddr)> {
        self.entries.iter().filter_map(|(ip, entry)| Some((ip, entry.link?)))
    }

    /// Each neighbour that there is a row for: where, if that is known, and how it is.
    pub fn rows(&self) -> impl Iterator<Item = (IpAddr, Option<LinkAddr>, State)> {
        self.entries.iter().map(|(ip, entry)| (*ip, entry.link, entry.state))
    }

    /// Forgets all; what waited is dropped.
    pub fn clear(&mut self) {
        self.counters.unresolved += self.entries.values().map(|entry| entry.queue.len() as u64).sum::<u64>();
        self.entries.clear();
    }

    /// Who is to be asked for now. What nothing has answered for is forgotten, and what waited for it is dropped.
    pub fn poll(&mut self, now: Duration) -> Vec<Question> {
        let mut questions = Vec::new();
        let counters = &mut self.counters;
        self.entries.retain(|ip, entry| {
            let Some(next) = entry.timer().filter(|at| *at <= now).map(|_| entry.state.after(now)) else {
                return true;
            };
            let Some(next) = next else {
                counters.unresolved += entry.queue.len() as u64;
                return false;
            };
            entry.state = next;
            counters.asked += 1;
            questions.push(Question { ip: *ip, at: entry.link });
            true
        });
        questions
    }

    /// When `poll` next has something to do.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.entries.values().filter_map(Entry::timer).min()
    }

    /// What has been asked for and given up since the interface was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl State {
    /// After the next question, which is due; `None` if there was one too many.
    fn after(self, now: Duration) -> Option<Self> {
        let next = now + ASK_EVERY;
        match self {
            Self::Incomplete { sent, .. } if sent < ASK_TIMES => {
                Some(Self::Incomplete { sent: sent + 1, next })
            }
            Self::Delay { .. } => Some(Self::Probe { sent: 1, next }),
            Self::Probe { sent, .. } if sent + 1 < ASK_TIMES => Some(Self::Probe { sent: sent + 1, next }),
            Self::Probe { sent, .. } if sent < ASK_TIMES => {
                Some(Self::Probe { sent: sent + 1, next: now + LAST_HOPE })
            }
            Self::Incomplete { .. } | Self::Probe { .. } | Self::Reachable { .. } | Self::Stale => None,
        }
    }
}

impl<P> Entry<P> {
    fn timer(&self) -> Option<Duration> {
        match self.state {
            State::Incomplete { next, .. } | State::Probe { next, .. } => Some(next),
            State::Delay { until } => Some(until),
            State::Reachable { .. } | State::Stale => None,
        }
    }

    /// A packet goes to its place: if that is in doubt, it will be asked.
    fn doubt(&mut self, now: Duration) {
        let old = match self.state {
            State::Reachable { confirmed } => now > confirmed + REACHABLE_FOR,
            State::Stale => true,
            State::Incomplete { .. } | State::Delay { .. } | State::Probe { .. } => false,
        };
        if old {
            self.state = State::Delay { until: now + DELAY };
        }
    }

    /// When it is forgotten at the earliest, should nothing answer from now on.
    fn forgotten_at(&self, now: Duration) -> Duration {
        let questions = |left: u32| ASK_EVERY * left.saturating_sub(1) + LAST_HOPE;
        match self.state {
            State::Reachable { .. } | State::Stale => now + DELAY + questions(ASK_TIMES),
            State::Delay { until } => until + questions(ASK_TIMES),
            State::Probe { sent, next } if sent < ASK_TIMES => next + questions(ASK_TIMES - sent),
            State::Probe { next, .. } | State::Incomplete { next, .. } => next,
        }
    }
}
