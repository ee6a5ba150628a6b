//! The lab's `misc/ibcm`: multicast groups, paths, services and subnet notices, by MADs to subnet administration, and connections, by
//! MADs to the other hosts.

mod accesses;
pub(crate) mod arp;
mod connect;
mod flow;
mod group;
mod group_ffi;
mod notice;
mod path;
mod path_cache;
mod path_ffi;
mod service;
mod service_ffi;
mod status;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fabric::{Gid, ManagementPeer, PortAttr, PortChange, PortState};
use fakekernel::{HostMutex, Kernel, Nanos};
use illumos_sys_hdrs::{IBT_HCA_BUSY_DETACHING, IBT_INVALID_PARAM, ibt_status_t};
use sm::SaTransport;
use sm::records::Trap;
use sm::rmpp::Message;

use crate::ibtl::{Channel, CmHooks, Device, Ibtl, PortEvent};
use crate::saa::{Listener, PortId, Request, SaError, Session, port_id};
use accesses::Accesses;
pub use connect::Connected;
use connect::Connections;
use flow::Flow;
use group::Joins;
use path_cache::PathCache;
use service::Services;

/// What one host's communication manager knows.
pub(crate) struct Ibcm {
    kernel: Kernel,
    me: Weak<Ibcm>,
    transport: HostMutex<Option<Arc<dyn SaTransport>>>,
    /// By port GUID.
    sessions: HostMutex<BTreeMap<sm::Guid, Arc<Session>>>,
    flow: Flow,
    accesses: Accesses,
    joins: Joins,
    paths: HostMutex<PathCache>,
    /// See [`crate::set_paths_beyond`].
    paths_beyond: AtomicBool,
    services: Services,
    connections: Connections,
}

/// What the reference HCA takes to acknowledge, as an `ib_time_t` (`hca_local_ack_delay`).
pub(crate) const ACK_DELAY: u8 = 14;

/// A driver that goes may leave memberships to an administrator that has not answered for so long.
const ABANDONED: Nanos = Nanos::from_secs(55);

/// Adds `misc/ibcm` to a host.
pub(crate) fn provide(kernel: &Kernel) {
    Ibtl::of(kernel).set_cm(Ibcm::of(kernel));
    let exports =
        [group_ffi::exports(), path_ffi::exports(), service_ffi::exports(), connect::ffi::exports()];
    kernel.provide("ibcm", "misc/ibcm", exports.concat());
}

/// Where a host keeps its communication manager.
struct Slot(Arc<Ibcm>);

/// A port of this host, found by one of its GIDs.
pub(crate) struct Local {
    pub device: Arc<Device>,
    pub attr: PortAttr,
    /// Of the GID it was found by.
    pub sgid_ix: u32,
}

impl Local {
    /// Index of a P_Key in the port's table; all sixteen bits must agree.
    fn p_key_index(&self, p_key: sm::PKey) -> Option<u16> {
        self.attr.pkeys.iter().position(|own| own.0 == p_key.0).and_then(|ix| u16::try_from(ix).ok())
    }
}

