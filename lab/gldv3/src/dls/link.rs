//! A link: a mac under a name, the client on it, and its streams (`DLS/dls_link.c`).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fakekernel::{Errno, HostMutex};

use super::management::Class;
use super::stream::StreamState;
use super::tx::Transmit;
use crate::address::LinkAddress;
use crate::mac::{Client, Mac, Note, Ring};
use crate::message::{Message, Messages};
use crate::rx::Srs;
use crate::types::{self, LinkDetails, Notification};

/// See the module's text.
pub(crate) struct Link {
    pub(crate) mac: Arc<Mac>,
    pub(crate) id: u32,
    name: HostMutex<String>,
    /// The zone that made it.
    pub(crate) owner: i32,
    pub(crate) class: Class,
    pub(crate) transmit: Transmit,
    pub(super) state: HostMutex<LinkState>,
    unknowns: AtomicU64,
    /// Whether packets without a VLAN are tagged, which is a link's own affair (`dl_tagmode`).
    tag_mode: AtomicU32,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.name())
    }
}

/// What changes as streams come and go.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    /// In the order opened.
    pub(super) streams: Vec<Arc<StreamState>>,
    /// Streams that need the client's address.
    pub(super) activations: u32,
    /// The receive side, while there is one.
    pub(super) receive: Option<ReceiveSide>,
}

/// Soft ring sets: one for packets that come up without a ring, and one for each receive ring.
#[derive(Debug, Clone)]
pub(super) struct ReceiveSide {
    any: Arc<Srs>,
    rings: Vec<Arc<Srs>>,
}

impl ReceiveSide {
    fn sets(&self) -> impl Iterator<Item = &Arc<Srs>> {
        self.rings.iter().chain([&self.any])
    }

    fn of(&self, ring: Option<usize>) -> &Arc<Srs> {
        ring.and_then(|ring| self.rings.get(ring)).unwrap_or(&self.any)
    }
}

impl Client for Link {
    /// `mac_rx`: copies for the promiscuous, then the receive side if there is one. `ring` is the receive ring they came from.
    fn receive(&self, messages: &Messages<'_>, packets: Vec<Message>, ring: Option<usize>) {
        for packet in &packets {
            self.show_promiscuous(messages, *packet, false);
        }
        let receive = self.state.lock().receive.clone();
        match receive {
            Some(receive) => receive.of(ring).process(messages, packets),
            None => messages.free_all(packets),
        }
    }

    fn woken_up(&self, ring: Option<&Arc<Ring>>) -> bool {
        self.transmit.woken_up(ring)
    }

    fn recompute_fanout(&self) {
        let receive = self.state.lock().receive.clone();
        if let Some(receive) = receive {
            let speed = self.mac.speed();
            receive.sets().for_each(|set| set.recompute(speed));
        }
    }

    /// Tells every stream.
    fn notify(&self, note: Note) {
        let Some(notification) = self.translated(note) else { return };
        for stream in self.streams() {
            stream.notify(notification.clone());
        }
    }
}

impl Link {
    pub(super) fn new(mac: Arc<Mac>, id: u32, name: String, owner: i32, class: Class) -> Arc<Self> {
        let transmit = Transmit::new(&mac.rings().transmit);
        Arc::new(Self {
            mac,
            id,
            name: HostMutex::new(name),
            owner,
            class,
            transmit,
            state: HostMutex::new(LinkState::default()),
            unknowns: AtomicU64::new(0),
            tag_mode: AtomicU32::new(0),
        })
    }

    /// The link that uses a mac, if one does.
    pub(super) fn of(mac: &Mac) -> Option<Arc<Self>> {
        let client: Arc<dyn Any + Send + Sync> = mac.client.lock().clone()?;
        client.downcast().ok()
    }

    /// Its name now.
    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Another name; nobody has the link open.
    pub(super) fn rename(&self, name: &str) {
        name.clone_into(&mut self.name.lock());
    }

    /// The property `tagmode`.
    pub(crate) fn tag_mode(&self) -> u32 {
        self.tag_mode.load(Ordering::Relaxed)
    }

