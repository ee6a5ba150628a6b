//! What connections need of the other machines.

use ibtf::{ChannelId, Reply, Session};
use ipoib::connections::{Connection, LidCheck};
use ipoib::{Instant, LinkAddr};
use kernel::list::Room;

use super::Control;
use crate::link::incoming::IncomingConnection;

impl Control {
    /// A neighbour asks for a connection, whose acknowledgements are to go to this LID.
    pub(in crate::link) fn connection_requested(
        &mut self,
        room: Room<IncomingConnection>,
        (peer, lid): (&LinkAddr, u16),
        session: Session,
        now: Instant,
    ) -> Reply {
        let Self { link, paths, incoming, .. } = self;
        let (Some(incoming), Some(port)) = (incoming, link.port()) else { return Reply::Refused };
        // A port has several LIDs with one base, and all ports of a subnet as many.
        let lmc = port.lmc & 7;
        let base = |lid: u16| lid >> lmc << lmc;
        let check = |gid, lid| match paths.way_to(gid) {
            None => LidCheck::Unknown,
            Some(neighbour) if base(neighbour.address().dlid) == lid => LidCheck::Matches,
            Some(_) => LidCheck::Differs,
        };
        incoming.requested(room, (peer, base(lid)), check, session, now)
    }

    /// The communication manager tells that a connection stands: this one, if the link has opened it.
    pub(in crate::link) fn connection_established(
        &mut self,
        channel: ChannelId,
        now: Instant,
    ) -> Option<Connection> {
        let opened = self.incoming.as_mut()?.established(channel, now);
        // The port may have another LID than when it began.
        self.compare_lids(now);
        opened
    }

    pub(super) fn compare_lids(&mut self, now: Instant) {
        if let Some(port) = self.link.port().filter(|port| port.active && port.lid != 0) {
            let lid = port.lid;
            self.tell_outgoing(|outgoing| outgoing.lid_is(lid, now));
        }
    }
}
