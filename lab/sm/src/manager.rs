//! The embedded subnet manager: finds ports, gives them LIDs, P_Keys and the ACTIVE state, and routes multicast.
//!
//! Like the administrator it drives, a machine without clock or I/O. The subnet's owner calls [`Sm::sweep`] at the start and
//! whenever a link comes or goes, hands it MADs ([`Sm::receive`]), takes MADs out ([`Sm::poll_send`]) and comes back at
//! [`Sm::poll_timeout`] with [`Sm::handle_timeout`].

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::FaultScript;
use crate::mad::Mad;
use crate::partition::{Membership, Partition, Ports};
use crate::records::{McMemberRecord, NodeRecord, NodeType, PortInfo, port_capability};
pub use crate::sa::Endport;
use crate::sa::{Address, Beyond, Outgoing, Sa, SaConfig};
use crate::types::{Gid, Guid, Lid, LinkWidth, MtuCode, Nanos, PKey, PortState, Sl};

/// What a subnet manager sees of a subnet of one switch, and does to it. A call stands for the management packets a real
/// manager would send; none of them fails.
pub trait Subnet {
    /// The ports of channel adapters whose link is up, in any state from INIT on.
    fn endports(&mut self) -> Vec<Endport>;

    /// Configures a port, and the switch to send packets to its LIDs there. Its P_Key table has been set.
    fn set_port(&mut self, port: Guid, settings: &PortSettings);

    /// Replaces a port's P_Key table: as many entries as [`Endport::p_keys`] had.
    fn set_p_keys(&mut self, port: Guid, table: &[PKey]);

    /// Packets to `mlid` leave the switch towards these ports; none: they are dropped.
    fn set_multicast_route(&mut self, mlid: Lid, ports: &[Guid]);
}

/// What a subnet manager sets in a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The base LID.
    pub lid: Lid,
    /// The port answers to 2^`lmc` LIDs.
    pub lmc: u8,
    /// Prefix of its GIDs.
    pub gid_prefix: u64,
    /// Where the manager is.
    pub sm_lid: Lid,
    /// How to reach it.
    pub sm_sl: Sl,
    /// ACTIVE.
    pub state: PortState,
    /// What the link carries.
    pub neighbor_mtu: MtuCode,
    /// An `ib_time_t`.
    pub subnet_timeout: u8,
    /// The port's clients are asked to register anew.
    pub client_reregister: bool,
}

/// How a subnet manager is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmConfig {
    /// GUID of the switch it runs on, which is also that of its port.
    pub guid: Guid,
    /// The partitions. Without one for the default partition there is [`Partition::default_closed`].
    pub partitions: Vec<Partition>,
    /// The administrator beside it.
    pub sa: SaConfig,
    /// The largest packet the switch carries.
    pub switch_mtu: MtuCode,
    /// Each port of a channel adapter has 2^`lmc` LIDs, 0 to 7.
    pub lmc: u8,
    /// From a change of membership until packets follow it.
    pub route_delay: Nanos,
    /// Clients of new ports, and all clients after a restart, are asked to register anew.
    pub reregister: bool,
}

impl Default for SmConfig {
    fn default() -> Self {
        Self {
            guid: Guid(0x0002_c902_0000_0001),
            partitions: vec![Partition::default_open()],
            sa: SaConfig::default(),
            switch_mtu: MtuCode::B4096,
            lmc: 0,
            route_delay: Nanos::from_millis(1),
            reregister: true,
        }
    }
}

/// A subnet manager with its administrator.
#[derive(Debug)]
pub struct Sm {
    config: SmConfig,
    sa: Sa,
    /// LIDs once given, kept while the port is away and across restarts.
    lids: BTreeMap<Guid, Lid>,
    /// Where it looks for a free one first.
    first_lid: Lid,
    /// GUIDs of the last sweep's ports, and how many ports had each.
    present: BTreeMap<Guid, usize>,
    /// Multicast routes to be written, and when.
    routes_due: BTreeMap<Lid, Nanos>,
    running: bool,
}

