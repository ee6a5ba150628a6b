//! The machine's thread: MADs to sessions, OpenSM's decisions to the fabric.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabric::subnet::{PortSet, PortView};
use fabric::{Lmc, Mtu, PhysState};
use opensm::{PortSnapshot, Snapshot};
use sm::{Arrival, Guid, Inbound, PortState};

use super::super::shown::show_received;
use super::super::subnet::port_state;
use super::{Mailbox, Shared};

/// A port, who takes what comes in for it, and what came.
type Parcel = (Guid, Vec<Arc<dyn Inbound>>, Arrival);

/// What there is to do.
enum Work {
    Mads(Vec<Parcel>),
    Apply(Option<Snapshot>, bool),
}

impl Mailbox {
    fn take(&mut self) -> Option<Work> {
        if !self.arrived.is_empty() {
            let arrived = std::mem::take(&mut self.arrived);
            let parcel = |(port, arrival)| (port, self.inbound.of(port), arrival);
            return Some(Work::Mads(arrived.into_iter().map(parcel).collect()));
        }
        if self.relinking > 0 || (self.snapshot.is_none() && !self.reregister) {
            return None;
        }
        self.applying = true;
        Some(Work::Apply(self.snapshot.take(), std::mem::take(&mut self.reregister)))
    }
}

impl Shared {
    /// Until the machine ends.
    pub(super) fn run(&self) {
        let mut applied = Snapshot::default();
        loop {
            let mut mail = self.mail.lock();
            let Some(work) = mail.take() else {
                drop(self.work.wait(mail));
                continue;
            };
            drop(mail);
            match work {
                Work::Mads(parcels) => parcels.iter().for_each(|parcel| self.hand_over(parcel)),
                Work::Apply(snapshot, reregister) => {
                    self.apply(&mut applied, snapshot, reregister);
                    self.mail.lock().applying = false;
                    self.done.wake_all();
                }
            }
        }
    }

    fn hand_over(&self, (port, inbounds, arrival): &Parcel) {
        show_received(&self.fabric, *port, arrival);
        for inbound in inbounds {
            inbound.receive(arrival);
        }
    }

    /// Brings the fabric from what was decided before to what is decided now. Telling a port what it knows tells its host
    /// nothing.
    fn apply(&self, applied: &mut Snapshot, snapshot: Option<Snapshot>, reregister: bool) {
        let new = snapshot.unwrap_or_else(|| applied.clone());
        self.apply_routes(applied, &new);
        for view in self.fabric.subnet_ports() {
            if let Some(port) = new.ports.get(&view.attr.guid) {
                self.apply_port(&view, port, reregister);
            }
        }
        let routes = new.multicast.or(applied.multicast.take());
        *applied = Snapshot { ports: new.ports, multicast: routes };
    }

    fn apply_port(&self, view: &PortView, port: &PortSnapshot, reregister: bool) {
        let linked = view.attr.phys == PhysState::LinkUp && port.info.port_physical_state == LINK_UP;
        let Some(state) = PortState::from_wire(port.info.port_state).filter(|_| linked) else { return };
        let mut p_keys = port.p_keys.clone();
        p_keys.resize(view.attr.pkeys.len(), fabric::PKey(0));
        // The port may go while this is done; then there is nobody to tell.
        if p_keys != view.attr.pkeys {
            let _ = self.fabric.set_pkeys(view.attr.guid, &p_keys);
        }
        let info = &port.info;
        let set = PortSet {
            lid: Some(info.lid),
            lmc: Lmc::new(info.lmc()),
            state: Some(port_state(state)),
            sm_lid: Some(info.master_sm_lid),
            sm_sl: Some(info.master_sm_sl),
            mtu: Mtu::from_code(info.neighbor_mtu.0),
            prefix: Some(info.gid_prefix).filter(|prefix| *prefix != 0),
            subnet_timeout: Some(info.subnet_timeout),
            init_type_reply: None,
            // ibsim's ports do not offer it, so that OpenSM asks nobody. What it would say is found out by polling.
            client_reregister: reregister && state == PortState::Active,
        };
        let _ = self.fabric.program_port(view.attr.guid, &set);
    }

    fn apply_routes(&self, applied: &Snapshot, new: &Snapshot) {
        let Some(routes) = &new.multicast else { return };
        let old = applied.multicast.iter().flat_map(|routes| routes.keys());
        for gone in old.filter(|mlid| !routes.contains_key(mlid)) {
            self.fabric.set_multicast_route(*gone, &BTreeSet::new());
        }
        for (mlid, ports) in routes {
            if applied.multicast.as_ref().and_then(|old| old.get(mlid)) != Some(ports) {
                self.fabric.set_multicast_route(*mlid, ports);
            }
        }
    }
}

/// PortInfo's physical state of a port with a link.
const LINK_UP: u8 = 5;
