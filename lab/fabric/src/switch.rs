//! The switch in the middle, and the fabric as a whole.

use crate::delay::{DelayQueue, Later};
use crate::fault::{Carried, Faults};
use crate::groups::SentToGroups;
use crate::port::Port;
use crate::router::RoutedGroups;
use crate::subnet::UnknownPort;
use crate::wire::{Frame, crc};
use crate::{
    Clock, Direction, Dma, Drops, Error, Guid, Hca, HcaConfig, HcaEvents, Lid, LinkFaults, Nanos, Pick,
    PortState, Reason, Subnet, Tap,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use lab_lock::Mutex;
/// A switch for each subnet, the HCAs around them, the faults of their links, and routers between. Clones name the same one.
#[derive(Clone)]
pub struct Fabric(pub(crate) Arc<FabricInner>);

/// A fabric that is not kept alive by this, for a clock or pump the fabric itself holds.
#[derive(Clone)]
pub struct WeakFabric(Weak<FabricInner>);

impl WeakFabric {
    /// The fabric, if it is still there.
    #[must_use]
    pub fn upgrade(&self) -> Option<Fabric> {
        self.0.upgrade().map(Fabric)
    }
}

pub(crate) struct FabricInner {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) switch: Mutex<Switch>,
    faults: Mutex<Faults>,
    delayed: Mutex<DelayQueue>,
    drops: Mutex<Drops>,
    tap: Mutex<Option<Arc<dyn Tap>>>,
    pub(crate) sent_to_groups: SentToGroups,
    pub(crate) routed_groups: RoutedGroups,
    /// Frames that entered a switch.
    switched: AtomicU64,
    /// Management datagrams that captures were shown inbound.
    pub(crate) management_received: AtomicU32,
}

#[derive(Default)]
pub(crate) struct Switch {
    pub(crate) ports: BTreeMap<Guid, (Hca, Arc<Port>)>,
    /// Unicast: LID to port GUID.
    pub(crate) unicast: BTreeMap<(Subnet, Lid), Guid>,
    /// Multicast: LID to port GUIDs.
    pub(crate) multicast: BTreeMap<(Subnet, Lid), BTreeSet<Guid>>,
}

impl Switch {
    /// A LID that two ports had is the other one's alone.
    fn route_what_is_left(&mut self) {
        for (guid, (_, port)) in &self.ports {
            let route = port.route();
            if route.lid.is_unicast() {
                for bits in 0..route.lmc.lids() {
                    let at = (port.subnet(), Lid(route.lid.0 | bits));
                    self.unicast.entry(at).or_insert(*guid);
                }
            }
        }
    }

    fn egress(&self, subnet: Subnet, dlid: Lid, from: Guid) -> Vec<(Hca, Arc<Port>)> {
        let pick = |guid: &Guid| self.ports.get(guid).cloned();
        if dlid.is_multicast() {
            let members = self.multicast.get(&(subnet, dlid));
            members.into_iter().flatten().filter(|&&guid| guid != from).filter_map(pick).collect()
        } else {
            self.unicast.get(&(subnet, dlid)).and_then(pick).into_iter().collect()
        }
    }
}

impl Fabric {
    /// An empty fabric. `seed` decides every fault.
    #[must_use]
    pub fn new(seed: u64, clock: Arc<dyn Clock>) -> Self {
        Fabric(Arc::new(FabricInner {
            clock,
            switch: Mutex::new(Switch::default()),
            faults: Mutex::new(Faults::new(seed)),
            delayed: Mutex::new(DelayQueue::default()),
            drops: Mutex::new(Drops::new()),
            tap: Mutex::new(None),
            sent_to_groups: SentToGroups::default(),
            routed_groups: RoutedGroups::default(),
            switched: AtomicU64::new(0),
            management_received: AtomicU32::new(0),
        }))
    }

