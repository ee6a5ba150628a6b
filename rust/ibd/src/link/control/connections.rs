//! What connections need of the other machines.

use ibtf::{ChannelId, Reply};
use ipoib::connections::{AnswerTime, Connection, LidCheck};
use ipoib::{Gid, Instant, LinkAddr};
use kernel::list::Room;

use super::Control;
use crate::link::incoming::{Asker, IncomingConnection};
use crate::link::long_answers::LongAnswers;
use crate::link::neighbour::Neighbour;

impl Control {
    /// A neighbour asks for a connection.
    pub(in crate::link) fn connection_requested(
        &mut self,
        room: Room<IncomingConnection>,
        asker: Asker,
        now: Instant,
    ) -> Reply {
        let Self { link, paths, incoming, .. } = self;
        let (Some(incoming), Some(port)) = (incoming, link.port()) else { return Reply::Refused };
        // A port has several LIDs with one base, and all ports of a subnet as many.
        let lmc = port.lmc & 7;
        let base = |lid: u16| lid >> lmc << lmc;
        let is_at = |neighbour: &Neighbour, lid| base(neighbour.address().dlid) == lid;
        let check =
            |identity: &LinkAddr, lid| match (paths.way_to_address(identity), paths.way_to(identity.gid())) {
                (Some(neighbour), _) if is_at(neighbour, lid) => LidCheck::Known,
                (_, Some(neighbour)) if is_at(neighbour, lid) => LidCheck::Matches,
                (_, Some(_)) => LidCheck::Differs,
                (_, None) => LidCheck::Unknown,
            };
        let lid = base(asker.lid);
        incoming.requested(room, Asker { lid, ..asker }, check, now)
    }

    /// How long a packet lives on the way to a port, as a code, if the SA has said so.
    pub(in crate::link) fn lifetime_to(&self, gid: Gid) -> Option<u8> {
        self.paths.way_to(gid).and_then(Neighbour::lifetime)
    }

    /// The communication manager tells that a connection stands: this one, if the link has opened it.
    pub(in crate::link) fn connection_established(
        &mut self,
        channel: ChannelId,
        now: Instant,
    ) -> Option<Connection> {
        let opened = self.incoming.as_mut()?.established(channel, now);
        // The port may have another LID than when it began, and so may the neighbour.
        self.compare_routes(now);
        let peer = opened.as_ref().map(|connection| connection.peer);
        let way = peer.and_then(|peer| Some((peer, *self.paths.way_to_address(&peer)?.address())));
        if let Some((peer, by)) = way {
            self.tell_outgoing(|outgoing| outgoing.path_is(&peer, &by, now));
        }
        opened
    }

    /// How long the answers on a connection that stands may take, as a code. Whether it is ended for that: nothing says it before. `ibcm` will
    /// wait so long for the neighbour, unless the neighbour answers.
    pub(in crate::link) fn answers_take(
        &mut self,
        channel: ChannelId,
        answer: Option<u8>,
        now: Instant,
    ) -> bool {
        let of = self.incoming.as_mut().and_then(|incoming| incoming.peer(channel));
        let Some((peer, opened)) = of else { return false };
        // What the way there takes is in it, too, and rounded up.
        let answer = answer.map(|code| if opened { code.saturating_sub(1) } else { code });
        let time = AnswerTime::new(answer, self.lifetime_to(peer.gid()));
        let Some(long) = LongAnswers::new(time, now).transpose() else { return false };
        let ends = long.is_err();
        self.tell_incoming(|incoming| incoming.is_long(channel, long, now));
        ends
    }

    pub(super) fn compare_routes(&mut self, now: Instant) {
        if let Some(port) = self.link.port().filter(|port| port.active && port.lid != 0) {
            let (lid, index) = (port.lid, port.pkey_index);
            self.tell_outgoing(|outgoing| {
                outgoing.lid_is(lid, now);
                outgoing.pkey_is_at(index, now);
            });
        }
    }
}
