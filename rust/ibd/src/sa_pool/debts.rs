//! What links that are gone have left of a port's memberships ([`ipoib::debts`]): the pool ends it as long as an instance is on the port.
//!
//! The last instance that is on a port (`ibp`'s own, or the last `ibd`) takes its time to go while something is owed, but not longer than a minute after the
//! last debt was paid. What is left then is the SA's to end: it does so when the port goes down. A driver has no business with a port that none of its instances is attached to.

use core::fmt;

use ipoib::debts::{Debt, Outcome, Place};
use ipoib::groups::{Left, Roles};
use ipoib::window::{End, Kind};
use ipoib::{Gid, Instant, Mgid};
use kernel::list::Room;
use kernel::log::Source;
use kernel::module::Pin;
use kernel::{KArc, KVec, MayBlock, log};

use super::{Begun, Calls, Group, Port, PortId, PortKey, PortRoom, SaPool, State, Turn, What};
use crate::link::end_debt;
use crate::node::{Node, ibtf_gid};
use crate::now;

/// Memberships that a port owes at once: those of a link, and some of others.
const MOST_DEBTS: usize = 1_536;
/// How long the last instance on a port waits for the debts to become fewer.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(60);

/// Memory for a port, made before it is needed. **May block.**
pub(super) fn port_room(may_block: &MayBlock) -> PortRoom {
    (Room::new_waiting(may_block), KVec::from_fn_waiting(MOST_DEBTS, may_block, |_| None))
}

/// How the wait of a port's last instance stands.
#[derive(Clone, Copy)]
pub(super) struct Going {
    /// When the debts became fewer last, or the wait began.
    since: Instant,
    asked: Instant,
    debts: usize,
}

/// A port's own instance, which goes after all links on it.
pub(crate) struct Anchor {
    pool: KArc<SaPool>,
    port: PortKey,
}

impl Anchor {
    /// Takes a port in that no link is on yet.
    pub(crate) fn new(pool: &KArc<SaPool>, node: &Node, may_block: &MayBlock) -> Self {
        let port = key(node);
        let (room, slots) = port_room(may_block);
        let mut state = pool.state.lock();
        state.admitted += 1;
        let born = state.admitted;
        state.ports.put(room, Port::new(port, born, slots, true));
        drop(state);
        Self { pool: pool.clone(), port }
    }
}

impl Drop for Anchor {
    /// Its instance goes: what is owed is given up. **May block**, but waits for no answer.
    fn drop(&mut self) {
        if let Some(port) = self.pool.state.lock().port(self.port) {
            port.users -= 1;
        }
        self.pool.give_up(self.port);
    }
}

/// A port in a log line.
struct Label(PortKey);

impl Source for Label {}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hca, port) = self.0;
        write!(f, "HCA GUID {:016x} port {port}", hca.get())
    }
}

impl SaPool {
    /// Whether a port has an instance of its own, which goes after all links on it.
    pub(crate) fn has_instance(&self, node: &Node) -> bool {
        self.state.lock().port(key(node)).is_some_and(|port| port.anchored)
    }

    /// A membership that a link leaves to be ended; one that is given up for it, if there is no room.
    pub(crate) fn owe(&self, node: &Node, debt: Debt) -> Option<Debt> {
        let mut state = self.state.lock();
        let given_up = match state.port(key(node)) {
            Some(port) => port.debts.add(now(), debt),
            None => Some(debt),
        };
        drop(state);
        self.state.notify_one();
        given_up
    }

    /// The last instance is gone from a port: what it owes is given up. **May block**, but waits for no answer.
    pub(super) fn give_up(&self, key: PortKey) {
        let mut given_up = 0;
        loop {
            let debt = self.state.lock().port(key).and_then(|port| port.debts.take());
            let Some(debt) = debt else { break };
            forget(&debt);
            given_up += 1;
        }
        self.remove_port(key);
        tell(key, given_up);
    }

    /// Memory is freed without the lock.
    #[inline(never)]
    fn remove_port(&self, key: PortKey) {
        let port = self.state.lock().ports.take(|port| port.key == key && port.users == 0);
        drop(port);
    }

    /// A link has joined a group, and will leave it.
    pub(crate) fn paid(&self, node: &Node, group: Mgid, by: Gid, role: Roles) {
        if let Some(port) = self.state.lock().port(key(node)) {
            port.debts.paid(group, by, role);
        }
    }

    /// The adapter of a port is to go: no leave of the port begins, as each would keep `ibcm` from letting go of the adapter. Or it stays.
    pub(crate) fn hold(&self, node: &Node, held: bool) {
        if let Some(port) = self.state.lock().port(key(node)) {
            port.held = held;
        }
        self.state.notify_one();
    }