    /// The same fabric, not kept alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakFabric {
        WeakFabric(Arc::downgrade(&self.0))
    }

    /// Plugs a new HCA in. Its cabled ports come up as INIT and wait for a subnet manager.
    ///
    /// # Errors
    /// [`Error::InvalidParam`] for a node or port GUID that is zero or already there, and for no or more than 254 ports.
    pub fn add_hca(
        &self,
        config: HcaConfig,
        dma: Arc<dyn Dma>,
        events: Arc<dyn HcaEvents>,
    ) -> Result<Hca, Error> {
        let guids: BTreeSet<Guid> = config.ports.iter().map(|p| p.guid).collect();
        let mut switch = self.0.switch.lock();
        let taken = guids.iter().any(|g| switch.ports.contains_key(g))
            || switch.ports.values().any(|(hca, _)| hca.guid() == config.guid);
        let sane = (1..=254).contains(&config.ports.len()) && guids.len() == config.ports.len();
        if taken || !sane || config.guid == Guid(0) || guids.contains(&Guid(0)) {
            return Err(Error::InvalidParam);
        }
        let hca = Hca::new(config, Arc::downgrade(&self.0), dma, events);
        for port in hca.ports() {
            switch.ports.insert(port.guid, (hca.clone(), port.clone()));
        }
        Ok(hca)
    }

    pub(crate) fn unplug(&self, hca: &Hca) {
        let mut switch = self.0.switch.lock();
        for port in hca.ports() {
            switch.ports.remove(&port.guid);
            switch.unicast.retain(|_, guid| *guid != port.guid);
        }
        switch.route_what_is_left();
    }

    /// Time of the earliest delayed delivery; `None` if nothing waits.
    #[must_use]
    pub fn next_delivery(&self) -> Option<Nanos> {
        self.0.delayed.lock().next_due()
    }

    /// Carries out everything due at `now` or before, in order; returns how many things happened. One caller at a time.
    pub fn pump(&self, now: Nanos) -> usize {
        let mut done = 0;
        loop {
            let Some(later) = self.0.delayed.lock().pop_due(now) else { return done };
            done += 1;
            match later {
                Later::AtSwitch { from, frame } => self.0.at_switch(&from, &frame),
                Later::AtPort { hca, port, frame } => self.0.at_port(&hca, &port, &frame),
                Later::Send { hca, qp, seq } => hca.run_delayed_send(&qp, seq),
                Later::Requester { hca, qp, at } => hca.wake_requester(&qp, at),
                Later::Event { hca, event } => hca.events().async_event(event),
                Later::Interrupt { hca, cq } => hca.events().completion(cq),
            }
        }
    }

    /// A frame arrives at a port as if the switch had sent it there, whatever the frame says; for frames that no adapter sends.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn deliver(&self, port: Guid, frame: &[u8]) -> Result<(), UnknownPort> {
        let found = self.0.switch.lock().ports.get(&port).cloned();
        let (hca, to) = found.ok_or(UnknownPort(port))?;
        self.0.at_port(&hca, &to, &Frame::raw(frame.to_vec()));
        Ok(())
    }

    /// Sets the faults of a port's link: towards the switch and from it.
    pub fn set_faults(&self, port: Guid, to_switch: LinkFaults, from_switch: LinkFaults) {
        let mut faults = self.0.faults.lock();
        faults.set(port, Direction::ToSwitch, to_switch);
        faults.set(port, Direction::FromSwitch, from_switch);
    }

    /// Loses particular frames of a port's link, one way, whatever else its faults are. Those of before that were not lost yet stay.
    pub fn lose(&self, port: Guid, direction: Direction, pick: Pick) {
        self.0.faults.lock().lose(port, direction, pick);
    }

    /// Loses none of those of a port any more that were not lost yet.
    pub fn lose_no_more(&self, port: Guid) {
        self.0.faults.lock().lose_no_more(port);
    }

    /// Frames dropped so far, by reason.
    #[must_use]
    pub fn drops(&self) -> Drops {
        self.0.drops.lock().clone()
    }

    /// Frames that entered a switch so far.
    #[must_use]
    pub fn switched(&self) -> u64 {
        self.0.switched.load(Ordering::Relaxed)
    }

    /// Sets or removes the capture tap.
    pub fn set_tap(&self, tap: Option<Arc<dyn Tap>>) {
        *self.0.tap.lock() = tap;
    }
}

impl FabricInner {
    pub(crate) fn drop_frame(&self, reason: Reason) {
        *self.drops.lock().entry(reason).or_default() += 1;
    }

    pub(crate) fn later(&self, due: Nanos, later: Later) {
        self.delayed.lock().push(due, later);
        self.clock.wake_at(due);
    }