impl Sm {
    /// A manager that does nothing until the first [`sweep`](Self::sweep).
    pub fn new(config: SmConfig) -> Self {
        let own = BTreeMap::from([(config.guid, FIRST_LID)]);
        let mut sm = Self {
            sa: Sa::new(config.sa.clone()),
            config,
            lids: own,
            first_lid: FIRST_LID,
            present: BTreeMap::new(),
            routes_due: BTreeMap::new(),
            running: true,
        };
        sm.start_administrator();
        sm
    }

    /// The administrator's state, for reports and tests.
    pub const fn sa(&self) -> &Sa {
        &self.sa
    }

    /// What the administrator is to do wrong.
    pub const fn faults(&mut self) -> &mut FaultScript {
        self.sa.faults()
    }

    /// The manager's LID.
    pub fn lid(&self) -> Lid {
        self.lids.get(&self.config.guid).copied().unwrap_or(Lid::NONE)
    }

    /// Each record that a group has had, whatever became of the group and of the manager.
    pub fn group_records(&mut self) -> Vec<McMemberRecord> {
        self.sa.ever().values().flatten().copied().collect()
    }

    /// Looks at the subnet and brings it into the configured state. Ports that are gone leave their groups, new ones are
    /// configured, and those in the right state already are left alone.
    pub fn sweep(&mut self, now: Nanos, subnet: &mut dyn Subnet) {
        if !self.running {
            return;
        }
        let mut ports = subnet.endports();
        ports.sort_by_key(Endport::guid);
        let mut present: BTreeMap<Guid, usize> = BTreeMap::new();
        ports.iter().for_each(|port| *present.entry(port.guid()).or_default() += 1);
        let is_known = |guid: &Guid| self.present.get(guid) == present.get(guid);
        let new: BTreeSet<Guid> = present.keys().filter(|guid| !is_known(guid)).copied().collect();
        // OpenSM has one port of a GUID, and drops it when one of two with the GUID is not found any more.
        let shared = |guid: &Guid| self.present.get(guid).is_some_and(|before| *before > 1);
        let stay: Vec<Endport> = ports
            .iter()
            .filter(|port| !(new.contains(&port.guid()) && shared(&port.guid())))
            .cloned()
            .collect();
        if stay.len() < ports.len() {
            self.sa.set_ports(now, stay.into_iter().chain([self.own_port()]).collect());
        }
        self.present = present;
        for port in &mut ports {
            self.bring_up(port, new.contains(&port.guid()), subnet);
        }
        ports.push(self.own_port());
        self.sa.set_ports(now, ports);
        self.schedule_routes(now);
    }

    /// Other partitions from now on: P_Key tables and permanent groups follow.
    pub fn set_partitions(&mut self, now: Nanos, subnet: &mut dyn Subnet, partitions: Vec<Partition>) {
        self.config.partitions = partitions;
        self.sa.configure(&self.partitions());
        self.sweep(now, subnet);
    }

    /// Stops answering, as a manager that died. The subnet goes on as it is.
    pub fn stop(&mut self) {
        self.running = false;
    }

    /// A new manager in the place of this one: it has forgotten every dynamic group, membership, subscription and service,
    /// sweeps, and asks clients to register anew. Multicast routes stay until a membership changes. Multicast LIDs are given
    /// out from `first_mlid` on, as many as before or as there are, so that a group need not come back at its old one.
    pub fn restart(&mut self, now: Nanos, subnet: &mut dyn Subnet, first_mlid: Lid) {
        let (first, last) = self.config.sa.mlids.clone().into_inner();
        let last = first_mlid.0.saturating_add(last.0.saturating_sub(first.0));
        let mlids = first_mlid..=Lid(last).min(Lid::LAST_MULTICAST);
        let faults = std::mem::take(self.sa.faults());
        let (ever, lied) = (std::mem::take(self.sa.ever()), self.sa.has_lied());
        self.sa = Sa::new(SaConfig { mlids, ..self.config.sa.clone() });
        *self.sa.faults() = faults;
        *self.sa.ever() = ever;
        self.sa.set_lied(lied);
        self.routes_due.clear();
        self.present.clear();
        self.running = true;
        self.start_administrator();
        self.sweep(now, subnet);
    }

