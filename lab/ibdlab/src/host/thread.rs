//! The thread that runs a host's IP layer.
//!
//! The link delivers in interrupt and worker threads; there a frame is only queued. This thread does the rest: it gives
//! frames to the layer, runs the applications, and sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fakekernel::genunix::Level;
use fakekernel::{Ctx, Errno, HostMutex, Kernel, Nanos, Thread, WaitQueue, cx};
use lab_gldv3::{Destination, LinkState, Notification, OffloadCapability, Received};
use lab_ip::apps::{App, Outcome};
use lab_ip::defence::Notice;
use lab_ip::layer::{Counters, Frame, LinkInfo, SAP_ARP, SAP_IPV6, Wanted};
use lab_ip::link_addr::LinkAddr;
use lab_ip::nd;
use smoltcp::wire::IpCidr;

use super::below::Below;
use super::group::{Member, Members, Membership};
use super::streams::Streams;
use super::upper::Upper;

/// Frames that may wait for this thread; more are dropped and counted, as IP's own queues would.
const RX_LIMIT: usize = 4096;
/// How long a frame may wait for room in the link's queue.
const TX_PATIENCE: Nanos = Nanos::from_secs(1);

/// A running application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppId(u64);

/// Frames that this host's IP layer lost, by reason. All zero in a good run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub receive_queue_full: u64,
    pub transmit_refused: u64,
}

/// A host's IP layer on its open link. [`IpThread::close`] ends it.
pub struct IpThread {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    /// Of the interface.
    name: String,
    state: HostMutex<State>,
    work: WaitQueue,
    changed: WaitQueue,
}

struct State {
    upper: Box<dyn Upper>,
    rx: VecDeque<Received>,
    apps: BTreeMap<AppId, Box<dyn App>>,
    outcomes: BTreeMap<AppId, Outcome>,
    next_app: u64,
    link: LinkState,
    /// The link said that its address, size or offloads changed; ask it.
    stale: bool,
    /// The link told an address; the interface's are to go down.
    readdressed: bool,
    /// The link was asked after the last thing it said.
    asked: bool,
    /// There is work that shows nowhere else: an application was started, the outside called.
    kicked: bool,
    closing: bool,
    lost: Lost,
    /// Packets of ARP and neighbour discovery that came by a group or as broadcasts.
    discovery: u64,
    refused_groups: Vec<(LinkAddr, Errno)>,
}

impl IpThread {
    /// Opens `link` and runs the layer that `upper` makes for it on a thread of its own. User context.
    pub fn open(
        kernel: &Kernel,
        link: &str,
        upper: impl FnOnce(LinkInfo) -> Box<dyn Upper>,
    ) -> Result<Self, Errno> {
        let shared = Arc::new(Shared::new(link, upper(placeholder())));
        let (receiver, notified) = (shared.clone(), shared.clone());
        let streams = Streams::open(
            kernel,
            link,
            move |frame| receiver.queue(frame),
            move |notification| notified.notified(&notification),
        )?;
        Ok(Self::start_thread(kernel, shared, streams))
    }

    /// The same over the members of the group with that name.
    pub fn over_members(
        kernel: &Kernel,
        group: &str,
        members: Arc<Membership>,
        upper: impl FnOnce(LinkInfo) -> Box<dyn Upper>,
    ) -> Self {
        Self::start_thread(kernel, Arc::new(Shared::new(group, upper(placeholder()))), Members::new(members))
    }

    fn start_thread(kernel: &Kernel, shared: Arc<Shared>, below: impl Below + 'static) -> Self {
        let run = shared.clone();
        let thread = kernel.spawn("ip", Ctx::Kernel, move || run.run(below));
        Self { shared, thread }
    }

    /// Puts another layer on the link, which is asked for all it has to say. Applications of the old one end.
    pub fn replace(&self, upper: Box<dyn Upper>) {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        if let Some(stack) = state.upper.stack() {
            std::mem::take(&mut state.apps).into_values().for_each(|mut app| app.abandon(stack));
        }
        state.upper = upper;
        state.rx.clear();
        (state.stale, state.kicked) = (true, true);
        self.shared.work.wake_all();
    }

    /// Has a link's thread give what it receives to this one, a group's, and tell it of its carrier.
    pub fn take_in(&self, member: &Self) {
        let (received, changed) = (self.shared.clone(), self.shared.clone());
        let info = member.with_upper(|upper| upper.link().info());
        let up = member.link_state() == LinkState::Up;
        let upper = Member::new(info, up, move |frame| received.queue(frame), move || changed.refresh());
        member.replace(Box::new(upper));
    }

    /// Has this thread ask anew what is below it.
    pub fn refresh(&self) {
        self.shared.refresh();
    }

    /// Starts an application; what it opens is open when this returns.
    pub fn start(&self, app: Box<dyn App>) -> AppId {
        let now = now();
        let mut state = self.shared.state.lock();
        let id = AppId(state.next_app);
        state.next_app += 1;
        state.apps.insert(id, app);
        state.run_apps(now);
        state.kicked = true;
        drop(state);
        self.shared.work.wake_all();
        id
    }

