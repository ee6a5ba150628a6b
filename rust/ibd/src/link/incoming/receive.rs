//! Messages of connections, from the CQ that all of them share to the MAC layer.

use gldv3::Mac;
use ibtf::{Completion, CompletionBatch, CompletionStatus, Cq, CqId, Notify, Received, Status};
use ipoib::header::{self, GRH_LEN};
use ipoib::{Cast, EtherType, LinkAddr};
use kernel::mblk::{Mblk, MblkChain};
use kernel::sync::{Monitor, Mutex};
use kernel::{KArc, KBox};

use super::slabs::{Slab, Slabs};
use super::{ConnectionCounters, IncomingConnections};
use crate::counters::{Counters, PacketCounts, RxDrop};
use crate::link::backlog::Backlog;
use crate::link::build_context::BuildContext;
use crate::link::control::Control;
use crate::link::delivery::{Delivering, Delivery};
use crate::link::receive::{ReceiveConfig, lend, look_closer};

/// Completions taken, and packets handed up, at once.
const BUDGET: usize = 16;
/// Messages up to this length are copied: a buffer has room for the longest, and holds no second one.
const COPY_UP_TO: u32 = 16 << 10;

/// Takes messages while the link is up, whichever connection they come on.
pub(crate) struct ConnectedReceiver {
    state: Mutex<State>,
    mac: Mac,
    counters: KArc<Counters>,
    connection_counters: KArc<ConnectionCounters>,
    control: KArc<Monitor<Control>>,
    backlog: KArc<Monitor<Backlog>>,
    delivery: KArc<Delivery>,
    at_once: usize,
    /// Messages up to this length are copied.
    copy_up_to: u32,
}

struct State {
    open: Option<Open>,
    /// The same, once nothing is taken any more, until the last connection is freed.
    ended: Option<Open>,
    batch: CompletionBatch,
    /// What was taken so far.
    taken: Taken,
    need: Need,
}

/// Whether there are as many receives as are needed.
#[derive(Clone, Copy, Default)]
struct Need {
    /// Completions that were taken since the CQ was last empty, and the most that were so lately.
    run: u32,
    most: u32,
    /// More are wanted, and somebody is told.
    asked: bool,
}

/// How much was taken: so many completions, and so many times all there were.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    completions: u64,
    drains: u64,
    /// Receives that there were then.
    receives: u32,
}

impl Taken {
    /// Whether everything was taken that had completed when this much was: no more complete at once than there are receives.
    fn is_past(&self, then: &Self) -> bool {
        self.drains != then.drains
            || self.completions.wrapping_sub(then.completions) >= u64::from(then.receives)
    }
}

struct Open {
    slabs: Slabs,
    cq: Cq,
    own: LinkAddr,
}

/// One pass over completions.
struct Pass {
    cq: CqId,
    packets: MblkChain,
    counts: PacketCounts,
    copied: u64,
    taken: usize,
    /// The CQ is armed, and there was nothing in it then.
    drained: bool,
    broken: bool,
    /// More receives are wanted: see to it.
    short: bool,
}

impl ConnectedReceiver {
    #[inline(never)]
    pub(super) fn new(parts: &BuildContext<'_>, lends: bool) -> Result<KArc<Self>, Status> {
        let batch = CompletionBatch::new(BUDGET)?;
        let state = State { open: None, ended: None, batch, taken: Taken::default(), need: Need::default() };
        Ok(KArc::new(Self {
            state: Mutex::new(state)?,
            mac: parts.mac.clone(),
            counters: parts.counters.clone(),
            connection_counters: parts.connection_counters.clone(),
            control: parts.control.clone(),
            backlog: parts.backlog.clone(),
            delivery: parts.delivery.clone(),
            at_once: ReceiveConfig::new(parts.settings).at_once(),
            copy_up_to: if lends { COPY_UP_TO } else { u32::MAX },
        })?)
    }

    /// Completions that one interrupt takes, if there are no datagrams.
    pub(crate) fn at_once(&self) -> usize {
        self.at_once
    }

