//! Packets that waited for their path: sent, or freed, once the table of paths has decided. On the control thread.

use ipoib::paths::Action;
use kernel::mblk::Mblk;

use super::frame::Frame;
use super::send::NotSent;
use super::{AfterUnlock, State, Transmitter, connected};
use crate::counters::TxDrop;
use crate::link::neighbour::Neighbour;

impl Transmitter {
    /// Sends this queue's packets whose path was found, and frees those without one, as long as there is room. On the control
    /// thread.
    pub(super) fn send_resolved(&self) {
        let mut after = AfterUnlock::default();
        let mut state = self.state.lock();
        loop {
            if state.side.get().is_some_and(|open| open.queue.room() == 0) {
                self.reclaim(&mut state, &mut after);
            }
            let mut control = self.control.lock();
            if state.side.is_suspended() || state.side.get().is_some_and(|open| open.queue.room() == 0) {
                state.behind = true;
                control.wait_for_room(self.tx_queue(), true);
                break;
            }
            let action = control.paths.next_packet(self.tx_queue());
            drop(control);
            match action {
                // Not to be remembered: the next packet asks, and comes behind those that still wait.
                Some(Action::Send(_, packet, to)) => self.send_one(&mut state, packet, to, &mut after),
                Some(Action::Drop(_, packet, reason)) => self.drop_packet(packet, reason.into(), &mut after),
                None => break,
            }
        }
        self.post(&mut state, &mut after);
        drop(state);
        self.finish(after);
    }

    fn send_one(&self, state: &mut State, packet: Mblk, to: Neighbour, after: &mut AfterUnlock) {
        let Some((flagged, frame)) = Frame::read(&packet) else {
            return self.drop_packet(packet, TxDrop::Malformed, after);
        };
        if state.is_connected() {
            self.make_room(state, &frame, after);
            let connected = connected::connected_address(&flagged, &frame);
            let sent = self.send_as_datagram(state, (connected, &to), packet, &frame, after);
            if let (Some(connected), Some(connections)) = (connected, &mut state.connections) {
                // No more than the way: those that still wait are not to be overtaken.
                connections.remove(&connected);
            }
            return self.drop_if_unsent(sent, after);
        }
        let refused = state.side.get().map_or(Some(TxDrop::LinkReset), |open| open.refuses(&frame));
        if let Some(reason) = refused {
            return self.drop_packet(packet, reason, after);
        }
        self.make_room(state, &frame, after);
        let State { side, staged, .. } = state;
        let Some(open) = side.get_mut() else {
            return self.drop_packet(packet, TxDrop::LinkReset, after);
        };
        let sent = self.stage_any(open, staged, &to, packet, &frame, after);
        self.drop_if_unsent(sent, after);
    }

    /// Frees a packet that did not go, and that nobody can be given back.
    pub(super) fn drop_if_unsent(&self, sent: Result<(), NotSent>, after: &mut AfterUnlock) {
        match sent {
            Ok(()) | Err(NotSent::Waits) => {}
            Err(NotSent::Dropped(packet, reason)) => self.drop_packet(packet, reason, after),
            Err(NotSent::Full(packet)) => self.drop_packet(packet, TxDrop::QueueFull, after),
        }
    }
}
