//! The subnet of this machine: all ports of all adapters on one switch, and its subnet manager.

mod desk;
mod switch;

use ibtf_provider::{Gid, PortEvent};
use kernel::sync::{Monitor, Mutex};
use kernel::thread::Worker;
use kernel::{AllocError, Errno, KArc, KVec, MayBlock};

use crate::node::Node;
use crate::port::{MAX_ADAPTERS, MAX_PORTS};
use crate::sa::{Administrator, Notice};
use crate::send::FIRST_MLID;
use desk::INBOX;
pub(crate) use desk::Inbox;
use switch::Attached;

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

impl Place {
    fn is(&self, node: &KArc<Node>, number: u8) -> bool {
        self.number == number && KArc::ptr_eq(&self.node, node)
    }
}

/// Why an adapter cannot come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is one with its number.
    Number,
    /// A port or a subnet manager has this LID, which is one of its ports' or of their manager's.
    Lid(u16),
    /// There are too many groups.
    Memory,
}

impl From<AllocError> for Refused {
    fn from(AllocError: AllocError) -> Self {
        Self::Memory
    }
}

/// Whether another port than that one, or a subnet manager, has a LID.
fn has_lid(ports: &[Place], node: &KArc<Node>, number: u8, lid: u16) -> bool {
    let manages = |place: &Place| place.node.port(place.number).is_some_and(|port| port.manager == lid);
    ports.iter().any(|place| place.lid == lid && !place.is(node, number) || manages(place))
}

impl Subnet {
    /// Nobody is there yet.
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let requests = KVec::with_capacity_waiting(INBOX, may_block);
        let inbox = Monitor::new_waiting(Inbox::new(requests), may_block);
        let most_ports = MAX_ADAPTERS as usize * usize::from(MAX_PORTS);
        Self {
            ports: Mutex::new_waiting(KVec::with_capacity_waiting(most_ports, may_block), may_block),
            groups: Mutex::new_waiting(KVec::new(), may_block),
            administrator: Mutex::new_waiting(Administrator::new(may_block), may_block),
            inbox: KArc::new_waiting(inbox, may_block),
        }
    }

    /// Starts its subnet administrator, a thread. **May block.**
    pub(crate) fn serve(this: &KArc<Self>, may_block: &MayBlock) -> Worker<Inbox> {
        let subnet = this.clone();
        Worker::spawn(c"swhca_sa", this.inbox.clone(), may_block, move |parker| subnet.run(parker))
    }

    /// An adapter comes, with its ports. It is not there if that is refused.
    pub(crate) fn join(&self, node: &KArc<Node>) -> Result<(), Refused> {
        let mine = || (1..=node.port_count()).filter_map(|number| Some((number, node.port(number)?)));
        for (_, port) in mine() {
            let mut administrator = self.administrator.lock();
            for pkey in port.pkeys.iter().filter(|pkey| **pkey & 0x7fff != 0) {
                administrator.make_broadcast_group(*pkey)?;
            }
        }
        let mut ports = self.ports.lock();
        if ports.iter().any(|place| place.node.unit == node.unit) {
            return Err(Refused::Number);
        }
        for (number, port) in mine() {
            let manager_is_a_port = ports.iter().any(|place| place.lid == port.manager);
            if has_lid(&ports, node, number, port.lid) {
                return Err(Refused::Lid(port.lid));
            } else if manager_is_a_port {
                return Err(Refused::Lid(port.manager));
            }
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
        // First of all: what the SA is asked from now on is not answered for these ports.
        loop {
            let mut ports = self.ports.lock();
            let mine = ports.iter().position(|place| KArc::ptr_eq(&place.node, node));
            let Some(taken) = mine.and_then(|index| ports.swap_remove(index)) else { break };
            drop(ports);
            drop(taken);
        }
        for number in 1..=node.port_count() {
            if let Some(port) = node.port(number) {
                let mut administrator = self.administrator.lock();
                administrator.port_removed(port.gid, port.active);
                administrator.forget(port.lid);
            }
        }
        self.forward_anew(None);
        self.poke();
    }

    /// Whether a port can have a LID; `EEXIST` if another port or a subnet manager has it.
    pub(crate) fn check_lid(&self, node: &KArc<Node>, number: u8, lid: u16) -> Result<(), Errno> {
        if has_lid(&self.ports.lock(), node, number, lid) { Err(Errno::EEXIST) } else { Ok(()) }
    }

    /// Whether a subnet manager can be at a LID. `EINVAL` for one of a group or of nobody, `EEXIST` if a port has it.
    pub(crate) fn check_manager(&self, lid: u16) -> Result<(), Errno> {
        if !(1..FIRST_MLID).contains(&lid) {
            return Err(Errno::EINVAL);
        }
        if self.ports.lock().iter().any(|place| place.lid == lid) { Err(Errno::EEXIST) } else { Ok(()) }
    }

    /// A port gets another LID; `EEXIST` if a port or a subnet manager has it.
    pub(crate) fn set_lid(&self, node: &KArc<Node>, number: u8, lid: u16) -> Result<(), Errno> {
        let mut ports = self.ports.lock();
        if has_lid(&ports, node, number, lid) {
            return Err(Errno::EEXIST);
        }
        let Some(place) = ports.iter_mut().find(|place| place.is(node, number)) else { return Ok(()) };
        let before = core::mem::replace(&mut place.lid, lid);
        node.with_port(number, |port| port.lid = lid);
        drop(ports);
        if before != lid {
            // Who subscribed there is not there any more.
            self.administrator.lock().forget(before);
        }
        Ok(())
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
        self.forward_anew(None);
        self.poke();
    }

    /// In how many groups the SA has a port.
    pub(crate) fn groups_of(&self, port: u64) -> usize {
        self.administrator.lock().groups_of(port)
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
        self.forward_anew(None);
        for (node, number) in places {
            if let Ok(_turn) = node.changes.begin()
                && node.port(number).is_some_and(|port| port.active)
            {
                node.raise(number, PortEvent::Reregister);
            }
        }
        Ok(())
    }

    fn poke(&self) {
        self.inbox.lock().poke();
        self.inbox.notify_one();
    }
}
