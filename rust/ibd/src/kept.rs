//! How connections have their adapters: by clients of IBTF that belong to no link, because what an adapter does not free has to outlive one.
//!
//! `hermon` and `tavor` refuse to free a shared receive queue that a connection has ever used ([`ibtf::Srq::free`]). Such a queue *rests* with its
//! protection domain, its buffers and the adapter as it was opened for it, and the next link that takes connections on that adapter uses it. So
//! there are as many as were in use at once, and neither a link nor the module waits for them.

use core::sync::atomic::{AtomicBool, Ordering};

use ibtf::{AsyncEvent, Client, ClientHandler, Hca, PoolList, Srq, Status};
use kernel::list::{List, Room};
use kernel::sync::Mutex;
use kernel::time::{Duration, sleep};
use kernel::{KArc, MayBlock, log};

use crate::link::{Name, Shared, Slabs, adapter_event, shared_queue_failed};

/// How often it is looked whether what ends has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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
    /// The log has said that there are queues like these.
    told: bool,
}

/// One client.
struct Entry {
    number: u32,
    hca_guid: u64,
    holder: Holder,
    events: KArc<Events>,
    client: Client,
}

/// What has a client, and with it what is parked there.
enum Holder {
    Free(Option<Parked>),
    Link,
    /// A thread that frees what is parked: the adapter, or the module, is to go.
    Ending,
}

/// Where a client's events go.
struct Events {
    link: Mutex<Option<KArc<Shared>>>,
    /// A queue has failed that no link uses: none that rests is used again.
    failed: AtomicBool,
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
        let link_of_events = Mutex::new_waiting(None, may_block);
        let events = Events { link: link_of_events, failed: AtomicBool::new(false), kept: this.clone() };
        let events = KArc::new_waiting(events, may_block);
        let client = another.attach_leavable(c"IBRC", may_block, Handler(events.clone()))?;
        let mut table = this.0.lock();
        table.last += 1;
        let number = table.last;
        let entry = Entry { number, hca_guid, holder: Holder::Link, events, client };
        let taken = entry.lend(link);
        table.entries.put(room, entry);
        Ok((number, taken, None))
    }

    /// A free one, with what is parked there if there is any.
    fn take_free(&self, hca_guid: u64, link: &KArc<Shared>) -> Option<(u32, Client, Option<Parked>)> {
        let mut table = self.0.lock();
        let any = !table.entries.iter().any(|entry| entry.is_parked(hca_guid));
        let entry =
            table.entries.find_mut(|entry| entry.is_parked(hca_guid) || any && entry.is_free(hca_guid))?;
        let Holder::Free(parked) = core::mem::replace(&mut entry.holder, Holder::Link) else { return None };
        Some((entry.number, entry.lend(link), parked))
    }

    /// The link has no connections any more, or could not open the adapter; or what was parked could not be freed.
    pub(crate) fn give_back(&self, number: u32, parked: Option<Parked>) {
        let mut parked = Holder::Free(parked);
        let mut table = self.0.lock();
        let before = table.entries.find_mut(|entry| entry.number == number).and_then(|entry| {
            core::mem::swap(&mut entry.holder, &mut parked);
            entry.events.link.lock().take()
        });
        drop(table);
        // Without the lock: the last clone of a link may block.
        drop((before, parked));
    }

    /// The adapter goes: what rests on it is freed if the adapter is let go of that way. Waits for another thread that is at it. **May block.**
    pub(crate) fn hca_removed(&self, hca_guid: u64) {
        // From the newest to the oldest, each once.
        let mut before = u32::MAX;
        loop {
            let mut table = self.0.lock();
            if table.entries.iter().any(|entry| entry.is_ending() && entry.hca_guid == hca_guid) {
                drop(table);
                sleep(LOOK_AGAIN);
                continue;
            }
            let next = table.entries.find_mut(|entry| entry.number < before && entry.is_parked(hca_guid));
            let Some((number, Some(parked))) = next.map(|entry| (entry.number, entry.end())) else { return };
            drop(table);
            self.give_back(number, parked.free().err());
            before = number;
        }
    }

    /// Whether a queue of this client's has failed that no link used: then none that rests is to be used. Asked once.
    pub(crate) fn take_failed(&self, number: u32) -> bool {
        self.failed_of(number).is_some_and(|events| events.failed.swap(false, Ordering::AcqRel))
    }

    /// As [`KeptAdapters::take_failed`], and it can be asked again.
    pub(crate) fn has_failed(&self, number: u32) -> bool {
        self.failed_of(number).is_some_and(|events| events.failed.load(Ordering::Acquire))
    }

    fn failed_of(&self, number: u32) -> Option<KArc<Events>> {
        let table = self.0.lock();
        table.entries.iter().find(|entry| entry.number == number).map(|entry| entry.events.clone())
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

    /// The module goes: what rests is freed, or left to the adapter without its memory. Waits for another thread that is at it. **May block.**
    pub(crate) fn end(&self) {
        loop {
            let mut table = self.0.lock();
            let is_awaited = table.entries.iter().any(Entry::is_ending);
            let next = table.entries.find_mut(|entry| matches!(entry.holder, Holder::Free(_)));
            let Some((number, parked)) = next.map(|entry| (entry.number, entry.end())) else {
                drop(table);
                if !is_awaited {
                    return;
                }
                sleep(LOOK_AGAIN);
                continue;
            };
            drop(table);
            if let Some(parked) = parked {
                parked.close();
            }
            let entry = self.0.lock().entries.take(|entry| entry.number == number);
            // Waits for its events, and they wait for what ends.
            drop(entry);
        }
    }
}

impl Entry {
    fn is_free(&self, hca_guid: u64) -> bool {
        matches!(self.holder, Holder::Free(_)) && self.hca_guid == hca_guid
    }

    fn is_parked(&self, hca_guid: u64) -> bool {
        matches!(self.holder, Holder::Free(Some(_))) && self.hca_guid == hca_guid
    }

    fn is_ending(&self) -> bool {
        matches!(self.holder, Holder::Ending)
    }

    /// What is parked, for the thread that frees it.
    fn end(&mut self) -> Option<Parked> {
        match core::mem::replace(&mut self.holder, Holder::Ending) {
            Holder::Free(parked) => parked,
            // Only a free one is asked.
            Holder::Link | Holder::Ending => None,
        }
    }

    fn lend(&self, link: &KArc<Shared>) -> Client {
        *self.events.link.lock() = Some(link.clone());
        self.client.clone()
    }
}

impl Parked {
    /// Frees what the adapter frees, and closes the adapter if that is all. Comes back with the rest, and with an adapter that stays open for what was
    /// left to it before.
    fn free(mut self) -> Result<(), Self> {
        self.resting.rework(|Resting { srq, mut slabs }| match srq.free(slabs.queues()) {
            Ok(()) => {
                close(slabs.into_pools());
                None
            }
            Err((srq, _)) => Some(Resting { srq, slabs }),
        });
        if self.resting.iter().next().is_none() && !self.hca.is_left() { Ok(()) } else { Err(self) }
    }

    fn close(mut self) {
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
        let Self(events) = self;
        let link = events.link.lock().clone();
        match (link, event) {
            (link, AsyncEvent::SrqFailed(id)) => {
                if !link.is_some_and(|link| shared_queue_failed(&link, id)) {
                    events.failed.store(true, Ordering::Release);
                }
            }
            (Some(link), event) => adapter_event(&link, event, may_block),
            (None, AsyncEvent::HcaDetached { hca_guid }) => events.kept.hca_removed(hca_guid),
            (None, _) => {}
        }
    }
}
