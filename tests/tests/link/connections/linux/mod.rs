//! A Linux host's IPoIB with connections, as a neighbour sees it: written from what is known of Linux's, its times, limits and private data.
//! It has an adapter on the fabric and neither IP nor a kernel of the lab's: a test says what it sends, and sees what has come.

mod adapter;
mod cm;
mod host;

use std::sync::Arc;

use fabric::{Guid, Lid, PortState};
use fakekernel::{Ctx, HostMutex, Nanos, Thread};
use lab_gldv3::LinkAddress;

use crate::bench::Bench;
use adapter::Adapter;
use host::Host;

const NODE: Guid = Guid(0x0002_c903_0000_9000);
pub const ARP: u16 = 0x0806;
/// Octets of a packet that a datagram carries.
pub const DATAGRAM: usize = 2_044;

/// How its interface is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `echo connected > mode`.
    Connected,
    /// `echo datagram > mode`: it says that it takes connections all the same, and opens none.
    Datagram,
    /// Built without connections, or with an adapter that does without ("enhanced").
    Without,
    /// Not Linux: a neighbour that knows RFC 4755 and nothing else, and so listens at its service ID alone.
    Rfc4755,
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Datagram,
    Connection,
}

/// What it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that it opened and that stand, and those that others did.
    pub opened: u64,
    pub accepted: u64,
    /// REQs that it refused.
    pub refused: u64,
    /// Packets that it did not send: while it connects, or after a connection failed.
    pub dropped: u64,
    /// Packets whose senders it told that they are too long.
    pub too_big: u64,
    /// Messages on connections that it opened itself: Linux takes them for something else.
    pub fatal: u64,
    /// Connections of others that it closed because nothing came.
    pub stale: u64,
    /// DREQs that it got.
    pub dreqs: u64,
}

pub struct Linux {
    adapter: Arc<Adapter>,
    host: Arc<HostMutex<Host>>,
    thread: Option<Thread>,
}

impl Linux {
    /// Plugs it in, and waits until the subnet manager has found it.
    pub fn new(bench: &Bench, mode: Mode) -> Self {
        Self::another(bench, mode, 0)
    }

    /// One of several, with a number below 256.
    pub fn another(bench: &Bench, mode: Mode, number: u64) -> Self {
        let adapter = Arc::new(Adapter::new(bench.world.fabric(), Guid(NODE.0 + 0x100 * number)));
        bench.world.subnet_manager().expect("there is one").links_changed();
        let active = || {
            let port = bench.world.fabric().subnet_port(adapter.port);
            port.is_some_and(|port| port.attr.state == PortState::Active && port.attr.lid != Lid::NONE)
        };
        bench.wait_for("the port is active", Nanos::from_secs(30), active);
        let host = Host::new(bench.world.fabric().clone(), adapter.clone(), mode);
        let host = Arc::new(HostMutex::new(host));
        let (own, told) = (host.clone(), adapter.told.clone());
        let live = move || {
            loop {
                let deadline = own.lock().live();
                let mut inbox = told.inbox.lock();
                if inbox.stops {
                    return;
                }
                if inbox.is_empty() {
                    drop(told.news.wait_until(inbox, deadline));
                }
            }
        };
        let thread = bench.alpha.kernel.spawn("a Linux host", Ctx::Kernel, live);
        Self { adapter, host, thread: Some(thread) }
    }

    /// Its port.
    pub fn port(&self) -> Guid {
        self.adapter.port
    }

    /// Its link's address.
    pub fn address(&self) -> LinkAddress {
        self.host.lock().address()
    }

    /// Sends a packet.
    pub fn send(&self, to: LinkAddress, ethertype: u16, payload: &[u8]) {
        self.host.lock().send(&to, ethertype, payload);
        self.adapter.told.news.wake_all();
    }

    /// Has it open one connection more, in this neighbour's name: its acknowledgements go to its own adapter.
    pub fn open_as(&self, claims: LinkAddress, to: LinkAddress, payload: &[u8]) {
        self.host.lock().open_as(claims, &to, payload);
        self.adapter.told.news.wake_all();
    }

    /// In a neighbour's name it says its LID, too: acknowledgements go to the neighbour.
    pub fn claim_places(&self) {
        self.host.lock().claims_place = true;
    }

    /// Sends a packet on each connection that it has opened; on how many.
    pub fn send_on_all(&self, payload: &[u8]) -> usize {
        let sent = self.host.lock().send_on_all(payload);
        self.adapter.told.news.wake_all();
        sent
    }

    /// Has it refuse who asks, or not any more.
    pub fn refuse(&self, refuses: bool) {
        self.host.lock().refuses = refuses;
    }

    /// Has it say that it takes messages of so many octets.
    pub fn take_at_most(&self, octets: u32) {
        self.host.lock().longest = octets;
    }

    /// Has it say that its adapter takes so long for an acknowledgement, as a code.
    pub fn take_for_an_acknowledgement(&self, code: u8) {
        self.host.lock().delay = code;
    }

    /// Has it answer nobody's messages of the communication manager, or again.
    pub fn keep_silent(&self, silent: bool) {
        self.host.lock().silent = silent;
    }

    /// Has it ask whoever wants a connection for so much time (a code), and never answer.
    pub fn ask_for_time(&self, code: u8) {
        self.host.lock().asks_for_time = Some(code);
    }

    /// Has it keep what comes on connections and post no receive in its place; or post them all again.
    pub fn keep_receives(&self, keeps: bool) {
        if keeps {
            self.adapter.keeps.store(true, std::sync::atomic::Ordering::Relaxed);
        } else {
            self.adapter.give_back();
        }
    }

    /// What has come since the last time.
    pub fn heard(&self) -> Vec<(Way, Vec<u8>)> {
        std::mem::take(&mut self.host.lock().heard)
    }

    pub fn counts(&self) -> Counts {
        self.host.lock().counts
    }

    /// The REQs that have come: service ID, and what was said.
    pub fn asked(&self) -> Vec<(u64, [u8; 8])> {
        self.host.lock().asked.clone()
    }

    /// What the REPs to its own REQs have said.
    pub fn answered(&self) -> Vec<[u8; 8]> {
        self.host.lock().answered.clone()
    }

    /// Sends a message on a connection that somebody has opened to it, which it should not.
    pub fn send_back(&self, payload: &[u8]) -> bool {
        self.host.lock().send_back(payload)
    }

    /// Unplugs it.
    pub fn leave(mut self, bench: &Bench) {
        self.adapter.told.inbox.lock().stops = true;
        self.adapter.told.news.wake_all();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        self.adapter.hca.remove();
        bench.world.subnet_manager().expect("there is one").links_changed();
    }
}
