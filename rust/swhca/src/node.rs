//! An adapter: its ports, and what its clients have made.

mod provider;

use core::sync::atomic::AtomicU32;

use ibtf_provider::{Client, PortEvent, Region, Segment, Status, UdAttributes};
use kernel::counter::Counter;
use kernel::sync::Mutex;
use kernel::{Errno, KArc, KVec, MayBlock};

use crate::alarm::Alarms;
use crate::attributes::Features;
use crate::calls::{Call, Calls, Posting};
use crate::changes::Changes;
use crate::keys::KeyTable;
use crate::numbers::Numbers;
use crate::port::Port;
use crate::qp::Qp;
use crate::sa::PortView;
use crate::subnet::Subnet;
use crate::traffic::Traffic;

/// An adapter.
pub(crate) struct Node {
    pub(crate) unit: u32,
    pub(crate) subnet: KArc<Subnet>,
    pub(crate) counters: Counters,
    traffic: KVec<Traffic>,
    ports: Mutex<KVec<Port>>,
    objects: Mutex<Objects>,
    keys: Mutex<KeyTable>,
    /// What it does of what it could.
    pub(crate) features: Features,
    /// Behind the reserved key, if there is one.
    everything: Option<KArc<Region>>,
    calls: KArc<Calls>,
    alarms: KArc<Alarms>,
    /// `None` until attached.
    client: Mutex<Option<KArc<Client>>>,
    /// One change of its ports at a time, with the events of it; the last is that it detaches.
    pub(crate) changes: Changes,
    /// Protection domains are told apart by number.
    next_pd: AtomicU32,
}

/// What is counted of an adapter.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) received: Counter,
    pub(crate) dropped: Counter,
    pub(crate) pkey_violations: Counter,
    pub(crate) qkey_violations: Counter,
    pub(crate) sa_requests: Counter,
    pub(crate) sa_dropped: Counter,
    pub(crate) large_sends: Counter,
    pub(crate) checksums: Counter,
    pub(crate) copied_bytes: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) messages: Counter,
    pub(crate) message_bytes: Counter,
    pub(crate) messages_received: Counter,
    pub(crate) messages_again: Counter,
    pub(crate) receiver_waits: Counter,
    pub(crate) failed_connections: Counter,
}

struct Objects {
    qps: Numbers<KArc<Qp>>,
    /// The queue pair 1 of each port.
    general: KVec<Option<KArc<Qp>>>,
    census: Census,
}

/// How many of what there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) pds: u32,
    pub(crate) address_handles: u32,
    pub(crate) cqs: u32,
    pub(crate) qps: u32,
    /// Numbers of queue pairs that are gone, which nobody else gets yet.
    pub(crate) kept_numbers: u32,
    pub(crate) regions: u32,
    pub(crate) srqs: u32,
}

impl Node {
    /// An adapter with these ports, active. **May block**; from attach.
    pub(crate) fn new(
        unit: u32,
        ports: KVec<Port>,
        (calls, alarms): (KArc<Calls>, KArc<Alarms>),
        subnet: KArc<Subnet>,
        features: Features,
        may_block: &MayBlock,
    ) -> Self {
        let general = KVec::from_fn_waiting(ports.len(), may_block, |_| None);
        let traffic = KVec::from_fn_waiting(ports.len(), may_block, |_| Traffic::new(may_block));
        let everything = || KArc::new_waiting(Region::everything(), may_block);
        let objects = Objects { qps: Numbers::new(), general, census: Census::default() };
        Self {
            unit,
            subnet,
            counters: Counters::default(),
            traffic,
            ports: Mutex::new_waiting(ports, may_block),
            objects: Mutex::new_waiting(objects, may_block),
            keys: Mutex::new_waiting(KeyTable::new(), may_block),
            features,
            everything: features.reserved_key.then(everything),
            calls,
            alarms,
            client: Mutex::new_waiting(None, may_block),
            changes: Changes::new(may_block),
            next_pd: AtomicU32::new(1),
        }
    }

