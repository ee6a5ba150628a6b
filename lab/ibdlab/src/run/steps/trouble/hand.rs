//! A thread per host that does to the host what takes time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fakekernel::{Ctx, Errno, HostMutex, Nanos, Thread, WaitQueue};
use lab_gldv3::{Promiscuity, PropertyId, PropertyValue, Stream};
use lab_ibtf::InfiniBand;
use lab_ip::apps::{App, Bulk, GroupHear, GroupSay, Ping, Sink, Until};

use super::paths;
use super::senders::{Neighbours, Senders};
use super::visitor::Visitor;
use crate::host::AppId;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::trouble::Event;

/// Payloads of the background traffic.
const SIZES: [usize; 4] = [0, 64, 700, 1900];
/// Where every host sends datagrams all the time.
pub(super) const GROUP: (u8, u16) = (1, 7001);
const GROUP_INTERVAL: Duration = Duration::from_millis(5);
/// Where hosts take the TCP of others: each sender has a port of its own, this and the last byte of its address.
const BULK_PORT: u16 = 7100;
/// Where hosts that join a group listen.
const LISTEN_PORT: u16 = 7002;

/// Of a P_Key: both kinds of members are in one partition.
const FULL_MEMBER: u16 = 0x8000;

/// Something to do to a host. What does not apply (to open what is open) does nothing, so that any part of a timeline is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    Close,
    Open,
    Unload,
    Load,
    DeletePart,
    Promiscuous(bool),
    Join(IpAddr),
    Leave(IpAddr),
    ReadProperties,
    SetProperty(String, String),
    AskPaths,
    Pull,
    /// The adapter's driver is detached; whether another client keeps the adapter.
    Detach(bool),
    Plug,
    /// The adapter is replaced by one whose port has this GUID; or its own is ready to be put back.
    Flash(Option<fabric::Guid>),
}

impl Task {
    /// The host and what is done to it, if it is something for its thread.
    pub fn of(event: &Event) -> Option<(&str, Self)> {
        let host = event.host()?.get_ref().as_str();
        let task = match event {
            Event::LinkClose(_) => Self::Close,
            Event::LinkOpen(_) => Self::Open,
            Event::Unload(_) => Self::Unload,
            Event::Load(_) | Event::PartCreated(_) => Self::Load,
            Event::PartDeleted(_) => Self::DeletePart,
            Event::Promiscuous(mode) => Self::Promiscuous(mode.on),
            Event::GroupJoin(of) => Self::Join(*of.group.get_ref()),
            Event::GroupLeave(of) => Self::Leave(*of.group.get_ref()),
            Event::PropertyRead(_) => Self::ReadProperties,
            Event::PropertySet(set) => Self::SetProperty(set.name.clone(), set.value.clone()),
            Event::PathAsk(_) => Self::AskPaths,
            Event::HcaRemoved(goes) if goes.refused || goes.orderly => Self::Detach(goes.refused),
            Event::HcaRemoved(_) => Self::Pull,
            Event::HcaAdded(_) => Self::Plug,
            _ => return None,
        };
        Some((host, task))
    }
}

/// With whom a host talks.
struct Others {
    /// Addresses of the other hosts of its link.
    targets: Vec<IpAddr>,
    /// Where it sends datagrams all the time.
    group: IpAddr,
    neighbours: Neighbours,
}

/// The thread of one host. It owns the host meanwhile.
pub struct Hand {
    pub name: String,
    /// Of the host's port.
    pub port: fabric::Guid,
    pub kernel: fakekernel::Kernel,
    pub pkey: u16,
    /// The addresses of its IP.
    pub addresses: Vec<IpAddr>,
    link: String,
    shared: Arc<Shared>,
    thread: Thread,
    visitors: HostMutex<Vec<Visitor>>,
}

struct Shared {
    state: HostMutex<State>,
    work: WaitQueue,
}

