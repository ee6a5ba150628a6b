//! A link from attach to detach: a chain of values that undo themselves.

use core::fmt;

use gldv3::{Config, InstanceNumber, LinkId, Registration};
use ibtf::{Client, ClientInfo, Hca, Pd, Status};
use ipoib::link::Event;
use ipoib::{Gid, LinkAddr, PKey, Qpn};
use kernel::ddi::DevInfo;
use kernel::thread::Worker;
use kernel::time::{Duration, Instant};
use kernel::{Errno, KArc, KBox, MayBlock, log};

use super::announce::News;
use super::backlog::{self, Backlog};
use super::control::{Control, Stopped};
use super::events::Events;
use super::interrupts::Interrupts;
use super::job_queue::Queue;
use super::patience::{PATIENCE, Patience};
use super::rings::RingCount;
use super::settings::Key;
use super::statistics::Statistics;
use super::traffic::end_traffic;
use super::{Name, Outstanding, Provider, Shared, control_thread};
use crate::common::Common;
use crate::counters::Asked;
use crate::directory::{Directory, Listing};
use crate::dump::{LinkRecords, Recorded};
use crate::node::Node;
use crate::sa_pool::{Member, SaPool};
use crate::{now, probes};

/// As IBTL knows it.
pub(super) static CLIENT: ClientInfo = ClientInfo::network(c"IBPART");
/// The SDU announced before the broadcast group's MTU is known: the largest one. `mac_set_mtu` does not call the driver for an MTU that the link
/// has already; for this one the driver need not be called, because it bounds nothing.
pub(super) const FIRST_SDU: u32 = ipoib::Mtu::B4096.sdu();
/// How long a start waits for the address: a port query and a queue pair.
const ADDRESS: Duration = Duration::from_secs(1);
/// As long as `ibmf` asks an SA that is busy again and again.
const BUSY: Duration = Duration::from_secs(10);

/// An attached link.
pub(crate) struct Link {
    registration: Registration<Provider>,
    inner: Inner,
}

/// What is left of a link when GLDv3 has let go of it.
struct Inner {
    listing: Option<Listing>,
    member: Option<Member>,
    shared: KArc<Shared>,
    statistics: Option<KBox<Statistics>>,
    threads: Option<Threads>,
    client: Option<Client>,
    recorded: Option<KBox<Recorded>>,
}

/// In the order in which they stop.
struct Threads {
    _control: Worker<Control>,
    _worker: Worker<Queue>,
    _backlog: Worker<Backlog>,
    _announcer: Worker<News>,
}

impl Threads {
    /// **May block.**
    fn start(shared: &KArc<Shared>, may_block: &MayBlock) -> Self {
        Self {
            _control: control_thread::spawn(shared, may_block),
            _worker: shared.jobs.spawn(shared, may_block),
            _backlog: backlog::spawn(shared, may_block),
            _announcer: shared.announcer.spawn(shared.mac.clone(), may_block),
        }
    }
}

/// Says what cannot be had, if it cannot.
fn named<T, E: fmt::Display + Into<Errno>>(name: &Name, what: &str, made: Result<T, E>) -> Result<T, Errno> {
    made.map_err(|error| {
        log!(warn, name, "cannot get {what}: {error}");
        error.into()
    })
}

impl Link {
    /// Opens the adapter, starts the threads, and registers the link as the last step. `number` is the one
    /// under which its counters are published and it is asked about neighbours. **May block.**
    pub(crate) fn attach(
        dip: DevInfo,
        node: Node,
        pkey: PKey,
        instance: InstanceNumber,
        common: &Common,
        number: i32,
        may_block: &MayBlock,
    ) -> Result<Self, Errno> {
        let config = Config {
            dip,
            instance,
            plugin: c"mac_ib",
            address: [0; LinkAddr::LEN],
            min_sdu: 0,
            max_sdu: FIRST_SDU,
            multicast_sdu: FIRST_SDU,
        };
        let name = Name::new(dip, node, pkey, may_block);
        let rings = RingCount::read(dip, &name);
        let mut inner = None;
        let make = |mac| {
            let pool = common.pool.clone();
            let shared = Shared::new(dip, &name, rings, mac, number, pool, may_block);
            let made = inner.insert(Inner {
                listing: None,
                member: None,
                shared,
                statistics: None,
                threads: None,
                client: None,
                recorded: None,
            });
            made.open(dip, common, number, may_block)?;
            Ok(Provider(made.shared.clone()))
        };
        let registration = if rings.receive {
            Registration::register_with_rings(&config, rings.transmit, may_block, make)?
        } else {
            Registration::register(&config, may_block, make)?
        };
        // Set by the closure above, or it would not have succeeded.
        let inner = inner.ok_or(Errno::EIO)?;
        inner.take_questions(true);
        Ok(Self { registration, inner })
    }

