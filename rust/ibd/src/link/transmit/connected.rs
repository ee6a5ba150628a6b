//! What a link with `linkmode=cm` does with a packet: it goes on the neighbour's connection, as a datagram, in pieces, or not at all, and then IP
//! hears how much would go.

use core::time::Duration;

use ipoib::connections::{self, Channel, fragments};
use ipoib::header::{IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::paths::{Cause, Handle};
use ipoib::{Cast, EtherType, Instant, LinkAddr};
use kernel::mblk::Mblk;

use super::frame::{Frame, Wire};
use super::send::note_use;
use super::{AfterUnlock, Neighbour, NotSent, State, Transmitter, note};
use crate::counters::TxDrop;
use crate::link::outgoing::{ConnectedSender, Sent, Waited};
use crate::now;

/// Octets of the IPoIB header.
const HEADER: u32 = IPOIB_HEADER_LEN as u32;

/// A connection as a queue remembers it.
#[derive(Clone)]
pub(super) struct Remembered {
    sender: ConnectedSender,
    /// Octets of the longest message that the neighbour takes.
    longest: u32,
    /// How datagrams reach it.
    neighbour: Neighbour,
    /// When that is looked for again, if it does not hold any more.
    look_at: Instant,
}

/// How long the way to a neighbour is not looked for again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Packets that have waited and are sent without a pause: more than wait for one neighbour.
const WAITED_AT_ONCE: usize = 32;

/// Why a packet did not go in one piece.
enum Unsent {
    NotSent(NotSent),
    /// The neighbour takes so many octets, with the IPoIB header.
    TooLong(Mblk, u32),
}

impl From<NotSent> for Unsent {
    fn from(stopped: NotSent) -> Self {
        Self::NotSent(stopped)
    }
}

/// What became of the pieces of a packet.
struct Pieces {
    sent: usize,
    left: usize,
}

/// A piece of an IPv4 packet.
pub(super) struct Piece<'a> {
    packet: &'a Mblk,
    fragment: fragments::Fragment,
    /// Octets in front of the packet's payload.
    payload_at: usize,
}

impl Piece<'_> {
    /// Writes IPoIB header, IPv4 header and payload; how many octets.
    pub(super) fn fill(&self, room: &mut [u8]) -> u32 {
        let (header, fragment) = (self.fragment.header(), &self.fragment);
        let at = IPOIB_HEADER_LEN + header.len();
        let len = at + fragment.len;
        if let Some(room) = room.get_mut(..len) {
            let (front, payload) = room.split_at_mut(at);
            front[..IPOIB_HEADER_LEN].fill(0);
            front[..2].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
            front[IPOIB_HEADER_LEN..].copy_from_slice(header);
            self.packet.copy_to(self.payload_at + fragment.from, payload);
        }
        len as u32
    }
}

/// Whether the neighbour with this address takes connections, for this packet: who has an address is always asked by datagrams.
fn takes_connections(to: &LinkAddr, frame: &Frame) -> bool {
    to.has_connections() && frame.cast == Cast::Unicast && frame.ethertype != EtherType::ARP
}

/// The neighbour's address, if it takes connections.
pub(super) fn connected_address(flagged: &LinkAddr, frame: &Frame) -> Option<LinkAddr> {
    takes_connections(flagged, frame).then(|| flagged.without_flags())
}

impl State {
    /// Octets of the longest datagram of the link, with the IPoIB header; the way to a neighbour may be narrower.
    fn longest_datagram(&self) -> u32 {
        self.side.get().map_or(0, |open| open.buffer_size)
    }

    /// The same on the way to a neighbour.
    fn longest_datagram_to(&self, neighbour: &Neighbour) -> u32 {
        self.longest_datagram().min(neighbour.longest())
    }
}

