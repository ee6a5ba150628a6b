//! What IBTF tells a link on its own initiative: recorded, and left to the control thread.

use ibtf::{AsyncEvent, ClientHandler, ClientInfo, Gid, McgInfo, PortState, SubnetEvent};
use ipoib::Mgid;
use ipoib::{link, paths};
use kernel::{KArc, MayBlock, log};

use super::Shared;
use super::qp_failures::Failure;
use crate::node::gid;
use crate::now;

/// A link as IBTL knows it.
pub(super) static CLIENT: ClientInfo = ClientInfo::network(c"IBPART");

/// Where a link's events go.
pub(crate) struct Events(pub(crate) KArc<Shared>);

impl Events {
    fn is_ours(&self, hca: u64, port: u8) -> bool {
        self.0.node.hca.get() == hca && self.0.node.port == port
    }

    fn port_event(&self, hca: u64, port: u8, event: link::Event<McgInfo>) {
        if self.is_ours(hca, port) {
            self.0.tell(|control| control.link.handle_event(now(), event));
        }
    }
}

impl ClientHandler for Events {
    fn async_event(&self, event: AsyncEvent, may_block: &MayBlock) {
        match event {
            AsyncEvent::PortDown { hca_guid, port } => {
                self.port_event(hca_guid, port, link::Event::PortEvent);
            }
            // IBTL merges a quick down and up into the up, and while it was down the SM has forgotten the port.
            AsyncEvent::PortUp { hca_guid, port } => self.port_event(hca_guid, port, link::Event::Renew),
            AsyncEvent::PortChange { hca_guid, port, what } => {
                let sm = what.reregister() || what.subnet_manager();
                let event = if sm { link::Event::SmChanged } else { link::Event::PortEvent };
                self.port_event(hca_guid, port, event);
            }
            AsyncEvent::Reregister { hca_guid, port } => {
                self.port_event(hca_guid, port, link::Event::SmChanged);
            }
            AsyncEvent::HcaDetached { hca_guid } if hca_guid == self.0.node.hca.get() => self.0.hca_removed(),
            AsyncEvent::HcaAttached { hca_guid } if hca_guid == self.0.node.hca.get() => {
                self.0.hca_attached(may_block)
            }
            AsyncEvent::ChannelFailed(id) => {
                log!(note, self.0.name, "catastrophic channel error");
                self.0.tell(|control| control.failures.keep(Failure::Channel(id)));
            }
            AsyncEvent::CqFailed(id) => {
                log!(note, self.0.name, "completion queue error");
                self.0.tell(|control| control.failures.keep(Failure::Cq(id)));
            }
            _ => {}
        }
    }

    fn subnet_event(&self, port: Gid, event: SubnetEvent) {
        let name = &self.0.name;
        if !self.is_from_own_port(port) {
            return;
        }
        match event {
            SubnetEvent::GroupCreated(group) => self.group(group, true),
            SubnetEvent::GroupDeleted(group) => self.group(group, false),
            SubnetEvent::PortAvailable(peer) | SubnetEvent::PortUnavailable(peer) => {
                let event = paths::Event::GidChanged(gid(peer));
                self.0.tell(|control| control.paths.handle_event(now(), event));
            }
            SubnetEvent::NoticesAvailable => {
                log!(note, name, "IBA multicast support restored due to availability of multicast traps");
                // What happened meanwhile was not heard.
                self.0.tell(|control| control.link.handle_event(now(), link::Event::SmChanged));
            }
            // Whoever subscribes is told so of every port that has no traps, those that are down among them.
            SubnetEvent::NoticesUnavailable if !self.is_port_active() => {}
            SubnetEvent::NoticesUnavailable => {
                log!(note, name, "IBA multicast support degraded due to unavailability of multicast traps");
            }
            SubnetEvent::Other(_) => {}
        }
    }
}

impl Events {
    /// By the GUID alone: IBTF keeps telling the prefix that the port had when it was attached.
    fn is_from_own_port(&self, port: Gid) -> bool {
        port.guid == self.0.node.port_guid.get()
    }

    /// Asks the adapter, which is all that is waited for.
    fn is_port_active(&self) -> bool {
        let port = self.0.hardware().and_then(|(hca, _)| hca.port(self.0.node.port).ok());
        port.is_some_and(|port| port.state() == PortState::Active)
    }

    fn group(&self, group: Gid, exists: bool) {
        let Some(mgid) = Mgid::new(gid(group)) else {
            log!(
                note,
                self.0.name,
                "the subnet manager told of a group {:?}, which is not multicast: ignored",
                gid(group)
            );
            return;
        };
        self.0.tell(|control| match exists {
            true => control.group_appeared(now(), mgid),
            false => control.group_gone(now(), mgid),
        });
    }
}