    /// A post begins.
    pub(crate) fn posting(&self) -> Posting<'_> {
        self.calls.posting()
    }

    /// Has somebody called, soon.
    pub(crate) fn call(&self, call: Call) {
        self.calls.queue(call, false);
    }

    /// Whom events are for.
    pub(crate) fn set_client(&self, client: KArc<Client>) {
        *self.client.lock() = Some(client);
    }

    /// A port as it is now.
    pub(crate) fn port(&self, number: u8) -> Option<Port> {
        self.ports.lock().get(index(number)?).copied()
    }

    /// What is counted of a port.
    pub(crate) fn traffic(&self, number: u8) -> Option<&Traffic> {
        self.traffic.get(index(number)?)
    }

    /// How many ports it has.
    pub(crate) fn port_count(&self) -> u8 {
        self.ports.lock().len() as u8
    }

    /// Changes a port, and says what the change returns.
    pub(crate) fn with_port<R>(&self, number: u8, change: impl FnOnce(&mut Port) -> R) -> Option<R> {
        self.ports.lock().get_mut(index(number)?).map(change)
    }

    pub(crate) fn view(&self, number: u8) -> Option<PortView> {
        let ports = self.ports.lock();
        let port = ports.get(index(number)?)?;
        Some(port.view(self.unit, number, ports.len() as u8))
    }

    /// Raises an event of a port. In a turn of `changes`; in none of the operations.
    pub(crate) fn raise(&self, number: u8, event: PortEvent) {
        let client = self.client.lock().clone();
        if let Some(client) = client {
            self.with_port(number, |port| port.unread = true);
            client.raise(number, event);
        }
    }

    /// Whether an event has been raised that nobody has asked about since.
    pub(crate) fn has_unread_event(&self) -> bool {
        self.ports.lock().iter().any(|port| port.unread)
    }

    /// Whether the next packet gets through a port, in or out; none of management.
    pub(crate) fn passes(&self, number: u8) -> bool {
        self.with_port(number, |port| port.active && !port.loss.takes_one()) == Some(true)
    }

    /// Whether some of a port's packets are lost.
    pub(crate) fn loses(&self, number: u8) -> bool {
        self.with_port(number, |port| port.loss.is_any()) == Some(true)
    }

    /// The region that a segment of work in a protection domain is in.
    pub(crate) fn region(&self, pd: u32, segment: &Segment) -> Option<KArc<Region>> {
        self.keys.lock().find(pd, segment)
    }

    /// All of the kernel's memory, if the adapter has a key for it and the segment is in it.
    pub(crate) fn everything(&self, segment: &Segment) -> Option<KArc<Region>> {
        let everything = self.everything.as_ref()?;
        everything.window(segment.address, segment.len)?;
        Some(everything.clone())
    }

    /// The queue pair that a datagram to a port is for.
    pub(crate) fn receiver(&self, port: u8, qpn: u32) -> Option<KArc<Qp>> {
        let objects = self.objects.lock();
        if qpn == 1 {
            return objects.general.get(index(port)?)?.clone();
        }
        objects.qps.find(qpn).cloned()
    }

    /// All queue pairs but the special ones, at this moment.
    pub(crate) fn queue_pairs(&self) -> Result<KVec<KArc<Qp>>, Errno> {
        let objects = self.objects.lock();
        let mut all = KVec::with_capacity(objects.qps.len())?;
        for qp in objects.qps.iter().filter(|qp| qp.parts().special.is_none()) {
            all.push(qp.clone())?;
        }
        Ok(all)
    }

    pub(crate) fn census(&self) -> Census {
        let objects = self.objects.lock();
        let (qps, kept_numbers) = (objects.qps.len() as u32, objects.qps.reserved() as u32);
        let census = Census { qps, kept_numbers, ..objects.census };
        drop(objects);
        Census { regions: self.keys.lock().len() as u32, ..census }
    }

    /// Makes one more of a kind, of which there can be so many. `INSUFF_RESOURCE` if there are.
    fn make<T>(
        &self,
        kind: fn(&mut Census) -> &mut u32,
        most: u32,
        make: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut objects = self.objects.lock();
        let count = kind(&mut objects.census);
        if *count >= most {
            return Err(Status::INSUFF_RESOURCE);
        }
        *count += 1;
        drop(objects);
        make().inspect_err(|_| self.freed(kind))
    }

    /// One of a kind is gone.
    fn freed(&self, kind: fn(&mut Census) -> &mut u32) {
        *kind(&mut self.objects.lock().census) -= 1;
    }

    /// Whether a queue pair can be there.
    fn check(&self, ud: &UdAttributes) -> Result<(), Status> {
        let port = self.port(ud.port).ok_or(Status::HCA_PORT_INVALID)?;
        // An entry that is empty now may be set later.
        if usize::from(ud.pkey_index) < port.pkeys.len() { Ok(()) } else { Err(Status::PKEY_IX_INVALID) }
    }
}

fn index(port: u8) -> Option<usize> {
    usize::from(port).checked_sub(1)
}