    /// How many memberships keep an instance that is the last one on its port from going now; 0 if it may go.
    pub(crate) fn is_kept_by(&self, node: &Node) -> usize {
        let mut state = self.state.lock();
        // What a link that is gone has asked may bring a membership, which is owed then.
        let is_gone = |calls: &&Calls| calls.number.is_none() && calls.port == key(node);
        let asked: usize = state.links.iter().filter(is_gone).map(|calls| calls.out).sum();
        let Some(port) = state.port(key(node)).filter(|port| port.users == 1 && !port.held) else { return 0 };
        let (debts, now) = (port.debts.len() + asked, now());
        let fresh = Going { since: now, asked: now, debts };
        let before = port.going.filter(|going| now - going.asked < PATIENCE);
        let going =
            before.filter(|going| debts >= going.debts).map_or(fresh, |going| Going { asked: now, ..going });
        port.going = Some(going);
        if now - going.since >= PATIENCE { 0 } else { debts }
    }
}

fn key(node: &Node) -> PortKey {
    (node.hca, node.port)
}

/// Takes the joins of a debt that nothing is done about any more out of IBTF's count. **May block**, but waits for no answer.
pub(crate) fn forget(debt: &Debt) {
    for _ in 0..debt.joins {
        let state = crate::link::join_state(debt.counted);
        ibtf::forget_join(ibtf_gid(debt.port), ibtf_gid(debt.group.gid()), state);
    }
}

/// So many memberships are not ended.
pub(super) fn tell(port: PortKey, memberships: u32) {
    if memberships != 0 {
        log!(
            warn,
            Label(port),
            "{memberships} memberships are left to the SA, which may have the port in their groups until it goes down"
        );
    }
}

/// An attempt to pay a debt.
pub(super) struct Attempt {
    place: Place,
    debt: Debt,
    outcome: Outcome,
    pin: Pin,
}

impl Attempt {
    /// **May block**, for minutes.
    pub(super) fn make(mut self, turn: &Turn<'_>) -> (End, Self) {
        let (left, end, heard) = end_debt(turn, &self.debt);
        self.outcome = match left {
            Left::Confirmed => Outcome::Over,
            Left::Unconfirmed(roles) => Outcome::Remains(roles, heard),
            Left::NotAsked => Outcome::Remains(self.debt.roles, false),
        };
        (end, self)
    }
}

impl State {
    /// When a debt is due next that is not yet.
    pub(super) fn next_debt_due(&self, now: Instant) -> Option<Instant> {
        let due = self.ports.iter().filter(|port| !port.held).filter_map(|port| port.debts.poll_timeout());
        due.filter(|due| *due > now).min()
    }

    /// For the port that has the fewest calls out, if no call of a link can be made.
    pub(super) fn begin_debt(&mut self, now: Instant) -> Option<Begun> {
        let load = self.load(now);
        let is_due = |port: &&Port| {
            let due = port.debts.poll_timeout().is_some_and(|due| due <= now);
            due && !port.held && port.window.admits(now, Kind::Owed, false, &load)
        };
        let (_, key) =
            self.ports.iter().filter(is_due).map(|port| ((port.window.out(), port.last), port.key)).min()?;
        let groups = self.groups;
        let is_busy = |mgid| groups.iter().flatten().any(|out| (out.port, out.mgid) == (key, mgid));
        self.begun += 1;
        let turn = self.begun;
        let port = self.port(key)?;
        let id = PortId { key, born: port.born };
        let (owed, debt) = port.debts.next(now, is_busy)?;
        let Some(place) = port.window.begin(now, Kind::Owed) else {
            port.debts.ended(now, owed, Outcome::Remains(debt.roles, false));
            return None;
        };
        port.last = turn;
        let group = Some(Group { port: key, mgid: debt.group, leaves: true });
        self.note_group(group);
        let attempt = Attempt { place: owed, debt, outcome: Outcome::Over, pin: Pin::new() };
        Some(Begun { port: id, place, group, what: What::Debt(attempt) })
    }

    /// Hands out what keeps the module, to be dropped last; and how many memberships are given up.
    pub(super) fn end_debt(&mut self, now: Instant, port: PortId, attempt: Attempt) -> (Option<Pin>, u32) {
        let Attempt { place, outcome, pin, .. } = attempt;
        let given_up = self.same_port(port).map_or(0, |port| {
            port.debts.ended(now, place, outcome);
            port.debts.given_up()
        });
        (Some(pin), given_up)
    }
}
