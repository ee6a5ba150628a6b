//! The way of a packet from the MAC layer to the adapter: at once to a neighbour that the queue remembers, and otherwise as the table of paths
//! decides.

use ipoib::header::PSEUDO_HEADER_LEN;
use ipoib::neighbours::{self, Direction};
use ipoib::paths::{Cause, Handle, Submitted};
use ipoib::{Cast, LinkAddr};
use kernel::mblk::{Mblk, MblkChain};

use super::frame::{Frame, Plain, Wire};
use super::stage::{LargePool, SendSide, Staged, Unstaged};
use super::{AfterUnlock, State, Transmitter};
use crate::counters::{PacketCounts, TxDrop};
use crate::link::neighbour::Neighbour;
use crate::now;

/// Why a packet did not go.
pub(super) enum NotSent {
    /// No room: the packet is to be given back.
    Full(Mblk),
    /// It waits for its path.
    Waits,
    /// Never: to be freed.
    Dropped(Mblk, TxDrop),
}

impl From<Unstaged> for NotSent {
    fn from(unstaged: Unstaged) -> Self {
        match unstaged {
            Unstaged::Full(packet) | Unstaged::NoPool(packet) => Self::Full(packet),
            Unstaged::Dropped(packet, reason) => Self::Dropped(packet, reason),
        }
    }
}

impl Transmitter {
    /// `mc_tx`, or `mri_tx` of its ring: what comes back is to be sent again when there is room.
    pub(crate) fn transmit(&self, mut packets: MblkChain) -> MblkChain {
        let mut after = AfterUnlock::default();
        let mut state = self.state.lock();
        while let Some(packet) = packets.pop_front() {
            let Some(packet) = self.send(&mut state, packet, &mut after) else { continue };
            packets.push_front(packet);
            self.counters.put_off.add(packets.len() as u64);
            break;
        }
        self.post_here(&mut state, &mut after);
        drop(state);
        self.finish(after);
        packets
    }

    /// Stages one packet, or frees it, or has it wait for its path; what comes back is to be given back. Straight ahead is what nearly
    /// all packets need: a known neighbour, a buffer at hand, room in the queue.
    #[inline(always)]
    fn send(&self, state: &mut State, packet: Mblk, after: &mut AfterUnlock) -> Option<Mblk> {
        let State { side, neighbours, staged, .. } = &mut *state;
        if let Some(open) = side.get_mut()
            && let Some(plain) = Plain::read(&packet)
            && let Some(neighbour) = neighbours.get(plain.to)
            && neighbour.validity().holds()
            && neighbour.carries(plain.message.len())
            && !plain.is_astray()
        {
            neighbour.validity().note_use();
            let wire = Wire::one(plain.to.cast(), plain.message.len() as u32);
            if open.stage_plain(neighbour.handle(), &plain, wire) {
                note(staged, wire);
                after.free.push_back(packet);
                return None;
            }
        }
        self.send_with_care(state, packet, after)
    }

    /// One that is not like most.
    #[inline(never)]
    fn send_with_care(&self, state: &mut State, packet: Mblk, after: &mut AfterUnlock) -> Option<Mblk> {
        let Some((to, frame)) = Frame::read(&packet) else {
            return self.not_sent(state, NotSent::Dropped(packet, TxDrop::Malformed), after);
        };
        match self.decide(state, to, packet, &frame, after) {
            Ok(()) => None,
            Err(not_sent) => self.not_sent(state, not_sent, after),
        }
    }

    /// What becomes of one that did not go: it comes back if it is to be given back.
    #[inline(never)]
    fn not_sent(&self, state: &mut State, not_sent: NotSent, after: &mut AfterUnlock) -> Option<Mblk> {
        match not_sent {
            NotSent::Waits => None,
            NotSent::Dropped(packet, reason) => {
                self.drop_packet(packet, reason, after);
                None
            }
            NotSent::Full(packet) => {
                // Under the lock the completion handler takes, with completions to come: no wake-up is lost.
                self.gave_back(state);
                Some(packet)
            }
        }
    }

    fn decide(
        &self,
        state: &mut State,
        to: LinkAddr,
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        let flagged = to;
        let Some(open) = state.side.get() else {
            // There soon will be something to send from, or there is none.
            let soon = state.side.is_suspended();
            return Err(if soon {
                NotSent::Full(packet)
            } else {
                NotSent::Dropped(packet, TxDrop::LinkDown)
            });
        };
        let Some(to) = to.canonical().filter(|_| !frame.is_astray(&packet)) else {
            return Err(NotSent::Dropped(packet, TxDrop::BadDestination));
        };
        if open.abilities.connected {
            let cause = self.cause(&packet, frame, to);
            self.make_room(state, frame, after);
            return self.send_connected(state, (flagged, to, cause), packet, frame, after);
        }
        if let Some(reason) = open.refuses(frame) {
            return Err(NotSent::Dropped(packet, reason));
        }
        let cause = self.cause(&packet, frame, to);
        self.make_room(state, frame, after);
        let State { side, neighbours, staged, .. } = state;
        let Some(open) = side.get_mut() else {
            return Err(NotSent::Dropped(packet, TxDrop::LinkDown));
        };
        if let Some(neighbour) = neighbours.get(to.words()) {
            if neighbour.validity().holds() {
                note_use(neighbour, cause);
                return self.stage_any(open, staged, neighbour, packet, frame, after);
            }
            neighbours.remove(&to);
        }
        self.send_to_unknown(state, (to, cause), packet, frame, after)
    }