    /// The manager that comes next does not know which LIDs the ports have had, and gives them others, from `first` on. It keeps its own.
    pub fn forget_lids(&mut self, first: Lid) {
        let own = self.config.guid;
        self.lids.retain(|guid, _| *guid == own);
        self.first_lid = first;
    }

    /// As [`restart`](Self::restart), but the new manager is at `lid`; ports that have that LID get another one.
    pub fn fail_over(&mut self, now: Nanos, subnet: &mut dyn Subnet, lid: Lid, first_mlid: Lid) {
        let mask = !self.lid_bits();
        self.lids.retain(|_, taken| taken.0 & mask != lid.0 & mask);
        self.lids.insert(self.config.guid, lid);
        self.restart(now, subnet, first_mlid);
    }

    /// As [`restart`](Self::restart), but the new manager gives the subnet another prefix.
    pub fn renumber(&mut self, now: Nanos, subnet: &mut dyn Subnet, prefix: u64) {
        self.config.sa.prefix = prefix;
        self.restart(now, subnet, *self.config.sa.mlids.start());
    }

    /// Ends a group, whoever is in it, and reports that. False if there is no such group.
    pub fn delete_group(&mut self, now: Nanos, mgid: Gid) -> bool {
        let deleted = self.running && self.sa.delete_group(now, mgid);
        self.schedule_routes(now);
        deleted
    }

    /// Another subnet is behind a router from now on, or none.
    pub fn set_beyond(&mut self, beyond: Option<Beyond>) {
        self.sa.set_beyond(beyond);
    }

    /// The router's port hears the groups that are `heard_there`, sends to the groups that are heard here, and is in no other group; in none while it
    /// leads nowhere. Whether that has changed anything.
    pub fn set_routed(&mut self, now: Nanos, router: Guid, heard_there: Option<&[McMemberRecord]>) -> bool {
        let changed = self.running && self.sa.set_routed(now, router, heard_there);
        self.schedule_routes(now);
        changed
    }

    /// Does it answer?
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// The configuration as it is now.
    pub const fn config(&self) -> &SmConfig {
        &self.config
    }

    /// Takes a MAD for QP 1 of the manager's port.
    pub fn receive(&mut self, now: Nanos, from: Address, mad: &Mad) {
        if self.running {
            self.sa.receive(now, from, mad);
            self.schedule_routes(now);
        }
    }

    /// The next MAD to send, from the manager's LID and QP 1; call until `None`.
    pub fn poll_send(&mut self, now: Nanos) -> Option<Outgoing> {
        if self.running { self.sa.poll_send(now) } else { None }
    }

