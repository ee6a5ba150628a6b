//! When a transmit queue sends: opened with a queue pair, suspended while that is replaced alone, closed with the link; and whether the
//! adapter still completes what it took.

use ibtf::{BufferPool, Notify, UdDest};
use ipoib::link::{Generation, Why};
use kernel::{KArc, KBox, MayBlock};

use super::stage::{LargePool, SendSide};
use super::{AfterUnlock, CONNECTIONS, RareWork, Transmitter};
use crate::cache::AddressCache;
use crate::link::neighbour::NeighbourPath;
use crate::now;

impl Transmitter {
    /// Makes room for connections, which the link opens. Waits for memory: **may block**.
    pub(crate) fn remember_connections(&self, may_block: &MayBlock) {
        if self.state.lock().connections.is_some() {
            return;
        }
        let connections = AddressCache::new(CONNECTIONS, self.seed, may_block);
        let connections = KBox::new_waiting(connections, may_block);
        self.state.lock().connections = Some(connections);
    }

    /// The generation of large sends that wait for buffers which were asked for.
    pub(crate) fn wants_large(&self) -> Option<Generation> {
        let mut state = self.state.lock();
        let (generation, side) = state.side.running()?;
        matches!(side.large, LargePool::Asked).then_some(generation)
    }

    /// Brings the buffers for large sends that were asked for, or `None` if there was no memory. Buffers asked for by another
    /// generation come back, to be closed.
    pub(crate) fn bring_large(&self, generation: Generation, pool: Option<BufferPool>) -> Option<BufferPool> {
        let mut state = self.state.lock();
        let side = match state.side.running() {
            Some((stands, side)) if stands == generation => side,
            _ => return pool,
        };
        side.large = pool.map_or(LargePool::Failed, LargePool::Ready);
        let resume = core::mem::take(&mut state.refused);
        drop(state);
        if resume {
            self.ready();
        }
        None
    }

    /// Starts sending; the send side comes back if its generation is over.
    pub(super) fn open(&self, generation: Generation, with: SendSide) -> Option<SendSide> {
        let armed = with.queue.channel().send_cq().arm(Notify::Any);
        let mut state = self.state.lock();
        let suspended = state.side.is_suspended();
        let before = match state.side.open(generation, with) {
            Ok(before) => before,
            Err(unused) => {
                drop(state);
                return Some(unused);
            }
        };
        let (refused, behind) =
            (suspended && core::mem::take(&mut state.refused), core::mem::take(&mut state.behind));
        drop(state);
        // There is none: what was open was closed.
        drop(before);
        if armed.is_err() {
            self.broken(Some(generation), Why::Failed);
        }
        if refused {
            self.ready();
        }
        if behind {
            self.go_on();
        }
        None
    }

    /// Stops sending until it is opened again: when this returns nobody posts any more. Packets are given back, not dropped.
    pub(super) fn suspend(&self) -> Option<SendSide> {
        let (mut state, mut after) = (self.state.lock(), AfterUnlock::default());
        // As for a close.
        self.reclaim(&mut state, &mut after);
        let side = state.side.suspend()?;
        // There is room when it is opened again.
        let RareWork { resume, wake_control, .. } = after.rare.take().unwrap_or_default();
        state.refused |= resume;
        state.behind |= wake_control;
        state.forget_all();
        drop(state);
        drop(after);
        Some(side)
    }

    /// Stops sending what is of a generation up to this one: when this returns nobody posts any more. What the adapter has stays with
    /// the queue.
    pub(super) fn close(&self, up_to: Option<Generation>) -> Option<SendSide> {
        let (mut state, mut after) = (self.state.lock(), AfterUnlock::default());
        // What has failed is counted as long as somebody can tell.
        self.reclaim(&mut state, &mut after);
        let side = state.side.close(up_to);
        let rare = after.rare();
        // A later one goes on.
        if state.side.get().is_none() {
            state.forget_all();
            rare.resume |= core::mem::take(&mut state.refused);
            rare.wake_control |= core::mem::take(&mut state.behind);
            // It is being replaced, or nobody wants it any more.
            (rare.broken, rare.erred) = (None, None);
        }
        drop(state);
        self.finish(after);
        side
    }

    /// The queue pair of this generation does not work any more.
    pub(crate) fn broken(&self, generation: Option<Generation>, why: Why) {
        let Some(generation) = generation else { return };
        self.control.lock().send_side_failed(now(), self.place, generation, why);
        self.control.notify_all();
    }

    /// Which generation sends, and how many completions it has taken (modulo 2^32), if one is awaited.
    pub(crate) fn progress(&self) -> Option<(Generation, Option<u32>)> {
        let mut state = self.state.lock();
        let (generation, open) = state.side.running()?;
        open.queue.signal_soon();
        Some((generation, open.queue.progress()))
    }

    /// No send has completed for long.
    pub(crate) fn is_late(&self) {
        self.counters.timeouts.increment();
    }

    /// Where the oldest send goes that is not over.
    pub(crate) fn oldest_dest(&self) -> Option<KArc<UdDest<NeighbourPath>>> {
        self.state.lock().side.get()?.queue.oldest_dest().cloned()
    }
}