    /// Sets it; `EINVAL` for what is no mode.
    pub(crate) fn set_tag_mode(&self, mode: u64) -> Result<(), Errno> {
        let mode = u32::try_from(mode).ok().filter(|mode| *mode <= 1).ok_or(Errno::EINVAL)?;
        self.tag_mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    /// Packets no stream wanted, or without a header.
    pub(crate) fn unknowns(&self) -> u64 {
        self.unknowns.load(Ordering::Relaxed)
    }

    pub(super) fn count_unknown(&self, packets: usize) {
        self.unknowns.fetch_add(packets as u64, Ordering::Relaxed);
    }

    pub(super) fn streams(&self) -> Vec<Arc<StreamState>> {
        self.state.lock().streams.clone()
    }

    /// One more stream needs the address (`mac_unicast_add`): with the first the device has one more user and packets start to
    /// come. Inside the perimeter.
    pub(super) fn activate(self: &Arc<Self>) -> Result<(), Errno> {
        if self.mac.is_anchor() {
            return Err(Errno::ENXIO);
        }
        if self.state.lock().activations > 0 {
            self.state.lock().activations += 1;
            return Ok(());
        }
        self.mac.start()?;
        self.mac.start_other_transmit_rings();
        let speed = self.mac.speed();
        let upper = Arc::new(super::receive::Above(self.clone()));
        let name = self.name();
        let set = |ring| Srs::new(&self.mac, &name, upper.clone(), speed, ring);
        let rings = self.mac.rings().receive.iter().map(|ring| set(Some(ring))).collect();
        let receive = ReceiveSide { any: set(None), rings };
        self.transmit.restart();
        {
            let mut state = self.state.lock();
            state.activations = 1;
            state.receive = Some(receive);
        }
        if let Err(error) = self.mac.claim_address() {
            self.deactivate();
            return Err(error);
        }
        Ok(())
    }

    /// Undoes one `activate`; with the last everything under way is waited for. Inside the perimeter.
    pub(super) fn deactivate(&self) {
        {
            let mut state = self.state.lock();
            state.activations -= 1;
            if state.activations > 0 {
                return;
            }
        }
        self.transmit.quiesce();
        self.mac.release_address();
        let receive = self.state.lock().receive.take();
        if let Some(receive) = receive {
            receive.sets().for_each(|set| set.quiesce());
        }
        self.transmit.restart();
        self.mac.stop_other_transmit_rings();
        self.mac.stop();
    }

    /// The link goes: nothing is sent any more.
    pub(super) fn shut_down(&self) {
        self.transmit.quiesce();
    }

    /// How many triples of soft rings packets are spread over; 0 while nobody receives.
    pub(crate) fn fanout(&self) -> usize {
        self.state.lock().receive.as_ref().map_or(0, |receive| receive.any.triples())
    }

    /// Packets dropped between the driver and the streams' queues, and on the way to the driver.
    pub(crate) fn drops(&self) -> (u64, u64) {
        let receive = self.state.lock().receive.clone();
        let received = receive.map_or(0, |receive| receive.sets().map(|set| set.drops()).sum());
        (received, self.transmit.drops())
    }

    /// What `DL_INFO_REQ` and the statistics say now.
    pub(crate) fn details(&self) -> LinkDetails {
        let speed = self.mac.speed();
        let mut broadcast = [0; 20];
        for (to, from) in broadcast.iter_mut().zip(&self.mac.plugin.broadcast) {
            *to = *from;
        }
        let state = self.mac.state.lock();
        LinkDetails {
            media: self.mac.plugin.mactype,
            address_length: self.mac.plugin.addrlen,
            address: state.address,
            factory_address: state.factory,
            broadcast: LinkAddress(broadcast),
            min_sdu: state.min_sdu,
            max_sdu: state.max_sdu,
            multicast_sdu: state.multicast_sdu,
            speed,
            state: state.link_state,
        }
    }

    /// The notification a note stands for now; several may have become one.
    pub(super) fn translated(&self, note: Note) -> Option<Notification> {
        let details = self.details();
        match note {
            Note::Link => match details.state {
                types::LinkState::Up => Some(Notification::LinkUp { speed: details.speed }),
                types::LinkState::Down => Some(Notification::LinkDown),
                types::LinkState::Unknown => None,
            },
            Note::Unicst => Some(Notification::Address(details.address)),
            Note::SduSize => {
                Some(Notification::Sdu { max: details.max_sdu, multicast: details.multicast_sdu })
            }
            Note::DevPromisc => {
                let on = self.mac.state.lock().promiscuous > 0;
                Some(Notification::Promiscuous(on))
            }
            Note::CapabChg => Some(Notification::Capabilities),
            Note::FastpathFlush => Some(Notification::FastpathFlush),
            Note::Tx => Some(Notification::Writable),
            Note::AllowedIps => Some(Notification::AllowedIps),
            Note::Dest | Note::Margin | Note::LowLink => None,
        }
    }
}
