//! Telling the MAC layer: address, MTU and state, in that order, always the latest.
//!
//! On a thread of its own, because announcing an address waits for the MAC perimeter, whose owner may be stopping this very
//! link. Stop does not wait for this thread.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::{LinkState, Mac};
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
    let mut news = parker.lock();
    while !parker.should_stop() {
        let Some(status) = news.latest.take() else {
            parker.wait(&mut news);
            continue;
        };
        news.busy = true;
        drop(news);
        prepare(mac, speed, &status);
        news = parker.lock();
        // Announcing the address may have taken long: what has become old meanwhile is not said.
        let outdated = news.latest.is_some();
        drop(news);
        if !outdated {
            mac.link_update(state_of(&status));
        }
        news = parker.lock();
        news.busy = false;
    }
}

fn prepare(mac: &Mac, speed: &AtomicU64, status: &Status) {
    let Status::Up(up) = status else { return };
    speed.store(up.speed, Ordering::Relaxed);
    let sdu = up.mtu.sdu();
    // Refused only if it were below the minimum, which is 0.
    let _ = mac.sdu_update(sdu, sdu);
    mac.address_update(up.address.as_bytes());
}

fn state_of(status: &Status) -> LinkState {
    match status {
        Status::Stopped => LinkState::Unknown,
        Status::Down(_) => LinkState::Down,
        Status::Up(_) => LinkState::Up,
    }
}
