//! What OpenSM has decided, read from the adapters and the switch that ibsim plays.

use std::collections::{BTreeMap, BTreeSet};

use sm::records::{PortInfo, Record};
use sm::{Guid, Lid, PKey};

use crate::Topology;
use crate::client::Client;
use crate::config::SUBNET_TIMEOUT;
use crate::smp::{Route, SMP_DATA, SmpError, attribute};

/// A port as OpenSM has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSnapshot {
    /// Its PortInfo; the subnet timeout is OpenSM's and not the 31 that ibsim shows whatever was set.
    pub info: PortInfo,
    /// Its P_Key table, zeros included.
    pub p_keys: Vec<PKey>,
}

/// The subnet at one time. Read piece by piece, so a manager at work may be seen half done: look again after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The adapters' ports, those without a link included.
    pub ports: BTreeMap<Guid, PortSnapshot>,
    /// The switch's multicast table: which adapters' ports a multicast LID goes to. `None` if no adapter has a link to read it
    /// over.
    pub multicast: Option<BTreeMap<Lid, BTreeSet<Guid>>>,
}

/// P_Keys in a block of the table.
const P_KEYS_PER_BLOCK: usize = SMP_DATA / 2;
/// Entries of a P_Key table at ibsim (`PartitionCap`).
const P_KEYS: usize = 64;
/// Multicast LIDs in a block of the switch's table.
const MLIDS_PER_BLOCK: u16 = 32;
/// Multicast LIDs of ibsim's switch (`MulticastFDBCap`).
const MLIDS: u16 = 1024;
/// LIDs in a block of the switch's unicast table.
const LIDS_PER_BLOCK: u16 = SMP_DATA as u16;

impl Snapshot {
    pub(crate) fn read(clients: &[Client], topology: &Topology) -> Result<Self, SmpError> {
        let mut ports = BTreeMap::new();
        for client in clients {
            ports.insert(client.port, PortSnapshot::read(client)?);
        }
        let multicast = via_linked(clients, |client| multicast(client, topology))?;
        Ok(Self { ports, multicast })
    }
}

/// What the first adapter with a link to the switch finds; `None` if none has one.
pub(crate) fn via_linked<T>(
    clients: &[Client],
    mut read: impl FnMut(&Client) -> Result<T, SmpError>,
) -> Result<Option<T>, SmpError> {
    for client in clients {
        match read(client) {
            Err(SmpError::Undeliverable) => {}
            other => return other.map(Some),
        }
    }
    Ok(None)
}

impl PortSnapshot {
    pub(crate) fn read(client: &Client) -> Result<Self, SmpError> {
        let data = client.get(Route::Own, attribute::PORT_INFO, 1)?;
        let mut info = PortInfo::parse(&data).unwrap_or_default();
        info.subnet_timeout = SUBNET_TIMEOUT;
        let mut p_keys = Vec::with_capacity(P_KEYS);
        for block in 0..P_KEYS / P_KEYS_PER_BLOCK {
            let data = client.get(Route::Own, attribute::P_KEY_TABLE, block as u32)?;
            p_keys.extend(words(&data).map(PKey));
        }
        Ok(Self { info, p_keys })
    }
}

fn words(data: &[u8; SMP_DATA]) -> impl Iterator<Item = u16> + '_ {
    data.as_chunks::<2>().0.iter().map(|word| u16::from_be_bytes(*word))
}

fn multicast(client: &Client, topology: &Topology) -> Result<BTreeMap<Lid, BTreeSet<Guid>>, SmpError> {
    let mut routes = BTreeMap::new();
    for block in 0..MLIDS / MLIDS_PER_BLOCK {
        // Ports 0 to 15 of the switch, which has no more.
        let data = client.get(Route::Switch, attribute::MULTICAST_FORWARDING_TABLE, u32::from(block))?;
        let first = Lid::FIRST_MULTICAST.0 + block * MLIDS_PER_BLOCK;
        for (mlid, mask) in (first..).zip(words(&data)) {
            let ports = (0..16).filter(|port| mask >> port & 1 == 1);
            let members: BTreeSet<Guid> = ports.filter_map(|port| topology.behind(port)).collect();
            if !members.is_empty() {
                routes.insert(Lid(mlid), members);
            }
        }
    }
    Ok(routes)
}

/// The switch's unicast table, as far as it leads to adapters.
pub(crate) fn unicast(
    client: &Client,
    topology: &Topology,
    last: Lid,
) -> Result<BTreeMap<Lid, Guid>, SmpError> {
    let mut routes = BTreeMap::new();
    for block in 0..=last.0 / LIDS_PER_BLOCK {
        let data = client.get(Route::Switch, attribute::LINEAR_FORWARDING_TABLE, u32::from(block))?;
        for (lid, port) in (block * LIDS_PER_BLOCK..).zip(data) {
            if let Some(guid) = topology.behind(usize::from(port)) {
                routes.insert(Lid(lid), guid);
            }
        }
    }
    Ok(routes)
}
