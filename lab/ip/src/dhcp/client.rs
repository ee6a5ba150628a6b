//! The client's states (RFC 2131 section 4.4), from no address to a lease and through its times.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smoltcp::wire::{DhcpMessageType as Kind, Ipv4Cidr};

use super::datagram::from_client;
use super::message::{Answer, ClientId, Grant, Question};

/// The first wait for an answer; each further one is twice as long, up to the last (RFC 2131 section 4.1).
const FIRST_WAIT: Duration = Duration::from_secs(4);
const LAST_WAIT: Duration = Duration::from_secs(64);
/// By how much a wait differs at most, so that clients that began together do not ask together for ever.
const SPREAD_MS: u64 = 1_000;
/// How often an address is asked for that nobody gives.
const REQUESTS: u32 = 4;
/// How long a client pauses after an address that somebody else had already (section 3.1).
const DECLINE_PAUSE: Duration = Duration::from_secs(10);
/// The least time between two requests to renew a lease (section 4.4.5).
const LEAST_RETRY: Duration = Duration::from_secs(60);

/// An address that a server has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address, with the mask that came with it.
    pub address: Ipv4Cidr,
    /// Who gave it, and renews it.
    pub server: Ipv4Addr,
    /// When it is to be renewed, renewed by any server, and when it ends; `None` is never.
    times: Option<[Duration; 3]>,
}

impl Lease {
    fn begin(grant: &Grant, asked: Duration) -> Self {
        let times = grant.terms.map(|terms| [terms.renew, terms.rebind, terms.end].map(|span| asked + span));
        Self { address: grant.address, server: grant.server, times }
    }

    /// Has its time of this kind come?
    fn has_come(&self, which: usize, now: Duration) -> bool {
        self.times.is_some_and(|times| times[which] <= now)
    }

    fn time(&self, which: usize) -> Duration {
        self.times.map_or(Duration::MAX, |times| times[which])
    }
}

const RENEW: usize = 0;
const REBIND: usize = 1;
const END: usize = 2;

/// Questions with one transaction number.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    transaction: u32,
    sent: u32,
    last: Duration,
    next: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The link is down. A lease from before is asked for again once it is up.
    Waiting(Option<Lease>),
    /// Who has an address for us?
    Selecting(Exchange),
    /// We take this one.
    Requesting { exchange: Exchange, address: Ipv4Addr, server: Ipv4Addr },
    /// Is this lease still ours, here?
    Rebooting(Exchange, Lease),
    /// It is ours.
    Bound(Lease),
    /// Its server is asked for more time.
    Renewing(Exchange, Lease),
    /// Any server is.
    Rebinding(Exchange, Lease),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Client {
    state: State,
    id: Option<ClientId>,
    /// When the client began to want an address.
    begun: Duration,
    random: ChaCha8Rng,
    out: VecDeque<Vec<u8>>,
}

impl Client {
    /// `seed` feeds transaction numbers and waits, together with the identifier once there is one.
    pub fn new(seed: u64) -> Self {
        Self {
            state: State::Waiting(None),
            id: None,
            begun: Duration::ZERO,
            random: ChaCha8Rng::seed_from_u64(seed),
            out: VecDeque::new(),
        }
    }

    /// The link is up and the client is known on it by this, or it is down. Telling it again does nothing.
    pub fn set_link(&mut self, now: Duration, id: Option<ClientId>) {
        match (id, self.state) {
            (None, State::Waiting(_)) => {}
            (None, _) => self.state = State::Waiting(self.lease()),
            (Some(id), State::Waiting(lease)) => self.begin(now, id, lease),
            // What was given to another identifier is not ours.
            (Some(id), _) if self.id != Some(id) => self.begin(now, id, None),
            (Some(_), _) => {}
        }
    }