struct State {
    /// Each with the number of the event that asks for it, if one does.
    tasks: VecDeque<(Option<usize>, Task)>,
    /// Tasks of events that were carried out: number, from, until.
    happened: Vec<(usize, Nanos, Nanos)>,
    /// One is being carried out.
    busy: bool,
    done: bool,
    /// The host, before the thread takes it and after it is done with it.
    host: Option<HostRun>,
    /// What went wrong and was no demand: a load that an injected failure kept from succeeding.
    told: Vec<String>,
    slowest_close: Nanos,
    slowest_delete: Nanos,
    failed: Option<anyhow::Error>,
}

/// The traffic in the background.
#[derive(Clone, Copy, Debug)]
pub struct Background {
    /// When it ends.
    pub quiet: Duration,
    /// The least time from one echo between two addresses to the next.
    pub echo_every: Duration,
    /// Threads of a host that send beside its IP.
    pub senders: u8,
}

/// What the hosts say at the end.
pub struct Told {
    /// Events that were carried out by a host's thread: number, from, until.
    pub happened: Vec<(usize, Nanos, Nanos)>,
    /// What was refused on the way.
    pub refused: Vec<String>,
    /// The longest time that it took to close a link.
    pub slowest_close: Nanos,
    /// And to delete one.
    pub slowest_delete: Nanos,
}

/// Takes every host of the world, and starts its traffic.
pub fn take_over(world: &mut World, background: Background) -> Vec<Hand> {
    let addresses = |host: &HostRun| -> Vec<IpAddr> {
        world.peers(host).flat_map(|peer| &peer.addresses).map(|cidr| cidr.address().into()).collect()
    };
    let mut links: BTreeMap<u16, Neighbours> = BTreeMap::new();
    let targets: Vec<Vec<IpAddr>> = world.hosts.iter().map(addresses).collect();
    let groups: Vec<IpAddr> = world.hosts.iter().map(|host| world.group_of(host, GROUP.0)).collect();
    let hosts = std::mem::take(&mut world.hosts).into_iter().zip(targets.into_iter().zip(groups));
    hosts
        .map(|(host, (targets, group))| {
            let neighbours = links.entry(host.pkey | FULL_MEMBER).or_default().clone();
            Hand::new(host, Others { targets, group, neighbours }, world.infiniband.clone(), background)
        })
        .collect()
}

/// Gives the hosts back to the world, each with its link open; what was refused on the way.
///
/// # Errors
///
/// The first thing that must not go wrong and did.
pub fn give_back(world: &mut World, hands: Vec<Hand>) -> Result<Told> {
    hands.iter().for_each(Hand::end_visits);
    for task in [Task::Promiscuous(false), Task::Flash(None), Task::Plug, Task::Load] {
        hands.iter().for_each(|hand| hand.queue(None, task.clone()));
    }
    let (mut told, mut happened) = (Vec::new(), Vec::new());
    let mut first = Ok(());
    let (mut slowest, mut slowest_delete) = (Nanos(0), Nanos(0));
    for hand in hands {
        hand.shared.state.lock().done = true;
        hand.shared.work.wake_all();
        hand.thread.join();
        let mut state = hand.shared.state.lock();
        told.append(&mut state.told);
        happened.append(&mut state.happened);
        slowest = slowest.max(state.slowest_close);
        slowest_delete = slowest_delete.max(state.slowest_delete);
        if let (Ok(()), Some(failed)) = (&first, state.failed.take()) {
            first = Err(failed);
        }
        world.hosts.extend(state.host.take());
    }
    first.map(|()| Told { happened, refused: told, slowest_close: slowest, slowest_delete })
}