impl Ibcm {
    fn new(kernel: &Kernel) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            kernel: kernel.clone(),
            me: me.clone(),
            transport: HostMutex::new(None),
            sessions: HostMutex::new(BTreeMap::new()),
            flow: Flow::new(),
            accesses: Accesses::new(),
            joins: Joins::default(),
            paths: HostMutex::new(PathCache::default()),
            paths_beyond: AtomicBool::new(false),
            services: Services::new(),
            connections: Connections::new(),
        })
    }

    /// The host's.
    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(|| Slot(Self::new(kernel))).0.clone()
    }

    /// How the host's ports reach subnet administration from now on. Without this they do not.
    pub(crate) fn connect(&self, transport: Arc<dyn SaTransport>) {
        *self.transport.lock() = Some(transport);
        let former = std::mem::take(&mut *self.sessions.lock());
        for session in former.values() {
            session.end();
        }
    }

    /// See [`crate::set_paths_beyond`].
    pub(crate) fn set_paths_beyond(&self, asks: bool) {
        self.paths_beyond.store(asks, Ordering::Relaxed);
    }

    /// Whether the administrator is asked for the way to a GID of another subnet.
    fn asks_beyond(&self) -> bool {
        self.paths_beyond.load(Ordering::Relaxed)
    }

    /// How the host's ports reach subnet administration, if they do.
    pub(crate) fn transport(&self) -> Option<Arc<dyn SaTransport>> {
        self.transport.lock().clone()
    }

    /// The ACTIVE port with this GID.
    fn local(&self, gid: Gid) -> Result<Local, ibt_status_t> {
        for device in Ibtl::of(&self.kernel).all_devices() {
            for attr in device.cached_ports() {
                let at = attr.gids.iter().position(|own| *own == gid && own.guid != 0);
                let Some(at) = at.filter(|_| attr.state == PortState::Active) else { continue };
                if self.accesses.is_going(device.guid) {
                    return Err(IBT_HCA_BUSY_DETACHING);
                }
                return Ok(Local { device, attr, sgid_ix: at as u32 });
            }
        }
        Err(IBT_INVALID_PARAM)
    }

    /// See [`crate::untold_leaves`].
    pub(crate) fn untold_leaves(&self) -> Vec<(Gid, Gid)> {
        self.joins.untold()
    }

    /// See [`crate::joins`].
    pub(crate) fn joins_counted(&self) -> Vec<((Gid, u64), u32)> {
        self.joins.counted()
    }

    /// See [`crate::ended_with_the_last`].
    pub(crate) fn ended_with_the_last(&self) -> Vec<(Gid, u64)> {
        self.joins.ended_with_the_last()
    }

    /// See [`crate::refused_leaves`].
    pub(crate) fn refused_leaves(&self) -> Vec<((Gid, u64), u32)> {
        self.joins.refused()
    }

    /// The port's session, open. May wait for its first requests.
    fn session(&self, device: &Arc<Device>, attr: &PortAttr) -> Result<Arc<Session>, SaError> {
        if attr.state != PortState::Active {
            return Err(SaError::NoSession);
        }
        let session = self.known_session(device, attr).ok_or(SaError::NoSession)?;
        session.ensure_open();
        Ok(session)
    }

    /// The port's session, in whatever phase; `None` without a way to subnet administration, or if the adapter is gone.
    fn known_session(&self, device: &Arc<Device>, attr: &PortAttr) -> Option<Arc<Session>> {
        let transport = self.transport.lock().clone()?;
        let port = port_id(device, attr);
        if !Ibtl::of(&self.kernel).all_devices().iter().any(|known| Arc::ptr_eq(known, device)) {
            return None;
        }
        let (session, former) = {
            let mut sessions = self.sessions.lock();
            match sessions.get(&port.guid) {
                Some(session) if session.is_for(device) => return Some(session.clone()),
                // An event of the adapter that was here before came after it was pulled.
                Some(_) | None => {
                    let session = Session::new(port, device, transport.clone(), self.me.clone());
                    (session.clone(), sessions.insert(port.guid, session))
                }
            }
        };
        if let Some(former) = former {
            former.end();
        }
        let inbound: Arc<dyn sm::Inbound> = session.clone();
        transport.attach(port.guid, &inbound);
        Some(session)
    }

    /// The GID that notices of a port come with; zero if it has gone.
    fn told_as(&self, port: PortId) -> Gid {
        let session = self.sessions.lock().get(&port.guid).cloned();
        session.map(|session| session.told_as()).unwrap_or_default()
    }

    /// Asks the port's subnet administration; waits for its turn and for the answer.
    fn ask(&self, local: &Local, request: &Request) -> Result<Message, SaError> {
        // It may be about to go since the port was found.
        let _access = self.accesses.begin(local.device.guid).ok_or(SaError::NoSession)?;
        let session = self.session(&local.device, &local.attr)?;
        let _turn = self.flow.enter();
        session.call(request)
    }
}

