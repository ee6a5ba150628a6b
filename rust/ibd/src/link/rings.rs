//! Rings of a link ([`gldv3::RingProvider`]): how many, as the driver's configuration file says, and what the MAC layer calls.

use core::ffi::CStr;

use gldv3::{Address, Generation, Ring, RingProvider, Stat};
use ipoib::{Gid, LinkAddr};
use kernel::ddi::{DevInfo, Scope};
use kernel::mblk::MblkChain;
use kernel::{Errno, KArc, log};

use super::limits::MOST_TRANSMIT_RINGS;
use super::receive::{self, Receiver};
use super::{Name, Provider, Shared};
use crate::counters::TxDrop;

/// Whether there is a receive ring: 0 or 1.
const RECEIVE: Property = Property { name: c"ibd_rx_rings", most: 1 };
/// How many transmit rings there are; none means that the link sends as links without rings do.
const TRANSMIT: Property = Property { name: c"ibd_tx_rings", most: MOST_TRANSMIT_RINGS as u32 };

struct Property {
    name: &'static CStr,
    most: u32,
}

/// What a link has of rings, from attach to detach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingCount {
    pub(crate) receive: bool,
    /// 0 without a receive ring: the MAC layer takes none alone.
    pub(crate) transmit: usize,
}

impl RingCount {
    /// Reads the properties; one that makes no sense is named in the log and counts as 0. **May block.**
    pub(crate) fn read(dip: DevInfo, name: &Name) -> Self {
        let receive = RECEIVE.read(dip, name) != 0;
        let transmit = TRANSMIT.read(dip, name) as usize;
        if transmit != 0 && !receive {
            log!(warn, name, "ibd_tx_rings {transmit} needs ibd_rx_rings 1: no rings");
            return Self::default();
        }
        Self { receive, transmit }
    }
}

impl Property {
    fn read(&self, dip: DevInfo, name: &Name) -> u32 {
        let Some(raw) = dip.prop_int(self.name, Scope::Node) else { return 0 };
        match u32::try_from(raw) {
            Ok(value) if value <= self.most => value,
            _ => {
                let property = self.name.to_str().unwrap_or_default();
                log!(warn, name, "property {property} is {raw}, not from 0 to {}: taken as 0", self.most);
                0
            }
        }
    }
}

impl Shared {
    /// The receive side of the queue pair that stands.
    pub(super) fn receiver(&self) -> Option<KArc<Receiver>> {
        self.control.lock().queue_pairs.as_ref().map(|pairs| pairs.receiver().clone())
    }

    /// Whether frames for this unicast address reach the link: those for the address that the MAC layer was told, and for none before that.
    /// **Perimeter.**
    fn takes_address(&self, address: &LinkAddr) -> Result<(), Errno> {
        let unknown = address.gid() == Gid { prefix: 0, guid: 0 };
        if address.mgid().is_some() || (!unknown && address.gid().guid != self.node.port_guid.get()) {
            return Err(Errno::ENOSPC);
        }
        if unknown || self.announcer.has_told(address) {
            return Ok(());
        }
        // The address is queue pair and GID: nobody can choose it.
        Err(Errno::ENOTSUP)
    }
}

impl RingProvider for Provider {
    fn receive_ring_start(&self, generation: Generation) {
        self.0.open_delivery(Some(generation));
    }

    fn receive_ring_stop(&self) {
        self.0.delivery.shut();
    }

    fn receive_interrupt(&self, on: bool) {
        self.0.delivery.set_polled(!on);
        if !on {
            self.0.counters.rx.quiet.increment();
        } else if let Some(receiver) = self.0.receiver() {
            receiver.call_again();
        } else if let Some(connected) = self.0.delivery.connected() {
            connected.call_again();
        }
    }

    fn poll(&self, bytes: usize) -> MblkChain {
        receive::fetch(&self.0.delivery, bytes)
    }

    fn address(&self, add: bool, address: &Address) -> Result<(), Errno> {
        // Taking one away is right whatever it was: the link may have another by now.
        if add { self.0.takes_address(&LinkAddr::from_bytes(*address)) } else { Ok(()) }
    }

    fn transmit_on_ring(&self, ring: usize, packets: MblkChain) -> MblkChain {
        match self.0.transmitters.of(ring) {
            Some(transmitter) => transmitter.transmit(packets),
            None => {
                // No such ring was offered: freed.
                if let Some(first) = self.0.counters.tx(0) {
                    first.dropped_many(TxDrop::LinkDown, packets.len());
                }
                MblkChain::new()
            }
        }
    }

    fn ring_stat(&self, ring: Ring, stat: Stat) -> Option<u64> {
        match (ring, stat) {
            (Ring::Receive, Stat::BytesReceived | Stat::PacketsReceived) => self.0.counters.stat(stat),
            (Ring::Receive, _) => None,
            (Ring::Transmit(ring), stat) => self.0.transmitters.stat(ring, stat),
        }
    }
}
