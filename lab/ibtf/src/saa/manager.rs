//! What every subnet manager of the lab can be told and asked, the embedded one and a real one.

use std::sync::Arc;

use sm::partition::Partition;
use sm::{Gid, Guid, Lid, SaTransport};

use super::{EmbeddedSm, Subnets};

/// A multicast group as the subnet administrator has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMembers {
    /// Its address.
    pub mgid: Gid,
    /// Its multicast LID.
    pub mlid: Lid,
    /// Ports in it, in whatever way.
    pub members: Vec<Guid>,
}

/// Why a subnet manager does not do what it is told, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SubnetError(pub String);

/// A fabric's subnet manager and administrator, as the owner of the fabric handles it. Its other side, towards the hosts, is
/// [`SaTransport`]. Calls come from threads of the machine and may wait.
pub trait SubnetManager: SaTransport {
    /// What a report calls it.
    fn name(&self) -> &'static str;

    /// Pulls or plugs a port's cable, and the manager learns of it as managers do. False if there is no such port.
    fn set_cable(&self, port: fabric::Guid, plugged: bool) -> bool;

    /// Switches a port off or on, likewise.
    fn set_port_enabled(&self, port: fabric::Guid, enabled: bool) -> bool;

    /// Ports came or went without the manager's being told.
    fn links_changed(&self);

    /// Other partitions from now on.
    ///
    /// # Errors
    /// What the manager cannot have.
    fn set_partitions(&self, partitions: Vec<Partition>) -> Result<(), SubnetError>;

    /// The manager dies. The subnet goes on as it is, and nobody answers.
    fn stop(&self);

    /// A new manager comes in the place of the one that is there or was. It remembers no client; groups may have other
    /// multicast LIDs than before.
    ///
    /// # Errors
    /// Why it does not come.
    fn restart(&self) -> Result<(), SubnetError>;

    /// Whether a port is a member of a group, asked of the administrator itself.
    ///
    /// # Errors
    /// Why it does not answer.
    fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, SubnetError>;

    /// All groups. May lag behind what was just joined or left: ask again before drawing a conclusion.
    ///
    /// # Errors
    /// Why it does not answer.
    fn groups(&self) -> Result<Vec<GroupMembers>, SubnetError>;

    /// Nothing if all is well, or what has happened to the manager that nobody asked for.
    ///
    /// # Errors
    /// It is gone.
    fn health(&self) -> Result<(), SubnetError>;
}

/// How far a new embedded manager's multicast LIDs are from the old one's.
const MLIDS_LATER: u16 = 16;

impl SubnetManager for EmbeddedSm {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn set_cable(&self, port: fabric::Guid, plugged: bool) -> bool {
        self.set_cable(port, plugged)
    }

    fn set_port_enabled(&self, port: fabric::Guid, enabled: bool) -> bool {
        self.set_port_enabled(port, enabled)
    }

    fn links_changed(&self) {
        self.links_changed();
    }

    fn set_partitions(&self, partitions: Vec<Partition>) -> Result<(), SubnetError> {
        self.set_partitions(partitions);
        Ok(())
    }

    fn stop(&self) {
        self.stop();
    }

    fn restart(&self) -> Result<(), SubnetError> {
        self.restart(Lid(Lid::FIRST_MULTICAST.0 + MLIDS_LATER));
        Ok(())
    }

    fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, SubnetError> {
        let groups = SubnetManager::groups(self)?;
        Ok(groups.iter().any(|group| group.mgid == mgid && group.members.contains(&port)))
    }

    fn groups(&self) -> Result<Vec<GroupMembers>, SubnetError> {
        Ok(self.inspect(|sm| {
            let groups = sm.sa().groups();
            groups
                .map(|(record, members)| GroupMembers { mgid: record.mgid, mlid: record.mlid, members })
                .collect()
        }))
    }

    fn health(&self) -> Result<(), SubnetError> {
        Ok(())
    }
}

/// The one that runs: everything goes through the trait, and faults only through the embedded one.
#[derive(Clone)]
pub(crate) enum Manager {
    Embedded(Arc<EmbeddedSm>),
    Subnets(Arc<Subnets>),
    Other(Arc<dyn SubnetManager>),
}

impl Manager {
    pub fn any(&self) -> Arc<dyn SubnetManager> {
        match self {
            Self::Embedded(sm) => sm.clone(),
            Self::Subnets(subnets) => subnets.clone(),
            Self::Other(sm) => sm.clone(),
        }
    }
}
