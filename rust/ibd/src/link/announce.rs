//! Telling the MAC layer: address, MTU and state, in that order, always the latest, and only what has changed.
//!
//! On a thread of its own, because announcing an address waits for the MAC perimeter, whose owner may be stopping this very
//! link. Stop does not wait for this thread.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::{LinkState, Mac};
use ipoib::LinkAddr;
use ipoib::link::Status;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{AllocError, KArc};

/// What is to be announced.
pub(crate) struct Announcer {
    news: KArc<Monitor<News>>,
    /// Bits per second, for whoever asks; set before the link is said to be up.
    speed: KArc<AtomicU64>,
}

/// The latest status, and whether it is being announced.
pub(crate) struct News {
    latest: Option<Status>,
    busy: bool,
}

impl Announcer {
    pub(crate) fn new() -> Result<Self, AllocError> {
        let news = News { latest: None, busy: false };
        Ok(Self { news: KArc::new(Monitor::new(news)?)?, speed: KArc::new(AtomicU64::new(0))? })
    }

    /// Announces a status soon, instead of an older one that has not been announced yet.
    pub(crate) fn announce(&self, status: Status) {
        let mut news = self.news.lock();
        news.latest = Some(status);
        drop(news);
        self.news.notify_all();
    }

    /// Whether everything has been said.
    pub(crate) fn is_idle(&self) -> bool {
        let news = self.news.lock();
        news.latest.is_none() && !news.busy
    }

    /// Bits per second.
    pub(crate) fn speed(&self) -> u64 {
        self.speed.load(Ordering::Relaxed)
    }

    /// Starts the thread. **May block.**
    pub(crate) fn spawn(&self, mac: Mac) -> Result<Worker<News>, AllocError> {
        let speed = self.speed.clone();
        Worker::spawn(c"ibd_announce", self.news.clone(), move |parker| live(parker, &mac, &speed))
    }
}

fn live(parker: &Parker<'_, News>, mac: &Mac, speed: &AtomicU64) {
    let mut told = Told::default();
    let mut news = parker.lock();
    while !parker.should_stop() {
        let Some(status) = news.latest.take() else {
            parker.wait(&mut news);
            continue;
        };
        news.busy = true;
        drop(news);
        told.prepare(mac, speed, &status);
        news = parker.lock();
        // Announcing the address may have taken long: what has become old meanwhile is not said.
        let outdated = news.latest.is_some();
        drop(news);
        if !outdated {
            told.link(mac, &status);
        }
        news = parker.lock();
        news.busy = false;
    }
}

/// What the MAC layer was told last. It passes on whatever it is told, and IP takes its addresses down and up for an address that
/// has not changed.
#[derive(Default)]
struct Told {
    address: Option<LinkAddr>,
    sdu: Option<u32>,
    /// The state, and the speed that went with it.
    link: Option<(LinkState, u64)>,
}

impl Told {
    fn prepare(&mut self, mac: &Mac, speed: &AtomicU64, status: &Status) {
        let Status::Up(up) = status else { return };
        speed.store(up.speed, Ordering::Relaxed);
        let sdu = up.mtu.sdu();
        if self.sdu != Some(sdu) {
            // Refused only if it were below the minimum, which is 0.
            let _ = mac.sdu_update(sdu, sdu);
            self.sdu = Some(sdu);
        }
        if self.address != Some(up.address) {
            mac.address_update(up.address.as_bytes());
            self.address = Some(up.address);
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
