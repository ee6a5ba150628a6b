//! HCA ports: what the subnet manager set, what the link does, and the counters.

use crate::{
    AsyncEvent, FarEnd, Gid, Guid, Lid, LinkSpeed, LinkWidth, Lmc, Mtu, PKey, PhysState, PortChange,
    PortConfig, PortNum, PortState, Sl, Subnet,
};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lab_lock::Mutex;
/// A port as a query shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Port number on its HCA.
    pub num: PortNum,
    /// Port GUID, by which the fabric knows it.
    pub guid: Guid,
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub phys: PhysState,
    /// Base LID; kept while the link is down.
    pub lid: Lid,
    /// LID mask control.
    pub lmc: Lmc,
    /// LID of the master subnet manager.
    pub sm_lid: Lid,
    /// Service level towards it.
    pub sm_sl: Sl,
    /// MTU capability.
    pub mtu_cap: Mtu,
    /// MTU in use (NeighborMTU).
    pub mtu: Mtu,
    /// Active width.
    pub width: LinkWidth,
    /// Active speed.
    pub speed: LinkSpeed,
    /// The whole P_Key table, zeros included.
    pub pkeys: Vec<PKey>,
    /// The whole GID table, zeros included; index 0 is prefix and port GUID.
    pub gids: Vec<Gid>,
    /// Exponent of 4.096 us, 0..=31.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// CapabilityMask.
    pub capabilities: u32,
    /// Longest message in bytes.
    pub max_msg: u32,
    /// Packets refused for their P_Key.
    pub pkey_violations: u64,
    /// Packets refused for their Q_Key.
    pub qkey_violations: u64,
}

impl PortAttr {
    /// The GUID that the port says it has: another port's if adapters were flashed alike ([`PortConfig::claims`]).
    #[must_use]
    pub fn claimed(&self) -> Guid {
        self.gids.first().map_or(self.guid, |gid| Guid(gid.guid))
    }
}

/// Packets of a port, counted at the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames put on the link.
    pub sent: u64,
    /// Frames taken off the link.
    pub received: u64,
    /// Datagrams placed in a receive buffer (a multicast frame counts once per QP).
    pub delivered: u64,
    /// Large sends cut into segments, which count as frames.
    pub large_sends: u64,
}

/// CapabilityMask: trap capability, automatic migration, SL mapping, client reregistration, other local changes notice.
const CAPABILITIES: u32 = 0x0259_0868;
/// CapabilityMask: the extended speeds mean something.
const EXTENDED_SPEEDS: u32 = 1 << 14;
/// CapabilityMask: a subnet manager is behind the port.
const IS_SM: u32 = 1 << 1;

pub(crate) struct Port {
    pub(crate) num: PortNum,
    pub(crate) guid: Guid,
    config: PortConfig,
    inner: Mutex<Inner>,
    /// What takes unicast datagrams in the switch's place.
    far: OnceLock<Arc<FarEnd>>,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Management datagrams that captures were shown outbound.
    pub(crate) management_sent: AtomicU32,
    pub(crate) delivered: AtomicU64,
    pub(crate) large_sends: AtomicU64,
    pub(crate) pkey_violations: AtomicU64,
    pub(crate) qkey_violations: AtomicU64,
}

#[derive(Clone)]
struct Inner {
    cabled: bool,
    disabled: bool,
    state: PortState,
    lid: Lid,
    lmc: Lmc,
    sm_lid: Lid,
    sm_sl: Sl,
    mtu: Mtu,
    prefix: u64,
    pkeys: Vec<PKey>,
    subnet_timeout: u8,
    init_type_reply: u8,
    is_sm: bool,
    trained: Trained,
}

/// What the two ends of a port's cable have agreed on, as long as the link is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trained {
    /// Active lanes.
    pub width: LinkWidth,
    /// Active speed of a lane.
    pub speed: LinkSpeed,
    /// The largest MTU that the link carries.
    pub mtu: Mtu,
}

/// What a subnet manager may set on a port; `None` leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet {
    /// Base LID.
    pub lid: Option<Lid>,
    /// LID mask control.
    pub lmc: Option<Lmc>,
    /// Logical state; ignored while there is no link.
    pub state: Option<PortState>,
    /// Master SM.
    pub sm_lid: Option<Lid>,
    /// Its service level.
    pub sm_sl: Option<Sl>,
    /// NeighborMTU; capped at the capability.
    pub mtu: Option<Mtu>,
    /// Subnet prefix of GID index 0.
    pub prefix: Option<u64>,
    /// Exponent of 4.096 us.
    pub subnet_timeout: Option<u8>,
    /// InitTypeReply.
    pub init_type_reply: Option<u8>,
    /// Asks the host's clients to register again.
    pub client_reregister: bool,
}

