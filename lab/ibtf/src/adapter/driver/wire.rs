//! How management reaches the subnet over a loaded adapter: queue pairs of its own on each port, as `ibmf` has them, and MADs in
//! datagrams. Queue pair 1 takes what is for nobody in particular; requests leave by another one, where the answers come back.

mod memory;
mod port;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric::{ManagementPeer, QKey};
use fakekernel::{HostMutex, Kernel};
use sm::{Inbound, Inbounds, Mad, Refused, SaTransport, SmAddress};

use crate::ibtl::Device;
use port::Port;

/// Bytes of a MAD, of the GRH before a received one, and of a place for either.
const MAD: usize = 256;
const GRH: usize = 40;
const PLACE: usize = GRH + MAD;
/// Receives that are posted on a queue pair, and sends that may be out.
const RECEIVES: usize = 64;
const SENDS: usize = 32;
/// What `ibmf` asks for: entries of each queue, and of the CQ of a port.
const QUEUE: u32 = 512;
const ENTRIES: u32 = 1023;
/// Of all management datagrams.
const QKEY: QKey = QKey(0x8001_0000);

/// The management of a host's loaded adapters.
pub(crate) struct Wire {
    ports: HostMutex<BTreeMap<sm::Guid, Arc<Port>>>,
    inbounds: HostMutex<Inbounds>,
}

/// Where a host keeps it.
struct Slot(Arc<Wire>);

impl Wire {
    /// The host's.
    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        let new = || {
            Slot(Arc::new(Self {
                ports: HostMutex::new(BTreeMap::new()),
                inbounds: HostMutex::new(Inbounds::default()),
            }))
        };
        kernel.state(new).0.clone()
    }

    /// The ports of an adapter that has attached get their queue pairs; one that cannot have them now gets them when somebody asks.
    /// May block.
    pub(super) fn add(self: &Arc<Self>, device: &Arc<Device>) {
        let Some(driver) = device.adapter.driver() else { return };
        for attr in device.cached_ports() {
            let port = Arc::new(Port::new(Arc::downgrade(self), driver, device, &attr));
            self.ports.lock().insert(sm::Guid(attr.guid.0), port.clone());
            let _ = port.make();
        }
    }

    /// They go with it. May block.
    pub(super) fn remove(&self, device: &Arc<Device>) {
        for attr in device.cached_ports() {
            let port = self.ports.lock().remove(&sm::Guid(attr.guid.0));
            if let Some(port) = port {
                port.unmake();
            }
        }
    }
}

impl Wire {
    /// Sends a message of communication management from a port; it may be lost.
    pub(crate) fn send_message(&self, port: u8, device: &Device, to: &ManagementPeer, mad: Mad) {
        let Some(attr) = device.cached_port(port) else { return };
        let to = SmAddress { lid: to.lid, qpn: to.qpn, sl: to.sl, p_key: to.pkey };
        let _ = self.send(sm::Guid(attr.guid.0), to, &mad);
    }
}

impl Wire {
    /// What a port's adapter says to queue pairs on CQs of the other kind: see [`crate::mix_kinds`].
    pub(crate) fn mix_kinds(&self, port: sm::Guid) -> Option<[Result<(), u32>; 2]> {
        let place = self.ports.lock().get(&port).cloned()?;
        Some(place.mix_kinds()?.map(|answer| answer.map_err(|status| status.0)))
    }
}

impl SaTransport for Wire {
    fn attach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.inbounds.lock().attach(port, inbound);
    }

    fn detach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.inbounds.lock().detach(port, inbound);
    }

    fn send(&self, port: sm::Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        let place = self.ports.lock().get(&port).cloned();
        let place = place.ok_or(Refused::NoPort(port))?;
        let made = match place.made() {
            Some(made) => made,
            None if fakekernel::cx().ctx().may_block() => place.make().map_err(|_| Refused::NoPort(port))?,
            None => return Err(Refused::NoPort(port)),
        };
        place.send(&made, to, mad);
        Ok(())
    }
}