impl Transmitter {
    /// A packet from the MAC layer, whose way may be known. `flagged` is the address with its flags.
    #[inline(never)]
    pub(super) fn send_connected(
        &self,
        state: &mut State,
        (flagged, to, cause): (LinkAddr, LinkAddr, Cause),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        let connects = takes_connections(&flagged, frame);
        let sender = if connects { self.known_sender(state, &to, frame, after) } else { None };
        let is_full = sender.is_some();
        let packet = match sender {
            Some(sender) => {
                let datagram = state.longest_datagram();
                match self.send_unless_full(state, (&sender, datagram), packet, frame, after)? {
                    Some(packet) => packet,
                    None => return Ok(()),
                }
            }
            None => packet,
        };
        let known = state.neighbours.get(to.words()).filter(|known| known.validity().holds()).cloned();
        let (packet, neighbour) = match known {
            Some(neighbour) => (packet, neighbour),
            None => {
                // Those before it wait for room, and completions are to come.
                if state.behind {
                    return Err(NotSent::Full(packet));
                }
                if let Some(reason) = state.denial(&to, &self.denial_epoch) {
                    return Err(NotSent::Dropped(packet, reason));
                }
                let found = self.ask_for_path(state, (to, cause), packet, after)?;
                if flagged.has_connections() {
                    // The straight way for datagrams is not for its packets, whatever this one is.
                    state.neighbours.remove(&to);
                }
                found
            }
        };
        note_use(&neighbour, cause);
        if is_full && frame.len > state.longest_datagram_to(&neighbour) as usize {
            return Err(NotSent::Dropped(packet, TxDrop::QueueFull));
        }
        self.send_as_datagram(state, ((connects && !is_full).then_some(to), &neighbour), packet, frame, after)
    }

    /// The way is known; `to` is the neighbour's address if it takes connections.
    pub(super) fn send_as_datagram(
        &self,
        state: &mut State,
        (to, neighbour): (Option<LinkAddr>, &Neighbour),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        match self.send_unless_too_long(state, (to, neighbour), packet, frame, after) {
            Ok(()) => Ok(()),
            Err(Unsent::NotSent(stopped)) => Err(stopped),
            // From here: IP above has taken much of the stack, and pieces need theirs.
            Err(Unsent::TooLong(packet, most)) => self.too_long(state, neighbour, packet, frame, most, after),
        }
    }

    #[inline(never)]
    fn send_unless_too_long(
        &self,
        state: &mut State,
        (to, neighbour): (Option<LinkAddr>, &Neighbour),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), Unsent> {
        let packet = match to {
            Some(to) => match self.ask_for_connection(state, (&to, neighbour), packet, frame, after)? {
                Some(packet) => packet,
                None => return Ok(()),
            },
            None => packet,
        };
        let most = state.longest_datagram_to(neighbour);
        if frame.len > most as usize {
            return Err(Unsent::TooLong(packet, most));
        }
        let State { side, staged, .. } = state;
        let Some(open) = side.get_mut() else {
            return Err(NotSent::Dropped(packet, TxDrop::LinkDown).into());
        };
        Ok(self.stage_any(open, staged, neighbour, packet, frame, after)?)
    }

