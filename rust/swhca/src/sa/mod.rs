//! The subnet administrator (IBA 15): one request in, at most one answer out. Knows no lock, no clock and no wire.
//!
//! Refuses with the statuses that OpenSM has: clients cannot tell them apart, but they take some as a reason to try again and others
//! not.

mod fields;
mod group;
mod inform;
mod node;
mod path;
mod service;
#[cfg(test)]
mod tests;
mod transfer;

use ibtf_provider::Gid;
use kernel::{AllocError, KVec, MayBlock};

use crate::mad::{self, Mad, Refusal};
use crate::rate;
use group::Groups;
use inform::Subscribers;
pub(crate) use inform::{Notice, Trap};
pub(crate) use node::{DEVICE, VENDOR};
use service::Services;
use transfer::Transfer;

/// Entries of a P_Key table.
pub(crate) const PKEYS: usize = 32;
/// What the SA says of how long a packet is under way: 4.096 us x 2^12.
pub(crate) const PACKET_LIFE: u8 = 12;
/// How long it takes for an answer, and how long a trap has to get through, as such codes.
const RESPONSE_TIME: u8 = 14;
/// The time-out code of the subnet.
pub(crate) const SUBNET_TIMEOUT: u8 = 14;

/// A port of the subnet, as it is at the moment of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortView {
    pub(crate) gid: Gid,
    pub(crate) lid: u16,
    /// Where it finds its subnet manager.
    pub(crate) manager: u16,
    pub(crate) node_guid: u64,
    /// Which of how many ports of its adapter.
    pub(crate) number: u8,
    pub(crate) ports: u8,
    pub(crate) active: bool,
    pub(crate) pkeys: [u16; PKEYS],
    /// Code of its largest MTU.
    pub(crate) mtu: u8,
    /// Code of its speed.
    pub(crate) speed: u8,
    /// The rate that it is told, whatever is true.
    pub(crate) told_rate: Option<u8>,
}

impl PortView {
    fn rate(&self) -> u8 {
        rate::of_port(self.speed)
    }

    /// The P_Key of this port's table for the partition of `pkey`.
    fn pkey_for(&self, pkey: u16) -> Option<u16> {
        self.pkeys.iter().copied().find(|own| *own & 0x7fff == pkey & 0x7fff && pkey & 0x7fff != 0)
    }
}

/// Whether two P_Keys may talk: one partition, and not both limited members.
pub(crate) fn may_talk(one: u16, other: u16) -> bool {
    one & 0x7fff == other & 0x7fff && one & 0x7fff != 0 && (one | other) & 0x8000 != 0
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) lid: u16,
    pub(crate) qpn: u32,
}

/// What the SA knows.
pub(crate) struct Administrator {
    groups: Groups,
    services: Services,
    subscribers: Subscribers,
    notices: KVec<Notice>,
    /// Subscribers that have been told the oldest notice, or do not want to know.
    told: usize,
    /// The records of the answer in the making.
    records: KVec<u8>,
    /// Answers that take more than one segment.
    transfers: KVec<Transfer>,
}

/// Notices that wait; more are lost, as traps are.
const NOTICES: usize = 32;
/// Answers in more than one segment that can be on their way.
const TRANSFERS: usize = 16;