impl Hand {
    fn new(host: HostRun, others: Others, infiniband: InfiniBand, background: Background) -> Self {
        let (name, port, kernel, pkey) = (host.name.clone(), host.port, host.kernel.clone(), host.pkey);
        let addresses = host.addresses.iter().map(|cidr| cidr.address().into()).collect();
        let link = host.link();
        let state = State {
            tasks: VecDeque::new(),
            happened: Vec::new(),
            busy: false,
            done: false,
            host: Some(host),
            told: Vec::new(),
            slowest_close: Nanos(0),
            slowest_delete: Nanos(0),
            failed: None,
        };
        let shared =
            Arc::new(Shared { state: HostMutex::new(state), work: WaitQueue::new("things to do to a host") });
        let body = shared.clone();
        let thread =
            kernel.spawn("administrator", Ctx::User, move || body.run(others, infiniband, background));
        let visitors = HostMutex::new(Vec::new());
        Self { name, port, kernel, pkey, addresses, link, shared, thread, visitors }
    }

    /// A second hand: see [`Visitor`].
    pub fn visit(&self, until: Nanos, every: Nanos) {
        self.visitors.lock().push(Visitor::start(&self.kernel, &self.link, until, every));
    }

    fn end_visits(&self) {
        let visitors = std::mem::take(&mut *self.visitors.lock());
        visitors.into_iter().for_each(Visitor::end);
    }

    /// Has the host something to do?
    pub fn is_busy(&self) -> bool {
        let state = self.shared.state.lock();
        state.busy || !state.tasks.is_empty()
    }

    /// For the event of this number, or for none.
    pub fn queue(&self, event: Option<usize>, task: Task) {
        self.shared.state.lock().tasks.push_back((event, task));
        self.shared.work.wake_all();
    }
}

impl Shared {
    fn run(&self, others: Others, infiniband: InfiniBand, background: Background) {
        let Some(host) = self.state.lock().host.take() else { return };
        let mut owner = Owner {
            host,
            targets: others.targets,
            group: others.group,
            neighbours: others.neighbours,
            senders: Senders::default(),
            infiniband,
            background,
            apps: Vec::new(),
            groups: BTreeSet::new(),
            ears: BTreeMap::new(),
            promiscuous: None,
            slowest_close: Nanos(0),
            slowest_delete: Nanos(0),
        };
        if owner.host.listens() {
            owner.groups.insert(owner.group);
        }
        owner.start_traffic();
        while let Some((event, task)) = self.next() {
            let what = task.clone();
            let event = event.filter(|_| owner.does_something(&task));
            let from = fakekernel::now();
            let result = owner.carry_out(task).with_context(|| format!("{}: {what:?}", owner.host.name));
            let mut state = self.state.lock();
            state.happened.extend(event.map(|event| (event, from, fakekernel::now())));
            match result {
                Ok(()) => {}
                // Every cause is gone by now: nothing may be refused any more.
                Err(error) if state.done || must_succeed(&what) => drop(state.failed.get_or_insert(error)),
                Err(error) => state.told.push(format!("{error:#}")),
            }
        }
        owner.stop_traffic();
        let mut state = self.state.lock();
        state.slowest_close = owner.slowest_close;
        state.slowest_delete = owner.slowest_delete;
        state.host = Some(owner.host);
    }

    fn next(&self) -> Option<(Option<usize>, Task)> {
        let mut state = self.state.lock();
        state.busy = false;
        loop {
            match state.tasks.pop_front() {
                Some(task) => {
                    state.busy = true;
                    return Some(task);
                }
                None if state.done => return None,
                None => state = self.work.wait(state),
            }
        }
    }
}

/// Nothing that fails may keep a host from letting go.
fn must_succeed(task: &Task) -> bool {
    matches!(task, Task::Unload | Task::DeletePart | Task::Pull | Task::Leave(_) | Task::AskPaths)
}

struct Owner {
    host: HostRun,
    /// Addresses of the other hosts of its link.
    targets: Vec<IpAddr>,
    /// Where it sends datagrams all the time.
    group: IpAddr,
    neighbours: Neighbours,
    senders: Senders,
    infiniband: InfiniBand,
    background: Background,
    /// What makes the background traffic.
    apps: Vec<AppId>,
    /// Groups that the host listens to, open or not.
    groups: BTreeSet<IpAddr>,
    ears: BTreeMap<IpAddr, AppId>,
    promiscuous: Option<Stream>,
    slowest_close: Nanos,
    slowest_delete: Nanos,
}

