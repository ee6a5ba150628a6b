//! The subnet of this machine: all ports of all adapters on one switch, and its subnet manager.

mod desk;
mod switch;

use ibtf_provider::{Gid, PortEvent};
use kernel::sync::{Monitor, Mutex};
use kernel::thread::Worker;
use kernel::{AllocError, Errno, KArc, KVec};

use crate::node::Node;
use crate::port::{MAX_ADAPTERS, MAX_PORTS};
use crate::sa::{Administrator, Notice};
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

impl Subnet {
    /// Nobody is there yet.
    pub(crate) fn new() -> Result<Self, Errno> {
        let requests = KVec::with_capacity(INBOX)?;
        Ok(Self {
            ports: Mutex::new(KVec::with_capacity(MAX_ADAPTERS as usize * usize::from(MAX_PORTS))?)?,
            groups: Mutex::new(KVec::new())?,
            administrator: Mutex::new(Administrator::new()?)?,
            inbox: KArc::new(Monitor::new(Inbox::new(requests))?)?,
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
        let taken = |lid| mine().any(|(_, port)| port.lid == lid);
        if ports.iter().any(|place| place.node.unit == node.unit || taken(place.lid)) {
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
        self.forward_anew(None);
        self.poke();
    }

    /// A port gets another LID; `EEXIST` if a port or a subnet manager has it.
    pub(crate) fn set_lid(&self, node: &KArc<Node>, number: u8, lid: u16) -> Result<(), Errno> {
        let mut ports = self.ports.lock();
        let mine = |place: &Place| place.number == number && KArc::ptr_eq(&place.node, node);
        let manages = |place: &Place| place.node.port(place.number).is_some_and(|port| port.manager == lid);
        if ports.iter().any(|place| place.lid == lid && !mine(place) || manages(place)) {
            return Err(Errno::EEXIST);
        }
        if let Some(place) = ports.iter_mut().find(|place| mine(place)) {
            place.lid = lid;
            node.with_port(number, |port| port.lid = lid);
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
            if node.port(number).is_some_and(|port| port.active) {
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
