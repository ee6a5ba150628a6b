//! `ibdlab fabric`: what the owner of a fabric does with it, cables and subnet manager, and who is in which group.

use clap::ValueEnum;
use lab_ibtf::InfiniBand;
use lab_ibtf::nexus;
use serde::{Deserialize, Serialize};

use super::server::Lab;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// List the multicast groups, as the subnet administrator has them.
    Groups,
    /// Pull the cable of a host's port.
    Unplug,
    /// Plug it in.
    Plug,
    /// End the subnet manager, and start one that knows nobody.
    RestartSm,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    pub action: Action,
    pub host: Option<String>,
    /// From 1.
    pub port: Option<u8>,
}

/// Carries an order out; what there is to say. On a thread of the machine.
///
/// # Errors
///
/// What is missing in the order, or cannot be done.
pub fn obey(lab: &Lab, infiniband: &InfiniBand, order: &Order) -> Result<String, String> {
    let manager = infiniband.subnet_manager().ok_or("there is no subnet manager")?;
    if let (Action::Groups | Action::RestartSm, Some(host)) = (order.action, &order.host) {
        return Err(format!("`{host}`: nothing more to say"));
    }
    match order.action {
        Action::Groups => {
            let groups = manager.groups().map_err(|error| error.to_string())?;
            let line = |group: lab_ibtf::saa::GroupMembers| {
                let members: Vec<String> = group.members.iter().map(|member| owner(lab, member.0)).collect();
                format!("{} {} {}\n", group.mlid, group.mgid, members.join(" ")).replace(" \n", "\n")
            };
            Ok(groups.into_iter().map(line).collect())
        }
        Action::Unplug | Action::Plug => {
            let port = port(lab, order)?;
            if infiniband.set_cable(port, order.action == Action::Plug) {
                Ok(String::new())
            } else {
                Err(format!("{} has no port {port} to plug", manager.name()))
            }
        }
        Action::RestartSm => {
            manager.stop();
            manager.restart().map(|()| String::new()).map_err(|error| error.to_string())
        }
    }
}

/// Host and number of a port, or its GUID.
fn owner(lab: &Lab, guid: u64) -> String {
    let found = lab.hosts.iter().find_map(|host| {
        let nodes = nexus::ports(&host.kernel);
        let node = nodes.iter().find(|node| node.port_guid.0 == guid)?;
        Some(format!("{}/{}", host.name, node.port.0))
    });
    found.unwrap_or_else(|| format!("{guid:016x}"))
}

fn port(lab: &Lab, order: &Order) -> Result<fabric::Guid, String> {
    let name = order.host.as_ref().ok_or("of which host? `fabric unplug HOST [PORT]`")?;
    let number = order.port.unwrap_or(1);
    let host = super::server::find_host(lab, name)?;
    let node = nexus::ports(&host.kernel).into_iter().find(|node| node.port.0 == number);
    node.map(|node| node.port_guid).ok_or_else(|| format!("{name} has no port {number}"))
}
