//! The switch: to which queue pairs a datagram goes.

use core::ops::Range;

use ibtf_provider::{CompletionStatus, Gid, Status};
use kernel::KArc;

use super::Subnet;
use crate::mad::{self, Mad};
use crate::node::Node;
use crate::packet::{Header, Payload};
use crate::pma;
use crate::port::Port;
use crate::qp::{Attempt, Delivery, Message, Qp};
use crate::sa::{Administrator, may_talk};

/// A queue pair that hears a group, if its port has joined.
pub(super) struct Attached {
    group: Gid,
    qp: KArc<Qp>,
    /// What is sent to the group goes to its port.
    forwarded: bool,
}

/// Queue pairs in all groups together.
const MAX_ATTACHED: usize = 65_536;

impl Subnet {
    /// A datagram to a port.
    pub(crate) fn unicast(&self, lid: u16, qpn: u32, header: &Header, payload: &Payload<'_>) -> Delivery {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else {
            return Delivery::Nobody;
        };
        drop(ports);
        let Some(qp) = node.receiver(number, qpn) else {
            node.counters.dropped.increment();
            return Delivery::Dropped;
        };
        give(&qp, Some(number), header, payload)
    }

    /// A message of a connection, or what of it has not come yet: there, and what is said of it back. Bounded by its packets, and by one
    /// if nothing is being lost.
    pub(crate) fn message(
        &self,
        (from, out): (&Node, u8),
        (lid, qpn): (u16, u32),
        message: &Message,
        payload: &Payload<'_>,
    ) -> Attempt {
        let packets = message.packets;
        let first = message.come.min(packets - 1);
        if let Some(traffic) = from.traffic(out) {
            traffic.leave(packets - first, message.octets(first, packets));
        }
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else {
            from.counters.dropped.increment();
            return Attempt::Silence(message.come);
        };
        drop(ports);
        let passes = || from.passes(out) && node.passes(number);
        let loses = from.loses(out) || node.loses(number);
        let mut come = first;
        while come < packets {
            let at_once = if loses { 1 } else { packets - come };
            if passes() {
                come += at_once;
                continue;
            }
            from.counters.dropped.increment();
            arrive(&node, number, message, first..come);
            // Who gets a later one says which is missing.
            let told = loses && come + 1 < packets && passes() && passes();
            return if told { Attempt::Gap(come) } else { Attempt::Silence(come) };
        }
        let Some(qp) = node.receiver(number, qpn) else {
            node.counters.dropped.increment();
            return Attempt::Silence(message.come);
        };
        arrive(&node, number, message, first..packets);
        let answer = Qp::receive_message(&qp, number, message, payload);
        self.answered((from, out), (&node, number), message, answer)
    }

    /// What the sender hears of an answer.
    fn answered(
        &self,
        (from, out): (&Node, u8),
        (node, number): (&Node, u8),
        message: &Message,
        answer: Attempt,
    ) -> Attempt {
        let own = Attempt::Refused(CompletionStatus::LocalProtection);
        if matches!(answer, Attempt::Silence(_) | Attempt::Gap(_)) || answer == own {
            return answer;
        }
        if let Some(traffic) = node.traffic(number) {
            traffic.leave(1, message.octets_back());
        }
        if !(node.passes(number) && from.passes(out)) {
            return Attempt::Silence(message.come);
        }
        if let Some(traffic) = from.traffic(out) {
            traffic.come(1, message.octets_back());
        }
        answer
    }

    /// A management datagram to the port at a LID: whether it is not for the owner of queue pair 1 there. Performance management is
    /// answered here, and of the other classes only those go on that somebody of the port's adapter is there for.
    #[inline(never)]
    pub(crate) fn manage(&self, lid: u16, request: &Mad, is_whole: bool, header: &Header) -> bool {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else {
            return false;
        };
        drop(ports);
        if request.class() == pma::CLASS {
            if is_whole {
                self.perform(&node, number, lid, request, header);
            }
            return true;
        }
        let wanted = node.features.classes.has(request.class());
        if !wanted {
            node.counters.dropped.increment();
        }
        !wanted
    }

    fn perform(&self, node: &Node, number: u8, lid: u16, request: &Mad, header: &Header) {
        let mut answer = Mad::new();
        let Some(port) = node.port(number).filter(|port| port.active) else { return };
        let Some(pkey) = port.pkeys.iter().copied().find(|own| may_talk(*own, header.pkey)) else {
            count(node, number, Delivery::BadPkey);
            return;
        };
        if node.traffic(number).is_some_and(|traffic| traffic.answer(request, &mut answer)) {
            let (source_lid, len) = (lid, mad::LEN as u32);
            let back = Header { source_lid, pkey, source_qpn: 1, grh: None, immediate: None, len, ..*header };
            self.unicast(header.source_lid, header.source_qpn, &back, &Payload::Bytes(&answer.0));
        }
    }

    /// A datagram to a group: to every queue pair that hears it on a port that has joined, and on the sender's port, which it does not
    /// leave for that. Bounded by how many those are.
    pub(crate) fn multicast(
        &self,
        from: (&Node, u8),
        group: Gid,
        header: &Header,
        payload: &Payload<'_>,
    ) -> Delivery {
        let groups = self.groups.lock();
        let mut result = Delivery::Nobody;
        for attached in groups.iter().filter(|attached| attached.group == group) {
            if !attached.forwarded && !attached.is_on(from) {
                continue;
            }
            match give(&attached.qp, None, header, payload) {
                Delivery::SenderFault => return Delivery::SenderFault,
                Delivery::Received => result = Delivery::Received,
                _ if result == Delivery::Nobody => result = Delivery::Dropped,
                _ => {}
            }
        }
        result
    }

    /// Has a queue pair hear a group.
    pub(crate) fn attach(&self, qp: &KArc<Qp>, group: Gid) -> Result<(), Status> {
        let mut groups = self.groups.lock();
        if groups.iter().any(|attached| attached.group == group && KArc::ptr_eq(&attached.qp, qp)) {
            return Ok(());
        }
        if groups.len() >= MAX_ATTACHED {
            return Err(Status::HCA_MCG_CHAN_EXCEEDED);
        }
        let forwarded = forwards(&self.administrator.lock(), group, qp);
        Ok(groups.push(Attached { group, qp: qp.clone(), forwarded })?)
    }

    /// A queue pair is on another port.
    pub(crate) fn has_moved(&self, qp: &Qp) {
        let mut groups = self.groups.lock();
        let mut mine =
            groups.iter_mut().filter(|attached| core::ptr::eq(&raw const *attached.qp, qp)).peekable();
        if mine.peek().is_none() {
            return;
        }
        let administrator = self.administrator.lock();
        mine.for_each(|attached| attached.forwarded = forwards(&administrator, attached.group, &attached.qp));
    }

    /// Ports have joined groups, or left them: where what is sent to one of them, or to all, goes from now on.
    pub(super) fn forward_anew(&self, group: Option<Gid>) {
        let mut groups = self.groups.lock();
        let administrator = self.administrator.lock();
        for attached in groups.iter_mut().filter(|attached| group.is_none_or(|group| attached.group == group))
        {
            attached.forwarded = forwards(&administrator, attached.group, &attached.qp);
        }
    }

    /// And hear it no more. `MC_MGID_INVALID` if it does not.
    pub(crate) fn detach(&self, qp: &KArc<Qp>, group: Gid) -> Result<(), Status> {
        let mut groups = self.groups.lock();
        let mine = |attached: &Attached| attached.group == group && KArc::ptr_eq(&attached.qp, qp);
        let index = groups.iter().position(mine).ok_or(Status::MC_MGID_INVALID)?;
        let taken = groups.swap_remove(index);
        drop(groups);
        drop(taken);
        Ok(())
    }

    /// Has a queue pair that goes hear nothing.
    pub(crate) fn detach_all(&self, qp: &KArc<Qp>) {
        let mut groups = self.groups.lock();
        while let Some(index) = groups.iter().position(|attached| KArc::ptr_eq(&attached.qp, qp)) {
            // Not the last reference: the caller has one.
            groups.swap_remove(index);
        }
    }

    /// Whether a queue pair hears any group.
    pub(crate) fn hears_group(&self, qp: &KArc<Qp>) -> bool {
        self.groups.lock().iter().any(|attached| KArc::ptr_eq(&attached.qp, qp))
    }
}

