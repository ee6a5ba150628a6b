//! A port instance (`ibp`): what partitions are made on. It is a link only by name: it cannot be started.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gldv3::{
    Address, Config, InstanceNumber, LinkState, Mac, Permission, PropertyId, PropertyInfo, Registration, Stat,
};
use ibtf::{AsyncEvent, Client, ClientHandler, ClientInfo, Clients, Hca, PortInfo, PortState};
use ipoib::LinkAddr;
use kernel::counter::Counter;
use kernel::ddi::DevInfo;
use kernel::mblk::MblkChain;
use kernel::sync::Mutex;
use kernel::{Errno, KArc, MayBlock, log};

use crate::adapter::Held;
use crate::common::Common;
use crate::node::Node;
use crate::sa_pool::{Anchor, SaPool};

/// The payloads GLDv3 is told about: what a partition may have, in either mode.
const SDU: [u32; 2] = [1500, 65520];
const MULTICAST_SDU: u32 = ipoib::Mtu::B2048.sdu();

/// As IBTL knows it.
static CLIENT: ClientInfo = ClientInfo::network(c"IPIB");

/// An attached port.
pub(crate) struct Port {
    registration: Registration<Provider>,
    adapter: Adapter,
    pool: KArc<SaPool>,
    _anchor: Anchor,
}

/// The adapter, and the events that keep the port's state current.
struct Adapter {
    shared: KArc<Shared>,
    client: Option<Client>,
}

struct Shared {
    node: Node,
    mac: Mac,
    /// Bits per second.
    speed: AtomicU64,
    /// Times that somebody wanted a look at the port since nobody was at it.
    looks: AtomicU32,
    /// Packets that somebody wanted sent although nobody can start a port.
    refused: Counter,
    hca: Held<Hca>,
    /// As whom IBTF knows the port. A clone is dropped while [`Self::hca`] is being opened.
    client: Mutex<Option<Client>>,
    pool: KArc<SaPool>,
}

impl Port {
    /// Opens the adapter and registers the port. **May block.**
    pub(crate) fn attach(
        common: &Common,
        dip: DevInfo,
        node: Node,
        may_block: &MayBlock,
    ) -> Result<Self, Errno> {
        let config = Config {
            dip,
            instance: InstanceNumber::Device,
            plugin: c"mac_ib",
            address: [0; LinkAddr::LEN],
            min_sdu: 0,
            max_sdu: SDU[1],
            multicast_sdu: MULTICAST_SDU,
        };
        let pool = &common.pool;
        let anchor = Anchor::new(pool, &node, may_block);
        let mut adapter = None;
        let registration = Registration::register(&config, may_block, |mac| {
            let (speed, refused) = (AtomicU64::new(0), Counter::new());
            let looks = AtomicU32::new(0);
            let hca = Held::new(may_block);
            let client = Mutex::new_waiting(None, may_block);
            let shared = Shared { node, mac, speed, looks, refused, hca, client, pool: pool.clone() };
            let shared = KArc::new_waiting(shared, may_block);
            let made = adapter.insert(Adapter { shared, client: None });
            made.open(&common.clients, dip, may_block)?;
            Ok(Provider(made.shared.clone()))
        })?;
        // Set by the closure above, or it would not have succeeded.
        let adapter = adapter.ok_or(Errno::EIO)?;
        adapter.shared.refresh();
        Ok(Self { registration, adapter, pool: pool.clone(), _anchor: anchor })
    }

    /// Undoes everything, or hands the port back. **May block.**
    pub(crate) fn detach(self) -> Result<(), Self> {
        let Self { registration, adapter, pool, _anchor } = self;
        match registration.unregister() {
            Ok(()) => {
                drop(adapter);
                Ok(())
            }
            Err((registration, _)) => Err(Self { registration, adapter, pool, _anchor }),
        }
    }

    /// How many memberships that links have left keep the port for a while; 0 if it may go.
    pub(crate) fn is_kept_by(&self) -> usize {
        self.pool.is_kept_by(self.node())
    }

    pub(crate) fn node(&self) -> &Node {
        &self.adapter.shared.node
    }

    /// The port as it is now. **May block.**
    pub(crate) fn query(&self) -> Result<PortInfo, Errno> {
        self.adapter.shared.query()
    }
}

