//! The subnet of this machine: all ports of all adapters on one switch, and its subnet manager.

use ibtf_provider::{Gid, PortEvent, Status};
use kernel::sync::{Monitor, Mutex};
use kernel::thread::{Parker, Worker};
use kernel::time::{Duration, Instant};
use kernel::{AllocError, Errno, KArc, KBox, KVec, log};

use crate::mad::{self, Mad};
use crate::node::Node;
use crate::packet::{Header, Payload};
use crate::pma;
use crate::port::{MAX_ADAPTERS, MAX_PORTS};
use crate::qp::{Delivery, Qp};
use crate::sa::{Administrator, Notice, PortView, Requester};

/// The subnet.
pub(crate) struct Subnet {
    ports: Mutex<KVec<Place>>,
    groups: Mutex<KVec<Attached>>,
    administrator: Mutex<Administrator>,
    inbox: KArc<Monitor<Inbox>>,
}

/// A port, and where it is.
struct Place {
    lid: u16,
    node: KArc<Node>,
    number: u8,
}

/// A queue pair that hears a group.
struct Attached {
    group: Gid,
    qp: KArc<Qp>,
}

/// Requests to the SA that wait: as many as there is room for, and no more.
pub(crate) struct Inbox {
    requests: KVec<Request>,
    /// Something else is to be done: notices.
    poked: bool,
}

struct Request {
    mad: Mad,
    from: Requester,
    due: Instant,
}

impl Request {
    const NONE: Self =
        Self { mad: Mad::new(), from: Requester { lid: 0, qpn: 0 }, due: Instant::from_nanos(0) };
}

impl Inbox {
    /// Moves a request out; false if there is no such one.
    fn take(&mut self, index: usize, to: &mut Request) -> bool {
        let last = self.requests.len().saturating_sub(1);
        if index > last || self.requests.is_empty() {
            return false;
        }
        self.requests.swap(index, last);
        if let Some(request) = self.requests.last_mut() {
            core::mem::swap(request, to);
        }
        drop_last(&mut self.requests);
        true
    }
}

#[inline(never)]
fn drop_last(requests: &mut KVec<Request>) {
    requests.pop();
}

/// What the SA works on.
struct Desk {
    request: Request,
    answer: Mad,
}

/// Requests that can wait. A host with a hundred links asks more at once, and asks again.
const INBOX: usize = 256;
/// Queue pairs in all groups together.
const MAX_ATTACHED: usize = 65_536;

impl Subnet {
    /// Nobody is there yet.
    pub(crate) fn new() -> Result<Self, Errno> {
        let requests = KVec::with_capacity(INBOX)?;
        Ok(Self {
            ports: Mutex::new(KVec::with_capacity(MAX_ADAPTERS as usize * usize::from(MAX_PORTS))?)?,
            groups: Mutex::new(KVec::new())?,
            administrator: Mutex::new(Administrator::new()?)?,
            inbox: KArc::new(Monitor::new(Inbox { requests, poked: false })?)?,
        })
    }

    /// Starts its subnet administrator, a thread. **May block.**
    pub(crate) fn serve(this: &KArc<Self>) -> Result<Worker<Inbox>, AllocError> {
        let subnet = this.clone();
        Worker::spawn(c"swhca_sa", this.inbox.clone(), move |parker| subnet.run(parker))
    }

    /// An adapter comes, with its ports. `EEXIST` if there is one with its LIDs, that is: with its number; `ENOMEM` if there are too many
    /// groups. It is not there then.
    pub(crate) fn join(&self, node: &KArc<Node>) -> Result<(), Errno> {
        let mine = || (1..=node.port_count()).filter_map(|number| Some((number, node.port(number)?)));
        for (_, port) in mine() {
            let mut administrator = self.administrator.lock();
            for pkey in port.pkeys.iter().filter(|pkey| **pkey & 0x7fff != 0) {
                administrator.make_broadcast_group(*pkey)?;
            }
        }
        let mut ports = self.ports.lock();
        if ports.iter().any(|place| place.node.unit == node.unit) {
            return Err(Errno::EEXIST);
        }
        for (number, port) in mine() {
            // There is room for all that there can be.
            let _ = ports.push_within_capacity(Place { lid: port.lid, node: node.clone(), number });
        }
        drop(ports);
        for (_, port) in mine() {
            self.administrator.lock().port_up(port.gid);
        }
        self.poke();
        Ok(())
    }

