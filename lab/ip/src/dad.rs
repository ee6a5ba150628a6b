//! Duplicate address detection: an address is used once nobody has answered for it (RFC 5227 for IPv4, RFC 4862 section 5.4 for
//! IPv6, both with illumos's count and pace of fast probes), and given up when somebody else insists on it ([`super::defence`]).
//!
//! Pure: addresses, the time and what was heard go in; what to probe for comes out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// How often an address is asked for before it is used.
const PROBES: u32 = 3;
/// The time after each probe in which somebody may answer.
const PATIENCE: Duration = Duration::from_millis(150);
/// A duplicate is probed for again after so long (`ip_dup_recovery`).
const RECOVERY: Duration = Duration::from_secs(300);

/// How an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not known yet whether somebody has it.
    Tentative,
    /// Nobody else has it.
    Good,
    /// Somebody else does.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Probing { sent: u32, next: Duration },
    Good,
    Duplicate { again: Duration },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// It was a duplicate, and is not known to be good since.
    was_duplicate: bool,
}

/// What has become due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Addresses to probe for.
    pub probes: Vec<IpAddr>,
    /// Those that were duplicates and are good now.
    pub recovered: Vec<IpAddr>,
}

/// The addresses that an interface shall have.
#[derive(Clone, Debug, Default)]
pub struct Dad {
    /// New addresses are good at once.
    trusting: bool,
    known: BTreeMap<IpAddr, Entry>,
}

impl Dad {
    /// The same without probes: each address is taken to be good until somebody else insists on it.
    pub fn trusting() -> Self {
        Self { trusting: true, ..Self::default() }
    }

    /// Whether a new address is good at once.
    pub fn is_trusting(&self) -> bool {
        self.trusting
    }

    /// Forgets what is known of all addresses.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// The interface shall have these addresses. New ones are probed for.
    pub fn want(&mut self, addresses: &[IpAddr]) {
        self.known.retain(|known, _| addresses.contains(known));
        let fresh = Entry { state: self.first(Duration::ZERO), was_duplicate: false };
        for address in addresses {
            self.known.entry(*address).or_insert(fresh);
        }
    }

    fn first(&self, now: Duration) -> State {
        if self.trusting { State::Good } else { State::Probing { sent: 0, next: now } }
    }

    /// All that are looked after, whatever their standing.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.known.keys().copied()
    }

    /// What is known of an address; `None` if it is none of ours.
    pub fn standing(&self, address: &IpAddr) -> Option<Standing> {
        Some(match self.known.get(address)?.state {
            State::Probing { .. } => Standing::Tentative,
            State::Good => Standing::Good,
            State::Duplicate { .. } => Standing::Duplicate,
        })
    }

    /// Somebody else has this address. True if that is to be told: it was not a duplicate before.
    pub fn fail(&mut self, now: Duration, address: &IpAddr) -> bool {
        let Some(entry) = self.known.get_mut(address) else { return false };
        entry.state = State::Duplicate { again: now + RECOVERY };
        !std::mem::replace(&mut entry.was_duplicate, true)
    }

    /// What is due now. To be called while the link is up only.
    pub fn poll(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        let first = self.first(now);
        for (address, entry) in &mut self.known {
            if let State::Duplicate { again } = entry.state
                && again <= now
            {
                entry.state = first;
            }
            match entry.state {
                State::Probing { sent: PROBES, next } if next <= now => entry.state = State::Good,
                State::Probing { sent, next } if next <= now => {
                    entry.state = State::Probing { sent: sent + 1, next: now + PATIENCE };
                    due.probes.push(*address);
                }
                _ => {}
            }
            if let State::Good = entry.state
                && std::mem::take(&mut entry.was_duplicate)
            {
                due.recovered.push(*address);
            }
        }
        due
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&self) -> Option<Duration> {
        let at = |entry: &Entry| match entry.state {
            State::Probing { next, .. } => Some(next),
            State::Duplicate { again } => Some(again),
            State::Good => None,
        };
        self.known.values().filter_map(at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_address_that_nobody_answers_for_is_good_after_three_probes() {
        let mut dad = Dad::default();
        dad.want(&[ADDRESS]);
        for time in [0, 150, 300] {
            assert_eq!(dad.poll(at(time)).probes, [ADDRESS]);
            assert_eq!(dad.standing(&ADDRESS), Some(Standing::Tentative));
            assert_eq!(dad.poll_at(), Some(at(time + 150)));
        }
        assert_eq!(dad.poll(at(450)), Due::default());
        assert_eq!((dad.standing(&ADDRESS), dad.poll_at()), (Some(Standing::Good), None));
    }

    #[test]
    fn a_duplicate_is_probed_for_again_after_five_minutes() {
        let mut dad = Dad::default();
        dad.want(&[ADDRESS]);
        dad.poll(at(0));
        assert!(dad.fail(at(10), &ADDRESS));
        assert_eq!(dad.standing(&ADDRESS), Some(Standing::Duplicate));
        assert_eq!(dad.poll(at(450)), Due::default());
        assert_eq!(dad.poll_at(), Some(at(300_010)));
        assert_eq!(dad.poll(at(300_010)).probes, [ADDRESS]);
        assert_eq!(dad.standing(&ADDRESS), Some(Standing::Tentative));
        assert!(!dad.fail(at(300_020), &ADDRESS), "that has been told");
        let last = (600_020..601_000).step_by(10).map(|time| dad.poll(at(time)).recovered);
        assert_eq!(last.flatten().collect::<Vec<_>>(), [ADDRESS]);
    }

    #[test]
    fn an_address_that_is_not_wanted_is_forgotten() {
        let mut dad = Dad::default();
        dad.want(&[ADDRESS]);
        dad.fail(at(0), &ADDRESS);
        dad.want(&[]);
        assert_eq!((dad.standing(&ADDRESS), dad.poll_at()), (None, None));
    }
}
