//! The managers of several subnets as one: each port has that of its own subnet.

use std::sync::Arc;

use fabric::{Fabric, Subnet};
use sm::partition::Partition;
use sm::{Gid, Guid, Inbound, Mad, Refused, SaTransport, SmAddress};

use super::{EmbeddedSm, GroupMembers, SubnetError, SubnetManager};

/// All managers of a fabric, the first subnet's first.
pub(crate) struct Subnets {
    pub fabric: Fabric,
    pub sms: Vec<Arc<EmbeddedSm>>,
}

impl Subnets {
    fn of(&self, subnet: Subnet) -> Option<&Arc<EmbeddedSm>> {
        self.sms.iter().find(|sm| sm.manages() == subnet)
    }
}

impl SaTransport for Subnets {
    /// Each manager delivers to ports of its subnet alone.
    fn attach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        self.sms.iter().for_each(|sm| sm.attach(port, inbound));
    }

    fn detach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        self.sms.iter().for_each(|sm| sm.detach(port, inbound));
    }

    fn capabilities_changed(&self, _port: Guid) {
        SubnetManager::links_changed(self);
    }

    fn send(&self, port: Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        let from = self.fabric.subnet_port(port).ok_or(Refused::NoPort(port))?;
        self.of(from.subnet).ok_or(Refused::NoPort(port))?.send(port, to, mad)
    }
}

impl SubnetManager for Subnets {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn set_cable(&self, port: Guid, plugged: bool) -> bool {
        let done = self.fabric.set_cable(port, plugged).is_ok();
        SubnetManager::links_changed(self);
        done
    }

    fn set_port_enabled(&self, port: Guid, enabled: bool) -> bool {
        let done = self.fabric.set_port_enabled(port, enabled).is_ok();
        SubnetManager::links_changed(self);
        done
    }

    fn links_changed(&self) {
        self.sms.iter().for_each(|sm| sm.links_changed());
    }

    fn set_partitions(&self, partitions: Vec<Partition>) -> Result<(), SubnetError> {
        self.sms.iter().for_each(|sm| sm.set_partitions(partitions.clone()));
        Ok(())
    }

    fn stop(&self) {
        self.sms.iter().for_each(|sm| sm.stop());
    }

    fn restart(&self) -> Result<(), SubnetError> {
        self.sms.iter().try_for_each(|sm| SubnetManager::restart(&**sm))
    }

    fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, SubnetError> {
        Ok(SubnetManager::groups(self)?
            .iter()
            .any(|group| group.mgid == mgid && group.members.contains(&port)))
    }

    /// A group that is in both is there twice.
    fn groups(&self) -> Result<Vec<GroupMembers>, SubnetError> {
        let groups = self.sms.iter().map(|sm| SubnetManager::groups(&**sm)).collect::<Result<Vec<_>, _>>()?;
        Ok(groups.concat())
    }

    fn health(&self) -> Result<(), SubnetError> {
        Ok(())
    }
}
