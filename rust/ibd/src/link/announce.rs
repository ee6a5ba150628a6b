//! Telling the MAC layer: address, MTU and state, in that order, always the latest, and only what has changed.
//!
//! On a thread of its own, because an address is told inside the MAC perimeter, whose owner may be stopping this very link. Stop
//! does not wait for this thread. Start, which is inside, tells the address itself: who opens the link is answered with it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use gldv3::{LinkState, Mac};
use ipoib::LinkAddr;
use ipoib::connections::LONGEST_MESSAGE;
use ipoib::link::Status;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{KArc, MayBlock};

/// Octets of the longest packet on a connection, without the IPoIB header: what the C driver says.
pub(super) const CONNECTED_SDU: u32 = LONGEST_MESSAGE - 4;

/// No bound but the link's own.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// What is to be announced.
pub(crate) struct Announcer {
    news: KArc<Monitor<News>>,
    shown: KArc<Shown>,
}

/// What others see of what is announced, and change.
struct Shown {
    /// Bits per second, for whoever asks; set before the link is said to be up.
    speed: AtomicU64,
    /// Packets to neighbours with connections may be as long as those take.
    connected: AtomicBool,
    /// The largest payload that the administrator allows, in bytes.
    most: AtomicU32,
}

impl Shown {
    /// The longest packets behind the header, of all and of those to groups, of a link that has connections if that is wanted, or `listens`.
    fn sdus(&self, datagram: u32, listens: bool) -> (u32, u32) {
        let connected = listens && self.connected.load(Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        (if connected { CONNECTED_SDU } else { datagram }.min(most), datagram.min(most))
    }
}

/// What is to be told, what was told last, and whether somebody is telling.
///
/// Whatever the MAC layer is told it passes on, and IP takes its addresses down and up for an address that has not changed.
pub(crate) struct News {
    latest: Option<Status>,
    /// The MAC layer has another MTU than it was told: from the administrator.
    bounded: bool,
    busy: bool,
    /// The link's address.
    address: Option<LinkAddr>,
    /// What the MAC layer was told last; read and changed inside the perimeter.
    told: Option<LinkAddr>,
    /// The MAC layer has another address than it was told, from an administrator.
    replaced: bool,
    /// The MAC layer has let go of the link: nothing can be told any more.
    over: bool,
}

impl News {
    fn has_new_address(&self) -> bool {
        self.replaced || self.address != self.told
    }
}

impl Announcer {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let news = News {
            latest: None,
            bounded: false,
            busy: false,
            address: None,
            told: None,
            replaced: false,
            over: false,
        };
        let shown = Shown {
            speed: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            most: AtomicU32::new(UNBOUNDED),
        };
        let news = KArc::new_waiting(Monitor::new_waiting(news, may_block), may_block);
        Self { news, shown: KArc::new_waiting(shown, may_block) }
    }

    /// Announces a status soon, instead of an older one that has not been announced yet.
    pub(crate) fn announce(&self, status: Status) {
        let mut news = self.news.lock();
        news.latest = Some(status);
        drop(news);
        self.news.notify_all();
    }

    /// Announces an address soon, and before any status that comes after it.
    pub(crate) fn announce_address(&self, address: LinkAddr) {
        let mut news = self.news.lock();
        news.address = Some(address);
        drop(news);
        self.news.notify_all();
    }

    /// Notes an address, for [`Announcer::tell_address`]. With the lock held under which it was found: one that is found later must not
    /// be told first.
    pub(crate) fn note_address(&self, address: LinkAddr) {
        self.news.lock().address = Some(address);
    }

    /// Announces the address before this returns. **Perimeter**, or it **may block** until others have left it.
    pub(crate) fn tell_address(&self, mac: &Mac) {
        tell_address(&self.news, mac);
    }

    /// The MAC layer takes an address for the link's: whether it is the one that it was told last. If it is one that it was not told, the
    /// right one is announced once more, unless the MAC layer goes back to that before others are in the perimeter. **Perimeter.**
    pub(crate) fn has_told(&self, address: &LinkAddr) -> bool {
        let mut news = self.news.lock();
        let is_told = news.told.as_ref() == Some(address);
        news.replaced = !is_told;
        drop(news);
        self.news.notify_all();
        is_told
    }

    /// Whether everything has been said that can be.
    pub(crate) fn is_idle(&self) -> bool {
        let news = self.news.lock();
        let is_told = news.over || !news.has_new_address();
        news.latest.is_none() && !news.bounded && is_told && !news.busy
    }

    /// The MAC layer has let go of the link.
    pub(crate) fn end(&self) {
        self.news.lock().over = true;
    }

    /// The MAC layer, which was about to let go of the link, has it still: what could not be told meanwhile is told.
    pub(crate) fn go_on(&self) {
        self.sdu_changes();
    }

    /// Bits per second.
    pub(crate) fn speed(&self) -> u64 {
        self.shown.speed.load(Ordering::Relaxed)
    }