impl Adapter {
    fn open(&mut self, clients: &Clients, dip: DevInfo, may_block: &MayBlock) -> Result<(), Errno> {
        let client = Client::attach(clients, dip, &CLIENT, may_block, Events(self.shared.clone()))?;
        self.client = Some(client.clone());
        *self.shared.client.lock() = Some(client.clone());
        self.shared.hca.open(|| Ok(Hca::open(&client, self.shared.node.hca.get(), may_block)?))
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.shared.hca.end(|| self.shared.close());
        // Nothing is opened any more, and every clone is dropped.
        let client = self.shared.client.lock().take();
        drop(client);
        // The events keep `shared`, and detaching ends them.
        self.client = None;
    }
}

impl Shared {
    fn query(&self) -> Result<PortInfo, Errno> {
        let hca = self.hca.get().ok_or(Errno::ENXIO)?;
        Ok(hca.port(self.node.port)?)
    }

    /// Gives the adapter back; an ioctl may be asking the port. Says so every ten seconds.
    fn close(&self) {
        let node = &self.node;
        let closed = self.hca.withdraw().close(|overdue| {
            if let Some(seconds) = overdue.seconds() {
                log!(note, node, "the adapter has been in use for {seconds} s after the port let go of it");
            }
        });
        if !closed {
            log!(warn, node, "the adapter is still in use");
        }
    }

    /// The adapter is there, perhaps again after it was to go. Asks the adapter only.
    fn hca_attached(&self, may_block: &MayBlock) {
        self.pool.hold(&self.node, false);
        let reopened = self.hca.reopen(|| {
            let client = self.client.lock().clone();
            Ok(Hca::open(&client.ok_or(Errno::ENXIO)?, self.node.hca.get(), may_block)?)
        });
        if reopened == Ok(true) {
            self.refresh();
        }
    }

    /// Announces speed and state as they are now, or has whoever is at it look once more: two that announce by turns could leave the older news.
    fn refresh(&self) {
        if self.looks.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        loop {
            let asked_for = self.looks.load(Ordering::Acquire);
            self.announce();
            if self.looks.compare_exchange(asked_for, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    fn announce(&self) {
        let info = self.query().ok();
        let active = info.filter(|info| info.state() == PortState::Active);
        let speed = active.as_ref().map_or(0, |info| u64::from(info.width()) * info.lane_speed() * 8 / 10);
        self.speed.store(speed, Ordering::Relaxed);
        self.mac.link_update(if active.is_some() { LinkState::Up } else { LinkState::Down });
    }
}

struct Events(KArc<Shared>);

impl ClientHandler for Events {
    fn async_event(&self, event: AsyncEvent, may_block: &MayBlock) {
        let node = &self.0.node;
        match event {
            AsyncEvent::PortUp { hca_guid, port } | AsyncEvent::PortDown { hca_guid, port }
                if hca_guid == node.hca.get() && port == node.port =>
            {
                // Asks the adapter only, never the SA.
                self.0.refresh();
            }
            AsyncEvent::HcaDetached { hca_guid } if hca_guid == node.hca.get() => {
                // An ioctl may be asking the port.
                self.0.pool.hold(node, true);
                self.0.close();
                self.0.refresh();
            }
            AsyncEvent::HcaAttached { hca_guid } if hca_guid == node.hca.get() => {
                self.0.hca_attached(may_block);
            }
            _ => {}
        }
    }
}

/// The port in GLDv3's hands: refuses to be a link.
struct Provider(KArc<Shared>);

impl gldv3::Provider for Provider {
    fn stat(&self, stat: Stat) -> Option<u64> {
        match stat {
            Stat::Speed => Some(self.0.speed.load(Ordering::Relaxed)),
            Stat::TransmitErrors => Some(self.0.refused.get()),
            _ => None,
        }
    }

    fn start(&self) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn stop(&self) {}

    fn set_promiscuous(&self, _on: bool) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn multicast(&self, _add: bool, _address: &Address) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn set_address(&self, _address: &Address) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn transmit(&self, packets: MblkChain) -> MblkChain {
        self.0.refused.add(packets.len() as u64);
        MblkChain::new()
    }

    fn property_info(&self, id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
        if id == PropertyId::Mtu {
            info.permission(Permission::Read);
            info.range_u32(SDU[0], SDU[1]);
        }
    }
}