    /// When [`handle_timeout`](Self::handle_timeout) or [`poll_send`](Self::poll_send) have something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if !self.running {
            return None;
        }
        self.routes_due.values().min().copied().into_iter().chain(self.sa.poll_timeout()).min()
    }

    /// Does what is due. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Nanos, subnet: &mut dyn Subnet) {
        if !self.running {
            return;
        }
        self.sa.handle_timeout(now);
        let due: Vec<Lid> =
            self.routes_due.iter().filter(|(_, due)| **due <= now).map(|(mlid, _)| *mlid).collect();
        for mlid in due {
            self.routes_due.remove(&mlid);
            let members = self.sa.members_at(mlid);
            // A group with fewer than two member ports has no entry in OpenSM's tables.
            let ports = if members.len() < 2 { &[][..] } else { &members[..] };
            subnet.set_multicast_route(mlid, ports);
        }
    }

    fn start_administrator(&mut self) {
        self.sa.set_issuer(self.lid(), Gid::of_port(self.config.sa.prefix, self.config.guid));
        self.sa.configure(&self.partitions());
        self.sa.take_reroutes();
    }

    fn schedule_routes(&mut self, now: Nanos) {
        let due = now.after(self.config.route_delay);
        for mlid in self.sa.take_reroutes() {
            self.routes_due.entry(mlid).or_insert(due);
        }
    }

    /// The configured partitions and, if it is not among them, the default one.
    fn partitions(&self) -> Vec<Partition> {
        let mut all = self.config.partitions.clone();
        if !all.iter().any(|partition| partition.p_key.base() == PKey::DEFAULT_LIMITED.0) {
            all.push(Partition::default_closed());
        }
        all
    }

    /// Gives a port its LID, its P_Keys and the ACTIVE state, and notes in `port` what it has now.
    fn bring_up(&mut self, port: &mut Endport, is_new: bool, subnet: &mut dyn Subnet) {
        let guid = port.guid();
        let table = self.p_key_table(port);
        if table != port.p_keys {
            subnet.set_p_keys(guid, &table);
            port.p_keys = table;
        }
        let lid = self.lid_for(guid);
        let reregister = is_new
            && self.config.reregister
            && port.info.capability_mask & port_capability::CLIENT_REREGISTRATION != 0;
        let settings = PortSettings {
            lid,
            lmc: self.config.lmc & 7,
            gid_prefix: self.config.sa.prefix,
            sm_lid: self.lid(),
            sm_sl: Sl::default(),
            state: PortState::Active,
            neighbor_mtu: port.info.mtu_cap.min(self.config.switch_mtu),
            subnet_timeout: self.config.sa.subnet_timeout,
            client_reregister: reregister,
        };
        if reregister || !settings.are_in(&port.info) {
            subnet.set_port(guid, &settings);
            settings.apply(&mut port.info);
        }
    }

    /// The bits of a LID that name one of those that a port has.
    const fn lid_bits(&self) -> u16 {
        (1 << (self.config.lmc & 7)) - 1
    }

    /// The port's LID: the one it had before, or the next that nobody has.
    fn lid_for(&mut self, guid: Guid) -> Lid {
        if let Some(lid) = self.lids.get(&guid) {
            return *lid;
        }
        let bits = self.lid_bits();
        let taken: BTreeSet<u16> = self.lids.values().map(|lid| lid.0 & !bits).collect();
        let mut all = self.first_lid.0..=Lid::LAST_UNICAST.0 - bits;
        let free = all.find(|lid| lid & bits == 0 && !taken.contains(lid));
        let lid = free.map_or(Lid::NONE, Lid);
        self.lids.insert(guid, lid);
        lid
    }

    /// The port's P_Key table: keys keep their places, those of partitions it is no longer in leave a free one, new ones take
    /// the first free ones. Index 0 is for the partition that claims it, or else for the default partition.
    fn p_key_table(&self, port: &Endport) -> Vec<PKey> {
        let mut wanted: BTreeMap<u16, PKey> = BTreeMap::new();
        let mut first = PKey::DEFAULT_LIMITED.base();
        for partition in self.partitions() {
            if let Some(membership) = self.membership(&partition, port) {
                let (full, limited) = (partition.p_key.full(), partition.p_key.limited());
                let key = match membership {
                    Membership::Full | Membership::Both => full,
                    Membership::Limited => limited,
                };
                wanted.insert(key.base(), key);
                if membership == Membership::Both {
                    wanted.insert(second(key), limited);
                }
                if partition.index0 {
                    first = key.base();
                }
            }
        }
        lay_out(&port.p_keys, wanted, first)
    }

    fn membership(&self, partition: &Partition, port: &Endport) -> Option<Membership> {
        let applies = |ports: &Ports| match ports {
            Ports::All => true,
            Ports::AllChannelAdapters => port.node.node_type == NodeType::ChannelAdapter,
            Ports::AllSwitches => port.node.node_type == NodeType::Switch,
            Ports::Own => port.guid() == self.config.guid,
            Ports::One(guid) => port.guid() == *guid,
        };
        partition.members.iter().rev().find(|(ports, _)| applies(ports)).map(|(_, membership)| *membership)
    }

    /// The manager's own port: port 0 of the switch.
    fn own_port(&self) -> Endport {
        let mut description = [0; 64];
        let text = b"embedded subnet manager";
        description[..text.len()].copy_from_slice(text);
        let node = NodeRecord {
            lid: self.lid(),
            node_type: NodeType::Switch,
            num_ports: u8::try_from(self.present.len()).unwrap_or(u8::MAX),
            system_image_guid: self.config.guid,
            node_guid: self.config.guid,
            port_guid: self.config.guid,
            partition_cap: OWN_P_KEYS as u16,
            device_id: 0,
            revision: 0,
            local_port_num: 0,
            vendor_id: 0,
            description,
        };
        let info = PortInfo {
            gid_prefix: self.config.sa.prefix,
            lid: self.lid(),
            master_sm_lid: self.lid(),
            capability_mask: port_capability::IS_SM,
            link_width_active: LinkWidth::X12.to_wire(),
            link_speed_active: 4,
            port_state: PortState::Active.to_wire(),
            port_physical_state: 5,
            neighbor_mtu: self.config.switch_mtu,
            mtu_cap: self.config.switch_mtu,
            subnet_timeout: self.config.sa.subnet_timeout,
            ..PortInfo::default()
        };
        let mut port = Endport { node, info, p_keys: vec![PKey::default(); OWN_P_KEYS] };
        port.p_keys = self.p_key_table(&port);
        port
    }
}

