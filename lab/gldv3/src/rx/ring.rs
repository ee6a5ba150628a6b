//! A soft ring: one processor of packets at a time.
//!
//! A packet that is alone in the whole set is delivered at once, in the thread that brought it. Otherwise it is queued for the
//! ring's worker, which starts with the first packet it gets.

use std::collections::VecDeque;
use std::sync::Arc;

use fakekernel::{HostMutex, Kernel, WaitQueue, cx};

use super::fanout::Class;
use crate::message::{Message, Messages};
use crate::worker::Worker;

/// Delivers packets of a ring upward.
pub(super) trait Deliver: Send + Sync {
    /// Consumes the packets; they are of one class.
    fn deliver(&self, messages: &Messages<'_>, class: Class, packets: Vec<Message>);
}

/// See the module's text.
pub(super) struct Ring {
    name: String,
    class: Class,
    state: HostMutex<State>,
    changed: WaitQueue,
    worker: Worker,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    /// `S_RING_PROC`: somebody delivers.
    busy: bool,
    exit: bool,
}

impl Ring {
    pub(super) fn new(name: String, class: Class) -> Arc<Self> {
        Arc::new(Self {
            name,
            class,
            state: HostMutex::new(State::default()),
            changed: WaitQueue::new("packets of a soft ring"),
            worker: Worker::default(),
        })
    }

    /// Takes packets: delivers them here if `alone` says that there are no others, and nobody else is at it.
    pub(super) fn process(
        self: &Arc<Self>,
        kernel: &Kernel,
        messages: &Messages<'_>,
        packets: Vec<Message>,
        alone: bool,
        up: &Arc<dyn Deliver>,
    ) {
        let mut state = self.state.lock();
        if alone && !state.busy && state.queue.is_empty() {
            state.busy = true;
            drop(state);
            up.deliver(messages, self.class, packets);
            self.done();
            return;
        }
        state.queue.extend(packets);
        drop(state);
        self.ensure_worker(kernel, up);
        self.changed.wake_all();
    }

    fn done(&self) {
        self.state.lock().busy = false;
        self.changed.wake_all();
    }

    fn ensure_worker(self: &Arc<Self>, kernel: &Kernel, up: &Arc<dyn Deliver>) {
        let (ring, up) = (self.clone(), up.clone());
        self.worker.ensure(kernel, &self.name, move || ring.work(&*up));
    }

    fn work(&self, up: &dyn Deliver) {
        loop {
            let mut state = self.state.lock();
            while state.busy || state.queue.is_empty() && !state.exit {
                state = self.changed.wait(state);
            }
            if state.queue.is_empty() {
                return;
            }
            let packets: Vec<Message> = state.queue.drain(..).collect();
            state.busy = true;
            drop(state);
            let cx = cx();
            let genunix = cx.kernel().genunix();
            up.deliver(&Messages { cx: &cx, genunix: &genunix }, self.class, packets);
            self.done();
        }
    }

    /// Ends the worker once everything queued is delivered, and waits for whoever delivers.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.exit = true;
        drop(state);
        self.changed.wake_all();
        self.worker.join();
        state = self.state.lock();
        while state.busy {
            state = self.changed.wait(state);
        }
    }
}
