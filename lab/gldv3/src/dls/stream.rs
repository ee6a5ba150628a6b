//! An open stream: what it is bound to, what it wants, and who gets its packets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fakekernel::{Errno, HostMutex, Kernel};

use super::devnet::Devnets;
use super::link::Link;
use crate::address::{Destination, LinkAddress};
use crate::message::Message;
use crate::plugin::HeaderInfo;
use crate::types::{Notification, Promiscuity, Received};

/// Takes packets.
pub(crate) type Receiver = Arc<dyn Fn(Received) + Send + Sync>;
/// Takes notifications.
pub(crate) type Notified = Arc<dyn Fn(Notification) + Send + Sync>;

/// The part of a stream that packets meet.
pub(crate) struct StreamState {
    pub(super) wants: HostMutex<Wants>,
    receiver: HostMutex<Option<Receiver>>,
    notified: HostMutex<Option<Notified>>,
    /// Where messages go that were delivered, instead of being freed.
    kept: HostMutex<Option<Kept>>,
}

/// Messages that somebody above the link keeps.
pub(crate) type Kept = Arc<HostMutex<Vec<Message>>>;

impl fmt::Debug for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamState({:?})", *self.wants.lock())
    }
}

/// What a stream has asked for.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) passive: bool,
    pub(super) raw: bool,
    pub(super) bypass: bool,
    /// The SAP bound, and the one packets are looked up by.
    pub(super) bound: Option<(u32, u32)>,
    /// Groups enabled, and whether the mac counts this stream among their users.
    pub(super) groups: BTreeMap<LinkAddress, bool>,
    pub(super) promiscuous: BTreeSet<Promiscuity>,
    /// Reasons for which the link is active on its behalf.
    pub(super) activations: u32,
}

/// `ETHERTYPE_IP`, `ETHERTYPE_IPV6`, `ETHERTYPE_ARP`
pub(super) const IP_SAPS: [u32; 3] = [0x800, 0x86dd, 0x806];

impl StreamState {
    fn new(passive: bool) -> Arc<Self> {
        let wants = Wants { passive, ..Wants::default() };
        Arc::new(Self {
            wants: HostMutex::new(wants),
            receiver: HostMutex::new(None),
            notified: HostMutex::new(None),
            kept: HostMutex::new(None),
        })
    }

    pub(super) fn notify(&self, notification: Notification) {
        let notified = self.notified.lock().clone();
        if let Some(notified) = notified {
            notified(notification);
        }
    }

    pub(super) fn receiver(&self) -> Option<Receiver> {
        self.receiver.lock().clone()
    }

    /// Keeps a delivered message, if that was asked for; false if it is to be freed.
    pub(super) fn keep(&self, message: Message) -> bool {
        let kept = self.kept.lock().clone();
        kept.is_some_and(|kept| {
            kept.lock().push(message);
            true
        })
    }

    pub(super) fn is_raw(&self) -> bool {
        self.wants.lock().raw
    }

    /// Does the stream take a packet that came for everybody on the link? (`dls_accept`)
    pub(super) fn accepts(&self, info: &HeaderInfo) -> bool {
        let wants = self.wants.lock();
        if wants.bound.is_none_or(|(_, key)| key != info.bind_sap) {
            return false;
        }
        // What a promiscuous stream gets, it gets as a promiscuous one, so as not to get it twice.
        let group_only = wants.promiscuous.iter().all(|level| *level == Promiscuity::Multicast);
        let group_only_misses = group_only && info.kind != Destination::Multicast;
        if !wants.promiscuous.is_empty() && !group_only_misses {
            return false;
        }
        match info.kind {
            Destination::Unicast | Destination::Broadcast => true,
            Destination::Multicast => wants.groups.contains_key(&info.destination),
        }
    }

    /// Does the stream take a copy of a packet it sees because it is promiscuous? (`dls_accept_promisc`) `known`: some stream is
    /// bound to the packet's SAP.
    pub(super) fn accepts_promiscuous(&self, info: &HeaderInfo, loopback: bool, known: bool) -> bool {
        let wants = self.wants.lock();
        let level = |level| wants.promiscuous.contains(&level);
        if wants.promiscuous.is_empty() || loopback && !level(Promiscuity::Physical) {
            return false;
        }
        let sap = if level(Promiscuity::Sap) {
            true
        } else {
            known && wants.bound.is_none_or(|(_, key)| key == info.bind_sap || level(Promiscuity::Physical))
        };
        let destination = match info.kind {
            _ if level(Promiscuity::Physical) => true,
            Destination::Multicast => {
                level(Promiscuity::Multicast) || wants.groups.contains_key(&info.destination)
            }
            Destination::Broadcast => true,
            Destination::Unicast => !level(Promiscuity::Multicast) || level(Promiscuity::Sap),
        };
        sap && destination
    }
}

/// An open stream; it closes when dropped.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) link: Arc<Link>,
    pub(super) stream: Arc<StreamState>,
}

impl Open {
    /// Opens the link of a name.
    pub(crate) fn new(kernel: &Kernel, name: &str, passive: bool) -> Result<Self, Errno> {
        let (id, _) = super::find_link(kernel, name)?;
        let devnets = Devnets::of(kernel);
        let link = devnets.hold(id).ok_or(Errno::ENOENT)?;
        let started = {
            let _inside = link.mac.perimeter.enter();
            // Those of legacy drivers start when they are needed; the lab has none.
            link.mac.is_legacy();
            link.mac.start()
        };
        if let Err(error) = started {
            devnets.release(id);
            return Err(error);
        }
        let stream = StreamState::new(passive);
        link.state.lock().streams.push(stream.clone());
        Ok(Self { link, stream })
    }

    pub(crate) fn set_receiver(&self, receiver: Receiver) {
        *self.stream.receiver.lock() = Some(receiver);
    }

    /// Messages delivered from now on are kept there.
    pub(crate) fn set_kept(&self, kept: Kept) {
        *self.stream.kept.lock() = Some(kept);
    }

    pub(crate) fn set_notified(&self, notified: Notified) {
        *self.stream.notified.lock() = Some(notified);
    }

    /// The SAP bound to.
    pub(crate) fn bound_sap(&self) -> Option<u32> {
        self.stream.wants.lock().bound.map(|(sap, _)| sap)
    }
}
