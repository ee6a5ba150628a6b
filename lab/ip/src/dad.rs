//! Duplicate address detection: an address is used once nobody has answered for it (RFC 5227 for IPv4, RFC 4862 section 5.4 for
//! IPv6, both with illumos's count and pace of fast probes).
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

/// The addresses that an interface shall have.
#[derive(Clone, Debug, Default)]
pub struct Dad(BTreeMap<IpAddr, State>);

impl Dad {
    /// The interface shall have these addresses. New ones are probed for.
    pub fn want(&mut self, addresses: &[IpAddr]) {
        self.0.retain(|known, _| addresses.contains(known));
        for address in addresses {
            self.0.entry(*address).or_insert(State::Probing { sent: 0, next: Duration::ZERO });
        }
    }

    /// All that are looked after, whatever their standing.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied()
    }

    /// What is known of an address; `None` if it is none of ours.
    pub fn standing(&self, address: &IpAddr) -> Option<Standing> {
        Some(match self.0.get(address)? {
            State::Probing { .. } => Standing::Tentative,
            State::Good => Standing::Good,
            State::Duplicate { .. } => Standing::Duplicate,
        })
    }

    /// Somebody else has this address or probes for it; true if that decides it.
    pub fn conflict(&mut self, now: Duration, address: &IpAddr) -> bool {
        match self.0.get_mut(address) {
            Some(state @ State::Probing { .. }) => {
                *state = State::Duplicate { again: now + RECOVERY };
                true
            }
            _ => false,
        }
    }

    /// The addresses to probe for now. To be called while the link is up only.
    pub fn poll(&mut self, now: Duration) -> Vec<IpAddr> {
        let mut probes = Vec::new();
        for (address, state) in &mut self.0 {
            if let State::Duplicate { again } = *state
                && again <= now
            {
                *state = State::Probing { sent: 0, next: now };
            }
            match *state {
                State::Probing { sent: PROBES, next } if next <= now => *state = State::Good,
                State::Probing { sent, next } if next <= now => {
                    *state = State::Probing { sent: sent + 1, next: now + PATIENCE };
                    probes.push(*address);
                }
                _ => {}
            }
        }
        probes
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&self) -> Option<Duration> {
        let at = |state: &State| match state {
            State::Probing { next, .. } => Some(*next),
            State::Duplicate { again } => Some(*again),
            State::Good => None,
        };
        self.0.values().filter_map(at).min()
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
            assert_eq!(dad.poll(at(time)), [ADDRESS]);
            assert_eq!(dad.standing(&ADDRESS), Some(Standing::Tentative));
            assert_eq!(dad.poll_at(), Some(at(time + 150)));
        }
        assert!(dad.poll(at(450)).is_empty());
        assert_eq!((dad.standing(&ADDRESS), dad.poll_at()), (Some(Standing::Good), None));
        assert!(!dad.conflict(at(500), &ADDRESS), "whoever comes later has to give way");
    }

    #[test]
    fn a_duplicate_is_probed_for_again_after_five_minutes() {
        let mut dad = Dad::default();
        dad.want(&[ADDRESS]);
        dad.poll(at(0));
        assert!(dad.conflict(at(10), &ADDRESS));
        assert_eq!(dad.standing(&ADDRESS), Some(Standing::Duplicate));
        assert!(dad.poll(at(450)).is_empty());
        assert_eq!(dad.poll_at(), Some(at(300_010)));
        assert_eq!(dad.poll(at(300_010)), [ADDRESS]);
        assert_eq!(dad.standing(&ADDRESS), Some(Standing::Tentative));
    }

    #[test]
    fn an_address_that_is_not_wanted_is_forgotten() {
        let mut dad = Dad::default();
        dad.want(&[ADDRESS]);
        dad.conflict(at(0), &ADDRESS);
        dad.want(&[]);
        assert_eq!((dad.standing(&ADDRESS), dad.poll_at()), (None, None));
    }
}
