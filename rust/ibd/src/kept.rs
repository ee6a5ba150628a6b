//! How connections have their adapters: by clients of IBTF that belong to no link, because what an adapter does not free has to outlive one.
//!
//! `hermon` and `tavor` refuse to free a shared receive queue that a connection has ever used ([`ibtf::Srq::free`]). Such a queue *rests* with its
//! protection domain, its buffers and the adapter as it was opened for it, and the next link that takes connections on that adapter uses it. So
//! there are as many as were in use at once, and neither a link nor the module waits for them.

use ibtf::{AsyncEvent, Client, ClientHandler, Hca, PoolList, Srq, Status};
use kernel::list::{List, Room};
use kernel::sync::Mutex;
use kernel::{KArc, MayBlock, log};

use crate::link::{Name, Shared, Slabs, adapter_event};

/// How often it is looked whether what ends has ended.
const LOOK_AGAIN: kernel::time::Duration = kernel::time::Duration::from_millis(10);

/// A shared receive queue that nothing is connected to, and the buffers that it has.
pub(crate) struct Resting {
    pub(crate) srq: Srq,
    pub(crate) slabs: Slabs,
}

/// An adapter that was opened for connections, with queues that it refused to free.
pub(crate) struct Parked {
    // In front of the adapter.
    pub(crate) resting: List<Resting>,
    pub(crate) hca: Hca,
}

/// Those of the module.
pub(crate) struct KeptAdapters(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: List<Entry>,
    last: u32,
    /// What was parked on this adapter is being ended.
    ends: Option<u64>,
    /// Somebody was told that there are queues like these.
    told: bool,
}

/// One client.
struct Entry {
    number: u32,
    hca_guid: u64,
    /// A link has it.
    in_use: bool,
    parked: Option<Parked>,
    events: KArc<Events>,
    client: Client,
}

/// Which link hears a client's events.
struct Events {
    link: Mutex<Option<KArc<Shared>>>,
    kept: KArc<KeptAdapters>,
}

struct Handler(KArc<Events>);

impl Resting {
    /// Gives it back to the adapter, or leaves it there: its memory comes home. **May block.**
    pub(crate) fn end(self) -> PoolList {
        let Self { srq, mut slabs } = self;
        match srq.free(slabs.queues()) {
            Ok(()) => slabs.into_pools(),
            Err((srq, _)) => leave(srq, slabs),
        }
    }
}

/// Takes the memory of a queue away that the adapter does not free. **May block.**
pub(crate) fn leave(srq: Srq, slabs: Slabs) -> PoolList {
    let (mut all, mut pools) = (slabs.into_pools(), PoolList::default());
    while let Some(mut pool) = all.pop() {
        pool.take_away();
        pools.push(pool);
    }
    srq.leave();
    pools
}

impl KeptAdapters {
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Self> {
        KArc::new_waiting(Self(Mutex::new_waiting(Table::default(), may_block)), may_block)
    }

    /// A client for a link to open this adapter with, or what was parked with it; and its number, for [`KeptAdapters::give_back`]. `another`
    /// is any client of the module. **May block.**
    pub(crate) fn take(
        this: &KArc<Self>,
        hca_guid: u64,
        link: &KArc<Shared>,
        another: &Client,
        may_block: &MayBlock,
    ) -> Result<(u32, Client, Option<Parked>), Status> {
        if let Some(taken) = this.take_free(hca_guid, link) {
            return Ok(taken);
        }
        let room = Room::new_waiting(may_block);
        let events = Events { link: Mutex::new_waiting(None, may_block), kept: this.clone() };
        let events = KArc::new_waiting(events, may_block);
        let client = another.attach_leavable(c"IBRC", may_block, Handler(events.clone()))?;
        let mut table = this.0.lock();
        table.last += 1;
        let number = table.last;
        let mut entry = Entry { number, hca_guid, in_use: false, parked: None, events, client };
        let taken = entry.take(link);
        table.entries.put(room, entry);
        Ok(taken)
    }