impl Administrator {
    /// Knows of no group.
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let notices = KVec::with_capacity_waiting(NOTICES, may_block);
        let transfers = KVec::with_capacity_waiting(TRANSFERS, may_block);
        let (groups, services) = (Groups::new(may_block), Services::new(may_block));
        let subscribers = Subscribers::new(may_block);
        Self { groups, services, subscribers, notices, told: 0, records: KVec::new(), transfers }
    }

    /// Makes the broadcast group of IPoIB in a partition (RFC 4391, 4), which stays; nothing if it is there.
    pub(crate) fn make_broadcast_group(&mut self, pkey: u16) -> Result<(), AllocError> {
        self.groups.make_broadcast(pkey)
    }

    /// Forgets everything but the groups that stay.
    pub(crate) fn restart(&mut self) {
        self.groups.restart();
        self.services.clear();
        self.subscribers.clear();
        self.notices.clear();
        self.told = 0;
        self.transfers.clear();
    }

    /// A port has gone: its memberships go with it.
    pub(crate) fn port_down(&mut self, port: Gid) {
        self.drop_memberships(port);
        note(&mut self.notices, Notice { trap: Trap::OutOfService, gid: port });
    }

    /// An adapter has gone, and with it this port: who has heard already that the port is down does not hear it again.
    pub(crate) fn port_removed(&mut self, port: Gid, was_active: bool) {
        if was_active { self.port_down(port) } else { self.drop_memberships(port) }
    }

    fn drop_memberships(&mut self, port: Gid) {
        let Self { groups, notices, .. } = self;
        groups.leave_all(port.guid, &mut |group| {
            note(notices, Notice { trap: Trap::GroupDeleted, gid: group })
        });
    }

    /// Nobody asks from a LID any more: subscriptions from there end. (A port that goes and comes keeps them.)
    pub(crate) fn forget(&mut self, lid: u16) {
        self.subscribers.forget(lid);
        // Some of those may be before who has to be told next: rather twice than never.
        self.told = 0;
    }

    /// A port has come.
    pub(crate) fn port_up(&mut self, port: Gid) {
        note(&mut self.notices, Notice { trap: Trap::InService, gid: port });
    }

    /// Whether what is sent to a group goes to a port: one that has joined it, and not only to send.
    pub(crate) fn forwards(&self, group: Gid, port: u64) -> bool {
        self.groups.find(group).is_some_and(|group| group.hears(port))
    }

    /// In how many groups a port is.
    pub(crate) fn groups_of(&self, port: u64) -> usize {
        self.groups.with_member(port)
    }

    /// Something has happened elsewhere; false if too much waits to be told.
    pub(crate) fn happened(&mut self, notice: Notice) -> bool {
        self.notices.push_within_capacity(notice).is_ok()
    }

    /// Writes the answer to a request, or the first segment of it; false if there is none. `now` is in nanoseconds.
    pub(crate) fn answer(
        &mut self,
        request: &Mad,
        from: Requester,
        ports: &[PortView],
        now: u64,
        answer: &mut Mad,
    ) -> bool {
        if request.class() != mad::CLASS_SA {
            return false;
        }
        if request.is_transfer() {
            self.hear(request, from, now);
            return false;
        }
        if request.method() & mad::RESPONSE != 0 {
            return false;
        }
        answer.begin(request);
        self.records.clear();
        let done = self.dispatch(request, from, ports, now, answer);
        if let Err(refusal) = done.and_then(|()| self.keep_the_rest(from, answer, now)) {
            // An error is told with the data of the request.
            answer.begin(request);
            answer.refuse(refusal);
        }
        true
    }

    /// Further segments are sent when the receiver asks for them.
    fn keep_the_rest(&mut self, to: Requester, first: &Mad, now: u64) -> Result<(), Refusal> {
        if self.records.len() <= mad::DATA_LEN {
            return Ok(());
        }
        let transfer = Transfer::new(to, first, core::mem::take(&mut self.records), now);
        self.transfers.push_within_capacity(transfer).map_err(|_| Refusal::NO_RESOURCES)
    }

    fn hear(&mut self, message: &Mad, from: Requester, now: u64) {
        if let Some(transfer) = self.transfers.iter_mut().find(|transfer| transfer.is_meant(message, from)) {
            transfer.hear(message, now);
        }
    }

    /// Writes a segment that is to be sent now, and says whom it is for.
    pub(crate) fn next_segment(&mut self, now: u64, mad: &mut Mad) -> Option<Requester> {
        while let Some(over) = self.transfers.iter().position(Transfer::is_over) {
            self.transfers.swap_remove(over);
        }
        self.transfers.iter_mut().find_map(|transfer| transfer.next(now, mad).then_some(transfer.to))
    }

    /// When a segment is to be sent again if nobody says anything.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.transfers.iter().map(Transfer::due).min()
    }

    fn dispatch(
        &mut self,
        request: &Mad,
        from: Requester,
        ports: &[PortView],
        now: u64,
        answer: &mut Mad,
    ) -> Result<(), Refusal> {
        use mad::{DELETE, GET, GET_TABLE, SET};
        let asker = ports.iter().find(|port| port.lid == from.lid).ok_or(Refusal::INVALID)?;
        match (request.attribute(), request.method()) {
            (0x0001, GET) => class_port_info(answer),
            (0x0003, SET) => self.subscribers.set(request, from),
            (0x0011, GET | GET_TABLE) => node::nodes(request, ports, asker, answer, &mut self.records),
            (0x0012, GET | GET_TABLE) => node::ports(request, ports, answer, &mut self.records),
            (0x0031, SET) => self.services.set(request, ports, asker, now, answer),
            (0x0031, DELETE) => self.services.delete(request, ports, asker, answer),
            (0x0031, GET | GET_TABLE) => self.services.query(request, asker, now, answer, &mut self.records),
            (0x0035, GET | GET_TABLE) => {
                path::paths(request, ports, asker, &self.groups, answer, &mut self.records)
            }
            (0x0038, SET) => self.join(request, ports, answer),
            (0x0038, DELETE) => self.leave(request, ports, answer),
            (0x0038, GET | GET_TABLE) => self.groups.query(request, asker, answer, &mut self.records),
            _ => Err(Refusal::UNSUPPORTED),
        }
    }

    fn join(&mut self, request: &Mad, ports: &[PortView], answer: &mut Mad) -> Result<(), Refusal> {
        let created = self.groups.join(request, ports, answer)?;
        if let Some(group) = created {
            note(&mut self.notices, Notice { trap: Trap::GroupCreated, gid: group });
        }
        Ok(())
    }

    fn leave(&mut self, request: &Mad, ports: &[PortView], answer: &mut Mad) -> Result<(), Refusal> {
        let deleted = self.groups.leave(request, ports, answer)?;
        if let Some(group) = deleted {
            note(&mut self.notices, Notice { trap: Trap::GroupDeleted, gid: group });
        }
        Ok(())
    }

    /// Writes the next report, and says whom it is for; `None` when everybody has been told everything.
    pub(crate) fn next_report(&mut self, report: &mut Mad) -> Option<Requester> {
        while let Some(notice) = self.notices.first() {
            if let Some(to) = self.subscribers.tell(notice, &mut self.told, report) {
                return Some(to);
            }
            self.told = 0;
            // In order: the oldest is first.
            for index in 1..self.notices.len() {
                self.notices.swap(index - 1, index);
            }
            self.notices.pop();
        }
        None
    }
}

fn note(notices: &mut KVec<Notice>, notice: Notice) {
    // One too many is lost.
    let _ = notices.push_within_capacity(notice);
}

/// The SA can do optional records and UD multicast; without the latter `ibmf` asks for no group.
fn class_port_info(answer: &mut Mad) -> Result<(), Refusal> {
    let mut info = [0; 72];
    (info[0], info[1]) = (1, 2);
    mad::put16(&mut info, 2, 0x0300);
    info[7] = RESPONSE_TIME;
    answer.put_record(&info);
    Ok(())
}
