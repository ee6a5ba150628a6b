//! One IPoIB link: the machines of [`ipoib`], and around them the threads, queues and callbacks that let them meet GLDv3 and
//! IBTF.
//!
//! | Thread or callback | Does | May wait for |
//! |---|---|---|
//! | control thread | turns the machines' actions into effects | short locks; the adapter, if the worker's queue of jobs is full |
//! | local worker | asks the adapter: port queries, building and taking down queue pairs, address handles | the adapter |
//! | the module's pool | asks the SA: searches, joins, leaves, paths | the SA, for minutes |
//! | soft interrupts | receive, up to a share; reclaim | the queue's or the receive side's lock; IP |
//! | backlog | goes on receiving where an interrupt has taken its share | the receive side's lock; IP |
//! | announcer | tells the MAC layer about address, MTU and state | the MAC perimeter |
//! | `mc_tx` | copies and posts | the queue's lock, the machines', a connection's |
//! | CQ handlers | trigger the soft interrupt | nothing |
//! | IBTF events | record and return | the machines' lock |
//! | the threads of [`incoming`], once the link has connections | make, answer, open, close and free them | the adapter, `ibcm` |
//!
//! Locks, outermost first: a transmit queue's; inside it a connection's, or the machines' ([`Shared::control`]); and inside that one only `retired`, `news` and `trials`; the job queues'
//! and the announcer's are leaves. The receive side's lock is taken with none of them held, and only the machines' and that of the receive path
//! ([`delivery`]) are taken inside it. None is held
//! across an upcall, a blocking call, or the freeing of a packet.

mod adapter_events;
mod announce;
mod attempts;
mod backlog;
mod build_context;
mod control;
mod control_thread;
mod delivery;
mod events;
mod fma;
mod handles;
mod handover;
mod incoming;
mod interrupts;
mod job_queue;
mod lifecycle;
mod limits;
mod long_answers;
mod mcg_attach;
mod mcg_places;
mod mcg_record;
mod neighbour;
mod outgoing;
mod path_queries;
mod patience;
mod properties;
mod provider;
mod qp_failures;
mod qp_jobs;
mod queue_pairs;
mod receive;
mod replace_ring;
mod rings;
mod sa_calls;
mod settings;
mod statistics;
mod traffic;
mod transmit;
mod trials;
mod worker;

use gldv3::Mac;
use ibtf::{BufferPool, Client, Pd, PoolList};
use ipoib::link::BroadcastGroup;
use ipoib::paths::{DenialEpoch, PathSlot};
use ipoib::{Gid, PKey};
use kernel::ddi::{DevInfo, NodeName};
use kernel::dump::Value;
use kernel::kstat;
use kernel::log::{Causes, Source};
use kernel::sync::{Monitor, Mutex};
use kernel::{KArc, KVec, MayBlock};

use announce::Announcer;
use backlog::Backlog;
use build_context::BuildContext;
use control::Control;
use delivery::Delivery;
use fma::Faults;
use incoming::{ConnectionCounters, Listener, is_slab};
pub(crate) use incoming::{Slabs, adapter_event, shared_queue_failed};
use interrupts::Interrupts;
use job_queue::Jobs;
use neighbour::{Neighbour, StaticRates};
use outgoing::SendCompletions;
use rings::RingCount;
use settings::Settings;
use traffic::Pools;
use transmit::Transmitters;
use trials::Trials;
use worker::Hardware;

use crate::adapter::Held;
use crate::counters::{Counters, counters};
use crate::kept::KeptAdapters;
use crate::node::Node;
use crate::sa_pool::SaPool;
use crate::secret;

pub(crate) use lifecycle::Link;
pub(crate) use provider::Provider;
pub(crate) use sa_calls::{Call, end_debt, join_state};
pub(crate) use settings::MOST_PATH_LOOKUPS;