    pub(crate) fn mac(&self) -> &Mac {
        &self.mac
    }

    pub(crate) fn counters(&self) -> &KArc<Counters> {
        &self.counters
    }

    pub(crate) fn backlog(&self) -> &KArc<Monitor<Backlog>> {
        &self.backlog
    }

    /// Gives the adapter buffers, and has the receive path look here, for messages to the link of this address. After an error it is
    /// to be [closed](Self::close) all the same.
    pub(super) fn begin(this: &KArc<Self>, slabs: Slabs, cq: Cq, own: LinkAddr) -> Result<(), Status> {
        let mut state = this.state.lock();
        let open = state.open.insert(Open { slabs, cq, own });
        refill(&mut open.slabs, &this.connection_counters)?;
        open.cq.arm(Notify::Any)?;
        drop(state);
        if this.delivery.put_connected(this) {
            Backlog::leave(&this.backlog);
        }
        Ok(())
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        self.delivery.remove_connected(self);
        let mut state = self.state.lock();
        state.ended = state.open.take();
        let left = state.drain();
        drop(state);
        self.count_left(left);
    }

    /// What it took from, once it is [closed](Self::close) and the last connection is freed.
    pub(super) fn take_slabs(&self) -> Option<Slabs> {
        let mut state = self.state.lock();
        let left = state.drain();
        let ended = state.ended.take();
        drop(state);
        self.count_left(left);
        // The CQ goes here.
        ended.map(|Open { slabs, .. }| slabs)
    }

    /// What has come since nobody takes anything any more: its senders have been told that it has arrived.
    fn count_left(&self, left: usize) {
        self.counters.rx.dropped_many(RxDrop::LinkReset, left);
    }

    /// More receives, if there could be some; they come back if they are not wanted any more.
    pub(super) fn grow(&self, slab: Option<KBox<Slab>>) -> Option<KBox<Slab>> {
        let mut state = self.state.lock();
        let State { open, need, .. } = &mut *state;
        (need.asked, need.run) = (false, 0);
        // Freed without the lock.
        let Some(open) = open else { return slab };
        let slab = slab?;
        let left = open.slabs.add(slab).err();
        if left.is_none() {
            self.connection_counters.grown.increment();
            // What cannot be posted now is posted with the next completion.
            let _ = refill(&mut open.slabs, &self.connection_counters);
        }
        left
    }

    /// Looks whether there are more receives than were needed since this was last asked; some go, then, as they are used up. Those of which the
    /// adapter has none any more, to be freed, and whether to look again.
    pub(super) fn shrink(&self) -> (Option<KBox<Slab>>, bool) {
        let mut state = self.state.lock();
        let State { open: Some(open), need, .. } = &mut *state else { return (None, false) };
        let (capacity, most) = (open.slabs.capacity(), core::mem::take(&mut need.most));
        if most < capacity / 4 && open.slabs.posted() >= capacity / 4 * 3 {
            open.slabs.retire_last();
        }
        let empty = open.slabs.take_empty();
        if empty.is_some() {
            self.connection_counters.shrunk.increment();
        }
        (empty, open.slabs.has_grown())
    }

    /// The link has this address from now on.
    pub(crate) fn set_own(&self, own: LinkAddr) {
        if let Some(open) = &mut self.state.lock().open {
            open.own = own;
        }
    }

    /// As [`Receiver::call_again`](crate::link::receive::Receiver::call_again).
    pub(crate) fn call_again(&self) {
        let mut state = self.state.lock();
        let State { open: Some(open), batch, .. } = &mut *state else { return };
        let more = !matches!(open.arm(batch), Ok(0));
        drop(state);
        if more {
            // Also what cannot be armed: whoever takes it finds that out.
            Backlog::leave(&self.backlog);
        }
    }