    /// The connection that this queue remembers, if it carries the packet. The way to the neighbour is in use then, too: it is asked about in time,
    /// and known when the connection ends.
    fn known_sender(
        &self,
        state: &mut State,
        to: &LinkAddr,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Option<ConnectedSender> {
        let known = state.connections.as_mut()?.get(to.words())?;
        if !known.sender.validity().holds() {
            state.connections.as_mut()?.remove(to);
            return None;
        }
        let sender = (frame.len <= known.longest as usize).then(|| known.sender.clone());
        if known.neighbour.validity().holds() {
            known.neighbour.validity().note_use();
        } else {
            let time = now();
            if time >= known.look_at {
                let known = known.clone();
                self.look_for_way(state, to, known, time, after);
            }
        }
        sender
    }

    /// The way to a neighbour with a connection is another one, or is not known any more: the connection needs none, but what comes when it ends does.
    #[inline(never)]
    fn look_for_way(
        &self,
        state: &mut State,
        to: &LinkAddr,
        known: Remembered,
        time: Instant,
        after: &mut AfterUnlock,
    ) {
        let way = self.control.lock().paths.ask(time, *to);
        let neighbour = match way {
            ipoib::paths::Known::Ready(neighbour, _) => neighbour,
            _ => {
                after.rare().wake_control = true;
                known.neighbour.clone()
            }
        };
        if let Some(connections) = &mut state.connections {
            connections.insert(*to, Remembered { neighbour, look_at: time + LOOK_EVERY, ..known });
        }
    }

    /// What the machine says; the packet comes back if it is to go as a datagram.
    fn ask_for_connection(
        &self,
        state: &mut State,
        (to, neighbour): (&LinkAddr, &Neighbour),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<Option<Mblk>, Unsent> {
        let datagram = state.longest_datagram_to(neighbour);
        let mut control = self.control.lock();
        let Some(outgoing) = control.incoming.as_mut().and_then(|incoming| incoming.outgoing.as_mut()) else {
            return Ok(Some(packet));
        };
        let submitted = outgoing.submit(to, packet, (frame.len as u32, datagram), now());
        let wants = outgoing.wants_thread();
        drop(control);
        if wants {
            after.rare().wake_control = true;
        }
        match submitted {
            connections::Submitted::Datagram(packet) => Ok(Some(packet)),
            connections::Submitted::Connected(packet, sender, longest) => {
                if let Some(connections) = &mut state.connections {
                    let (sender, neighbour) = (sender.clone(), neighbour.clone());
                    connections
                        .insert(*to, Remembered { sender, longest, neighbour, look_at: Instant::ZERO });
                }
                Ok(self.send_unless_full(state, (&sender, datagram), packet, frame, after)?)
            }
            connections::Submitted::Waits => {
                self.connection_counters.waited.increment();
                after.rare().wake_control = true;
                Err(NotSent::Waits.into())
            }
            connections::Submitted::TooBig(packet, most) => Err(Unsent::TooLong(packet, most.0)),
            connections::Submitted::Full(packet) if frame.len <= datagram as usize => Ok(Some(packet)),
            connections::Submitted::Full(packet) => Err(NotSent::Dropped(packet, TxDrop::QueueFull).into()),
        }
    }

    /// On a connection. One that is full does not keep back what fits a datagram of so many octets: that comes back.
    fn send_unless_full(
        &self,
        state: &mut State,
        (sender, datagram): (&ConnectedSender, u32),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<Option<Mblk>, NotSent> {
        match self.send_on_connection(state, sender, packet, frame, after) {
            Err(NotSent::Dropped(packet, TxDrop::QueueFull)) if frame.len <= datagram as usize => {
                Ok(Some(packet))
            }
            sent => sent.map(|()| None),
        }
    }

    /// On a connection.
    fn send_on_connection(
        &self,
        state: &mut State,
        sender: &ConnectedSender,
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        let len = frame.len as u32;
        match sender.send(packet, frame.ethertype, len, &mut after.free) {
            sent @ (Sent::Taken(_) | Sent::Waits) => {
                note(&mut state.staged, Wire::one(Cast::Unicast, len));
                self.connection_counters.sent.increment();
                if let Sent::Taken(packet) = sent {
                    after.free.push_back(packet);
                }
                Ok(())
            }
            Sent::Full(packet) => Err(NotSent::Dropped(packet, TxDrop::QueueFull)),
            Sent::Closed(packet) => Err(NotSent::Dropped(packet, TxDrop::LinkReset)),
            Sent::Refused(packet) => Err(NotSent::Dropped(packet, TxDrop::Refused)),
            Sent::Broken(packet) => {
                let lost = sender.connection();
                self.control.lock().tell_outgoing(|outgoing| outgoing.lost(lost, now()));
                after.rare().wake_control = true;
                Err(NotSent::Dropped(packet, TxDrop::PostFailed))
            }
        }
    }

    /// A packet that is longer than the neighbour takes, `most` octets with the IPoIB header, goes in pieces if it may. Otherwise IP is told.
    #[inline(never)]
    fn too_long(
        &self,
        state: &mut State,
        neighbour: &Neighbour,
        packet: Mblk,
        frame: &Frame,
        most: u32,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        if frame.cast != Cast::Unicast {
            return Err(NotSent::Dropped(packet, TxDrop::TooLong));
        }
        let datagram = state.longest_datagram_to(neighbour);
        if frame.ethertype == EtherType::IPV4
            && let Some(pieces) = self.send_in_pieces(state, neighbour, &packet, frame, datagram, after)
        {
            if pieces.sent == 0 {
                return Err(NotSent::Dropped(packet, TxDrop::QueueFull));
            }
            // Each piece is a packet from here on.
            self.counters.dropped_many(TxDrop::QueueFull, pieces.left);
            self.connection_counters.fragmented.increment();
            after.free.push_back(packet);
            return Ok(());
        }
        let Some(to) = Frame::read(&packet).and_then(|(to, _)| to.canonical()) else {
            return Err(NotSent::Dropped(packet, TxDrop::TooLong));
        };
        let mtu = most.saturating_sub(HEADER);
        let mut left = Some(packet);
        self.control.lock().tell_outgoing(|outgoing| {
            left = left.take().and_then(|packet| outgoing.report_too_big(&to, packet, mtu, now()).err());
        });
        self.counters.dropped(TxDrop::TooLong);
        after.rare().wake_control = true;
        after.free.extend(left);
        Ok(())
    }

    /// As datagrams of so many octets, with the IPoIB header; how many there was room for. `None` if it may not be cut.
    #[inline(never)]
    fn send_in_pieces(
        &self,
        state: &mut State,
        neighbour: &Neighbour,
        packet: &Mblk,
        frame: &Frame,
        most: u32,
        after: &mut AfterUnlock,
    ) -> Option<Pieces> {
        let mut header = [0; fragments::LONGEST_HEADER];
        let len = packet.copy_to(PSEUDO_HEADER_LEN, &mut header);
        let header = header.get(..len)?;
        let header_len = usize::from(header.first()? & 0xf) * 4;
        let payload_at = PSEUDO_HEADER_LEN + header_len;
        // A header may say more than there is: what a piece had beyond it would be what another packet left in the buffer.
        let total = usize::from(u16::from_be_bytes([*header.get(2)?, *header.get(3)?]));
        if total <= header_len || total + IPOIB_HEADER_LEN > frame.len {
            return None;
        }
        let mut pieces = Pieces { sent: 0, left: 0 };
        for fragment in fragments::fragments(header, most.saturating_sub(HEADER))? {
            // A packet of which a piece is missing is of no use to anybody.
            if pieces.left != 0 {
                pieces.left += 1;
                continue;
            }
            let full = state.side.get().is_some_and(|open| open.queue.batch_is_full());
            if full {
                self.post(state, after);
            }
            if state.side.get().is_some_and(|open| open.queue.room() == 0) {
                self.reclaim(state, after);
            }
            let State { side, staged, .. } = state;
            let Some(open) = side.get_mut() else { return Some(pieces) };
            let piece = Piece { packet, fragment, payload_at };
            let len = (IPOIB_HEADER_LEN + fragment.header().len() + fragment.len) as u32;
            if open.stage_piece(neighbour.handle(), &piece, Cast::Unicast) {
                pieces.sent += 1;
                note(staged, Wire::one(Cast::Unicast, len));
            } else {
                pieces.left += 1;
            }
        }
        Some(pieces)
    }

    /// What becomes of the packets that waited for connections. With this queue's lock for several at a time: what comes by it
    /// meanwhile does not wait as well. On the control thread.
    #[inline(never)]
    pub(crate) fn send_waited(&self) {
        let mut after = AfterUnlock::default();
        let mut state = self.state.lock();
        for _ in 0..WAITED_AT_ONCE {
            let waited = self.control.lock().next_waited();
            let Some(waited) = waited else { break };
            let sent = self.send_one_waited(&mut state, waited, &mut after);
            self.drop_if_unsent(sent, &mut after);
        }
        self.post(&mut state, &mut after);
        drop(state);
        self.finish(after);
    }

    fn send_one_waited(
        &self,
        state: &mut State,
        waited: Waited,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        let (packet, sender, most) = match waited {
            Waited::Send(packet, sender) => (packet, Some(sender), None),
            Waited::Tell(_, packet, most) => (packet, None, Some(most.0)),
            Waited::Drop(_, packet) => return Err(NotSent::Dropped(packet, TxDrop::LinkReset)),
            Waited::Open(..) | Waited::Close(..) => return Ok(()),
        };
        let Some((flagged, frame)) = Frame::read(&packet) else {
            return Err(NotSent::Dropped(packet, TxDrop::Malformed));
        };
        if state.side.get().is_none() {
            return Err(NotSent::Dropped(packet, TxDrop::LinkReset));
        }
        self.make_room(state, &frame, after);
        let packet = match sender {
            Some(sender) => {
                let datagram = state.longest_datagram();
                match self.send_unless_full(state, (&sender, datagram), packet, &frame, after)? {
                    Some(packet) => packet,
                    None => return Ok(()),
                }
            }
            None => packet,
        };
        self.send_otherwise(state, &flagged.without_flags(), (packet, &frame), most, after)
    }

    /// No connection came of it, or one that takes less, `most`, or has no room (`None`). What fits a datagram, and waited behind longer ones, goes as
    /// one.
    fn send_otherwise(
        &self,
        state: &mut State,
        to: &LinkAddr,
        (packet, frame): (Mblk, &Frame),
        most: Option<u32>,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        let known = self.control.lock().paths.known(now(), to);
        let ipoib::paths::Known::Ready(neighbour, _) = known else {
            return Err(NotSent::Dropped(packet, TxDrop::LookupFailed));
        };
        let datagram = state.longest_datagram_to(&neighbour);
        match most {
            _ if frame.len <= datagram as usize => {
                self.send_as_datagram(state, (None, &neighbour), packet, frame, after)
            }
            Some(most) => self.too_long(state, &neighbour, packet, frame, most.max(datagram), after),
            None => Err(NotSent::Dropped(packet, TxDrop::QueueFull)),
        }
    }
}
