//! A link as a benchmark uses it: chains straight into `mc_tx`, and what comes up is counted and freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fakekernel::{HostMutex, Kernel, Nanos, WaitQueue, cx};
use illumos_sys_hdrs::mblk_t;

use crate::address::LinkAddress;
use crate::mac::Mac;

/// Bytes in front of a packet's payload: 20 for the sender, which nobody fills in, the destination, the type, two of nothing.
const HEADER: usize = 44;

/// Packets and bytes.
#[derive(Debug)]
pub(crate) struct Counting {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// `mac_tx_update`s.
    updates: HostMutex<u64>,
    updated: WaitQueue,
}

/// A started link whose traffic is measured; while this lives, nothing goes up to its streams.
#[derive(Debug)]
pub struct TimedLink {
    kernel: Kernel,
    mac: Arc<Mac>,
    counting: Arc<Counting>,
}

/// What became of packets to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The driver took them.
    pub taken: u64,
    /// It gave them back and never said that it has room again; they were freed.
    pub abandoned: u64,
    /// Times that it gave some back.
    pub refusals: u64,
}

impl Counting {
    fn new() -> Self {
        Self {
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            updates: HostMutex::new(0),
            updated: WaitQueue::new("mac_tx_update"),
        }
    }

    pub(crate) fn update(&self) {
        *self.updates.lock() += 1;
        self.updated.wake_all();
    }

    pub(crate) fn received(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl TimedLink {
    pub(crate) fn new(kernel: &Kernel, mac: &Arc<Mac>) -> Self {
        let counting = Arc::new(Counting::new());
        *mac.counting.lock() = Some(counting.clone());
        Self { kernel: kernel.clone(), mac: mac.clone(), counting }
    }

    /// Packets and bytes that have come up.
    pub fn received(&self) -> (u64, u64) {
        (self.counting.packets.load(Ordering::Relaxed), self.counting.bytes.load(Ordering::Relaxed))
    }

    /// An empty chain.
    pub fn chain(&self) -> Chain {
        Chain { kernel: self.kernel.clone(), messages: Vec::new(), bytes: Vec::new() }
    }

    /// Sends a chain. What is given back is sent again after the next `mac_tx_update`, unless there is none for `patience`.
    pub fn send(&self, chain: Chain, patience: Nanos) -> Sent {
        let packets = chain.messages.len() as u64;
        let head = chain.into_raw();
        self.kernel.scope(|| self.offer(head, packets, patience))
    }

    fn offer(&self, chain: *mut mblk_t, packets: u64, patience: Nanos) -> Sent {
        let mut sent = Sent::default();
        let mut chain = chain;
        let mut left = packets;
        loop {
            let before = *self.counting.updates.lock();
            chain = self.mac.send(chain, None);
            let back = self.length(chain);
            sent.taken += left - back;
            left = back;
            if back == 0 {
                return sent;
            }
            sent.refusals += 1;
            if !self.wait_for_update(before, patience) {
                let cx = cx();
                self.kernel.genunix().freemsgchain(&cx, chain);
                sent.abandoned = left;
                return sent;
            }
        }
    }

    fn length(&self, chain: *mut mblk_t) -> u64 {
        if chain.is_null() {
            return 0;
        }
        let cx = cx();
        let genunix = self.kernel.genunix();
        let messages = genunix.take_chain(&cx, chain);
        genunix.make_chain(&cx, &messages);
        messages.len() as u64
    }

    fn wait_for_update(&self, before: u64, patience: Nanos) -> bool {
        let deadline = self.kernel.machine().now() + patience;
        let mut updates = self.counting.updates.lock();
        while *updates == before {
            let (guard, in_time) = self.counting.updated.wait_until(updates, deadline);
            updates = guard;
            if !in_time {
                return *updates != before;
            }
        }
        true
    }
}

/// Packets to be sent together; they are freed with it if they are not.
#[derive(Debug)]
pub struct Chain {
    kernel: Kernel,
    messages: Vec<*mut mblk_t>,
    bytes: Vec<u8>,
}

impl Chain {
    /// Appends a packet of this type and payload.
    pub fn push(&mut self, to: LinkAddress, ethertype: u16, payload: &[u8]) {
        self.bytes.clear();
        self.bytes.resize(HEADER, 0);
        self.bytes[20..40].copy_from_slice(&to.0);
        self.bytes[40..42].copy_from_slice(&ethertype.to_be_bytes());
        self.bytes.extend_from_slice(payload);
        let (kernel, bytes) = (&self.kernel, &self.bytes);
        let message = kernel.scope(|| kernel.genunix().message(&cx(), 0, bytes));
        self.messages.push(message);
    }

    fn into_raw(mut self) -> *mut mblk_t {
        let messages = std::mem::take(&mut self.messages);
        self.kernel.scope(|| self.kernel.genunix().make_chain(&cx(), &messages))
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        if !messages.is_empty() {
            let genunix = self.kernel.genunix();
            self.kernel.scope(|| messages.iter().for_each(|message| genunix.freemsg(&cx(), *message)));
        }
    }
}

impl Drop for TimedLink {
    fn drop(&mut self) {
        *self.mac.counting.lock() = None;
    }
}