    /// To an address that the queue does not remember.
    #[inline(never)]
    fn send_to_unknown(
        &self,
        state: &mut State,
        (to, cause): (LinkAddr, Cause),
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        // Those before it wait for room, and completions are to come.
        if state.behind {
            return Err(NotSent::Full(packet));
        }
        if let Some(reason) = state.denial(&to, &self.denial_epoch) {
            return Err(NotSent::Dropped(packet, reason));
        }
        let (packet, neighbour) = self.ask_for_path(state, (to, cause), packet, after)?;
        let State { side, staged, .. } = state;
        let Some(open) = side.get_mut() else {
            return Err(NotSent::Dropped(packet, TxDrop::LinkDown));
        };
        self.stage_any(open, staged, &neighbour, packet, frame, after)
    }

    /// Why a packet goes, as its frame says. ARP and neighbour discovery say who has which address, or ask for it. To one neighbour they may
    /// be the answer to a frame that any host has made up. A solicitation to a group may come before such an answer: IP asks who has the
    /// address.
    #[inline(never)]
    fn cause(&self, packet: &Mblk, frame: &Frame, to: LinkAddr) -> Cause {
        if !frame.may_be_resolution(packet) {
            return Cause::Own;
        }
        let mut prefix = [0; neighbours::PREFIX_LEN];
        let len = packet.copy_to(PSEUDO_HEADER_LEN, &mut prefix);
        let payload = prefix.get(..len).unwrap_or_default();
        let mut control = self.control.lock();
        let (now, asked) = (now(), neighbours::asked_for(frame.ethertype, payload));
        let mut known = false;
        if let Some(asked) = asked {
            let before = control.neighbours.get(now, &asked);
            known = before.is_some_and(|link| control.acquaintances.know(&link));
            control.acquaintances.ask(now, asked);
        }
        if frame.cast != Cast::Broadcast
            && let Some(neighbour) = neighbours::read(frame.ethertype, payload, Direction::Out(to))
        {
            control.neighbours.learn(now, neighbour);
        }
        match frame.cast {
            Cast::Unicast => Cause::Stranger,
            Cast::Multicast if !neighbours::solicits(frame.ethertype, payload) => Cause::Own,
            Cast::Multicast if known => Cause::Newcomer,
            Cast::Multicast => Cause::Stranger,
            Cast::Broadcast => Cause::Own,
        }
    }

    pub(super) fn ask_for_path(
        &self,
        state: &mut State,
        (to, cause): (LinkAddr, Cause),
        packet: Mblk,
        after: &mut AfterUnlock,
    ) -> Result<(Mblk, Neighbour), NotSent> {
        let mut control = self.control.lock();
        let (now, known) = (now(), control.acquaintances.know(&to));
        let submitted = control.paths.submit(now, to, cause.of(known), self.tx_queue(), packet);
        drop(control);
        match submitted {
            Submitted::Ready(packet, neighbour) => {
                state.neighbours.insert(to, neighbour.clone());
                Ok((packet, neighbour))
            }
            Submitted::Queued(gave_way) => {
                after.rare().wake_control = true;
                if let Some(packet) = gave_way {
                    self.drop_packet(packet, TxDrop::QueueFull, after);
                }
                Err(NotSent::Waits)
            }
            Submitted::Dropped(packet, reason) => Err(NotSent::Dropped(packet, reason.into())),
            Submitted::Denied(packet, denial) => {
                state.denied.insert(to, denial);
                Err(NotSent::Dropped(packet, denial.reason.into()))
            }
        }
    }

    /// Posts what is staged, and takes completions, if the next one would find no room without.
    pub(super) fn make_room(&self, state: &mut State, frame: &Frame, after: &mut AfterUnlock) {
        let Some(open) = state.side.get() else { return };
        let (full, short) = (open.queue.batch_is_full(), open.is_short(frame));
        if full || short {
            self.post(state, after);
        }
        if short {
            self.reclaim(state, after);
        }
    }

    #[inline(never)]
    pub(super) fn stage_any(
        &self,
        open: &mut SendSide,
        staged: &mut PacketCounts,
        to: &Neighbour,
        packet: Mblk,
        frame: &Frame,
        after: &mut AfterUnlock,
    ) -> Result<(), NotSent> {
        if !to.carries(frame.longest()) {
            return Err(NotSent::Dropped(packet, TxDrop::TooLong));
        }
        match open.stage(to.handle(), packet, frame) {
            Ok(Staged::Copied(packet)) => after.free.push_back(packet),
            Ok(Staged::Mapped) => self.counters.mapped.increment(),
            Err(Unstaged::NoPool(packet)) => {
                if matches!(open.large, LargePool::Absent) {
                    open.large = LargePool::Asked;
                    after.rare().want_large = true;
                }
                return Err(NotSent::Full(packet));
            }
            Err(unstaged) => return Err(unstaged.into()),
        }
        if frame.options.large.is_some() {
            self.counters.large.increment();
            self.counters.cut.add(frame.wire().packets.saturating_sub(1).into());
        }
        note(staged, frame.wire());
        Ok(())
    }
}

/// What a stranger makes IP answer keeps no address.
pub(super) fn note_use(neighbour: &Neighbour, cause: Cause) {
    if cause == Cause::Own {
        neighbour.validity().note_use();
    }
}

/// For the counters.
#[inline]
pub(super) fn note(staged: &mut PacketCounts, wire: Wire) {
    staged.add(wire.cast, wire.packets, wire.bytes);
}
