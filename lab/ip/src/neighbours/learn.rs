//! What messages say of neighbours.

use std::net::IpAddr;
use std::time::Duration;

use super::{Entry, LinkAddr, Neighbours, State};
use crate::arp::Operation;

/// The flags of an advertisement (RFC 4861 section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// R: the sender is a router.
    pub router: bool,
    /// S: it answers a solicitation.
    pub solicited: bool,
    /// O: it replaces what is known of the target.
    pub overrides: bool,
}

impl<P> Neighbours<P> {
    /// The owner of `ip`, at `link`, has asked for an address of ours by a neighbour solicitation. Answers what was waiting for it.
    pub fn solicited(&mut self, now: Duration, ip: IpAddr, link: LinkAddr) -> Vec<P> {
        let Some(entry) = self.entries.get_mut(&ip) else {
            self.insert(now, ip, Some(link), State::Stale);
            self.counters.learned += 1;
            return Vec::new();
        };
        entry.touched = now;
        if entry.link == Some(link) {
            return Vec::new();
        }
        entry.link = Some(link);
        self.resolved(ip, State::Stale)
    }

    /// A router has said of itself or of another where it is (RFC 4861 sections 6.3.4 and 8.3). Answers what was waiting for it.
    pub fn told_by_router(&mut self, now: Duration, ip: IpAddr, link: LinkAddr, is_router: bool) -> Vec<P> {
        let waiting = self.solicited(now, ip, link);
        if let Some(entry) = self.entries.get_mut(&ip) {
            entry.router |= is_router;
        }
        waiting
    }

    /// An advertisement tells of `ip` (RFC 4861 section 7.2.5, `nce_process`). Of what has no entry nothing is remembered. Answers
    /// what was waiting for it, and whether it was a router and says that it is none any more.
    pub fn advertised(
        &mut self,
        now: Duration,
        ip: IpAddr,
        link: Option<LinkAddr>,
        flags: Flags,
    ) -> (Vec<P>, bool) {
        let Some(entry) = self.entries.get_mut(&ip) else { return (Vec::new(), false) };
        entry.touched = now;
        let reachable = State::Reachable { confirmed: now };
        let Some(known) = entry.link else {
            entry.router |= flags.router;
            let Some(link) = link else { return (Vec::new(), false) };
            entry.link = Some(link);
            let state = if flags.solicited { reachable } else { State::Stale };
            return (self.resolved(ip, state), false);
        };
        let moves = link.is_some_and(|link| link != known);
        if moves && !flags.overrides {
            entry.router |= flags.router;
            if let State::Reachable { .. } = entry.state {
                entry.state = State::Stale;
            }
            return (Vec::new(), false);
        }
        let ceases = entry.router && !flags.router;
        entry.router = flags.router;
        entry.link = link.or(entry.link);
        match (flags.solicited, moves) {
            (true, _) => drop(self.resolved(ip, reachable)),
            (false, true) => drop(self.resolved(ip, State::Stale)),
            (false, false) => {}
        }
        (Vec::new(), ceases)
    }

    /// A packet of ARP tells that `ip` is at `link` (`ip_nce_resolve_all`). An unknown neighbour is entered only if it has asked
    /// for an address of ours. Answers what was waiting for it.
    pub fn heard_arp(
        &mut self,
        now: Duration,
        (ip, link): (IpAddr, LinkAddr),
        operation: Operation,
        for_us: bool,
    ) -> Vec<P> {
        let is_reply = operation == Operation::Reply;
        let Some(entry) = self.entries.get_mut(&ip) else {
            if for_us && !is_reply {
                self.insert(now, ip, Some(link), State::Stale);
                self.counters.learned += 1;
            }
            return Vec::new();
        };
        entry.touched = now;
        let moves = entry.link != Some(link);
        let answers = match entry.state {
            State::Incomplete { .. } => is_reply,
            State::Probe { .. } => is_reply && !moves,
            _ => false,
        };
        entry.link = Some(link);
        match (answers, moves) {
            (true, _) => self.resolved(ip, State::Reachable { confirmed: now }),
            (false, true) => self.resolved(ip, State::Stale),
            (false, false) => Vec::new(),
        }
    }

    fn resolved(&mut self, ip: IpAddr, state: State) -> Vec<P> {
        let Some(entry) = self.entries.get_mut(&ip) else { return Vec::new() };
        self.counters.learned += 1;
        entry.state = state;
        Entry::take(entry)
    }
}

impl<P> Entry<P> {
    fn take(&mut self) -> Vec<P> {
        self.queue.drain(..).collect()
    }
}