    /// Waits for an application's end; `None` at the deadline, the application is taken away then.
    pub fn finish(&self, id: AppId, deadline: Nanos) -> Option<Outcome> {
        self.shared.wait_for(deadline, |state| state.outcomes.remove(&id)).or_else(|| {
            self.stop(id);
            None
        })
    }

    /// Takes an application away before its end.
    pub fn stop(&self, id: AppId) {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        if let (Some(mut app), Some(stack)) = (state.apps.remove(&id), state.upper.stack()) {
            app.abandon(stack);
        }
        state.kicked = true;
        self.shared.work.wake_all();
    }

    /// Waits until the link is in that state and the IP layer knows its address and size; false at the deadline.
    pub fn wait_link(&self, wanted: LinkState, deadline: Nanos) -> bool {
        self.shared.wait_for(deadline, |state| (state.link == wanted && state.asked).then_some(())).is_some()
    }

    /// The link's carrier as it told last.
    pub fn link_state(&self) -> LinkState {
        self.shared.state.lock().link
    }

    /// The interface has these addresses now; see [`lab_ip::layer::IpLink::set_addresses`].
    pub fn set_addresses(&self, wanted: Wanted) {
        self.change(|upper| upper.set_addresses(wanted));
    }

    /// Changes the IP layer, which then does what has become due. A leaf lock is held meanwhile.
    pub fn change<R>(&self, change: impl FnOnce(&mut dyn Upper) -> R) -> R {
        let mut state = self.shared.state.lock();
        let result = change(&mut *state.upper);
        state.kicked = true;
        drop(state);
        self.shared.work.wake_all();
        result
    }

    /// Looks at the IP layer. A leaf lock is held meanwhile.
    pub fn with_upper<R>(&self, look: impl FnOnce(&mut dyn Upper) -> R) -> R {
        look(&mut *self.shared.state.lock().upper)
    }

    pub fn counters(&self) -> (Counters, Lost) {
        let state = self.shared.state.lock();
        (state.upper.link().counters(), state.lost)
    }

    /// Packets of ARP and neighbour discovery that came by a group or as broadcasts: hosts announce their addresses when they want.
    pub fn discovery_by_group(&self) -> u64 {
        self.shared.state.lock().discovery
    }

    /// Groups that the link refused to enable or disable, with the reason.
    pub fn refused_groups(&self) -> Vec<(LinkAddr, Errno)> {
        self.shared.state.lock().refused_groups.clone()
    }

    /// Has the applications run: there is something new for one of them.
    pub fn kick(&self) {
        self.shared.kick();
    }

    /// What wakes this thread from outside the machine.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.kick()
    }

    /// Closes the link and waits until it is closed; once is enough.
    pub fn close(&self) {
        self.shared.state.lock().closing = true;
        self.shared.work.wake_all();
        self.thread.join();
    }
}

impl Shared {
    fn new(name: &str, upper: Box<dyn Upper>) -> Self {
        let state = State {
            upper,
            rx: VecDeque::new(),
            apps: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            next_app: 0,
            link: LinkState::Unknown,
            stale: true,
            readdressed: false,
            asked: false,
            kicked: false,
            closing: false,
            lost: Lost::default(),
            discovery: 0,
            refused_groups: Vec::new(),
        };
        Self {
            name: name.to_owned(),
            state: HostMutex::new(state),
            work: WaitQueue::new("IP work"),
            changed: WaitQueue::new("IP layer"),
        }
    }

    fn refresh(&self) {
        self.state.lock().stale = true;
        self.work.wake_all();
    }

    fn kick(&self) {
        self.state.lock().kicked = true;
        self.work.wake_all();
    }

    fn queue(&self, frame: Received) {
        let mut state = self.state.lock();
        if state.rx.len() >= RX_LIMIT {
            state.lost.receive_queue_full += 1;
            return;
        }
        state.rx.push_back(frame);
        drop(state);
        self.work.wake_all();
    }

    fn notified(&self, notification: &Notification) {
        let mut state = self.state.lock();
        match notification {
            Notification::LinkUp { .. } => state.link = LinkState::Up,
            Notification::LinkDown => state.link = LinkState::Down,
            Notification::Address(_) => state.readdressed = true,
            Notification::Sdu { .. } | Notification::Capabilities => {}
            Notification::Promiscuous(_)
            | Notification::FastpathFlush
            | Notification::AllowedIps
            | Notification::Writable => return,
        }
        (state.stale, state.asked) = (true, false);
        drop(state);
        self.work.wake_all();
    }

