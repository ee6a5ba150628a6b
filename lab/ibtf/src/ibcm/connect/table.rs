//! The connections of a host: found by their numbers, by who is at the other end, by when something is due.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabric::Nanos;

use super::conn::{Conn, State};

/// Opens that may be under way on a machine (`ibcm_open.in_progress`).
const MOST_OPENS: usize = 16;
/// Closings that may (`ibcm_close_simul_max`).
const MOST_CLOSINGS: usize = 12;

/// What is kept under one lock.
#[derive(Default)]
pub(super) struct Table {
    conns: BTreeMap<u32, Conn>,
    due: BTreeSet<(Nanos, u32)>,
    last: u32,
    opens: usize,
    waiting_opens: VecDeque<u32>,
    closings: usize,
    /// Adapters (node GUID), once for each open that was given up while it waited for its turn.
    stranded: Vec<u64>,
}

impl Table {
    /// A number that no connection has.
    pub fn fresh_id(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.conns.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    pub fn insert(&mut self, conn: Conn) {
        self.conns.insert(conn.id, conn);
    }

    pub fn get(&self, id: u32) -> Option<&Conn> {
        self.conns.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    pub fn remove(&mut self, id: u32) -> Option<Conn> {
        self.set_due(id, None);
        self.waiting_opens.retain(|other| *other != id);
        self.leave_open(id);
        self.leave_close(id);
        self.conns.remove(&id)
    }

    /// An open was given up. If it still waited for its turn its memory and the adapter's count stay for ever: two references are dropped when
    /// the REQ goes, and the queue forgets it without that (`ibcm_open_done`).
    pub fn forget_aborted(&mut self, id: u32) {
        let gone = self.remove(id).filter(|conn| conn.stranded);
        self.stranded.extend(gone.map(|conn| conn.device.guid));
    }

    /// Opens of an adapter, or of all, that are never forgotten.
    pub fn stranded(&self, guid: Option<u64>) -> usize {
        self.stranded.iter().filter(|of| guid.is_none_or(|guid| **of == guid)).count()
    }

    pub fn ids(&self) -> Vec<u32> {
        self.conns.keys().copied().collect()
    }

    /// Passive connections that a REQ with this queue pair and node is about.
    pub fn passive_of(&self, remote_qpn: u32, remote_guid: u64) -> Option<&Conn> {
        self.conns
            .values()
            .find(|conn| !conn.active && (conn.remote_qpn, conn.remote_guid) == (remote_qpn, remote_guid))
    }

    /// A connection to this node that it knows by this number, other than `but`.
    pub fn by_remote_id(&self, remote_id: u32, remote_guid: u64, but: u32) -> Option<&Conn> {
        self.conns
            .values()
            .find(|conn| conn.id != but && (conn.remote_id, conn.remote_guid) == (remote_id, remote_guid))
    }

    /// An active connection to this queue pair of this node, other than `but`.
    pub fn active_to(&self, remote_qpn: u32, remote_guid: u64, but: u32) -> Option<&Conn> {
        self.conns.values().find(|conn| {
            conn.active && conn.id != but && (conn.remote_qpn, conn.remote_guid) == (remote_qpn, remote_guid)
        })
    }

    /// Something is due then, and nothing earlier.
    pub fn set_due(&mut self, id: u32, at: Option<Nanos>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(before) = std::mem::replace(&mut conn.due, at) {
            self.due.remove(&(before, id));
        }
        if let Some(at) = at {
            self.due.insert((at, id));
        }
    }

    /// The connection whose time has come.
    pub fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        let &(at, id) = self.due.first()?;
        if at > now {
            return None;
        }
        self.set_due(id, None);
        Some(id)
    }

    pub fn next_due(&self) -> Option<Nanos> {
        self.due.first().map(|&(at, _)| at)
    }

    /// A new open: true if it may begin at once, else it waits its turn.
    pub fn enter_open(&mut self, id: u32) -> bool {
        if self.opens >= MOST_OPENS {
            self.waiting_opens.push_back(id);
            return false;
        }
        self.opens += 1;
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.has_open_place = true;
        }
        true
    }

    /// An open is over.
    pub fn leave_open(&mut self, id: u32) {
        let had = self.conns.get_mut(&id).is_some_and(|conn| std::mem::take(&mut conn.has_open_place));
        self.opens -= usize::from(had);
    }

    /// The next open that may begin.
    pub fn next_open(&mut self) -> Option<u32> {
        if self.opens >= MOST_OPENS {
            return None;
        }
        let id = self.waiting_opens.pop_front()?;
        self.opens += 1;
        let conn = self.conns.get_mut(&id)?;
        conn.has_open_place = true;
        Some(id)
    }

    /// A closing begins, if there is a place.
    pub fn enter_close(&mut self, id: u32) -> bool {
        if self.closings >= MOST_CLOSINGS {
            return false;
        }
        let Some(conn) = self.conns.get_mut(&id) else { return true };
        conn.has_close_place = true;
        self.closings += 1;
        true
    }

    /// Its place is free; true if it had one.
    pub fn leave_close(&mut self, id: u32) -> bool {
        let had = self.conns.get_mut(&id).is_some_and(|conn| std::mem::take(&mut conn.has_close_place));
        self.closings -= usize::from(had);
        had
    }

    /// How many connections are in each of these states.
    pub fn count(&self, of: impl Fn(State) -> bool) -> usize {
        self.conns.values().filter(|conn| of(conn.state)).count()
    }
}