/// What sending and receiving need of a port, read in one go.
pub(crate) struct Route {
    pub(crate) state: PortState,
    pub(crate) lid: Lid,
    pub(crate) lmc: Lmc,
    pub(crate) mtu: Mtu,
}

impl Route {
    /// Is `lid` one of the port's own?
    pub(crate) fn owns(&self, lid: Lid) -> bool {
        self.lid.is_unicast() && lid.0 & !(self.lmc.lids() - 1) == self.lid.0
    }
}

impl Port {
    pub(crate) fn new(num: PortNum, config: PortConfig) -> Self {
        let mut pkeys = vec![PKey::INVALID; usize::from(config.pkeys.max(1))];
        pkeys[0] = PKey::DEFAULT_FULL;
        let inner = Inner {
            cabled: config.cabled,
            disabled: false,
            state: if config.cabled { PortState::Init } else { PortState::Down },
            lid: Lid::NONE,
            lmc: Lmc::default(),
            sm_lid: Lid::NONE,
            sm_sl: Sl::default(),
            mtu: config.mtu.min(Mtu::M2048),
            prefix: Gid::DEFAULT_PREFIX,
            pkeys,
            subnet_timeout: 18,
            init_type_reply: 0,
            is_sm: false,
            trained: config.trained(),
        };
        Port {
            num,
            guid: config.guid,
            config,
            inner: Mutex::new(inner),
            far: OnceLock::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            management_sent: AtomicU32::new(0),
            delivered: AtomicU64::new(0),
            large_sends: AtomicU64::new(0),
            pkey_violations: AtomicU64::new(0),
            qkey_violations: AtomicU64::new(0),
        }
    }

    fn claimed(&self) -> Guid {
        self.config.claims.unwrap_or(self.guid)
    }