/// What every part of a link knows.
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) pkey: PKey,
    /// What the link is called in kstats, questions and probes.
    pub(crate) number: i32,
    pub(crate) name: Name,
    rings: RingCount,
    mac: Mac,
    counters: KArc<Counters>,
    control: KArc<Monitor<Control>>,
    jobs: Jobs,
    /// Asks the SA for all links of the module.
    pool: KArc<SaPool>,
    /// By what connections have the adapter.
    kept: KArc<KeptAdapters>,
    announcer: Announcer,
    backlog: KArc<Monitor<Backlog>>,
    delivery: KArc<Delivery>,
    transmitters: Transmitters,
    /// Of rings whose sends do not complete.
    trials: Trials,
    /// `None` before it is opened and once it goes.
    interrupts: Mutex<Option<KArc<Interrupts>>>,
    settings: Mutex<Settings>,
    /// `None` before it is opened and once it is given back.
    hardware: Held<Hardware>,
    /// As whom IBTF knows the link, from attach to detach. A clone is dropped while [`Self::hardware`] is being opened.
    client: Mutex<Option<Client>>,
    rates: StaticRates,
    /// Buffers of queue pairs that are gone, some of them still lent.
    retired: Mutex<Retired>,
    /// Sees to connections from neighbours, once the link has listened.
    listener: Mutex<Option<Listener>>,
    connection_counters: KArc<ConnectionCounters>,
    /// What is sent on connections.
    send_completions: KArc<SendCompletions>,
    /// What fault management was told.
    faults: Faults,
    dip: DevInfo,
}

/// Buffers of queue pairs that are gone.
#[derive(Default)]
struct Retired {
    pools: PoolList,
    /// Those that a thread has in its hands: it closes them, or puts them back.
    in_hand: usize,
    /// Of these, those of connections ([`incoming`]), which are bounded.
    slabs_in_hand: usize,
}

impl Retired {
    fn len(&self) -> usize {
        self.pools.len() + self.in_hand
    }

    /// Whether some of them are of connections.
    fn has_slabs(&self) -> bool {
        self.slabs_in_hand + self.pools.count(is_slab) != 0
    }

    /// They are another thread's now, until it gives each [back](Self::put_back).
    fn take(&mut self) -> PoolList {
        let pools = core::mem::take(&mut self.pools);
        self.in_hand += pools.len();
        self.slabs_in_hand += pools.count(is_slab);
        pools
    }

    /// One of them is closed, or has buffers that are still lent.
    fn put_back(&mut self, was_slab: bool, lent: Option<BufferPool>) {
        self.in_hand -= 1;
        self.slabs_in_hand -= usize::from(was_slab);
        if let Some(pool) = lent {
            self.pools.push(pool);
        }
    }
}

/// The link in log lines, and when it has logged what.
#[derive(Clone)]
pub(crate) struct Name {
    device: NodeName,
    node: Node,
    pkey: PKey,
    causes: KArc<Causes>,
}

impl Name {
    pub(crate) fn new(dip: DevInfo, node: Node, pkey: PKey, may_block: &MayBlock) -> Self {
        let causes = KArc::new_waiting(Causes::new(may_block), may_block);
        Self { device: dip.name(), node, pkey, causes }
    }
}

impl Source for Name {
    fn causes(&self) -> Option<&Causes> {
        Some(&self.causes)
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { device, node, pkey, .. } = self;
        write!(f, "{device}: HCA GUID {:016x} port {} PKEY {:02x}", node.hca.get(), node.port, pkey.get())
    }
}

/// The machines, made on a stack frame of their own.
#[inline(never)]
fn new_control(
    pkey: PKey,
    denial_epoch: KArc<DenialEpoch>,
    seed: u64,
    may_block: &MayBlock,
) -> KArc<Monitor<Control>> {
    let control = Control::new(pkey, denial_epoch, seed, may_block);
    KArc::new_waiting(Monitor::new_waiting(control, may_block), may_block)
}