    /// Whether everything was taken that the adapter had completed when this was first asked, with `None`; if not, what it is to be asked with
    /// next. What waits is taken soon; what is not taken any more is counted, before the queue pair of its connection is freed.
    pub(super) fn has_taken_all(&self, since: Option<Taken>) -> Result<(), Taken> {
        let mut state = self.state.lock();
        let State { open: Some(open), batch, taken, .. } = &mut *state else {
            let left = state.drain();
            drop(state);
            self.count_left(left);
            return Ok(());
        };
        if since.is_some_and(|since| taken.is_past(&since)) {
            return Ok(());
        }
        let since = since.unwrap_or(Taken { receives: open.slabs.capacity(), ..*taken });
        // A CQ that is lost is somebody else's to find.
        let waits = open.available(batch).is_ok_and(|left| left != 0);
        drop(state);
        if !waits {
            return Ok(());
        }
        Backlog::leave(&self.backlog);
        Err(since)
    }

    /// Takes everything there is, as [`super::super::receive`] does for datagrams: `false` if the budget is spent before.
    pub(crate) fn take_all(&self, inside: &Delivering<'_>, budget: &mut usize) -> bool {
        while inside.may_go_on() {
            let Some(pass) = self.pass(&mut { usize::MAX }, true) else { return true };
            inside.deliver(&self.mac, pass.packets);
            if pass.short {
                self.ask_for_more();
            }
            if pass.broken {
                self.broken(pass.cq);
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
    pub(crate) fn take_within(&self, inside: &Delivering<'_>, room: &mut usize, packets: &mut MblkChain) {
        while inside.may_go_on() {
            let Some(pass) = self.pass(room, false) else { return };
            self.counters.rx.fetched.add(pass.packets.len() as u64);
            packets.append(pass.packets);
            if pass.short {
                self.ask_for_more();
            }
            if pass.broken {
                return self.broken(pass.cq);
            }
            if pass.taken == 0 {
                return;
            }
        }
    }

    #[inline(never)]
    fn ask_for_more(&self) {
        self.control.lock().tell_incoming(IncomingConnections::want_receives);
        self.control.notify_all();
    }

    fn broken(&self, cq: CqId) {
        let mut control = self.control.lock();
        control.tell_incoming(|incoming| incoming.cq_failed(cq, crate::now()));
        drop(control);
        self.control.notify_all();
    }

    /// Up to [`BUDGET`] completions, and no more than `room` bytes of packets, which it lessens; arms the CQ behind the last of them if it
    /// is asked to. The caller is on the receive path.
    fn pass(&self, room: &mut usize, arm: bool) -> Option<Pass> {
        let mut state = self.state.lock();
        let State { open: Some(open), batch, taken, need, .. } = &mut *state else { return None };
        let available = open.available(batch);
        let mut pass = Pass {
            cq: open.cq.id(),
            packets: MblkChain::new(),
            counts: PacketCounts::default(),
            copied: 0,
            taken: 0,
            drained: false,
            broken: available.is_err(),
            short: false,
        };
        // A packet is longer than its message by what is put in front of that.
        while let Some(left) = room.checked_sub(GRH_LEN)
            && let Some(completion) = batch.next_within(left)
        {
            *room = left - completion.bytes();
            pass.taken += 1;
            self.take(open, completion, &mut pass);
        }
        if !pass.packets.is_empty() {
            self.counters.rx.received(&pass.counts, pass.copied);
            self.connection_counters.received.add(pass.packets.len() as u64);
        }
        if pass.taken != 0 && !pass.broken {
            let refilled = refill(&mut open.slabs, &self.connection_counters);
            pass.broken = refilled.is_err() && open.slabs.posted() == 0;
        }
        if arm && pass.taken < BUDGET && !pass.broken {
            let left = open.arm(batch);
            pass.drained = left == Ok(0);
            pass.broken = left.is_err();
        }
        taken.completions += pass.taken as u64;
        taken.drains += u64::from(pass.drained);
        pass.short = need.is_short_after(&pass, &mut open.slabs);
        Some(pass)
    }

    fn take(&self, open: &mut Open, completion: Completion<'_>, pass: &mut Pass) {
        let Some((slab, received)) = open.slabs.complete(completion) else {
            return self.counters.rx.dropped(RxDrop::Completion);
        };
        let status = received.status;
        if !status.is_success() {
            // Of one connection: the queue is that of all, and gets its buffer back.
            slab.queue().give_back(received.buffer);
            if status != CompletionStatus::FLUSHED {
                self.counters.rx.dropped(RxDrop::Completion);
            }
            return;
        }
        match self.packet(slab, &open.own, received, pass) {
            Ok(packet) => pass.packets.push_back(packet),
            Err(reason) => self.counters.rx.dropped(reason),
        }
    }

    fn packet(
        &self,
        slab: &mut Slab,
        own: &LinkAddr,
        received: Received,
        pass: &mut Pass,
    ) -> Result<Mblk, RxDrop> {
        let mut buffer = received.buffer;
        let bytes = buffer.bytes_mut();
        let ethertype = match header::receive_connected(bytes, own) {
            Ok(ethertype) => ethertype,
            Err(rejected) => {
                slab.queue().give_back(buffer);
                return Err(rejected.into());
            }
        };
        if ethertype != EtherType::IPV4
            && let Err(dropped) = look_closer(&self.control, own, ethertype, bytes)
        {
            slab.queue().give_back(buffer);
            return Err(dropped);
        }
        let len = bytes.len() as u32;
        let packet = if len <= self.copy_up_to {
            let packet = Mblk::from_bytes(0, bytes);
            slab.queue().give_back(buffer);
            pass.copied += 1;
            packet.map_err(|_| RxDrop::NoMemory)?
        } else {
            lend(slab.queue(), buffer, &mut pass.copied)?
        };
        pass.counts.add_received(Cast::Unicast, len);
        Ok(packet)
    }
}

/// Posts what is free.
fn refill(slabs: &mut Slabs, counters: &ConnectionCounters) -> Result<(), Status> {
    let before = slabs.refills();
    let result = slabs.refill();
    let after = slabs.refills();
    counters.refills.add(after.all - before.all);
    counters.refills_short.add(after.short - before.short);
    result
}

impl Need {
    /// Where as many messages have come without a pause as there are receives that are not lent, or most of them are lent, senders may have found none.
    fn is_short_after(&mut self, pass: &Pass, slabs: &mut Slabs) -> bool {
        self.run = self.run.saturating_add(pass.taken as u32);
        self.most = self.most.max(self.run);
        let capacity = slabs.capacity();
        let short = self.run >= slabs.posted() || slabs.posted() < capacity / 4;
        if pass.drained || pass.taken == 0 {
            self.run = 0;
        }
        let asks = short && !self.asked && !slabs.keep() && slabs.may_grow();
        self.asked |= asks;
        asks
    }
}

impl State {
    /// Takes what has come since nothing is taken any more; how many messages. Their buffers can be posted again.
    fn drain(&mut self) -> usize {
        let Self { ended: Some(ended), batch, .. } = self else { return 0 };
        let mut messages = 0;
        loop {
            while let Some(completion) = batch.take() {
                messages += usize::from(completion.status().is_success());
                if let Some((slab, received)) = ended.slabs.complete(completion) {
                    slab.queue().give_back(received.buffer);
                }
            }
            if !matches!(ended.cq.poll(batch), Ok(1..)) {
                return messages;
            }
        }
    }
}

impl Open {
    fn available(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        match batch.remaining() {
            0 => self.cq.poll(batch),
            left => Ok(left),
        }
    }

    /// Arms the CQ and looks for what calls nobody.
    fn arm(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        self.cq.arm(Notify::Any)?;
        self.available(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::Taken;

    #[test]
    fn all_that_had_completed_is_taken_when_as_much_is_as_there_were_receives_then_or_none_is_left() {
        let then = Taken { completions: 1_000, drains: 7, receives: 256 };
        // There may be fewer by now.
        let now = |completions, drains| Taken { completions, drains, receives: 128 };
        assert!(
            !now(1_255, 7).is_past(&then) && now(1_256, 7).is_past(&then) && now(1_001, 8).is_past(&then)
        );
    }
}
