//! The subnet manager inside `swhca`, as the owner of a fabric handles one: by ioctl, and asked as any client asks it.

use std::sync::Arc;

use fakekernel::Errno;
use lab_ibtf::saa::{GroupMembers, SubnetError, SubnetManager};
use sm::{Gid, Guid, Inbound, Mad, Partition, Refused, SaTransport, SmAddress};
use swhca_ioctl::command;

use super::Software;

/// See the module's documentation.
pub(crate) struct Manager(pub(crate) Arc<Software>);

impl Manager {
    fn do_to_port(&self, port: Guid, command: i32) -> bool {
        let Some(number) = self.0.number_of(port) else { return false };
        self.0.ioctl(command, [number.into(), 0, 0, 0]).is_ok()
    }

    fn silence(&self, silent: bool) -> Result<(), Errno> {
        (1..=self.0.ports).try_for_each(|port| {
            self.0.ioctl(command::SILENCE_SA, [port.into(), silent.into(), 0, 0]).map(drop)
        })
    }

    /// The groups that a port is a member of.
    fn groups_of(&self, port: Guid) -> Result<Vec<GroupMembers>, SubnetError> {
        lab_ibtf::groups_of(&self.0.kernel, port).map_err(SubnetError)
    }
}

impl SaTransport for Manager {
    fn attach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        lab_ibtf::wire(&self.0.kernel).attach(port, inbound);
    }

    fn detach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        lab_ibtf::wire(&self.0.kernel).detach(port, inbound);
    }

    fn send(&self, port: Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        lab_ibtf::wire(&self.0.kernel).send(port, to, mad)
    }
}

impl SubnetManager for Manager {
    fn name(&self) -> &'static str {
        "swhca"
    }

    fn set_cable(&self, port: Guid, plugged: bool) -> bool {
        self.do_to_port(port, if plugged { command::PORT_UP } else { command::PORT_DOWN })
    }

    fn set_port_enabled(&self, port: Guid, enabled: bool) -> bool {
        self.set_cable(port, enabled)
    }

    fn links_changed(&self) {}

    fn set_partitions(&self, _partitions: Vec<Partition>) -> Result<(), SubnetError> {
        Err(SubnetError("swhca's partitions are those of swhca.conf".into()))
    }

    fn stop(&self) {
        // It has no way to fail for a port that there is.
        let _ = self.silence(true);
    }

    fn restart(&self) -> Result<(), SubnetError> {
        let done = self.silence(false).and_then(|()| self.0.ioctl(command::RESTART_MANAGER, [0; 4]));
        done.map(drop).map_err(|errno| SubnetError(format!("swhca's subnet manager: {errno}")))
    }

    fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, SubnetError> {
        Ok(self.groups_of(port)?.iter().any(|group| group.mgid == mgid))
    }

    fn groups(&self) -> Result<Vec<GroupMembers>, SubnetError> {
        let mut groups: Vec<GroupMembers> = Vec::new();
        for number in 1..=self.0.ports {
            for group in self.groups_of(self.0.port(number))? {
                match groups.iter_mut().find(|known| known.mgid == group.mgid) {
                    Some(known) => known.members.extend(group.members),
                    None => groups.push(group),
                }
            }
        }
        Ok(groups)
    }

    fn health(&self) -> Result<(), SubnetError> {
        Ok(())
    }
}