impl Shared {
    /// A link that does nothing yet. Waits for memory: **may block**.
    #[inline(never)]
    pub(crate) fn new(
        dip: DevInfo,
        name: &Name,
        rings: RingCount,
        mac: Mac,
        number: i32,
        (pool, kept): (KArc<SaPool>, KArc<KeptAdapters>),
        may_block: &MayBlock,
    ) -> KArc<Self> {
        let Name { node, pkey, .. } = *name;
        let seed = secret();
        let counters = Counters::of(number, rings.transmit, may_block);
        let denial_epoch = KArc::new_waiting(DenialEpoch::new(), may_block);
        let control = new_control(pkey, denial_epoch.clone(), seed, may_block);
        let connection_counters = KArc::new_waiting(ConnectionCounters::default(), may_block);
        let send_completions = SendCompletions::new(&control, may_block);
        let transmitters = Transmitters::new(
            rings.transmit,
            &mac,
            (&counters, &connection_counters),
            &control,
            &denial_epoch,
            seed,
            may_block,
        );
        let shared = Self {
            node,
            pkey,
            number,
            name: name.clone(),
            rings,
            mac,
            counters,
            control,
            jobs: Jobs::new(may_block),
            pool,
            kept,
            announcer: Announcer::new(may_block),
            backlog: Backlog::new(may_block),
            delivery: Delivery::new(&connection_counters, may_block),
            transmitters,
            trials: Trials::new(rings.transmit.max(1), may_block),
            interrupts: Mutex::new_waiting(None, may_block),
            settings: Mutex::new_waiting(Settings::default(), may_block),
            hardware: Held::new(may_block),
            client: Mutex::new_waiting(None, may_block),
            rates: StaticRates::new(name.clone()),
            retired: Mutex::new_waiting(Retired::default(), may_block),
            listener: Mutex::new_waiting(None, may_block),
            connection_counters,
            send_completions,
            faults: Faults::new(may_block),
            dip,
        };
        KArc::new_waiting(shared, may_block)
    }

    /// Where what a crash dump has of the link is.
    pub(crate) fn dumped(&self, may_block: &MayBlock) -> KVec<Value> {
        let mut values = self.counters.dumped(may_block);
        counters(
            &mut values,
            c"connections",
            <ConnectionCounters as kstat::Source>::NAMES,
            self.connection_counters.all(),
            may_block,
        );
        values
    }

    /// Tells the machines something, and wakes the control thread.
    fn tell(&self, tell: impl FnOnce(&mut Control)) {
        let mut control = self.control.lock();
        tell(&mut control);
        drop(control);
        self.control.notify_all();
    }

    /// The adapter; `None` once it is gone.
    fn hardware(&self) -> Option<Hardware> {
        self.hardware.get()
    }

    /// The soft interrupts, from attach to detach.
    fn interrupts(&self) -> Option<KArc<Interrupts>> {
        self.interrupts.lock().clone()
    }

    /// As whom IBTF knows the link's connections.
    fn connections_client(&self) -> Option<Client> {
        self.listener.lock().as_ref().map(Listener::client)
    }

    /// The port's GID as it was asked last.
    fn port_gid(&self) -> Option<Gid> {
        self.control.lock().link.port().filter(|port| port.active).map(|port| port.gid)
    }