    pub(crate) fn attr(&self) -> PortAttr {
        let s = self.inner.lock().clone();
        let mut gids = vec![Gid::default(); usize::from(self.config.gids.max(1))];
        gids[0] = Gid { prefix: s.prefix, guid: self.claimed().0 };
        PortAttr {
            num: self.num,
            guid: self.guid,
            state: s.state,
            phys: s.phys(),
            lid: s.lid,
            lmc: s.lmc,
            sm_lid: s.sm_lid,
            sm_sl: s.sm_sl,
            mtu_cap: s.trained.mtu,
            mtu: s.mtu,
            width: s.trained.width,
            speed: s.trained.speed,
            capabilities: s.capabilities(),
            pkeys: s.pkeys,
            gids,
            subnet_timeout: s.subnet_timeout,
            init_type_reply: s.init_type_reply,
            max_msg: 1 << 30,
            pkey_violations: self.pkey_violations.load(Ordering::Relaxed),
            qkey_violations: self.qkey_violations.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn counters(&self) -> PortCounters {
        PortCounters {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
            large_sends: self.large_sends.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn route(&self) -> Route {
        let s = self.inner.lock();
        Route { state: s.state, lid: s.lid, lmc: s.lmc, mtu: s.mtu }
    }

    /// The P_Key at an index; `None` past the table.
    pub(crate) fn pkey(&self, ix: u16) -> Option<PKey> {
        self.inner.lock().pkeys.get(usize::from(ix)).copied()
    }

    /// The GID at an index; `None` for an empty entry or past the table.
    pub(crate) fn gid(&self, ix: u16) -> Option<Gid> {
        (ix == 0).then(|| Gid { prefix: self.inner.lock().prefix, guid: self.claimed().0 })
    }

    /// False if there is one already.
    pub(crate) fn set_far_end(&self, far: Arc<FarEnd>) -> bool {
        self.far.set(far).is_ok()
    }

    pub(crate) fn far_end(&self) -> Option<&Arc<FarEnd>> {
        self.far.get()
    }

    /// Whose switch it is cabled to.
    pub(crate) fn subnet(&self) -> Subnet {
        self.config.subnet
    }

    pub(crate) fn owns_gid(&self, gid: Gid) -> bool {
        self.gid(0) == Some(gid)
    }

    pub(crate) fn set_is_sm(&self, is_sm: bool) {
        self.inner.lock().is_sm = is_sm;
    }

    /// Cable in or out, or port switched off; returns the event of it.
    pub(crate) fn set_link(&self, cabled: Option<bool>, disabled: Option<bool>) -> Vec<AsyncEvent> {
        let mut s = self.inner.lock();
        let before = s.state;
        s.cabled = cabled.unwrap_or(s.cabled);
        s.disabled = disabled.unwrap_or(s.disabled);
        match (s.cabled && !s.disabled, s.state) {
            (false, _) => s.state = PortState::Down,
            (true, PortState::Down) => s.state = PortState::Init,
            (true, _) => {}
        }
        self.state_event(before, s.state)
    }

    /// The link is like this from now on; `None`: as good as the port can. False if it is so already.
    pub(crate) fn train(&self, to: Option<Trained>) -> bool {
        let mut s = self.inner.lock();
        let before = s.trained;
        s.trained = to.unwrap_or_else(|| self.config.trained());
        s.mtu = s.mtu.min(s.trained.mtu);
        s.trained != before
    }

    fn state_event(&self, before: PortState, after: PortState) -> Vec<AsyncEvent> {
        match (before == PortState::Active, after == PortState::Active) {
            (true, false) => vec![AsyncEvent::PortDown(self.num)],
            (false, true) => vec![AsyncEvent::PortUp(self.num)],
            _ => Vec::new(),
        }
    }

    /// Applies what the subnet manager says; returns the events of it in the order the host must hear them.
    pub(crate) fn program(&self, set: &PortSet) -> Vec<AsyncEvent> {
        let mut s = self.inner.lock();
        let before = s.clone();
        s.apply(set);
        let mut events = self.state_event(before.state, s.state);
        let change = before.change_to(&s);
        if !change.is_empty() && s.state >= PortState::Armed {
            events.push(AsyncEvent::PortChange(self.num, change));
        }
        if set.client_reregister {
            events.push(AsyncEvent::ClientReregister(self.num));
        }
        events
    }

    /// Writes the table; entries past the end of `pkeys` become empty, entries past the table are ignored.
    pub(crate) fn set_pkeys(&self, pkeys: &[PKey]) -> Vec<AsyncEvent> {
        let mut s = self.inner.lock();
        let mut table = vec![PKey::INVALID; s.pkeys.len()];
        for (entry, pkey) in table.iter_mut().zip(pkeys) {
            *entry = *pkey;
        }
        let changed = table != s.pkeys;
        s.pkeys = table;
        if changed { vec![AsyncEvent::PortChange(self.num, PortChange::PKEY)] } else { Vec::new() }
    }
}

impl PortConfig {
    /// What a link of such a port is like that has trained to all that the port can.
    const fn trained(&self) -> Trained {
        Trained { width: self.width, speed: self.speed, mtu: self.mtu }
    }
}

impl Inner {
    fn capabilities(&self) -> u32 {
        let extended = self.trained.speed.extended_code() != 0;
        CAPABILITIES | if self.is_sm { IS_SM } else { 0 } | if extended { EXTENDED_SPEEDS } else { 0 }
    }

    fn phys(&self) -> PhysState {
        match (self.disabled, self.cabled) {
            (true, _) => PhysState::Disabled,
            (false, false) => PhysState::Polling,
            (false, true) => PhysState::LinkUp,
        }
    }

    fn apply(&mut self, set: &PortSet) {
        self.lid = set.lid.unwrap_or(self.lid);
        self.lmc = set.lmc.unwrap_or(self.lmc);
        self.sm_lid = set.sm_lid.unwrap_or(self.sm_lid);
        self.sm_sl = set.sm_sl.unwrap_or(self.sm_sl);
        self.mtu = set.mtu.unwrap_or(self.mtu).min(self.trained.mtu);
        self.prefix = set.prefix.unwrap_or(self.prefix);
        self.subnet_timeout = set.subnet_timeout.unwrap_or(self.subnet_timeout) & 0x1f;
        self.init_type_reply = set.init_type_reply.unwrap_or(self.init_type_reply) & 0xf;
        if let (PhysState::LinkUp, Some(state)) = (self.phys(), set.state) {
            self.state = state;
        }
    }

    fn change_to(&self, now: &Inner) -> PortChange {
        let pairs = [
            (self.prefix != now.prefix, PortChange::SGID),
            (self.sm_lid != now.sm_lid, PortChange::SM_LID),
            (self.sm_sl != now.sm_sl, PortChange::SM_SL),
            (self.subnet_timeout != now.subnet_timeout, PortChange::SUBNET_TIMEOUT),
        ];
        pairs.iter().filter(|(hit, _)| *hit).fold(PortChange::default(), |all, (_, one)| all.with(*one))
    }
}