impl Attached {
    fn is_on(&self, (node, number): (&Node, u8)) -> bool {
        core::ptr::eq(&raw const *self.qp.parts().node, node) && self.qp.port() == number
    }
}

fn forwards(administrator: &Administrator, group: Gid, qp: &Qp) -> bool {
    let port = qp.parts().node.with_port(qp.port(), |port| port.gid.guid);
    port.is_some_and(|guid| administrator.forwards(group, guid))
}

/// Counts packets of a message that have come to a port.
fn arrive(node: &Node, number: u8, message: &Message, packets: Range<u32>) {
    if let Some(traffic) = node.traffic(number) {
        traffic.come(packets.len() as u32, message.octets(packets.start, packets.end));
    }
}

/// Gives a datagram to a queue pair, if it is on that port and the port is active.
fn give(qp: &KArc<Qp>, on: Option<u8>, header: &Header, payload: &Payload<'_>) -> Delivery {
    let node = &qp.parts().node;
    let number = qp.port();
    let counters = &node.counters;
    let arrives = |port: &mut Port| port.active && (header.is_management() || !port.loss.takes_one());
    if node.with_port(number, arrives) != Some(true) || on.is_some_and(|on| on != number) {
        counters.dropped.increment();
        return Delivery::Dropped;
    }
    let delivery = Qp::receive(qp, header, payload);
    count(node, number, delivery);
    if let (Delivery::Received, Some(traffic)) = (delivery, node.traffic(number)) {
        traffic.came(header);
    }
    delivery
}

/// Counts what became of a datagram that came to a port.
fn count(node: &Node, number: u8, delivery: Delivery) {
    let counters = &node.counters;
    match delivery {
        Delivery::Received => counters.received.increment(),
        Delivery::Dropped => counters.dropped.increment(),
        Delivery::BadPkey => {
            counters.pkey_violations.increment();
            node.with_port(number, |port| port.pkey_violations += 1);
        }
        Delivery::BadQkey => {
            counters.qkey_violations.increment();
            node.with_port(number, |port| port.qkey_violations += 1);
        }
        Delivery::Nobody | Delivery::SenderFault => {}
    }
}