    /// Of a link that is stopped: whether packets may be as long as a connection takes. Tells the MAC layer, as it shows the MTU before the
    /// link is started.
    pub(crate) fn set_connected(&self, mac: &Mac, connected: bool, first_sdu: u32) {
        self.shown.connected.store(connected, Ordering::Relaxed);
        self.sdu_changes();
        let (sdu, multicast) = self.shown.sdus(first_sdu, true);
        // Refused only if it were below the minimum, which is 0.
        let _ = mac.sdu_update(sdu, multicast);
    }

    /// From now on no larger payload is announced than this, or than the link has. **Perimeter**: the MAC layer believes what it was asked for
    /// until its owner has left it, and hears what the link really has after that.
    pub(crate) fn bound(&self, most: u32) {
        self.shown.most.store(most, Ordering::Relaxed);
        self.sdu_changes();
    }

    fn sdu_changes(&self) {
        self.news.lock().bounded = true;
        self.news.notify_all();
    }

    /// Starts the thread. **May block.**
    pub(crate) fn spawn(&self, mac: Mac, may_block: &MayBlock) -> Worker<News> {
        let (news, shown) = (self.news.clone(), self.shown.clone());
        let body = move |parker: &Parker<'_, News>| live(parker, &news, &mac, &shown);
        Worker::spawn(c"ibd_announce", self.news.clone(), may_block, body)
    }
}

/// One thread at a time is in the perimeter, so what it finds there is what it leaves there. `false` if the link is not registered: the
/// next start tells.
fn tell_address(news: &Monitor<News>, mac: &Mac) -> bool {
    let Some(perimeter) = mac.perimeter() else { return false };
    let mut state = news.lock();
    let address = if state.has_new_address() { state.address } else { None };
    (state.told, state.replaced) = (state.address, false);
    drop(state);
    if let Some(address) = address {
        perimeter.address_update(address.as_bytes());
    }
    true
}

fn live(parker: &Parker<'_, News>, news: &Monitor<News>, mac: &Mac, shown: &Shown) {
    let mut told = Told::default();
    let mut state = parker.lock();
    while !parker.should_stop() {
        let (status, new_address) = (state.latest.take(), state.has_new_address());
        let bounded = core::mem::take(&mut state.bounded);
        if status.is_none() && !new_address && !bounded {
            parker.wait(&mut state);
            continue;
        }
        state.busy = true;
        drop(state);
        if let Some(status) = &status {
            told.prepare(mac, shown, status);
        }
        let can_tell = !new_address || tell_address(news, mac);
        state = parker.lock();
        // Announcing the address may have taken long: what has become old meanwhile is not said.
        let outdated = state.latest.is_some();
        drop(state);
        if let Some(status) = status.filter(|_| !outdated) {
            told.link(mac, &status);
        }
        if bounded {
            told.bounded(mac, shown);
        }
        state = parker.lock();
        state.busy = false;
        if !can_tell && state.latest.is_none() && !state.bounded {
            parker.wait(&mut state);
        }
    }
}

/// What else the MAC layer was told last.
#[derive(Default)]
struct Told {
    /// What a datagram carried when the link was up last.
    datagram: u32,
    /// Whether somebody listened for connections then. Without that it opens none either.
    listens: bool,
    /// `None` if the MAC layer may have other numbers since.
    sdus: Option<(u32, u32)>,
    /// The state, and the speed that went with it.
    link: Option<(LinkState, u64)>,
}

impl Told {
    fn prepare(&mut self, mac: &Mac, shown: &Shown, status: &Status) {
        let Status::Up(up) = status else { return };
        shown.speed.store(up.speed, Ordering::Relaxed);
        (self.datagram, self.listens) = (up.mtu.sdu(), up.address.has_connections());
        self.sdus(mac, shown);
    }

    /// The MAC layer has the number that it was asked for. A link that is not up has none of its own until it is.
    fn bounded(&mut self, mac: &Mac, shown: &Shown) {
        self.sdus = None;
        if matches!(self.link, Some((LinkState::Up, _))) {
            self.sdus(mac, shown);
        }
    }

    fn sdus(&mut self, mac: &Mac, shown: &Shown) {
        if self.sdus == Some(shown.sdus(self.datagram, self.listens)) {
            return;
        }
        // Whoever sets a bound is inside until the MAC layer has it.
        let perimeter = mac.perimeter();
        let sdus = shown.sdus(self.datagram, self.listens);
        // Refused of a link that the MAC layer is about to let go of.
        self.sdus = mac.sdu_update(sdus.0, sdus.1).is_ok().then_some(sdus);
        drop(perimeter);
    }

    fn link(&mut self, mac: &Mac, status: &Status) {
        let (state, speed) = match status {
            Status::Stopped => (LinkState::Unknown, 0),
            Status::Down(_) => (LinkState::Down, 0),
            Status::Up(up) => (LinkState::Up, up.speed),
        };
        if self.link != Some((state, speed)) {
            mac.link_update(state);
            self.link = Some((state, speed));
        }
    }
}