    /// What a queue pair is made from.
    fn parts<'a>(
        &'a self,
        pd: &'a Pd,
        interrupts: &'a Interrupts,
        settings: &'a Settings,
    ) -> BuildContext<'a> {
        BuildContext {
            settings,
            interrupts,
            pd,
            port: self.node.port,
            mac: &self.mac,
            counters: &self.counters,
            connection_counters: &self.connection_counters,
            control: &self.control,
            backlog: &self.backlog,
            delivery: &self.delivery,
            transmitters: &self.transmitters,
        }
    }

    /// What joins of other groups name.
    fn certain_broadcast(&self) -> Option<BroadcastGroup> {
        self.control.lock().link.certain_broadcast_group().copied()
    }

    fn broadcast_and_port(&self) -> (Option<BroadcastGroup>, Option<Gid>) {
        let control = self.control.lock();
        (control.link.broadcast_group().copied(), control.link.port().map(|port| port.gid))
    }

    /// Buffers of one kind, as for [`Shared::retire`].
    #[inline(never)]
    fn retire_one(&self, pool: BufferPool) {
        self.retire(Pools::of(pool));
    }

    /// The same of several.
    fn retire_all(&self, mut pools: PoolList) {
        while let Some(pool) = pools.pop() {
            self.retire_one(pool);
        }
    }

    /// Buffers to be closed once the last of them is home.
    #[inline(never)]
    fn retire(&self, mut pools: Pools) {
        let mut waiting = false;
        for pool in pools.drain() {
            waiting = true;
            self.retired.lock().pools.push(pool);
        }
        if waiting {
            // A control thread that sleeps until something happens now has to look again.
            self.tell(|_| ());
        }
    }

    /// Remembers as many addresses as there is room for, if there was less. **May block.**
    fn remember_in(&self, more: KVec<PathSlot<Neighbour>>) {
        let mut control = self.control.lock();
        let before = control.paths.grow(more);
        drop(control);
        drop(before);
    }

    /// Frees address handles nobody uses and closes retired pools whose buffers are all home. **May block.**
    fn tidy(&self) {
        if let Some((_, pd)) = self.hardware() {
            pd.free_unused();
        }
        let mut waiting = self.retired.lock().take();
        while let Some(pool) = waiting.pop() {
            let was_slab = is_slab(&pool);
            let lent = pool.close().err();
            self.retired.lock().put_back(was_slab, lent);
        }
    }

    /// What is held, awaited or lent. **May block.**
    fn outstanding(&self) -> Outstanding {
        self.tidy();
        let retired = self.retired.lock();
        let (pools, lent) = (retired.len(), retired.pools.lent());
        drop(retired);
        let control = self.control.lock().outstanding();
        let calls = !self.pool.is_idle(self.number);
        Outstanding {
            control,
            calls,
            pools,
            lent,
            jobs: !self.jobs.is_idle(),
            news: !self.announcer.is_idle(),
        }
    }
}

/// Why a link cannot go yet.
pub(crate) struct Outstanding {
    control: control::Outstanding,
    /// A call to the SA waits or is out.
    calls: bool,
    /// Pools of buffers of queue pairs that are gone, and how many of the buffers are lent.
    pools: usize,
    lent: u32,
    /// The worker has something to do.
    jobs: bool,
    /// The MAC layer is being told something.
    news: bool,
}

impl Outstanding {
    fn is_nothing(&self) -> bool {
        self.control.is_nothing() && self.is_calm()
    }

    /// Nothing but connections that were closed.
    fn is_connections(&self) -> bool {
        self.control.is_connections() && self.is_calm()
    }

    /// Nothing but questions to the SA that are out, of a link that has handed over all else.
    fn is_questions(&self) -> bool {
        self.control.is_questions() && self.pools == 0 && !self.jobs && !self.news
    }

    /// How many groups there are to leave.
    fn memberships(&self) -> usize {
        self.control.memberships()
    }

    /// Nothing beside what the state machines have.
    fn is_calm(&self) -> bool {
        !self.calls && self.pools == 0 && !self.jobs && !self.news
    }
}

impl core::fmt::Display for Outstanding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { lent, pools, .. } = *self;
        let mut reasons = control::Reasons::new(f);
        self.control.list(&mut reasons)?;
        reasons.add(self.calls, format_args!("a call to the SA to return"))?;
        reasons.add(lent != 0, format_args!("{lent} received packets that a program has not read"))?;
        reasons
            .add(pools != 0 && lent == 0, format_args!("the adapter to give {pools} buffer pools back"))?;
        reasons.add(self.jobs, format_args!("the adapter to answer"))?;
        reasons.add(self.news, format_args!("the MAC layer"))
    }
}