    /// Whether nobody uses the link: it is closed, and nothing is out. Says so if something is. **May block.**
    pub(crate) fn is_unused(&self) -> bool {
        if self.registration.is_started() {
            return false;
        }
        let mut patience = Patience::begins(now());
        let idle = self.inner.rest(|left| patience.lasts(now(), left.is_connections()));
        if !idle {
            self.say_why_busy();
        }
        idle
    }

    /// Shows the link to dls again, in a zone; whether dls has it now. **May block.**
    pub(crate) fn give_back(&self, id: LinkId, zone: i32) -> bool {
        let result = self.registration.create_devnet(id, zone);
        if let Err(error) = result {
            let name = &self.inner.shared.name;
            log!(warn, name, "busy, and no longer a datalink ({error}): delete it again");
        }
        result.is_ok()
    }

    /// Whether nothing is out: no answer awaited, no buffer lent. Waits a little for what a stop has left. **May block.**
    fn is_idle(&self) -> bool {
        let deadline = now() + PATIENCE;
        self.inner.rest(|_| now() < deadline)
    }

    /// Undoes everything, or hands the link back, working. **May block.**
    pub(crate) fn detach(self) -> Result<(), (Self, Errno)> {
        self.inner.take_questions(false);
        if !self.is_idle() {
            self.say_why_busy();
            self.inner.take_questions(true);
            return Err((self, Errno::EBUSY));
        }
        let Self { registration, inner } = self;
        match registration.unregister() {
            Ok(()) => {
                drop(inner);
                Ok(())
            }
            Err((registration, error)) => {
                inner.shared.announcer.go_on();
                inner.take_questions(true);
                Err((Self { registration, inner }, error))
            }
        }
    }

    /// One line for whoever wants the system suspended. **Any** context.
    #[inline(never)]
    pub(crate) fn refuse_suspend(&self) {
        let name = &self.inner.shared.name;
        log!(warn, name, "cannot be suspended: the adapter would lose its queue pairs, memory and groups");
    }

    /// One line for whoever wonders why the link does not go.
    #[inline(never)]
    fn say_why_busy(&self) {
        let name = &self.inner.shared.name;
        log!(note, name, "busy, still waiting for: {}", self.inner.outstanding());
    }

    pub(crate) fn registration(&self) -> &Registration<Provider> {
        &self.registration
    }
}

impl Inner {
    #[inline(never)]
    fn open(
        &mut self,
        dip: DevInfo,
        common: &Common,
        number: i32,
        may_block: &MayBlock,
    ) -> Result<(), Errno> {
        let Self { shared, .. } = self;
        self.recorded = Some(LinkRecords::record(&common.records, dip, shared, may_block));
        self.listing = Some(Directory::list(&common.directory, number, shared.clone(), may_block));
        self.member =
            Some(SaPool::admit(&common.pool, &shared.node, shared.number, shared.clone(), may_block));
        let name = &shared.name;
        let client = Client::attach(&common.clients, dip, &CLIENT, may_block, Events(shared.clone()));
        let client = named(name, "IBTF client", client)?;
        self.client = Some(client.clone());
        shared.hardware.open(|| {
            let hca = named(name, "adapter", Hca::open(&client, shared.node.hca.get(), may_block))?;
            let pd = named(name, "protection domain", Pd::new(&hca, may_block))?;
            Ok((hca, pd))
        })?;
        let interrupts =
            Interrupts::new(dip, &shared.delivery, &shared.transmitters, &shared.send_completions, may_block);
        let interrupts = KArc::new_waiting(named(name, "soft interrupts", interrupts)?, may_block);
        *shared.interrupts.lock() = Some(interrupts);
        shared.configure(dip, may_block);
        client.subscribe();
        self.statistics = Some(named(name, "statistics", Statistics::publish(shared, may_block))?);
        self.threads = Some(Threads::start(shared, may_block));
        Ok(())
    }

    fn take_questions(&self, open: bool) {
        if let Some(listing) = &self.listing {
            listing.take_questions(open);
        }
    }

    /// What is out. A call to the SA outlives the adapter it was made for. **May block.**
    fn outstanding(&self) -> Outstanding {
        self.shared.outstanding()
    }

    /// Waits until the link is at rest, or no longer is to be waited for what is left; whether it is. **May block.**
    fn rest(&self, mut waits: impl FnMut(&Outstanding) -> bool) -> bool {
        loop {
            let left = self.outstanding();
            if left.is_nothing() {
                return true;
            }
            if !waits(&left) {
                return false;
            }
            kernel::time::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.announcer.end();
        // A link started and stopped between the last look and the unregistration has something left to do.
        if self.threads.is_some() {
            self.rest(|_| true);
        }
        self.listing = None;
        self.member = None;
        self.statistics = None;
        self.threads = None;
        let listener = self.shared.listener.lock().take();
        drop(listener);
        let _ = self.shared.hardware.withdraw().close(|| self.shared.tidy());
        // No CQ is left that triggers them.
        let interrupts = self.shared.interrupts.lock().take();
        drop(interrupts);
        // The events keep `shared`, and detaching ends them.
        self.client = None;
        self.recorded = None;
        // The node outlives a partition.
        self.shared.restored();
    }
}

impl Shared {
    /// Whether so much is to be logged.
    pub(super) fn is_talkative(&self, level: u32) -> bool {
        self.settings.lock().get(Key::Debug) >= level
    }

