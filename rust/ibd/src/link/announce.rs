//! Telling the MAC layer: address, MTU and state, in that order, always the latest, and only what has changed.
//!
//! On a thread of its own, because an address is told inside the MAC perimeter, whose owner may be stopping this very link. Stop
//! does not wait for this thread. Start, which is inside, tells the address itself: who opens the link is answered with it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gldv3::{LinkState, Mac};
use ipoib::LinkAddr;
use ipoib::connections::LONGEST_MESSAGE;
use ipoib::link::Status;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{AllocError, KArc};

/// Octets of the longest packet on a connection, without the IPoIB header: what the C driver says.
const CONNECTED_SDU: u32 = LONGEST_MESSAGE - 4;

/// What is to be announced.
pub(crate) struct Announcer {
    news: KArc<Monitor<News>>,
    shown: KArc<Shown>,
}

/// What others see of what is announced, and change.
#[derive(Default)]
struct Shown {
    /// Bits per second, for whoever asks; set before the link is said to be up.
    speed: AtomicU64,
    /// Packets to neighbours with connections may be as long as those take.
    connected: AtomicBool,
    /// The MAC layer was told another MTU than that of the last announcement.
    outdated: AtomicBool,
}

impl Shown {
    /// The longest packets behind the header, of all and of those to groups.
    fn sdus(&self, datagram: u32) -> (u32, u32) {
        let connected = self.connected.load(Ordering::Relaxed);
        (if connected { CONNECTED_SDU } else { datagram }, datagram)
    }
}

/// What is to be told, what was told last, and whether somebody is telling.
///
/// Whatever the MAC layer is told it passes on, and IP takes its addresses down and up for an address that has not changed.
pub(crate) struct News {
    latest: Option<Status>,
    busy: bool,
    /// The link's address.
    address: Option<LinkAddr>,
    /// What the MAC layer has; read and changed inside the perimeter.
    told: Option<LinkAddr>,
}

impl Announcer {
    pub(crate) fn new() -> Result<Self, AllocError> {
        let news = News { latest: None, busy: false, address: None, told: None };
        Ok(Self { news: KArc::new(Monitor::new(news)?)?, shown: KArc::new(Shown::default())? })
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

    /// Announces an address before this returns. **Perimeter**, or it **may block** until others have left it.
    pub(crate) fn tell_address(&self, mac: &Mac, address: LinkAddr) {
        self.news.lock().address = Some(address);
        tell_address(&self.news, mac);
    }

    /// Whether everything has been said.
    pub(crate) fn is_idle(&self) -> bool {
        let news = self.news.lock();
        news.latest.is_none() && news.address == news.told && !news.busy
    }

    /// Bits per second.
    pub(crate) fn speed(&self) -> u64 {
        self.shown.speed.load(Ordering::Relaxed)
    }

    /// Of a link that is stopped: whether packets may be as long as a connection takes. Tells the MAC layer, as it shows the MTU before the
    /// link is started.
    pub(crate) fn set_connected(&self, mac: &Mac, connected: bool, first_sdu: u32) {
        self.shown.connected.store(connected, Ordering::Relaxed);
        self.shown.outdated.store(true, Ordering::Relaxed);
        let (sdu, multicast) = self.shown.sdus(first_sdu);
        // Refused only if it were below the minimum, which is 0.
        let _ = mac.sdu_update(sdu, multicast);
    }

    /// Starts the thread. **May block.**
    pub(crate) fn spawn(&self, mac: Mac) -> Result<Worker<News>, AllocError> {
        let (news, shown) = (self.news.clone(), self.shown.clone());
        Worker::spawn(c"ibd_announce", self.news.clone(), move |parker| live(parker, &news, &mac, &shown))
    }
}

/// One thread at a time is in the perimeter, so what it finds there is what it leaves there. `false` if the link is not registered: the
/// next start tells.
fn tell_address(news: &Monitor<News>, mac: &Mac) -> bool {
    let Some(perimeter) = mac.perimeter() else { return false };
    let mut state = news.lock();
    let address = state.address.filter(|address| state.told != Some(*address));
    state.told = state.address;
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
        let (status, new_address) = (state.latest.take(), state.address != state.told);
        if status.is_none() && !new_address {
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
        state = parker.lock();
        state.busy = false;
        if !can_tell && state.latest.is_none() {
            parker.wait(&mut state);
        }
    }
}

/// What else the MAC layer was told last.
#[derive(Default)]
struct Told {
    sdus: Option<(u32, u32)>,
    /// The state, and the speed that went with it.
    link: Option<(LinkState, u64)>,
}

impl Told {
    fn prepare(&mut self, mac: &Mac, shown: &Shown, status: &Status) {
        let Status::Up(up) = status else { return };
        shown.speed.store(up.speed, Ordering::Relaxed);
        let sdus = shown.sdus(up.mtu.sdu());
        if shown.outdated.swap(false, Ordering::Relaxed) || self.sdus != Some(sdus) {
            // As above.
            let _ = mac.sdu_update(sdus.0, sdus.1);
            self.sdus = Some(sdus);
        }
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