    fn begin(&mut self, now: Duration, id: ClientId, lease: Option<Lease>) {
        if self.id != Some(id) {
            // Two clients of one seed must not take each other's answers for their own.
            let guid = id.0[13..].iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet));
            self.random = ChaCha8Rng::seed_from_u64(self.random.random::<u64>() ^ guid);
        }
        let same = self.id.replace(id) == Some(id);
        self.begun = now;
        match lease.filter(|lease| same && !lease.has_come(END, now)) {
            None => self.select(now),
            Some(lease) => {
                let exchange = self.exchange(now);
                self.state = State::Rebooting(exchange, lease);
                self.ask(now);
            }
        }
    }

    /// The lease whose address the interface has.
    pub fn lease(&self) -> Option<Lease> {
        match self.state {
            State::Waiting(lease) => lease,
            State::Selecting(_) | State::Requesting { .. } => None,
            State::Rebooting(_, lease)
            | State::Bound(lease)
            | State::Renewing(_, lease)
            | State::Rebinding(_, lease) => Some(lease),
        }
    }

    /// An answer came. One that nobody waits for does nothing.
    pub fn receive(&mut self, now: Duration, message: &[u8]) {
        let Some(answer) = self.id.and_then(|id| Answer::parse(message, &id)) else { return };
        match (self.state, answer) {
            (State::Selecting(exchange), Answer::Offer { transaction, address, server })
                if transaction == exchange.transaction =>
            {
                let exchange = Exchange { sent: 0, ..exchange };
                self.state = State::Requesting { exchange, address, server };
                self.ask(now);
            }
            (
                State::Requesting { exchange, .. }
                | State::Rebooting(exchange, _)
                | State::Renewing(exchange, _)
                | State::Rebinding(exchange, _),
                Answer::Ack { transaction, grant },
            ) if transaction == exchange.transaction => {
                self.state = State::Bound(Lease::begin(&grant, exchange.last));
            }
            (
                State::Requesting { exchange, .. }
                | State::Rebooting(exchange, _)
                | State::Renewing(exchange, _)
                | State::Rebinding(exchange, _),
                Answer::Nak { transaction },
            ) if transaction == exchange.transaction => self.select(now),
            _ => {}
        }
    }

    /// Does what has become due.
    pub fn poll(&mut self, now: Duration) {
        if self.lease().is_some_and(|lease| lease.has_come(END, now)) {
            match self.state {
                State::Waiting(_) => self.state = State::Waiting(None),
                _ => self.select(now),
            }
            return;
        }
        match self.state {
            State::Bound(lease) if lease.has_come(RENEW, now) => {
                self.state = State::Renewing(self.exchange(now), lease);
                self.ask(now);
            }
            State::Renewing(_, lease) if lease.has_come(REBIND, now) => {
                self.state = State::Rebinding(self.exchange(now), lease);
                self.ask(now);
            }
            State::Requesting { exchange, .. } if exchange.next <= now && exchange.sent == REQUESTS => {
                self.select(now);
            }
            // Nobody says that it is not ours.
            State::Rebooting(exchange, lease) if exchange.next <= now && exchange.sent == REQUESTS => {
                self.state = State::Bound(lease);
                self.poll(now);
            }
            State::Selecting(exchange)
            | State::Requesting { exchange, .. }
            | State::Rebooting(exchange, _)
            | State::Renewing(exchange, _)
            | State::Rebinding(exchange, _)
                if exchange.next <= now =>
            {
                self.ask(now);
            }
            _ => {}
        }
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&self) -> Option<Duration> {
        let at = match self.state {
            State::Waiting(None) => return None,
            State::Waiting(Some(lease)) => lease.time(END),
            State::Selecting(exchange) | State::Requesting { exchange, .. } => exchange.next,
            State::Bound(lease) => lease.time(RENEW),
            State::Renewing(exchange, lease) => exchange.next.min(lease.time(REBIND)),
            State::Rebooting(exchange, lease) | State::Rebinding(exchange, lease) => {
                exchange.next.min(lease.time(END))
            }
        };
        (at < Duration::MAX).then_some(at)
    }

    /// The next IPv4 packet to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Gives the lease back; the server that is told so, if there is one to tell. The client is of no more use then.
    pub fn release(&mut self) -> Option<Ipv4Addr> {
        let lease = match std::mem::replace(&mut self.state, State::Waiting(None)) {
            State::Bound(lease) | State::Renewing(_, lease) | State::Rebinding(_, lease) => lease,
            _ => return None,
        };
        let own = lease.address.address();
        let transaction = self.random.random();
        let question = Question {
            kind: Kind::Release,
            transaction,
            seconds: 0,
            broadcast: false,
            own,
            client: self.id?,
            requested: None,
            server: Some(lease.server),
        };
        self.out.push_back(from_client(own, lease.server, &question.emit()));
        Some(lease.server)
    }

    /// Somebody else has the address: the server is told, and after a pause another one is asked for.
    pub fn decline(&mut self, now: Duration) {
        let (Some(lease), Some(client)) = (self.lease(), self.id) else { return };
        let mut exchange = self.exchange(now);
        let question = Question {
            kind: Kind::Decline,
            transaction: exchange.transaction,
            seconds: 0,
            broadcast: false,
            own: Ipv4Addr::UNSPECIFIED,
            client,
            requested: Some(lease.address.address()),
            server: Some(lease.server),
        };
        self.out.push_back(from_client(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &question.emit()));
        exchange.next = now + DECLINE_PAUSE;
        (self.begun, self.state) = (exchange.next, State::Selecting(exchange));
    }

    fn select(&mut self, now: Duration) {
        self.begun = now;
        self.state = State::Selecting(self.exchange(now));
        self.ask(now);
    }

    fn exchange(&mut self, now: Duration) -> Exchange {
        Exchange { transaction: self.random.random(), sent: 0, last: now, next: now }
    }

    /// Says once more what this state has to say, and when it will say it again.
    fn ask(&mut self, now: Duration) {
        let Some(client) = self.id else { return };
        let wait = self.wait();
        let state = &mut self.state;
        let (State::Selecting(exchange)
        | State::Requesting { exchange, .. }
        | State::Rebooting(exchange, _)
        | State::Renewing(exchange, _)
        | State::Rebinding(exchange, _)) = state
        else {
            return;
        };
        exchange.sent += 1;
        (exchange.last, exchange.next) = (now, now + wait);
        let seconds = now.saturating_sub(self.begun).as_secs();
        let mut question = Question {
            kind: Kind::Request,
            transaction: exchange.transaction,
            seconds: u16::try_from(seconds).unwrap_or(u16::MAX),
            broadcast: true,
            own: Ipv4Addr::UNSPECIFIED,
            client,
            requested: None,
            server: None,
        };
        let mut to = Ipv4Addr::BROADCAST;
        match state {
            State::Selecting(_) => question.kind = Kind::Discover,
            State::Requesting { address, server, .. } => {
                (question.requested, question.server) = (Some(*address), Some(*server));
            }
            State::Rebooting(_, lease) => question.requested = Some(lease.address.address()),
            State::Renewing(_, lease) => {
                (question.own, question.broadcast) = (lease.address.address(), false);
                to = lease.server;
            }
            State::Rebinding(_, lease) => {
                (question.own, question.broadcast) = (lease.address.address(), false)
            }
            State::Waiting(_) | State::Bound(_) => {}
        }
        // It has the address while it asks for more time, and may say so.
        self.out.push_back(from_client(question.own, to, &question.emit()));
        self.wait_for_a_lease_s_time(now);
    }

    /// A wait of an exchange: twice the one before, give or take.
    fn wait(&mut self) -> Duration {
        let sent = match self.state {
            State::Selecting(exchange)
            | State::Requesting { exchange, .. }
            | State::Rebooting(exchange, _)
            | State::Renewing(exchange, _)
            | State::Rebinding(exchange, _) => exchange.sent,
            State::Waiting(_) | State::Bound(_) => 0,
        };
        let whole = (FIRST_WAIT * 2_u32.saturating_pow(sent.min(8))).min(LAST_WAIT);
        whole + Duration::from_millis(self.random.random_range(0..=2 * SPREAD_MS))
            - Duration::from_millis(SPREAD_MS)
    }

    /// Who renews a lease asks again after half of what is left until its next time, and not sooner than in a minute.
    fn wait_for_a_lease_s_time(&mut self, now: Duration) {
        let (exchange, until) = match &mut self.state {
            State::Renewing(exchange, lease) => (exchange, lease.time(REBIND)),
            State::Rebinding(exchange, lease) => (exchange, lease.time(END)),
            _ => return,
        };
        exchange.next = now + (until.saturating_sub(now) / 2).max(LEAST_RETRY);
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
