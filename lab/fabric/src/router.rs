//! A router between subnets (InfiniBand Architecture volume 1, chapter 19): a node with a port in each subnet, which passes on packets that
//! have a GRH and whose hop limit allows it.
//!
//! A real router learns from the subnet managers which port is at which LID of a subnet, and which groups go where. Here it sees the
//! ports themselves, and is told the groups ([`Fabric::set_routed_group`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use lab_lock::Mutex;

use crate::port::Port;
use crate::switch::FabricInner;
use crate::wire::{Frame, FrameError, Grh, Lrh};
use crate::{
    AsyncEvent, CqNum, Dma, DmaFault, Error, Fabric, Gid, Guid, Hca, HcaConfig, HcaEvents, Lid, NodeKind,
    PortState, Reason,
};

/// A subnet of the fabric: a switch with LIDs of its own. The default is the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet(pub u8);

/// Where a group is in each subnet that a router passes it on to.
#[derive(Default)]
pub(crate) struct RoutedGroups(Mutex<BTreeMap<(Subnet, Gid), Lid>>);

/// The scope of a group that stays in its subnet, and smaller ones.
const LINK_LOCAL: u8 = 2;
/// A packet with this hop limit, or none, goes no further.
const LAST_HOP: u8 = 1;

impl Fabric {
    /// Plugs a router in: a port for each subnet. It takes no packet itself, neither management datagrams.
    ///
    /// # Errors
    /// As [`Fabric::add_hca`].
    pub fn add_router(&self, config: HcaConfig) -> Result<Hca, Error> {
        let config = HcaConfig { kind: NodeKind::Router, ..config };
        self.add_hca(config, Arc::new(Nothing), Arc::new(Nothing))
    }

    /// From now on routers put packets to `mgid` on `mlid` of this subnet; on none without one.
    pub fn set_routed_group(&self, subnet: Subnet, mgid: Gid, mlid: Option<Lid>) {
        let mut groups = self.0.routed_groups.0.lock();
        match mlid {
            Some(mlid) => groups.insert((subnet, mgid), mlid),
            None => groups.remove(&(subnet, mgid)),
        };
    }
}

impl Hca {
    /// A frame came to a port of a router. The reason, if it goes nowhere that it should go to.
    pub(crate) fn route(&self, at: &Arc<Port>, frame: &Frame) -> Option<Reason> {
        if at.route().state != PortState::Active {
            return Some(Reason::ReceiverPortDown);
        }
        let fabric = self.fabric()?;
        let (lrh, grh) = match frame.routing_headers() {
            Ok((lrh, Some(grh))) => (lrh, grh),
            Ok((_, None)) => return Some(Reason::NoGrh),
            Err(FrameError::Vcrc) => return Some(Reason::CrcAtPort),
            Err(_) => return Some(Reason::Malformed),
        };
        if lrh.dlid.is_multicast() != grh.dgid.is_multicast() {
            return Some(Reason::WrongGid);
        }
        let scope = (grh.dgid.prefix >> 48) as u8 & 0xf;
        if grh.dgid.is_multicast() && scope <= LINK_LOCAL {
            // It has reached all that it is for.
            return None;
        }
        if grh.hop_limit <= LAST_HOP {
            return Some(Reason::HopLimit);
        }
        let others = self.ports().iter().filter(|port| port.subnet() != at.subnet());
        let out: Vec<(&Arc<Port>, Lid)> =
            others.filter_map(|port| Some((port, fabric.lid_behind(port, &grh)?))).collect();
        if out.is_empty() && !grh.dgid.is_multicast() {
            return Some(Reason::NoRoute);
        }
        out.into_iter().fold(None, |refused, (port, dlid)| {
            pass_on(&fabric, port, frame, &Lrh { dlid, ..lrh }, grh.hop_limit - 1).or(refused)
        })
    }
}

fn pass_on(
    fabric: &FabricInner,
    port: &Arc<Port>,
    frame: &Frame,
    lrh: &Lrh,
    hop_limit: u8,
) -> Option<Reason> {
    let route = port.route();
    if route.state != PortState::Active {
        return Some(Reason::SenderPortDown);
    }
    if frame.payload_len() > route.mtu.bytes() {
        return Some(Reason::Mtu);
    }
    fabric.transmit(port, &frame.rerouted(lrh.dlid, route.lid, hop_limit));
    None
}

impl FabricInner {
    /// Where a packet goes that a router puts on the link of `port`; `None` if it goes nowhere there.
    fn lid_behind(&self, port: &Port, grh: &Grh) -> Option<Lid> {
        if grh.dgid.is_multicast() {
            return self.routed_groups.0.lock().get(&(port.subnet(), grh.dgid)).copied();
        }
        let switch = self.switch.lock();
        let mut there = switch.ports.values().map(|(_, there)| there);
        let to = there.find(|there| there.subnet() == port.subnet() && there.owns_gid(grh.dgid))?;
        Some(to.route().lid)
    }
}

/// A router has no host: there is no memory, and it hears of nothing.
struct Nothing;

impl Dma for Nothing {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        Err(DmaFault { addr, len: buf.len() })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault> {
        Err(DmaFault { addr, len: buf.len() })
    }

    fn is_memory(&self, _addr: u64, _len: u64) -> bool {
        false
    }
}

impl HcaEvents for Nothing {
    fn completion(&self, _cq: CqNum) {}

    fn async_event(&self, _event: AsyncEvent) {}
}

impl HcaConfig {
    /// A router of this node GUID with a port in each of `subnets`; port n has the node's GUID plus n.
    #[must_use]
    pub fn router(guid: Guid, subnets: &[Subnet]) -> Self {
        let mut config = Self::new(guid, u8::try_from(subnets.len()).unwrap_or(u8::MAX));
        config.kind = NodeKind::Router;
        config.description = format!("router {guid}");
        for (port, subnet) in config.ports.iter_mut().zip(subnets) {
            port.subnet = *subnet;
        }
        config
    }
}