    /// An adapter goes.
    pub(crate) fn leave(&self, node: &KArc<Node>) {
        for number in 1..=node.port_count() {
            if let Some(port) = node.port(number) {
                self.administrator.lock().port_down(port.gid);
            }
        }
        loop {
            let mut ports = self.ports.lock();
            let mine = ports.iter().position(|place| KArc::ptr_eq(&place.node, node));
            let Some(taken) = mine.and_then(|index| ports.swap_remove(index)) else { break };
            drop(ports);
            drop(taken);
        }
        self.poke();
    }

    /// A partition gets its broadcast group.
    pub(crate) fn make_broadcast_group(&self, pkey: u16) -> Result<(), Errno> {
        Ok(self.administrator.lock().make_broadcast_group(pkey)?)
    }

    /// The SM hears that a port has come or gone.
    pub(crate) fn port_changed(&self, gid: Gid, up: bool) {
        let mut administrator = self.administrator.lock();
        if up {
            administrator.port_up(gid)
        } else {
            administrator.port_down(gid)
        }
        drop(administrator);
        self.poke();
    }

    /// The SM hears of something that happened elsewhere in the subnet; false if it has too much to tell.
    pub(crate) fn happened(&self, notice: Notice) -> bool {
        let kept = self.administrator.lock().happened(notice);
        self.poke();
        kept
    }

    /// The SM starts anew: clients have to register again. `ENOMEM` if they cannot be told; it has not happened then. In none of the
    /// operations.
    pub(crate) fn restart(&self) -> Result<(), Errno> {
        let mut places = KVec::new();
        let ports = self.ports.lock();
        places.reserve(ports.len())?;
        for place in &*ports {
            places.push((place.node.clone(), place.number))?;
        }
        drop(ports);
        // What clients are not told of must not be forgotten.
        self.administrator.lock().restart();
        for (node, number) in places {
            if node.port(number).is_some_and(|port| port.active) {
                node.raise(number, PortEvent::Reregister);
            }
        }
        Ok(())
    }

    fn poke(&self) {
        self.inbox.lock().poked = true;
        self.inbox.notify_one();
    }