    /// One that nobody has, with what is parked there if there is any.
    fn take_free(&self, hca_guid: u64, link: &KArc<Shared>) -> Option<(u32, Client, Option<Parked>)> {
        let mut table = self.0.lock();
        let is_parked = |entry: &Entry| entry.is_free(hca_guid) && entry.parked.is_some();
        let any = !table.entries.iter().any(is_parked);
        let entry = table.entries.find_mut(|entry| is_parked(entry) || any && entry.is_free(hca_guid))?;
        Some(entry.take(link))
    }

    /// The link has no connections any more, or could not open the adapter.
    pub(crate) fn give_back(&self, number: u32, parked: Option<Parked>) {
        let mut table = self.0.lock();
        let before = table.entries.find_mut(|entry| entry.number == number).and_then(|entry| {
            entry.in_use = false;
            entry.parked = parked;
            entry.events.link.lock().take()
        });
        drop(table);
        drop(before);
    }

    /// The adapter goes: what rests on it is freed if the adapter is let go of that way. **May block.**
    pub(crate) fn hca_removed(&self, hca_guid: u64) {
        loop {
            let mut table = self.0.lock();
            if table.ends == Some(hca_guid) {
                drop(table);
                kernel::time::sleep(LOOK_AGAIN);
                continue;
            }
            let entry = table.entries.find_mut(|entry| entry.is_free(hca_guid) && entry.parked.is_some());
            let Some((number, Some(parked))) = entry.map(|entry| (entry.number, entry.parked.take())) else {
                return;
            };
            drop(table);
            match parked.free() {
                Ok(()) => {}
                Err(parked) => return self.give_back(number, Some(parked)),
            }
        }
    }

    /// An adapter does not free a queue: told once.
    pub(crate) fn tell(&self, link: &Name, status: Status) {
        if !core::mem::replace(&mut self.0.lock().told, true) {
            log!(
                note,
                link,
                "the adapter keeps a receive queue of connections, which the next ones use: {status}"
            );
        }
    }

    /// The module goes: what rests is freed, or left to the adapter without its memory. **May block.**
    pub(crate) fn end(&self) {
        loop {
            let mut table = self.0.lock();
            let Some(mut entry) = table.entries.take(|entry| !entry.in_use) else { return };
            table.ends = Some(entry.hca_guid);
            drop(table);
            if let Some(parked) = entry.parked.take() {
                parked.end();
            }
            self.0.lock().ends = None;
            // Waits for its events: they wait for what ends.
            drop(entry);
        }
    }
}

impl Entry {
    fn is_free(&self, hca_guid: u64) -> bool {
        !self.in_use && self.hca_guid == hca_guid
    }

    fn take(&mut self, link: &KArc<Shared>) -> (u32, Client, Option<Parked>) {
        self.in_use = true;
        *self.events.link.lock() = Some(link.clone());
        (self.number, self.client.clone(), self.parked.take())
    }
}

impl Parked {
    /// Frees what the adapter frees, and comes back with the rest.
    fn free(mut self) -> Result<(), Self> {
        let mut refused = List::new();
        while let Some(Resting { srq, mut slabs }) = self.resting.take(|_| true) {
            match (srq.free(slabs.queues()), Room::new()) {
                (Ok(()), _) => close(slabs.into_pools()),
                (Err((srq, _)), Ok(room)) => refused.put(room, Resting { srq, slabs }),
                (Err((srq, _)), Err(_)) => close(leave(srq, slabs)),
            }
        }
        self.resting = refused;
        if self.resting.iter().next().is_none() { Ok(()) } else { Err(self) }
    }

    fn end(mut self) {
        while let Some(resting) = self.resting.take(|_| true) {
            close(resting.end());
        }
    }
}

/// Of a queue that nothing is connected to nothing is lent but what IP has, which keeps what it needs.
fn close(mut pools: PoolList) {
    while let Some(pool) = pools.pop() {
        drop(pool.close());
    }
}

impl ClientHandler for Handler {
    fn async_event(&self, event: AsyncEvent, may_block: &MayBlock) {
        let link = self.0.link.lock().clone();
        match (link, event) {
            (Some(link), event) => adapter_event(&link, event, may_block),
            (None, AsyncEvent::HcaDetached { hca_guid }) => self.0.kept.hca_removed(hca_guid),
            (None, _) => {}
        }
    }
}
