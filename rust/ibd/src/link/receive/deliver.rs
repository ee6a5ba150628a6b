//! Everything that has come in, on its way up: by an interrupt, by the thread that goes on behind it, or by the MAC layer that fetches.

use kernel::mblk::MblkChain;

use super::{End, Receiver};
use crate::link::backlog::Backlog;
use crate::link::delivery::{By, Delivering, Delivery};

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
    let mut budget = if everything { usize::MAX } else { inside.receiver().config.at_once };
    loop {
        let finished = inside.receiver().take_all(&inside, &mut budget)
            && inside.connected().is_none_or(|connected| connected.take_all(&inside, &mut budget));
        let left = match inside.leave(finished && budget != 0) {
            Ok(left) => left,
            Err(stays) => {
                inside = stays;
                continue;
            }
        };
        if !finished {
            left.receiver.counters.rx.left.increment();
        }
        if !finished || left.again {
            Backlog::leave(&left.receiver.backlog);
        }
        return;
    }
}

/// Takes packets for the MAC layer, no more than `bytes` of them. **Any** context.
pub(crate) fn fetch(delivery: &Delivery, bytes: usize) -> MblkChain {
    let Some(inside) = delivery.enter(By::Poll) else { return MblkChain::new() };
    let mut room = bytes;
    let mut packets = inside.receiver().take_within(&inside, &mut room);
    if let Some(connected) = inside.connected() {
        connected.take_within(&inside, room, &mut packets);
    }
    // With `false` it does not stay.
    if let Ok(left) = inside.leave(false)
        && left.again
    {
        Backlog::leave(&left.receiver.backlog);
    }
    packets
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
    fn take_within(&self, inside: &Delivering<'_>, room: &mut usize) -> MblkChain {
        let mut packets = MblkChain::new();
        while inside.may_go_on() {
            let Some(pass) = self.pass(room, End::Quiet) else { break };
            self.counters.rx.fetched.add(pass.packets.len() as u64);
            packets.append(pass.packets);
            if pass.broken {
                self.broken(pass.failed);
                break;
            }
            if pass.taken == 0 {
                break;
            }
        }
        packets
    }
}
