//! What a subnet manager sees and sets, and what a hand on the cable does.

pub use crate::port::{PortSet, Trained};

use crate::port::Port;
use crate::{Fabric, Guid, Hca, Lid, Lmc, NodeKind, PKey, PortAttr, PortCounters, PortNum, Subnet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An HCA port as the subnet manager finds it by sweeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// GUID of its node.
    pub node: Guid,
    /// What its node is.
    pub kind: NodeKind,
    /// Whose switch it is cabled to.
    pub subnet: Subnet,
    /// Description of its node.
    pub description: String,
    /// Number on its node.
    pub num: PortNum,
    /// State and tables.
    pub attr: PortAttr,
}

/// There is no port of this GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no port with GUID {0}")]
pub struct UnknownPort(pub Guid);

fn view((hca, port): &(Hca, Arc<Port>)) -> PortView {
    let description = hca.config().description.clone();
    PortView {
        node: hca.guid(),
        kind: hca.config().kind,
        subnet: port.subnet(),
        description,
        num: port.num,
        attr: port.attr(),
    }
}

impl Fabric {
    /// All HCA ports of all subnets in GUID order, whatever their state.
    #[must_use]
    pub fn subnet_ports(&self) -> Vec<PortView> {
        let ports: Vec<_> = self.0.switch.lock().ports.values().cloned().collect();
        ports.iter().map(view).collect()
    }

    /// The HCA port of this GUID, whatever its state.
    #[must_use]
    pub fn subnet_port(&self, guid: Guid) -> Option<PortView> {
        self.find(guid).ok().as_ref().map(view)
    }

    /// The HCA port that the switch of the first subnet sends packets for a unicast LID to.
    #[must_use]
    pub fn subnet_port_at(&self, lid: Lid) -> Option<PortView> {
        self.subnet_port_at_in(Subnet::default(), lid)
    }

    /// The same of another subnet.
    #[must_use]
    pub fn subnet_port_at_in(&self, subnet: Subnet, lid: Lid) -> Option<PortView> {
        let guid = *self.0.switch.lock().unicast.get(&(subnet, lid))?;
        self.subnet_port(guid)
    }

    /// The HCA of a node GUID.
    #[must_use]
    pub fn hca(&self, guid: Guid) -> Option<Hca> {
        let switch = self.0.switch.lock();
        switch.ports.values().map(|(hca, _)| hca).find(|hca| hca.guid() == guid).cloned()
    }

    /// Packet counters of a port.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn port_counters(&self, guid: Guid) -> Result<PortCounters, UnknownPort> {
        let (_, port) = self.find(guid)?;
        Ok(port.counters())
    }

    fn find(&self, guid: Guid) -> Result<(Hca, Arc<Port>), UnknownPort> {
        self.0.switch.lock().ports.get(&guid).cloned().ok_or(UnknownPort(guid))
    }

    /// Sets attributes of a port. A new LID is routed by the switch at once; the host hears the events that follow.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn program_port(&self, guid: Guid, set: &PortSet) -> Result<(), UnknownPort> {
        let (hca, port) = self.find(guid)?;
        let events = port.program(set);
        if set.lid.is_some() || set.lmc.is_some() {
            let route = port.route();
            self.route_unicast(port.subnet(), guid, route.lid, route.lmc);
        }
        for event in events {
            hca.events().async_event(event);
        }
        Ok(())
    }

    fn route_unicast(&self, subnet: Subnet, guid: Guid, lid: Lid, lmc: Lmc) {
        let mut switch = self.0.switch.lock();
        switch.unicast.retain(|_, port| *port != guid);
        if lid.is_unicast() {
            for bits in 0..lmc.lids() {
                switch.unicast.insert((subnet, Lid(lid.0 | bits)), guid);
            }
        }
    }

    /// Writes a port's P_Key table; what `pkeys` does not cover becomes empty.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn set_pkeys(&self, guid: Guid, pkeys: &[PKey]) -> Result<(), UnknownPort> {
        let (hca, port) = self.find(guid)?;
        let before = port.attr().pkeys;
        let events = port.set_pkeys(pkeys);
        self.0.sent_to_groups.replace(guid, &before, &port.attr().pkeys);
        for event in events {
            hca.events().async_event(event);
        }
        Ok(())
    }

    /// Which ports of the first subnet hear a multicast LID; no port removes the entry.
    pub fn set_multicast_route(&self, mlid: Lid, ports: &BTreeSet<Guid>) {
        self.set_multicast_route_in(Subnet::default(), mlid, ports);
    }

    /// The same of another subnet.
    pub fn set_multicast_route_in(&self, subnet: Subnet, mlid: Lid, ports: &BTreeSet<Guid>) {
        let mut switch = self.0.switch.lock();
        if ports.is_empty() {
            switch.multicast.remove(&(subnet, mlid));
        } else {
            switch.multicast.insert((subnet, mlid), ports.clone());
        }
    }

    /// Which ports of the first subnet hear a multicast LID now.
    #[must_use]
    pub fn multicast_route(&self, mlid: Lid) -> BTreeSet<Guid> {
        self.0.switch.lock().multicast.get(&(Subnet::default(), mlid)).cloned().unwrap_or_default()
    }

    /// Pulls or plugs a port's cable. Down: the state is DOWN, the LID stays. Up: INIT, for the subnet manager to go on.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn set_cable(&self, guid: Guid, plugged: bool) -> Result<(), UnknownPort> {
        let (hca, port) = self.find(guid)?;
        for event in port.set_link(Some(plugged), None) {
            hca.events().async_event(event);
        }
        Ok(())
    }

    /// Switches a port off or on, as an administrator would.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn set_port_enabled(&self, guid: Guid, enabled: bool) -> Result<(), UnknownPort> {
        let (hca, port) = self.find(guid)?;
        for event in port.set_link(None, Some(!enabled)) {
            hca.events().async_event(event);
        }
        Ok(())
    }

    /// A port's link trains to this, or with `None` to the best that the port can; false if it is so already. No event tells of it: see
    /// [`Self::set_cable`] for a link that goes down.
    ///
    /// # Errors
    /// [`UnknownPort`].
    pub fn train(&self, guid: Guid, to: Option<Trained>) -> Result<bool, UnknownPort> {
        Ok(self.find(guid)?.1.train(to))
    }
}