    /// Asks the SA about a GID. **May block**, for minutes. IBTF repeats what an SA is too busy for ten times, a second apart, and then says
    /// that there is nothing of the kind: that is taken for no answer.
    pub(super) fn ask<T>(
        &self,
        what: Asked,
        about: Gid,
        call: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.counters.sa.ask(what);
        probes::sa_ask(self.number, what.name(), about);
        let begun = Instant::now();
        let answer = match call() {
            Err(Status::MCG_RECORDS_NOT_FOUND | Status::PATH_RECORDS_NOT_FOUND)
                if Instant::now() - begun >= BUSY =>
            {
                Err(Status::IBMF_TIMEOUT)
            }
            answer => answer,
        };
        self.answered(what, about, answer.as_ref().map(drop).map_err(|status| *status));
        answer
    }

    #[inline(never)]
    fn answered(&self, what: Asked, about: Gid, result: Result<(), Status>) {
        self.counters.sa.note(what, result);
        let status = result.err().map_or(0, Status::get);
        probes::sa_answer(self.number, what.name(), about, status);
        if self.is_talkative(2) {
            log_exchange(&self.name, what, about, status);
        }
    }

    /// Waits until the link has its address, at most [`ADDRESS`], and tells the MAC layer, which has answered nobody yet who opens the
    /// link. Without an address it is told the GID with queue pair 0, if the port has told that much: IP makes its own addresses of
    /// that part. **Perimeter**; **may block**.
    pub(super) fn wait_for_address(&self) {
        let deadline = Instant::now() + ADDRESS;
        let mut control = self.control.lock();
        while control.link.address().is_none() && !control.removed && Instant::now() < deadline {
            control.wait_until(deadline);
        }
        let known = control.link.address().or_else(|| {
            let gid = control.link.gid()?;
            Some(LinkAddr::unicast(Qpn::NONE, gid))
        });
        known.into_iter().for_each(|address| self.announcer.note_address(address));
        drop(control);
        self.announcer.tell_address(&self.mac);
    }

    /// Ends the traffic. When this returns no thread hands packets up any more. **May block**: for commands to the adapter, for a
    /// thread that is handing packets up, for a CQ handler that is running, and, if the link takes connections, for handlers of `ibcm` that
    /// are running.
    pub(super) fn stop(&self) {
        let mut control = self.control.lock();
        let Stopped { pairs, had_traffic, up_to, shared_receive } = control.stop(now());
        drop(control);
        self.control.notify_all();
        self.take_calls_back();
        // Also for a queue pair that a worker is taking down.
        self.delivery.shut();
        // No group is heard any more: nothing is attached by this.
        let _ = self.update_attachments(None);
        if had_traffic {
            probes::qp_down(self.number);
        }
        self.trials.end();
        // Nothing that a worker is still building is opened after this.
        let receiver = pairs.as_ref().map(|pairs| pairs.receiver().clone());
        let mut pools = end_traffic(&self.transmitters, receiver.as_ref(), up_to);
        drop(receiver);
        if let Some(shared_receive) = shared_receive {
            self.end_shared_receive(shared_receive);
        }
        if let Some(pairs) = pairs {
            // Freed here, unless somebody is attaching a group or a worker is at it just now.
            drop(pairs);
            self.control.lock().failures.forget();
        }
        pools.close();
        self.retire(pools);
    }

    /// The adapter goes: everything on it is freed before this returns, whoever has it: a worker, a callback that brings an
    /// answer, or whoever is closing the link. What is lent is memory of ours, which no adapter has a right to any more; it is
    /// freed when it comes home.
    pub(super) fn hca_removed(&self) {
        log!(warn, self.name, "the adapter was removed");
        self.lost();
        let hardware = self.hardware.withdraw();
        self.tell(|control| {
            control.removed = true;
            control.link.handle_event(now(), Event::PortEvent);
        });
        self.stop();
        if !hardware.close(|| self.tidy()) {
            log!(warn, self.name, "the adapter that was removed is still in use");
        }
    }
}

/// One message a second of each kind.
fn log_exchange(name: &Name, what: Asked, gid: Gid, status: u32) {
    match what {
        Asked::Path => log!(note, name, "SA: path to {gid:?}: {status}"),
        Asked::Join => log!(note, name, "SA: join of {gid:?}: {status}"),
        Asked::Leave => log!(note, name, "SA: leave of {gid:?}: {status}"),
        Asked::Query => log!(note, name, "SA: groups like {gid:?}: {status}"),
    }
}
