//! Packets whose path was found, until whoever sends them has room.
//!
//! Such a packet holds no handle: it is sent with the one that its address has when it leaves. An address that loses its handle
//! takes its packets back, and they wait for the next one.

use core::ops::{Deref, DerefMut};

use super::packets::{Leaving, Verdict};
use super::{Action, DenialEpoch, DropReason, Handle, PacketSlot, PathSlot, Paths, State, TxQueue, TxQueues};
use crate::addr::LinkAddr;
use crate::table::Id;

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// The transmit queues for which [`Paths::next_packet`] has one.
    pub fn packets_out(&self) -> TxQueues {
        self.packets.out()
    }

    /// A packet that waited, to be sent or freed; whoever takes it may hold the transmit queue. In the order in which the packets of a
    /// transmit queue were submitted for one address. The handle is the one known now; a transmit queue must not remember it, as packets that are
    /// still to come from here would be overtaken: it asks with the next packet ([`Paths::submit`]).
    pub fn next_packet(&mut self, tx_queue: TxQueue) -> Option<Action<P, H>> {
        let Leaving { to, packet, verdict } = self.packets.next_out(tx_queue)?;
        let handle = match verdict {
            Verdict::Drop(reason) => return Some(Action::Drop(to, packet, reason)),
            Verdict::Send => self.one_has_left(&to),
        };
        Some(match handle {
            Some(handle) => {
                self.counts.waited += 1;
                Action::Send(to, packet, handle)
            }
            // An address that loses its handle takes its packets back.
            None => Action::Drop(to, packet, DropReason::LinkReset),
        })
    }

    /// The handle to send it with.
    fn one_has_left(&mut self, to: &LinkAddr) -> Option<H> {
        let id = self.table.find(to)?;
        let path = self.table.get_mut(id)?;
        path.leaving = path.leaving.saturating_sub(1);
        let handle = match &path.state {
            State::Ready(handle) => Some(handle.clone()),
            State::Unresolved | State::Failed { .. } => None,
        };
        self.settle(id);
        handle
    }

    /// All packets that wait for this address go, by the handle it has from now on.
    pub(super) fn send_packets(&mut self, id: Id) {
        if let Some(path) = self.table.get_mut(id) {
            path.leaving += path.packets.len();
            self.packets.decide(&mut path.packets, Verdict::Send);
        }
    }

    pub(super) fn drop_packets(&mut self, id: Id, reason: DropReason) {
        if let Some(path) = self.table.get_mut(id) {
            self.packets.decide(&mut path.packets, Verdict::Drop(reason));
        }
    }

    /// An address is about to lose its handle.
    pub(super) fn take_back_for(&mut self, id: Id) {
        let leaves = self.table.get(id).is_some_and(|path| path.leaving != 0);
        if let Some(to) = self.table.key(id).filter(|_| leaves) {
            self.take_back(|other| *other == to);
        }
    }

    /// Packets to these addresses that were to be sent now wait again. Takes time in proportion to all that are.
    pub(super) fn take_back(&mut self, whose: impl Fn(&LinkAddr) -> bool) {
        for tx_queue in TxQueues::all() {
            let mut out = self.packets.take_out(tx_queue);
            while let Some((packet, to, verdict)) = self.packets.take_on(&mut out) {
                let waits = verdict == Verdict::Send && whose(&to);
                let id = if waits { self.table.find(&to) } else { None };
                match id.and_then(|id| self.table.get_mut(id)) {
                    Some(path) => {
                        path.leaving = path.leaving.saturating_sub(1);
                        self.packets.wait_again(&mut path.packets, packet);
                    }
                    None => self.packets.leave(tx_queue, packet),
                }
            }
        }
    }
}
