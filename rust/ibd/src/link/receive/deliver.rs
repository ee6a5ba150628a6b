//! Takes everything that has come in to mac: on an interrupt, on the thread that goes on behind it, or for the MAC layer that fetches.

use gldv3::Mac;
use kernel::mblk::MblkChain;

use super::{End, Receiver};
use crate::link::backlog::Backlog;
use crate::link::delivery::{By, Delivering, Delivery, Sides};

/// Completions of datagrams, or of connections, that are taken before the others have their turn.
const TURN: usize = 64;

/// Takes what there is, up to a budget; a thread goes on from there. In a soft interrupt.
pub(crate) fn interrupted(delivery: &Delivery) {
    take_all(delivery, false);
}

/// Takes what there is. On the backlog's thread.
pub(crate) fn go_on(delivery: &Delivery) {
    take_all(delivery, true);
}

/// With `everything`, or as much as the administrator lets an interrupt take.
fn take_all(delivery: &Delivery, everything: bool) {
    let Some(mut inside) = delivery.enter(By::Interrupt) else { return };
    let mut budget = if everything { usize::MAX } else { inside.sides().at_once() };
    loop {
        let finished = take_turns(&mut inside, &mut budget);
        let left = match inside.leave(finished && budget != 0) {
            Ok(left) => left,
            Err(stays) => {
                inside = stays;
                continue;
            }
        };
        if !finished {
            left.sides.count_left();
        }
        if !finished || left.again {
            left.sides.leave_rest();
        }
        return;
    }
}

/// Datagrams and messages of connections by turns, so that neither keeps the others waiting however many come. `false` if the budget is spent
/// before there is nothing of either. Whichever of them comes while this lasts has its turns, too, and IP is told what it is to be told.
fn take_turns(inside: &mut Delivering<'_>, budget: &mut usize) -> bool {
    loop {
        if let Some(answers) = inside.look_again()
            && let Some(mac) = inside.sides().mac()
        {
            inside.deliver(mac, answers);
        }
        let inside = &*inside;
        let Sides { receiver, connected } = inside.sides();
        let datagrams = |most: &mut usize| receiver.as_ref().is_none_or(|side| side.take_all(inside, most));
        let messages = |most: &mut usize| connected.as_ref().is_none_or(|side| side.take_all(inside, most));
        // Both, whatever the first says: while its turn lasted others may have come.
        if take_turn(budget, datagrams) & take_turn(budget, messages) {
            return true;
        }
        if *budget == 0 {
            return false;
        }
    }
}

/// Whether there was no more than one turn takes.
fn take_turn(budget: &mut usize, take: impl FnOnce(&mut usize) -> bool) -> bool {
    let turn = TURN.min(*budget);
    if turn == 0 {
        return false;
    }
    let mut left = turn;
    let finished = take(&mut left);
    *budget -= turn - left;
    finished
}

/// Takes packets for the MAC layer, no more than `bytes` of them. **Any** context.
pub(crate) fn fetch(delivery: &Delivery, bytes: usize) -> MblkChain {
    let Some(inside) = delivery.enter(By::Poll) else { return MblkChain::new() };
    let mut room = bytes;
    let Sides { receiver, connected } = inside.sides();
    let mut packets = inside.answers_within(&mut room);
    let messages = |room: &mut usize, packets: &mut MblkChain| {
        connected.iter().for_each(|connected| connected.take_within(&inside, room, packets));
    };
    let datagrams = |room: &mut usize, packets: &mut MblkChain| {
        receiver.iter().for_each(|receiver| receiver.take_within(&inside, room, packets));
    };
    if connected.is_some() && inside.connections_first() {
        // Each second time they have all the room: a message can be longer than half of it.
        messages(&mut room, &mut packets);
    } else if connected.is_some() {
        let mut half = room / 2;
        room -= half;
        datagrams(&mut half, &mut packets);
        room += half;
        messages(&mut room, &mut packets);
    }
    datagrams(&mut room, &mut packets);
    // With `false` it does not stay.
    if let Ok(left) = inside.leave(false)
        && left.again
    {
        left.sides.leave_rest();
    }
    packets
}

/// Both sides have the same counters and the same thread.
impl Sides {
    /// Completions that one interrupt takes.
    fn at_once(&self) -> usize {
        let receiver = self.receiver.as_ref().map(|receiver| receiver.config.at_once);
        receiver.or(self.connected.as_ref().map(|connected| connected.at_once())).unwrap_or_default()
    }

    /// Where packets go.
    fn mac(&self) -> Option<&Mac> {
        let receiver = self.receiver.as_ref().map(|receiver| &receiver.mac);
        receiver.or(self.connected.as_ref().map(|connected| connected.mac()))
    }

    /// An interrupt has taken its share, and there is more.
    fn count_left(&self) {
        let receiver = self.receiver.as_ref().map(|receiver| &receiver.counters);
        let counters = receiver.or(self.connected.as_ref().map(|connected| connected.counters()));
        if let Some(counters) = counters {
            counters.rx.left.increment();
        }
    }

    /// Leaves the rest to the thread.
    fn leave_rest(&self) {
        let receiver = self.receiver.as_ref().map(|receiver| &receiver.backlog);
        if let Some(backlog) = receiver.or(self.connected.as_ref().map(|connected| connected.backlog())) {
            Backlog::leave(backlog);
        }
    }
}

impl Receiver {
    /// Takes everything there is, until the CQ is armed with nothing in it. `false` if the budget of completions, which it lessens, is
    /// spent before: the CQ may not be armed then.
    fn take_all(&self, inside: &Delivering<'_>, budget: &mut usize) -> bool {
        while inside.may_go_on() {
            let Some(pass) = self.pass(&mut { usize::MAX }, End::Armed) else { return true };
            inside.deliver(&self.mac, pass.packets);
            if pass.broken {
                self.broken(pass.failed);
                return true;
            }
            *budget = budget.saturating_sub(pass.taken);
            if pass.drained {
                return true;
            }
            if *budget == 0 {
                return false;
            }
        }
        true
    }

    /// Takes packets for the MAC layer, until there are none or the next one is longer than the room, which it lessens.
    fn take_within(&self, inside: &Delivering<'_>, room: &mut usize, packets: &mut MblkChain) {
        while inside.may_go_on() {
            let Some(pass) = self.pass(room, End::Quiet) else { return };
            self.counters.rx.fetched.add(pass.packets.len() as u64);
            packets.append(pass.packets);
            if pass.broken {
                return self.broken(pass.failed);
            }
            if pass.taken == 0 {
                return;
            }
        }
    }
}
