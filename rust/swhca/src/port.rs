//! The ports of an adapter.

use ibtf_provider::{Gid, PortReport};

use crate::rate;
use crate::sa::{PKEYS, PortView, SUBNET_TIMEOUT};
use crate::trouble::{Loss, Trouble};

/// The LID of the subnet manager until it moves: above those of all ports.
pub(crate) const MANAGER_LID: u16 = 0x400;
/// LIDs that an adapter has, one for each port it can have.
pub(crate) const MAX_PORTS: u8 = 8;
/// Adapters that there can be.
pub(crate) const MAX_ADAPTERS: u32 = 64;
/// Codes of lanes' speeds.
pub(crate) const SPEEDS: [u8; 5] = [1, 2, 4, 16, 32];
/// Entries of a GID table.
pub(crate) const GIDS: u16 = 8;
/// The largest MTU of a port: 4096 bytes.
const MTU: u8 = 5;
/// The prefix of a subnet that has none.
const DEFAULT_PREFIX: u64 = 0xfe80 << 48;

/// A port.
#[derive(Clone, Copy)]
pub(crate) struct Port {
    pub(crate) gid: Gid,
    pub(crate) lid: u16,
    pub(crate) active: bool,
    pub(crate) manager: u16,
    pub(crate) pkeys: [u16; PKEYS],
    pub(crate) speed: u8,
    pub(crate) told_rate: Option<u8>,
    /// What of its packets is lost.
    pub(crate) loss: Loss,
    /// The SA does not hear it.
    pub(crate) unheard: bool,
    /// What the SA does wrong with its requests.
    pub(crate) trouble: Trouble,
    /// Milliseconds that the SA takes longer for it.
    pub(crate) sa_delay: u32,
    /// An event has been raised, and nobody has asked since.
    pub(crate) unread: bool,
    pub(crate) pkey_violations: u64,
    pub(crate) qkey_violations: u64,
}

/// What a datagram that leaves needs to know of its port.
#[derive(Clone, Copy)]
pub(crate) struct Departure {
    pub(crate) gid: Gid,
    pub(crate) lid: u16,
    pub(crate) active: bool,
    pub(crate) manager: u16,
    /// Some of what it sends is lost.
    pub(crate) loses: bool,
    pub(crate) unheard: bool,
    pub(crate) sa_delay: u32,
    /// Of the sender; 0 is none.
    pub(crate) pkey: u16,
}

/// Bytes of the largest payload.
pub(crate) fn mtu_bytes() -> u32 {
    rate::mtu_bytes(MTU)
}

impl Port {
    /// Port `number` of adapter `unit`, active.
    pub(crate) fn new(unit: u32, number: u8, pkeys: &[u16], speed: u8) -> Self {
        let mut table = [0; PKEYS];
        for (to, from) in table.iter_mut().zip(pkeys) {
            *to = *from;
        }
        let lid = 1 + unit as u16 * u16::from(MAX_PORTS) + u16::from(number - 1);
        Self {
            gid: Gid { prefix: DEFAULT_PREFIX, guid: node_guid(unit) + u64::from(number) },
            lid,
            active: true,
            manager: MANAGER_LID,
            pkeys: table,
            speed,
            told_rate: None,
            loss: Loss::new(node_guid(unit) + u64::from(number)),
            unheard: false,
            trouble: Trouble::NONE,
            sa_delay: 0,
            unread: false,
            pkey_violations: 0,
            qkey_violations: 0,
        }
    }

    /// For a queue pair with that entry of the P_Key table.
    pub(crate) fn departure(&self, pkey_index: u16) -> Departure {
        Departure {
            gid: self.gid,
            lid: self.lid,
            active: self.active,
            manager: self.manager,
            loses: self.loss.is_any(),
            unheard: self.unheard,
            sa_delay: self.sa_delay,
            pkey: self.pkeys.get(usize::from(pkey_index)).copied().unwrap_or(0),
        }
    }

    pub(crate) fn view(&self, unit: u32, number: u8, ports: u8) -> PortView {
        PortView {
            gid: self.gid,
            lid: self.lid,
            manager: self.manager,
            node_guid: node_guid(unit),
            number,
            ports,
            active: self.active,
            pkeys: self.pkeys,
            mtu: MTU,
            speed: self.speed,
            told_rate: self.told_rate,
        }
    }

    pub(crate) fn report(&self, number: u8, report: &mut PortReport<'_>) {
        use ibtf_provider::{LinkState, Speed};
        let state = if self.active { LinkState::Active } else { LinkState::Down };
        report.set_link(number, state, self.lid, Speed(self.speed));
        report.set_mtu(MTU);
        report.set_manager(self.manager, 0, SUBNET_TIMEOUT);
        report.set_violations(self.pkey_violations, self.qkey_violations);
        report.set_pkeys(&self.pkeys);
        report.set_gid(self.gid);
    }
}

/// The GUID of an adapter: of a locally administered OUI; its ports have the next ones.
pub(crate) fn node_guid(unit: u32) -> u64 {
    0x0253_5700_0000_0000 | u64::from(unit) << 8
}
