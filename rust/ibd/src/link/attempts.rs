//! Attempts to open connections that are out, of all links of the module. `ibcm` makes sixteen for the whole computer; the next ones wait in a queue of
//! its own, without a bound in time, for whoever wants them. The module has fewer, so that its links and others who use connections seldom wait there.

use core::sync::atomic::{AtomicU32, Ordering};

const MOST: u32 = 12;
static OUT: AtomicU32 = AtomicU32::new(0);

/// A place for one attempt, as long as this lives.
pub(crate) struct AttemptPlace(());

impl AttemptPlace {
    /// One more, for a link that has so many. **Any** context.
    pub(crate) fn take(has: u32) -> Option<Self> {
        let more = |out: u32| may_have_another(has, out).then_some(out + 1);
        OUT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }
}

/// A link that has some leaves one to those that have none, and has fewer than twice as many as are free beside: one alone two thirds of all.
const fn may_have_another(has: u32, out: u32) -> bool {
    let free = MOST.saturating_sub(out);
    if has == 0 { free != 0 } else { has < 2 * free.saturating_sub(1) }
}

impl Drop for AttemptPlace {
    fn drop(&mut self) {
        OUT.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, may_have_another};
    use std::vec;

    /// Each takes what it may, one after the other.
    fn take_all(has: &mut [u32]) {
        for link in 0..has.len() {
            while may_have_another(has[link], has.iter().sum()) {
                has[link] += 1;
            }
        }
        assert!(has.iter().sum::<u32>() <= MOST);
    }

    #[test]
    fn one_link_has_eight_and_several_that_all_want_more_soon_have_about_equally_many() {
        for links in 1..=MOST as usize {
            let mut has = vec![0; links];
            for ended in 0..1_000 {
                take_all(&mut has);
                // An attempt of one of them is over, of each in turn.
                has[ended % links] = has[ended % links].saturating_sub(1);
            }
            take_all(&mut has);
            let (least, most) = (has.iter().min().copied(), has.iter().max().copied());
            assert!(least >= Some(1) && most <= least.map(|least| least + 2), "{links}: {has:?}");
            assert!(links != 1 || has == [8]);
        }
    }
}