impl Owner {
    /// False of what is so already, or cannot be asked for now.
    fn does_something(&self, task: &Task) -> bool {
        let (open, pulled) = (self.host.is_open(), self.host.is_pulled());
        match task {
            Task::Close => open,
            Task::Open => !open && !pulled && self.host.has_link(),
            Task::Load => !open && !pulled,
            Task::Promiscuous(on) => *on != self.promiscuous.is_some() && self.host.has_link() && !pulled,
            Task::Join(group) => !self.groups.contains(group),
            Task::Leave(group) => self.groups.contains(group),
            Task::Pull | Task::Detach(_) => !pulled,
            Task::Plug => pulled,
            Task::ReadProperties | Task::SetProperty(..) | Task::AskPaths => self.host.has_link(),
            Task::Unload | Task::DeletePart | Task::Flash(_) => true,
        }
    }

    fn carry_out(&mut self, task: Task) -> Result<()> {
        match task {
            Task::Close => self.close(),
            // A link that is there, and a module for an adapter that is there.
            Task::Open if self.host.has_link() && !self.host.is_pulled() => self.open()?,
            Task::Load if !self.host.is_pulled() => self.open()?,
            Task::Open | Task::Load => {}
            Task::Unload => {
                self.close();
                self.promiscuous = None;
                self.host.unload()?;
            }
            Task::DeletePart => {
                self.close();
                self.promiscuous = None;
                let begun = fakekernel::now();
                self.host.delete_partition()?;
                self.slowest_delete = self.slowest_delete.max(fakekernel::now().since(begun));
            }
            Task::Promiscuous(on) => self.set_promiscuous(on)?,
            Task::Join(group) => {
                self.groups.insert(group);
                self.listen(group);
            }
            Task::Leave(group) => {
                self.groups.remove(&group);
                if let (Some(ear), Ok(ip)) = (self.ears.remove(&group), self.host.ip()) {
                    ip.stop(ear);
                }
            }
            Task::ReadProperties => self.read_properties(),
            Task::SetProperty(name, value) => {
                let (kernel, link) = (&self.host.kernel, self.host.link());
                let id = PropertyId::Private(name.clone());
                let refused = lab_gldv3::set_property(kernel, &link, &id, &PropertyValue::Text(value));
                // A refusal is an answer, too: EBUSY, no link, or a property that means nothing while another is off. One that the
                // driver does not have is the scenario's mistake.
                let known =
                    || lab_gldv3::private_properties(kernel, &link).is_ok_and(|all| all.contains(&name));
                if refused == Err(Errno::ENOTSUP) && !known() {
                    return Err(anyhow!("the driver of {link} has no such property"));
                }
            }
            Task::AskPaths => paths::ask(&self.host, &self.targets)?,
            Task::Pull => self.host.pull_adapter(&self.infiniband)?,
            Task::Detach(kept) => {
                let gone = self.host.try_detach_adapter(&self.infiniband, kept);
                // That is what the event is: all clients hear that the adapter stays.
                if kept && gone.is_err() {
                    return Ok(());
                }
                gone?;
            }
            Task::Plug => {
                if self.host.is_pulled() {
                    self.carry_out(Task::Unload)?;
                }
                self.host.plug_adapter(&self.infiniband)?;
            }
            Task::Flash(None) if !self.host.is_flashed(&self.infiniband) => {}
            Task::Flash(claims) => {
                self.carry_out(Task::Pull)?;
                self.host.flash(claims);
                if claims.is_some() {
                    self.carry_out(Task::Plug)?;
                    self.carry_out(Task::Load)?;
                }
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.senders.stop();
        self.apps.clear();
        self.ears.clear();
        let begun = fakekernel::now();
        self.host.close_link();
        self.slowest_close = self.slowest_close.max(fakekernel::now().since(begun));
    }

    /// Loads and attaches whatever is not, too.
    fn open(&mut self) -> Result<()> {
        if self.host.is_open() {
            return Ok(());
        }
        self.host.attach()?;
        self.start_traffic();
        Ok(())
    }

    fn start_traffic(&mut self) {
        let Ok(ip) = self.host.ip() else { return };
        let mut apps = Vec::new();
        for target in &self.targets {
            if let Ok(source) = self.host.source_for(*target) {
                let ping =
                    Ping::new(source, *target, u32::MAX, SIZES.to_vec()).paced(self.background.echo_every);
                apps.push(ip.start(Box::new(Until::new(ping, self.background.quiet))));
            }
        }
        let now = Duration::from_nanos(fakekernel::now().0);
        let (group, pause) = ((self.group, GROUP.1), GROUP_INTERVAL.max(self.background.echo_every));
        let say = GroupSay::new(group, u32::MAX, pause, now);
        apps.push(ip.start(Box::new(Until::new(say, self.background.quiet))));
        for app in self.bulk() {
            apps.push(ip.start(app));
        }
        self.apps = apps;
        let until = Nanos(u64::try_from(self.background.quiet.as_nanos()).unwrap_or(u64::MAX));
        let (kernel, link) = (&self.host.kernel, self.host.link());
        self.senders = Senders::start(kernel, &link, self.background.senders, until, &self.neighbours);
        for group in self.groups.clone() {
            self.listen(group);
        }
    }

    /// TCP in large sends, from hosts whose adapters cut them, and on connections.
    fn bulk(&self) -> Vec<Box<dyn App>> {
        let port = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(BULK_PORT + u16::from(address.octets()[3])),
            IpAddr::V6(_) => None,
        };
        let sinks = self.targets.iter().filter_map(port).map(Sink::new);
        let mut apps: Vec<Box<dyn App>> =
            sinks.map(|sink| Box::new(Until::new(sink, self.background.quiet)) as Box<dyn App>).collect();
        let to = self.targets.iter().find(|target| target.is_ipv4());
        if let (true, Some(to)) = (self.host.cuts_large_sends || self.host.connected, to)
            && let Some(port) = self.host.source_for(*to).ok().as_ref().and_then(port)
        {
            apps.push(Box::new(Until::new(Bulk::new((*to, port)), self.background.quiet)));
        }
        apps
    }

    fn stop_traffic(&mut self) {
        self.senders.stop();
        let Ok(ip) = self.host.ip() else { return };
        // In the group of the background a host that listens stays: it has to hear it when all is over.
        let ears = std::mem::take(&mut self.ears).into_iter().filter(|(group, _)| *group != self.group);
        for app in self.apps.drain(..).chain(ears.map(|(_, ear)| ear)) {
            ip.stop(app);
        }
    }

    fn listen(&mut self, group: IpAddr) {
        let Ok(ip) = self.host.ip() else { return };
        self.ears.entry(group).or_insert_with(|| {
            ip.start(Box::new(GroupHear::new((group, LISTEN_PORT), u32::MAX, Duration::MAX)))
        });
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<()> {
        match (self.promiscuous.take(), on) {
            (Some(stream), false) => stream.set_promiscuous(Promiscuity::Physical, false)?,
            (None, true) if self.host.has_link() && !self.host.is_pulled() => {
                let stream = Stream::open_passive(&self.host.kernel, &self.host.link())?;
                stream.set_promiscuous(Promiscuity::Physical, true)?;
                self.promiscuous = Some(stream);
            }
            (stream, _) => self.promiscuous = stream,
        }
        Ok(())
    }

    /// Everything an administrator can ask; refusals are answers too.
    fn read_properties(&self) {
        let (kernel, link) = (&self.host.kernel, self.host.link());
        let private = lab_gldv3::private_properties(kernel, &link).unwrap_or_default();
        let ids = PropertyId::PUBLIC.into_iter().chain(private.into_iter().map(PropertyId::Private));
        for id in ids {
            let _ = lab_gldv3::get_property(kernel, &link, &id);
        }
        let _ = self.host.statistics();
    }
}
