//! A soft ring set in polling mode (`mac_rx_srs_poll_ring` of `M/mac_sched.c`).
//!
//! A set that belongs to a receive ring switches the ring's interrupt off when packets are left over after a drain, and its poll
//! thread fetches more as the backlog shrinks; the interrupt comes on again when nothing is left and the ring has nothing more. The
//! seed adds what a busy machine adds: switches without a backlog, polls for a few bytes only, and pauses between a poll that found
//! nothing and the interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fakekernel::{HostMutex, Nanos, SleepMutex, WaitQueue, cx, sleep};
use rand::Rng;

use super::srs::Srs;
use crate::mac::{Mac, Ring};
use crate::message::{Message, Messages};
use crate::worker::Worker;

/// Bytes of a poll (`max_bytes_to_pickup`).
const BYTES: usize = 150_000;
/// Most packets in the set at which the poll thread fetches more.
const LOW_WATER: usize = 256;
/// Packets at which those who deliver them call the poll thread.
const THRESHOLD: usize = 16;

/// The ring of a set, and who polls it.
pub(crate) struct Poller {
    mac: Arc<Mac>,
    ring: Arc<Ring>,
    /// Whether the interrupt is off. Held while the driver switches it, as the set's lock is.
    polling: SleepMutex<bool>,
    wants: HostMutex<Wants>,
    /// `SRS_GET_PKTS`: what the poll thread fetches may be on its way into the set, so nobody else switches the interrupt on.
    fetching: AtomicBool,
    changed: WaitQueue,
    worker: Worker,
    outstanding: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Wants {
    /// `SRS_POLLING`, for those who do not hold the lock.
    polling: bool,
    /// The poll thread has something to do.
    fetch: bool,
    exit: bool,
}

impl Poller {
    /// For a ring that can be polled.
    pub(super) fn new(mac: Arc<Mac>, ring: Arc<Ring>, outstanding: Arc<AtomicUsize>) -> Self {
        Self {
            mac,
            ring,
            polling: SleepMutex::new("srs_lock", false),
            wants: HostMutex::new(Wants::default()),
            fetching: AtomicBool::new(false),
            changed: WaitQueue::new("a reason to poll a receive ring"),
            worker: Worker::default(),
            outstanding,
        }
    }

    fn backlog(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    /// Interrupt off, if it is on.
    pub(super) fn switch_to_polling(&self) {
        let mut polling = self.polling.lock();
        if !*polling {
            *polling = true;
            self.wants.lock().polling = true;
            self.mac.switch_interrupt(&self.ring, false);
        }
        drop(polling);
        if self.backlog() <= LOW_WATER {
            self.call();
        }
    }

    /// Interrupt on, if it is off and `may` says so.
    fn switch_to_interrupt(&self, may: impl FnOnce() -> bool) {
        let mut polling = self.polling.lock();
        if *polling && may() {
            *polling = false;
            self.wants.lock().polling = false;
            self.mac.switch_interrupt(&self.ring, true);
        }
    }

    /// Whether the poll thread may fetch: then nobody switches the interrupt on until it has ended.
    fn begins(&self) -> bool {
        let polling = self.polling.lock();
        self.fetching.store(*polling, Ordering::Release);
        *polling
    }

    fn call(&self) {
        self.wants.lock().fetch = true;
        self.changed.wake_all();
    }

    /// Packets were delivered.
    pub(super) fn delivered(&self) {
        if self.wants.lock().polling && self.backlog() <= THRESHOLD {
            self.call();
        }
    }

    /// One time in `n`, as the seed has it.
    fn one_in(&self, n: u32) -> bool {
        self.mac.kernel.machine().rng().next_u32().is_multiple_of(n)
    }

    /// Whether to poll without a backlog, for once.
    pub(super) fn is_impatient(&self) -> bool {
        self.one_in(8)
    }

    fn bytes(&self) -> usize {
        if self.one_in(4) { (self.mac.kernel.machine().rng().next_u32() % 6000) as usize } else { BYTES }
    }

    fn pause(&self) {
        if self.one_in(3) {
            let nanos = self.mac.kernel.machine().rng().next_u32() % 50_000;
            sleep(Nanos(nanos.into()));
        }
    }
}

impl Srs {
    /// Starts the poll thread of a set with a ring.
    pub(super) fn start_polling(self: &Arc<Self>) {
        if let Some(poller) = &self.poller {
            let srs = self.clone();
            let name = format!("mac_srs_poll {} {}", self.name, poller.ring.index);
            poller.worker.ensure(&self.kernel, &name, move || srs.poll_thread());
        }
    }

    fn poll_thread(self: &Arc<Self>) {
        let Some(poller) = &self.poller else { return };
        loop {
            let mut wants = poller.wants.lock();
            while !wants.fetch && !wants.exit {
                wants = poller.changed.wait(wants);
            }
            if wants.exit {
                return;
            }
            wants.fetch = false;
            drop(wants);
            poller.pause();
            let cx = cx();
            let genunix = cx.kernel().genunix();
            self.fetch(poller, &Messages { cx: &cx, genunix: &genunix });
        }
    }

    fn fetch(self: &Arc<Self>, poller: &Poller, messages: &Messages<'_>) {
        if !poller.begins() {
            return;
        }
        let packets: Vec<Message> = poller.mac.poll_ring(messages, &poller.ring, poller.bytes());
        let found = !packets.is_empty();
        if found {
            self.upper.fetched(messages, &packets);
            self.take_in(messages, packets, true);
        } else {
            poller.pause();
        }
        poller.fetching.store(false, Ordering::Release);
        if !found {
            // With a backlog those who work it off call again.
            poller.switch_to_interrupt(|| self.is_at_rest());
        } else if poller.backlog() <= LOW_WATER {
            poller.call();
        }
    }

    /// After a drain: polls while packets are left.
    pub(super) fn after_drain(&self) {
        let Some(poller) = &self.poller else { return };
        if poller.backlog() > 0 {
            poller.switch_to_polling();
        } else {
            let fetching = || poller.fetching.load(Ordering::Acquire);
            poller.switch_to_interrupt(|| self.is_at_rest() && !fetching());
        }
    }

    /// Ends the poll thread and leaves the interrupt on.
    pub(super) fn stop_polling(&self) {
        let Some(poller) = &self.poller else { return };
        poller.wants.lock().exit = true;
        poller.changed.wake_all();
        poller.worker.join();
        poller.switch_to_interrupt(|| true);
    }
}