impl CmHooks for Ibcm {
    fn port_event(&self, _kernel: &Kernel, device: &Arc<Device>, port: u8, event: PortEvent) {
        let Some(attr) = device.cached_port(port) else { return };
        match event {
            PortEvent::Up | PortEvent::Reregister => self.paths.lock().invalidate(),
            PortEvent::Change(change) if has(change, PortChange::SM_LID) => self.paths.lock().invalidate(),
            PortEvent::Change(_) | PortEvent::Down => {}
        }
        let Some(session) = self.known_session(device, &attr) else { return };
        if attr.state != PortState::Active {
            session.close();
            return;
        }
        match event {
            PortEvent::Up | PortEvent::Reregister => session.restart(true),
            PortEvent::Change(change) if concerns_administration(change) => session.restart(false),
            PortEvent::Change(_) | PortEvent::Down => return,
        }
        if !matches!(event, PortEvent::Change(change) if !has(change, PortChange::SM_LID)) {
            self.rewrite_services(device, &attr);
        }
    }

    fn unsubscribed_ports(&self, _kernel: &Kernel) -> Vec<Gid> {
        let sessions: Vec<Arc<Session>> = self.sessions.lock().values().cloned().collect();
        let silent = sessions.iter().filter(|session| !session.is_available());
        silent.map(|session| session.told_as()).collect()
    }

    fn clients_are_gone(&self) {
        let sessions: Vec<Arc<Session>> = self.sessions.lock().values().cloned().collect();
        for session in sessions {
            self.joins.left_alone(session.port().guid.0, session.is_silent(ABANDONED), ABANDONED);
        }
    }

    fn established(&self, _kernel: &Kernel, channel: &Arc<Channel>) {
        self.channel_established(channel);
    }

    fn management(&self, device: &Arc<Device>, port: u8, from: ManagementPeer, mad: &[u8]) -> bool {
        self.cm_datagram(device, port, from, mad)
    }

    fn hca_added(&self, _kernel: &Kernel, device: &Arc<Device>) {
        for attr in device.cached_ports() {
            // A port that is not ACTIVE yet gets its session when it is.
            let _ = self.session(device, &attr);
        }
    }

    fn keeps(&self, guid: u64) -> Option<String> {
        Ibcm::keeps(self, guid)
    }

    fn lets_go(&self, guid: u64) -> Result<(), String> {
        match self.accesses.drain(guid) {
            0 => Ibcm::keeps(self, guid).map_or(Ok(()), Err),
            asked => Err(format!("ibcm: {asked} questions to subnet administration are out")),
        }
    }

    fn hca_stays(&self, guid: u64) {
        self.accesses.end(guid);
    }

    fn hca_pulled(&self, guid: u64) {
        self.accesses.go(guid);
    }

    fn hca_removed(&self, kernel: &Kernel, guid: u64) {
        crate::umad::hca_removed(kernel, guid);
        let mut sessions = self.sessions.lock();
        let gone: Vec<Arc<Session>> = sessions
            .extract_if(.., |_, session| session.port().hca == guid)
            .map(|(_, session)| session)
            .collect();
        drop(sessions);
        for session in gone {
            session.end();
        }
        self.accesses.end(guid);
        self.paths.lock().invalidate();
        self.forget_connections(guid);
    }
}

const fn has(change: PortChange, bits: PortChange) -> bool {
    change.0 & bits.0 != 0
}

/// The administrator moved, or its answers may take longer.
const fn concerns_administration(change: PortChange) -> bool {
    has(change, PortChange::SM_LID.with(PortChange::SM_SL).with(PortChange::SUBNET_TIMEOUT))
}

impl Listener for Ibcm {
    fn availability(&self, port: PortId, available: bool) {
        notice::availability(&self.kernel, self.told_as(port), available);
    }

    fn notice(&self, port: PortId, trap: Trap, subject: sm::Gid) {
        if !trap.is_of_group() {
            self.paths.lock().invalidate();
        }
        notice::report(&self.kernel, self.told_as(port), trap, subject);
    }
}