/// The manager's own; ports follow.
const FIRST_LID: Lid = Lid(1);

/// Entries of the manager's own P_Key table.
const OWN_P_KEYS: usize = 64;

impl PortSettings {
    fn are_in(&self, info: &PortInfo) -> bool {
        let mut set = *info;
        self.apply(&mut set);
        set == *info
    }

    /// Puts the settings into `info`; the request to register anew is an event and not a state.
    pub fn apply(&self, info: &mut PortInfo) {
        info.lid = self.lid;
        info.m_key_protect_lmc = (info.m_key_protect_lmc & !7) | (self.lmc & 7);
        info.gid_prefix = self.gid_prefix;
        info.master_sm_lid = self.sm_lid;
        info.master_sm_sl = self.sm_sl;
        info.port_state = self.state.to_wire();
        info.neighbor_mtu = self.neighbor_mtu;
        info.subnet_timeout = self.subnet_timeout;
    }
}

/// Where the limited P_Key of a port is noted that has the full one of the same partition, too.
const fn second(key: PKey) -> u16 {
    key.full().0
}

/// Lays `wanted` keys out over a table as it is; keys nobody wants go, and what finds no place is left out.
fn lay_out(table: &[PKey], mut wanted: BTreeMap<u16, PKey>, first: u16) -> Vec<PKey> {
    let mut laid_out = vec![PKey::default(); table.len()];
    if let (Some(key), Some(entry)) = (wanted.remove(&first), laid_out.first_mut()) {
        *entry = key;
    }
    // A port of both memberships has two keys of one partition, and each has its place.
    for (entry, old) in laid_out.iter_mut().zip(table).skip(1) {
        let same = [old.base(), second(*old)].into_iter().find(|name| wanted.get(name) == Some(old));
        *entry = same.and_then(|name| wanted.remove(&name)).unwrap_or_default();
    }
    for (entry, old) in laid_out.iter_mut().zip(table).skip(1).filter(|(entry, _)| !entry.is_valid()) {
        let other_membership = wanted.remove(&old.base()).or_else(|| wanted.remove(&second(*old)));
        *entry = other_membership.unwrap_or_default();
    }
    let mut rest = wanted.into_values();
    for entry in laid_out.iter_mut().skip(1).filter(|entry| !entry.is_valid()) {
        *entry = rest.next().unwrap_or_default();
    }
    laid_out
}