    /// A datagram to a port.
    pub(crate) fn unicast(&self, lid: u16, qpn: u32, header: &Header, payload: &Payload<'_>) -> Delivery {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else {
            return Delivery::Dropped;
        };
        drop(ports);
        let Some(qp) = node.receiver(number, qpn) else {
            node.counters.dropped.increment();
            return Delivery::Dropped;
        };
        give(&qp, Some(number), header, payload)
    }

    /// A request to the performance management of the port at a LID, and its answer to whoever asks.
    #[inline(never)]
    pub(crate) fn perform(&self, lid: u16, request: &Mad, header: &Header) {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else { return };
        drop(ports);
        let mut answer = Mad::new();
        let is_up = node.port(number).is_some_and(|port| port.active);
        if is_up && pma::answer(request, &node.counts(number), &mut answer) {
            let (source_lid, len) = (lid, mad::LEN as u32);
            let back = Header { source_lid, source_qpn: 1, grh: None, immediate: None, len, ..*header };
            self.unicast(header.source_lid, header.source_qpn, &back, &Payload::Bytes(&answer.0));
        }
    }

    /// A datagram to a group: to every queue pair that hears it, on the sender's port, too. Bounded by how many those are.
    pub(crate) fn multicast(&self, group: Gid, header: &Header, payload: &Payload<'_>) -> Delivery {
        let groups = self.groups.lock();
        let mut result = Delivery::Dropped;
        for attached in groups.iter().filter(|attached| attached.group == group) {
            match give(&attached.qp, None, header, payload) {
                Delivery::SenderFault => return Delivery::SenderFault,
                Delivery::Received => result = Delivery::Received,
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
        Ok(groups.push(Attached { group, qp: qp.clone() })?)
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

    /// Leaves a request with the SA; false if too many wait. **Any** context.
    pub(crate) fn ask(&self, mad: &Mad, header: &Header, delay: u32) -> bool {
        let from = Requester { lid: header.source_lid, qpn: header.source_qpn };
        let due = Instant::now() + Duration::from_millis(u64::from(delay));
        let taken = self.inbox.lock().requests.push_within_capacity(Request { mad: *mad, from, due }).is_ok();
        self.inbox.notify_one();
        taken
    }

    /// The SA's thread.
    fn run(&self, parker: &Parker<'_, Inbox>) {
        // Not on the stack, which is for calls.
        let Ok(mut desk) = KBox::new(Desk { request: Request::NONE, answer: Mad::new() }) else {
            log!(warn, "swhca", "there is no memory for subnet administration");
            return;
        };
        // When something is to be done though nobody asks.
        let mut alarm = None;
        let mut inbox = parker.lock();
        while !parker.should_stop() {
            let now = Instant::now();
            let first = inbox.requests.iter().enumerate().min_by_key(|(_, request)| request.due);
            let first = first.map(|(index, request)| (index, request.due));
            let poked = core::mem::take(&mut inbox.poked);
            let due = first.filter(|(_, due)| *due <= now).map(|(index, _)| index);
            if due.is_some_and(|index| inbox.take(index, &mut desk.request)) {
                drop(inbox);
                alarm = self.answer(&mut desk);
                inbox = parker.lock();
            } else if poked || alarm.is_some_and(|alarm| alarm <= now) {
                drop(inbox);
                alarm = self.report(&mut desk.answer);
                inbox = parker.lock();
            } else {
                parker.wait_until(&mut inbox, first.map(|(_, due)| due).into_iter().chain(alarm).min());
            }
        }
    }

    /// All ports as they are now.
    fn views(&self) -> Result<KVec<PortView>, AllocError> {
        let ports = self.ports.lock();
        let mut views = KVec::with_capacity(ports.len())?;
        for view in ports.iter().filter_map(|place| place.node.view(place.number)) {
            views.push(view)?;
        }
        Ok(views)
    }

    /// Answers, and says when it has to go on.
    fn answer(&self, desk: &mut Desk) -> Option<Instant> {
        let Desk { request, answer } = desk;
        let Ok(views) = self.views() else {
            // As a busy SA: the client asks again.
            log!(warn, "swhca", "a request to the SA is not answered for want of memory");
            return None;
        };
        let now = Instant::now().as_nanos();
        if self.administrator.lock().answer(&request.mad, request.from, &views, now, answer) {
            self.send(request.from, answer);
        }
        self.report(answer)
    }

    /// Tells subscribers what has happened, and goes on with what takes more than one segment: one by one, without the lock. Says when
    /// it has to go on.
    fn report(&self, mad: &mut Mad) -> Option<Instant> {
        loop {
            let mut administrator = self.administrator.lock();
            let now = Instant::now().as_nanos();
            let to = administrator.next_report(mad).or_else(|| administrator.next_segment(now, mad));
            let Some(to) = to else { return administrator.next_due().map(Instant::from_nanos) };
            drop(administrator);
            self.send(to, mad);
        }
    }

    /// From the SA to a queue pair.
    fn send(&self, to: Requester, mad: &Mad) {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == to.lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else { return };
        drop(ports);
        let Some(port) = node.port(number) else { return };
        let header = Header {
            source_lid: port.manager,
            source_qpn: 1,
            pkey: 0xffff,
            qkey: mad::QKEY,
            sl: 0,
            grh: None,
            immediate: None,
            solicited: false,
            checksums: false,
            len: mad::LEN as u32,
        };
        self.unicast(to.lid, to.qpn, &header, &Payload::Bytes(&mad.0));
    }
}

/// Gives a datagram to a queue pair, if it is on that port and the port is active.
fn give(qp: &KArc<Qp>, on: Option<u8>, header: &Header, payload: &Payload<'_>) -> Delivery {
    let node = &qp.parts().node;
    let number = qp.port();
    let counters = &node.counters;
    let port = node.port(number).filter(|port| port.active && on.is_none_or(|on| on == number));
    let Some(port) = port else {
        counters.dropped.increment();
        return Delivery::Dropped;
    };
    let delivery = qp.receive(header, payload, &port.pkeys);
    match delivery {
        Delivery::Received => {
            counters.received.increment();
            if let Some(traffic) = node.traffic(number) {
                traffic.came(header);
            }
        }
        Delivery::Dropped => counters.dropped.increment(),
        Delivery::BadPkey => {
            counters.pkey_violations.increment();
            node.with_port(number, |port| port.pkey_violations += 1);
        }
        Delivery::BadQkey => {
            counters.qkey_violations.increment();
            node.with_port(number, |port| port.qkey_violations += 1);
        }
        Delivery::SenderFault => {}
    }
    delivery
}
