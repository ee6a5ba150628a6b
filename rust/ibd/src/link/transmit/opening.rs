//! When a transmit queue sends: opened with a queue pair, suspended while that is replaced alone, closed with the link; and whether the
//! adapter still completes what it took.

use core::sync::atomic::Ordering;
use core::time::Duration;

use ibtf::{BufferPool, Notify};
use ipoib::Instant;
use kernel::KBox;

use super::stage::{LargePool, Open};
use super::{After, CONNECTIONS, Rare, Transmitter};
use crate::cache::AddressCache;
use crate::link::senders::Why;
use crate::now;

impl Transmitter {
    /// Makes room for connections, if the link opens some. Without memory the machine is asked each time.
    pub(super) fn remember_connections(&self, open: &Open) {
        if !open.abilities.connected || self.state.lock().connections.is_some() {
            return;
        }
        let connections = AddressCache::new(CONNECTIONS, self.seed).and_then(KBox::new).ok();
        self.state.lock().connections = connections;
    }

    /// Which send side this is: another number after every close.
    pub(crate) fn epoch(&self) -> u64 {
        self.closed.count() + self.suspensions.load(Ordering::SeqCst)
    }

    /// Whether large sends wait for buffers that were asked for.
    pub(crate) fn wants_large(&self) -> bool {
        matches!(&self.state.lock().open, Some(Open { large: LargePool::Asked, .. }))
    }

    /// Brings the buffers for large sends that were asked for, or `None` if there was no memory. Buffers asked for before a
    /// close come back, to be closed.
    pub(crate) fn bring_large(&self, epoch: u64, pool: Option<BufferPool>) -> Option<BufferPool> {
        let mut state = self.state.lock();
        if self.epoch() != epoch {
            return pool;
        }
        let Some(open) = &mut state.open else { return pool };
        open.large = pool.map_or(LargePool::Failed, LargePool::Ready);
        let resume = core::mem::take(&mut state.refused);
        drop(state);
        if resume {
            self.ready();
        }
        None
    }

    /// Starts sending, or hands the send side back if it was closed since `epoch`.
    pub(super) fn open(&self, epoch: u64, serial: u64, open: Open) -> Option<Open> {
        let armed = open.queue.channel().send_cq().arm(Notify::Any);
        let mut state = self.state.lock();
        if self.closed.count() != epoch {
            drop(state);
            return Some(open);
        }
        state.open = Some(open);
        state.serial = serial;
        let suspended = core::mem::take(&mut state.suspended);
        let (refused, behind) =
            (suspended && core::mem::take(&mut state.refused), core::mem::take(&mut state.behind));
        drop(state);
        if armed.is_err() {
            self.broken(serial, Why::Failed);
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
    pub(super) fn suspend(&self) -> Option<Open> {
        let (mut state, mut after) = (self.state.lock(), After::default());
        // As for a close.
        self.reclaim(&mut state, &mut after);
        let open = state.open.take()?;
        self.suspensions.fetch_add(1, Ordering::SeqCst);
        state.suspended = true;
        // There is room when it is opened again.
        let Rare { resume, wake_control, .. } = after.rare.take().unwrap_or_default();
        state.refused |= resume;
        state.behind |= wake_control;
        state.waits = None;
        state.forget_all();
        drop(state);
        drop(after);
        Some(open)
    }

    /// Stops sending: when this returns nobody posts any more. What the adapter has stays with the queue.
    pub(super) fn close(&self) -> Option<Open> {
        let (mut state, mut after) = (self.state.lock(), After::default());
        // What has failed is counted as long as somebody can tell.
        self.reclaim(&mut state, &mut after);
        let open = state.open.take();
        state.suspended = false;
        state.waits = None;
        state.forget_all();
        let rare = after.rare();
        rare.resume |= core::mem::take(&mut state.refused);
        rare.wake_control |= core::mem::take(&mut state.behind);
        // It is being replaced, or nobody wants it any more.
        rare.broken = None;
        drop(state);
        self.finish(after);
        open
    }

    /// The queue pair with this serial number does not work any more.
    pub(super) fn broken(&self, serial: u64, why: Why) {
        self.control.lock().send_side_failed(now(), self.place, serial, why);
        self.control.notify_all();
    }

    /// Looks whether the adapter owes a completion for longer than `timeout`, and tells. Has to look more often than that.
    pub(crate) fn watch(&self, now: Instant, timeout: Duration) {
        let mut state = self.state.lock();
        let progress = state.open.as_mut().and_then(|open| {
            open.queue.signal_soon();
            open.queue.progress()
        });
        let since = match (progress, state.waits) {
            (None, _) => None,
            (Some(now_at), Some((before, since))) if now_at == before => Some((before, since)),
            (Some(now_at), _) => Some((now_at, now)),
        };
        state.waits = since;
        let late = since.is_some_and(|(_, since)| now - since >= timeout);
        if late {
            state.waits = None;
            self.counters.timeouts.increment();
        }
        let serial = state.serial;
        drop(state);
        if late {
            self.broken(serial, Why::Stalled);
        }
    }
}