    fn wait_for<T>(&self, deadline: Nanos, mut done: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = done(&mut state) {
                return Some(result);
            }
            let (guard, in_time) = self.changed.wait_until(state, deadline);
            state = guard;
            if !in_time {
                return done(&mut state);
            }
        }
    }

    fn run(&self, mut below: impl Below) {
        loop {
            // Together: an address that is taken down comes up by the question that follows.
            let (readdressed, stale) = self.news();
            if readdressed {
                self.take_down(&mut below);
            }
            if stale {
                self.ask(&below);
            }
            let Turn { frames, addresses, groups } = self.turn();
            let refused = below.follow(&addresses, &groups);
            let lost = self.send(&mut below, frames);
            let mut state = self.state.lock();
            state.refused_groups.extend(refused);
            state.lost.transmit_refused += lost;
            if state.closing {
                break;
            }
            if state.rx.is_empty() && !state.stale && !state.readdressed && !state.kicked {
                let deadline = state.wake_at(now());
                let _ = self.work.wait_until(state, deadline);
            }
        }
    }

    /// Whether the link has told an address, and whether it has to be asked how it is, since this was asked last.
    fn news(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.readdressed), std::mem::take(&mut state.stale))
    }

    /// Sends what there is; how many frames were refused. A link that is being closed waits for no room.
    fn send(&self, below: &mut impl Below, frames: Vec<Frame>) -> u64 {
        let mut refused = 0;
        for frame in frames {
            if self.state.lock().closing || below.transmit(frame, fakekernel::now() + TX_PATIENCE).is_err() {
                refused += 1;
            }
        }
        refused
    }

    /// See [`IpLink::take_down`](lab_ip::layer::IpLink::take_down).
    fn take_down(&self, below: &mut impl Below) {
        let mut state = self.state.lock();
        state.upper.link_mut().take_down();
        let groups = state.upper.link_groups();
        drop(state);
        let refused = below.follow(&[], &groups);
        self.state.lock().refused_groups.extend(refused);
    }

    /// Asks what is below how it is.
    fn ask(&self, below: &impl Below) {
        let (info, carrier) = (below.info(), below.carrier());
        let mut state = self.state.lock();
        state.link = carrier.unwrap_or(state.link);
        let up = state.link == LinkState::Up;
        state.upper.set_info(info);
        state.upper.set_up(up);
        state.asked = !state.stale;
        drop(state);
        self.changed.wake_all();
    }

    /// Gives the layer what came, runs the applications, and takes what is to be sent.
    fn turn(&self) -> Turn {
        let now = now();
        let mut state = self.state.lock();
        state.kicked = false;
        let finished = state.turn(now);
        let frames = std::iter::from_fn(|| state.upper.transmit()).collect();
        let groups = state.upper.link_groups();
        let addresses = state.upper.link().addresses().to_vec();
        let notices: Vec<Notice> = std::iter::from_fn(|| state.upper.link_mut().notice()).collect();
        drop(state);
        notices.iter().for_each(|notice| self.log(notice));
        if finished {
            self.changed.wake_all();
        }
        Turn { frames, addresses, groups }
    }
}

impl Shared {
    /// A line in the log of the host.
    fn log(&self, notice: &Notice) {
        let level = if notice.is_warning() { Level::Warning } else { Level::Notice };
        let cx = cx();
        cx.kernel().genunix().cmn_err(&cx, level, &notice.text(&self.name));
    }
}

/// What a turn wants of what is below.
struct Turn {
    frames: Vec<Frame>,
    addresses: Vec<IpCidr>,
    groups: BTreeSet<LinkAddr>,
}

/// What is known of a link before it is asked.
fn placeholder() -> LinkInfo {
    let offload = OffloadCapability::default();
    LinkInfo { own: LinkAddr::ZERO, broadcast: LinkAddr::ZERO, sdu: 2044, offload }
}

impl State {
    /// True if an application finished.
    fn turn(&mut self, now: Duration) -> bool {
        while let Some(frame) = self.rx.pop_front() {
            let discovery = frame.sap == SAP_ARP || frame.sap == SAP_IPV6 && nd::is_nd(&frame.payload);
            self.discovery += u64::from(discovery && frame.kind != Destination::Unicast);
            self.upper.receive(now, frame);
        }
        self.upper.poll(now);
        let finished = self.run_apps(now);
        self.upper.poll(now);
        finished
    }

    fn run_apps(&mut self, now: Duration) -> bool {
        let Some(stack) = self.upper.stack() else { return false };
        let before = self.outcomes.len();
        let outcomes = &mut self.outcomes;
        self.apps.retain(|id, app| match app.run(now, stack) {
            Some(outcome) => {
                outcomes.insert(*id, outcome);
                false
            }
            None => true,
        });
        self.outcomes.len() > before
    }

    fn wake_at(&mut self, now: Duration) -> Nanos {
        let layer = self.upper.poll_at(now);
        let apps = self.apps.values().filter_map(|app| app.wake_at()).min();
        [layer, apps].into_iter().flatten().min().map_or(Nanos::NEVER, nanos)
    }
}

/// Since the boot of the machine, as the layers have it.
pub(super) fn now() -> Duration {
    Duration::from_nanos(fakekernel::now().0)
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