    pub(crate) fn between(&self, min: Nanos, max: Nanos) -> Nanos {
        self.faults.lock().between(min, max)
    }

    /// A port discards a frame that it should put on its link. Captures have it, with the reason: its sender does not know.
    pub(crate) fn refuse_to_send(&self, from: &Arc<Port>, frame: &Frame, reason: Reason) {
        self.show_frame(from.guid, Direction::ToSwitch, Some(reason), frame);
        self.drop_frame(reason);
    }

    /// A port puts a frame on its link.
    pub(crate) fn transmit(&self, from: &Arc<Port>, frame: &Frame) {
        from.sent.fetch_add(1, Ordering::Relaxed);
        self.show_frame(from.guid, Direction::ToSwitch, None, frame);
        for (due, frame) in self.carry(from.guid, Direction::ToSwitch, frame) {
            match due {
                None => self.at_switch(from, &frame),
                Some(due) => self.later(due, Later::AtSwitch { from: from.clone(), frame }),
            }
        }
    }

    /// Passes a frame through one direction of a link.
    fn carry(&self, port: Guid, direction: Direction, frame: &Frame) -> Vec<(Option<Nanos>, Frame)> {
        let copies = self.faults.lock().carry(port, direction, self.clock.now(), frame);
        if copies.is_empty() {
            self.drop_frame(Reason::Loss);
        }
        copies.iter().map(|copy| (copy.due, damaged(frame, copy))).collect()
    }

    fn at_switch(&self, from: &Arc<Port>, frame: &Frame) {
        self.switched.fetch_add(1, Ordering::Relaxed);
        let Some(dlid) = frame.route() else { return self.drop_frame(Reason::VcrcAtSwitch) };
        let egress = self.switch.lock().egress(from.subnet(), dlid, from.guid);
        // A multicast frame nobody else asked for is where it should be; a unicast one without a route is lost.
        if egress.is_empty() && !dlid.is_multicast() {
            return self.drop_frame(Reason::NoRoute);
        }
        for (hca, port) in egress {
            if port.route().state == PortState::Down {
                self.drop_frame(Reason::ReceiverPortDown);
                continue;
            }
            for (due, frame) in self.carry(port.guid, Direction::FromSwitch, frame) {
                match due {
                    None => self.at_port(&hca, &port, &frame),
                    Some(due) => {
                        self.later(due, Later::AtPort { hca: hca.clone(), port: port.clone(), frame })
                    }
                }
            }
        }
    }
}

impl FabricInner {
    fn at_port(&self, hca: &Hca, port: &Arc<Port>, frame: &Frame) {
        let refused = hca.receive(port, frame);
        self.show_frame(port.guid, Direction::FromSwitch, refused, frame);
    }

    fn show_frame(&self, port: Guid, direction: Direction, refused: Option<Reason>, frame: &Frame) {
        if let Some(tap) = self.tap() {
            tap.frame(self.clock.now(), port, direction, refused, &frame.bytes());
        }
    }

    pub(crate) fn tap(&self) -> Option<Arc<dyn Tap>> {
        self.tap.lock().clone()
    }

    pub(crate) fn show_tap(&self, port: Guid, direction: Direction, refused: Option<Reason>, frame: &[u8]) {
        if let Some(tap) = self.tap() {
            tap.frame(self.clock.now(), port, direction, refused, frame);
        }
    }
}

/// The frame after the bit flips of `copy`.
fn damaged(frame: &Frame, copy: &Carried) -> Frame {
    if copy.flip.is_none() && copy.flip_inside.is_none() {
        return frame.clone();
    }
    frame.changed(|bytes| {
        if let Some(bit) = copy.flip_inside {
            // Past the LRH, so that the frame still finds its way and the receiver's ICRC has to notice.
            let end = bytes.len() - 2;
            flip(&mut bytes[8..end], bit);
            let vcrc = crc::vcrc(&bytes[..end]);
            bytes[end..].copy_from_slice(&vcrc);
        }
        if let Some(bit) = copy.flip {
            flip(bytes, bit);
        }
    })
}

fn flip(bytes: &mut [u8], bit: u32) {
    let bit = bit as usize % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}
