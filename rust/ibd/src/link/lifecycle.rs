//! A link from attach to detach: a chain of values that undo themselves.

use core::fmt;

use gldv3::{Config, InstanceNumber, LinkId, Registration};
use ibtf::{Client, Status};
use ipoib::{Gid, LinkAddr, PKey, Qpn};
use kernel::ddi::DevInfo;
use kernel::thread::Worker;
use kernel::time::{Duration, Instant};
use kernel::{Errno, KArc, KBox, MayBlock, log};

use super::announce::News;
use super::backlog::{self, Backlog};
use super::control::{Control, Stopped};
use super::events::{CLIENT, Events};
use super::interrupts::Interrupts;
use super::job_queue::Queue;
use super::patience::Patience;
use super::rings::RingCount;
use super::settings::Key;
use super::statistics::Statistics;
use super::traffic::end_traffic;
use super::{Name, Outstanding, Provider, Shared, control_thread, worker};
use crate::adapter::Overdue;
use crate::common::Common;
use crate::counters::Asked;
use crate::directory::{Directory, Listing};
use crate::dump::{LinkRecords, Recorded};
use crate::node::Node;
use crate::sa_pool::{Member, SaPool};
use crate::{now, probes};

/// The SDU announced before the broadcast group's MTU is known: the largest one. `mac_set_mtu` does not call the driver for an MTU that the link
/// has already; for this one the driver need not be called, because it bounds nothing.
pub(super) const FIRST_SDU: u32 = ipoib::Mtu::B4096.sdu();
/// How long a start waits for the address: a port query and a queue pair.
const ADDRESS: Duration = Duration::from_secs(1);
/// As long as a question to the SA takes at most: `ibmf` asks one that showed signs of life for 240 s (`ibmf_saa_impl.c`).
const QUESTION: core::time::Duration = core::time::Duration::from_secs(300);
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
            _worker: shared.jobs.spawn(shared, worker::run, may_block),
            _backlog: backlog::spawn(shared, may_block),
            _announcer: shared.announcer.spawn(shared.mac.clone(), may_block),
        }
    }
}

/// Says what cannot be had, if it cannot.
pub(super) fn named<T, E: fmt::Display + Into<Errno>>(
    name: &Name,
    what: &str,
    made: Result<T, E>,
) -> Result<T, Errno> {
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
            let pool = (common.pool.clone(), common.kept.clone());
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
        let rests = self.inner.come_to_rest(|left| left.is_connections());
        if !rests {
            self.say_why_busy();
        }
        rests
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

    /// Undoes everything, or hands the link back, working. **May block.**
    pub(crate) fn detach(self) -> Result<(), (Self, Errno)> {
        self.inner.take_questions(false);
        if !self.inner.come_to_rest(|_| false) || self.is_kept() {
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

    /// Whether memberships keep the last instance on a port for a while.
    fn is_kept(&self) -> bool {
        let shared = &self.inner.shared;
        let memberships = shared.pool.is_kept_by(&shared.node);
        if memberships != 0 {
            log!(note, shared.name, "busy, still to be ended at the SA: {memberships} memberships");
        }
        memberships != 0
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
        *shared.client.lock() = Some(client.clone());
        shared.hardware.open(|| shared.open_hardware(&client, may_block))?;
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

    /// Whether the link is at rest, or can go. Waits a little for what a stop has left: longer while what is left `is_worth` it, or while groups are left.
    /// What the SA has not answered then is handed over. **May block.**
    fn come_to_rest(&self, is_worth: impl Fn(&Outstanding) -> bool) -> bool {
        let mut patience = Patience::begins(now());
        if self.rest(|left| patience.lasts(now(), is_worth(left), left.memberships())) {
            return true;
        }
        self.shared.hand_over();
        let mut patience = Patience::begins(now());
        self.wait_while(|left| !self.can_go(left) && patience.lasts(now(), false, 0))
    }

    /// Questions to the SA may outlive a partition, with its memory; of an instance of a device node nothing may be left after a detach.
    fn can_go(&self, left: &Outstanding) -> bool {
        let is_partition = self.shared.pool.has_instance(&self.shared.node);
        if is_partition { left.is_questions() } else { left.is_nothing() }
    }

    /// Waits until the link is at rest, or no longer is to be waited for what is left; whether it is. **May block.**
    fn rest(&self, mut waits: impl FnMut(&Outstanding) -> bool) -> bool {
        self.wait_while(|left| !left.is_nothing() && waits(left));
        self.outstanding().is_nothing()
    }

    /// Whether the link can go then. **May block.**
    fn wait_while(&self, mut waits: impl FnMut(&Outstanding) -> bool) -> bool {
        loop {
            let left = self.outstanding();
            if !waits(&left) {
                return self.can_go(&left);
            }
            kernel::time::sleep(Duration::from_millis(10));
        }
    }

    /// A link started and stopped between the last look and the unregistration has something left to do, which nothing can refuse any more. What is
    /// out longer than IBTF asks an SA, and lent that long, is left where it is. **May block**, for some minutes.
    fn end(&self) {
        if self.come_to_rest(|_| false) {
            return;
        }
        let (mut overdue, deadline) = (Overdue::begins(), now() + QUESTION);
        self.wait_while(|left| {
            if let Some(seconds) = overdue.seconds() {
                log!(note, self.shared.name, "detaching has waited for {seconds} s for: {left}");
            }
            !self.can_go(left) && now() < deadline
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.announcer.end();
        if self.threads.is_some() {
            self.end();
        }
        self.listing = None;
        self.member = None;
        self.statistics = None;
        self.threads = None;
        let listener = self.shared.listener.lock().take();
        drop(listener);
        self.shared.hardware.end(|| self.shared.close_hardware("the adapter"));
        // Nothing is opened any more, and every clone is dropped.
        let client = self.shared.client.lock().take();
        drop(client);
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

    /// Asks the SA about a GID. **May block**, for minutes.
    pub(super) fn ask<T>(
        &self,
        what: Asked,
        about: Gid,
        call: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.counters.sa.ask(what);
        probes::sa_ask(self.number, what.name(), about);
        let answer = unless_busy(call);
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
        self.end(|control| control.wanted = false, || self.delivery.shut());
    }

    /// Stops the machines and frees what they had. `before` is told to the machines with the stop; `after` ends what the link has beside them.
    pub(super) fn end(&self, before: impl FnOnce(&mut Control), after: impl FnOnce()) {
        let mut control = self.control.lock();
        before(&mut control);
        let Stopped { pairs, had_traffic, up_to, shared_receive } = control.stop(now());
        drop(control);
        self.control.notify_all();
        self.take_calls_back();
        // Also for a queue pair that a worker is taking down.
        after();
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
}

/// IBTF repeats what an SA is too busy for ten times, a second apart, and then says that there is nothing of the kind: that is taken for no answer.
pub(super) fn unless_busy<T>(call: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    let begun = Instant::now();
    match call() {
        Err(Status::MCG_RECORDS_NOT_FOUND | Status::PATH_RECORDS_NOT_FOUND)
            if Instant::now() - begun >= BUSY =>
        {
            Err(Status::IBMF_TIMEOUT)
        }
        answer => answer,
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
