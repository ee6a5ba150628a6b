//! A link as a benchmark uses it: packets straight into `mc_tx`, one a call as `mac` hands them out (`mac_tx_send` cuts every chain, in
//! each of its modes), and what comes up is counted and freed.

use std::sync::Arc;

use fakekernel::{Kernel, Nanos, cx};
use illumos_sys_hdrs::mblk_t;

use crate::address::LinkAddress;
use crate::bare::BareDriver;
use crate::entry::SendEntry;
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

/// Hands a chain to whoever sends it; what comes back.
type Call<'a> = dyn Fn(*mut mblk_t) -> *mut mblk_t + 'a;

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

    /// The machine that its host belongs to.
    pub fn machine(&self) -> &fakekernel::Machine {
        self.kernel.machine()
    }

    /// Its host.
    pub fn host(&self) -> &Kernel {
        &self.kernel
    }

    /// How the driver is called to send on a transmit ring, or without one.
    pub fn send_entry(&self, ring: Option<usize>) -> Option<SendEntry> {
        self.mac.send_entry(ring)
    }

    /// Sends packets on a transmit ring, or without one, as [`TimedLink::send`] does.
    pub fn send_on(&self, ring: Option<usize>, packets: Packets, patience: Nanos) -> Sent {
        let ring = ring.and_then(|ring| self.mac.rings().transmit.get(ring).cloned());
        self.send_by(packets, 1, patience, &|chain| self.mac.send(chain, ring.as_ref()))
    }

    /// Sends packets, one after the other. What is given back is sent again after the next `mac_tx_update`, unless there is none for
    /// `patience`: then it is freed, and what is behind it.
    pub fn send(&self, packets: Packets, patience: Nanos) -> Sent {
        self.send_chains(packets, None, 1, patience)
    }

    /// The same, in chains of `each` packets: more than `mac` hands out at once, as a ring's owner may. `bare` gets them in the place
    /// of the link's driver, if there is one.
    pub fn send_chains(
        &self,
        packets: Packets,
        bare: Option<&BareDriver>,
        each: usize,
        patience: Nanos,
    ) -> Sent {
        self.send_by(packets, each, patience, &|chain| match bare {
            Some(bare) => self.mac.call_tx_of(bare, chain),
            None => self.mac.send(chain, None),
        })
    }

    fn send_by(&self, mut packets: Packets, each: usize, patience: Nanos, call: &Call<'_>) -> Sent {
        let messages = std::mem::take(&mut packets.messages);
        self.kernel.scope(|| {
            let mut sent = Sent::default();
            let mut chains = messages.chunks(each.max(1));
            for chain in chains.by_ref() {
                let left = self.offer(chain, call, patience, &mut sent);
                sent.taken += (chain.len() - left) as u64;
                if left != 0 {
                    packets.messages = chains.flatten().copied().collect();
                    sent.abandoned += (left + packets.messages.len()) as u64;
                    break;
                }
            }
            sent
        })
    }

    /// How many the driver has not taken in the end; they are freed.
    fn offer(&self, messages: &[*mut mblk_t], call: &Call<'_>, patience: Nanos, sent: &mut Sent) -> usize {
        let mut chain = match messages {
            [one] => *one,
            several => self.kernel.genunix().make_chain(&cx(), several),
        };
        loop {
            let before = self.counting.updates();
            chain = call(chain);
            if chain.is_null() {
                return 0;
            }
            sent.refusals += 1;
            if !self.wait_for_update(before, patience) {
                let (cx, genunix) = (cx(), self.kernel.genunix());
                let left = genunix.take_chain(&cx, chain);
                left.iter().for_each(|message| genunix.freemsg(&cx, *message));
                return left.len();
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

impl Packets {
    /// The packets, a message each, which stay its own.
    pub fn messages(&self) -> &[*mut mblk_t] {
        &self.messages
    }

    /// Has these in the place of its own: as many, whose memory may be others'.
    pub fn replace(&mut self, messages: Vec<*mut mblk_t>) {
        self.messages = messages;
    }

    /// Leaves them as they are until the machine is over.
    pub fn leave(mut self) {
        self.forget();
    }

    /// The same: there are none in it any more.
    pub fn forget(&mut self) {
        self.messages.clear();
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
