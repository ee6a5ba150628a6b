//! Access to subnet administration (`misc/ibmf`'s part of it): one session per port, requests with timeouts, retries and
//! redirection, reports to whoever listens.

mod embedded;
mod manager;
mod opensm;
mod router;
mod session;
mod shown;
mod subnet;
mod subnets;

pub use embedded::EmbeddedSm;
pub(crate) use manager::Manager;
pub use manager::{GroupMembers, SubnetError, SubnetManager};
pub use opensm::OpenSmManager;
pub(crate) use router::{Between, Side};
pub(crate) use session::{Listener, PortId, Request, SaError, Session, administrator, port_id};
pub(crate) use subnets::Subnets;

use std::sync::Arc;

use fabric::subnet::PortView;
use fakekernel::Kernel;
use sm::SaTransport;

use crate::ibcm::Ibcm;

/// Adds `misc/ibmf` to a host. Clients depend on it and import nothing of it.
pub(crate) fn provide(kernel: &Kernel) {
    kernel.provide("ibmf", "misc/ibmf", Vec::new());
}

/// How the ports of a host reach subnet administration from now on: the embedded one ([`EmbeddedSm`]) or another. Before
/// this they have no sessions, and calls that need one answer `IBT_HCA_PORT_NOT_ACTIVE`.
pub fn connect(kernel: &Kernel, transport: Arc<dyn SaTransport>) {
    Ibcm::of(kernel).connect(transport);
}

/// The port, if it has a link.
fn linked(port: Option<PortView>) -> Option<PortView> {
    port.filter(|port| port.attr.phys == fabric::PhysState::LinkUp)
}
