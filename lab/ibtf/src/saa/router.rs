//! Two subnets of a fabric with a router between: each administrator is told of the other one's ports and groups.
//!
//! The architecture leaves to the makers of routers how subnets learn of one another. Here what one administrator knows is told to the other
//! one, and to the router, as soon as it has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use fabric::{Fabric, Subnet};
use fakekernel::HostMutex;
use sm::partition::SCOPE_LINK_LOCAL;
use sm::sa::Beyond;
use sm::{Gid, Guid, Lid};

use super::EmbeddedSm;

/// A subnet, as the router is in it.
pub(crate) struct Side {
    /// Which one.
    pub subnet: Subnet,
    /// The router's port there.
    pub port: Guid,
    /// Who manages it.
    pub sm: Weak<EmbeddedSm>,
}

/// What two subnets know of one another.
pub(crate) struct Between {
    fabric: Fabric,
    sides: [Side; 2],
    /// Where the router passes groups on to. Also: one thread at a time.
    routed: HostMutex<BTreeMap<(Subnet, Gid), Lid>>,
}

/// What one administrator says of itself.
struct Said {
    /// Nothing while the router has no link there.
    ports: Option<Beyond>,
    heard: Vec<sm::records::McMemberRecord>,
}

impl Between {
    pub fn new(fabric: &Fabric, sides: [Side; 2]) -> Arc<Self> {
        Arc::new(Self { fabric: fabric.clone(), sides, routed: HostMutex::new(BTreeMap::new()) })
    }

    /// Tells what has changed. The thread holds no lock of a manager.
    pub fn tell(&self) {
        let mut routed = self.routed.lock();
        let [Some(first), Some(second)] = [0, 1].map(|n: usize| self.sides[n].sm.upgrade()) else { return };
        let sms = [first, second];
        let said = [self.said_by(&sms[0], 0), self.said_by(&sms[1], 1)];
        let both = said.iter().all(|said| said.ports.is_some());
        let changed = [(0, 1), (1, 0)].map(|(here, there)| {
            let Said { ports, heard } = &said[there];
            let beyond = ports.clone().filter(|_| both).map(|ports| (ports, heard.as_slice()));
            sms[here].learn(self.sides[here].port, beyond)
        });
        let mut now = BTreeMap::new();
        for (side, sm) in self.sides.iter().zip(&sms) {
            sm.inspect(|sm| {
                let wide = sm.sa().groups().filter(|(record, _)| record.mgid.scope() > SCOPE_LINK_LOCAL);
                now.extend(wide.map(|(record, _)| ((side.subnet, record.mgid), record.mlid)));
            });
        }
        for (&(subnet, mgid), &mlid) in &now {
            if routed.get(&(subnet, mgid)) != Some(&mlid) {
                self.fabric.set_routed_group(subnet, mgid, Some(mlid));
            }
        }
        for &(subnet, mgid) in routed.keys().filter(|key| !now.contains_key(key)) {
            self.fabric.set_routed_group(subnet, mgid, None);
        }
        *routed = now;
        drop(routed);
        for (sm, _) in sms.iter().zip(changed).filter(|(_, changed)| *changed) {
            sm.wake();
        }
    }

    fn said_by(&self, sm: &EmbeddedSm, n: usize) -> Said {
        let (own, far) = (self.sides[n].port, self.sides[1 - n].port);
        sm.inspect(|sm| Said {
            ports: sm.sa().seen_from_beyond(own, far),
            heard: sm.sa().groups_heard_beside(own),
        })
    }
}
