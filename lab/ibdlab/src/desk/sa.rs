//! `ibdlab sa` in a lab: asked from a port of a host, by a program's MADs.

use lab_ibtf::InfiniBand;
use lab_ibtf::nexus;
use serde::{Deserialize, Serialize};
use umad::SaClient;

use super::host::DeskHost;
use super::server::Lab;
use crate::sa::{self, Answer, Known, Question};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Asked {
    /// The host that asks; the first one if not said.
    pub host: Option<String>,
    /// Its port.
    pub port: u8,
    pub json: bool,
    pub question: Question,
}

/// Asks. On a thread of the host.
///
/// # Errors
///
/// What is wrong with the question, or why there is no answer.
pub fn ask(lab: &Lab, host: &DeskHost, asked: &Asked) -> Result<Answer, String> {
    let port = nexus::ports(&host.kernel).into_iter().find(|node| node.port.0 == asked.port);
    let port = port.ok_or_else(|| format!("{} has no port {}", host.name, asked.port))?;
    let device = lab_ibtf::umad::open(&host.kernel, port.port_guid);
    let mut client = device.and_then(SaClient::new).map_err(|errno| format!("{}: {errno}", host.name))?;
    sa::ask(&mut client, &asked.question, &known(lab, &lab.infiniband))
}

/// Every port of the lab's hosts.
fn known(lab: &Lab, infiniband: &InfiniBand) -> Vec<Known> {
    let views = infiniband.fabric().subnet_ports();
    let of_host = |host: &DeskHost| {
        let port = |node: nexus::PortNode| {
            let view = views.iter().find(|view| view.attr.guid == node.port_guid)?;
            let gid = view.attr.gids.first()?;
            Some(Known { name: format!("{}/{}", host.name, node.port.0), gid: *gid, lid: view.attr.lid })
        };
        nexus::ports(&host.kernel).into_iter().filter_map(port).collect::<Vec<_>>()
    };
    lab.hosts.iter().flat_map(|host| of_host(host)).collect()
}
