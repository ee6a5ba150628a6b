//! A link as a benchmark uses it: packets straight into `mc_tx`, one a call as `mac` hands them out (`mac_tx_send` cuts every chain, in
//! each of its modes), and what comes up is counted and freed.

use std::sync::Arc;

use fakekernel::{Kernel, Nanos, cx};
use illumos_sys_hdrs::mblk_t;

use crate::address::LinkAddress;
use crate::mac::{Counting, Mac};

/// Bytes in front of a packet's payload: 20 for the sender, which nobody fills in, the destination, the type, two of nothing.
const HEADER: usize = 44;

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

impl TimedLink {
    pub(crate) fn new(kernel: &Kernel, mac: &Arc<Mac>) -> Self {
        let counting = Arc::new(Counting::new());
        *mac.counting.lock() = Some(counting.clone());
        Self { kernel: kernel.clone(), mac: mac.clone(), counting }
    }

    /// Packets and bytes that have come up.
    pub fn received(&self) -> (u64, u64) {
        self.counting.seen()
    }

    /// No packets yet.
    pub fn packets(&self) -> Packets {
        Packets { kernel: self.kernel.clone(), messages: Vec::new(), bytes: Vec::new() }
    }

    /// Sends packets, one after the other. What is given back is sent again after the next `mac_tx_update`, unless there is none for
    /// `patience`: then it is freed, and what is behind it.
    pub fn send(&self, mut packets: Packets, patience: Nanos) -> Sent {
        self.kernel.scope(|| {
            let mut sent = Sent::default();
            let mut left = std::mem::take(&mut packets.messages).into_iter();
            for message in left.by_ref() {
                if !self.offer(message, patience, &mut sent) {
                    packets.messages = left.collect();
                    sent.abandoned += packets.messages.len() as u64;
                    break;
                }
            }
            sent
        })
    }

    /// Whether the driver has taken it in the end.
    fn offer(&self, message: *mut mblk_t, patience: Nanos, sent: &mut Sent) -> bool {
        loop {
            let before = self.counting.updates();
            if self.mac.send(message, None).is_null() {
                sent.taken += 1;
                return true;
            }
            sent.refusals += 1;
            if !self.wait_for_update(before, patience) {
                let cx = cx();
                self.kernel.genunix().freemsg(&cx, message);
                sent.abandoned += 1;
                return false;
            }
        }
    }

    fn wait_for_update(&self, before: u64, patience: Nanos) -> bool {
        let deadline = self.kernel.machine().now() + patience;
        self.counting.wait_for_update(before, deadline)
    }
}

/// Packets to be sent; they are freed with it if they are not.
#[derive(Debug)]
pub struct Packets {
    kernel: Kernel,
    messages: Vec<*mut mblk_t>,
    bytes: Vec<u8>,
}

impl Packets {
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
}

impl Drop for Packets {
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
