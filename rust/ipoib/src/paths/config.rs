//! What bounds the machine.

use core::time::Duration;

use crate::backoff::Backoff;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Lookups of ports in flight at once, and of groups as many again.
    pub lookups: u16,
    /// Packets waiting per address while half of all the room is free: one IP datagram at least, in as many fragments as it may have.
    pub packets_per_address: u16,
    /// Packets waiting per address that others get while less is free. Those for groups get none then.
    pub packets_when_crowded: u16,
    /// Silence after a lookup that found no path.
    pub retry: Backoff,
    /// How long a handle is used before it is looked up again; an address not used for that long is forgotten.
    pub refresh: Duration,
    /// How long failures are remembered after their back-off.
    pub forget: Duration,
    /// Handles that are in doubt after a change of the SM are looked up again one in this time, on average: every host of the subnet
    /// does so then, when the SM has most to do.
    pub pace: Duration,
    /// But all of them within this time.
    pub spread: Duration,
    /// Questions to the SA that only answers are the cause of: so many at once, and
    pub answers_at_once: u16,
    /// one more in each such time.
    pub answers_pace: Duration,
    /// The same of addresses that have not spoken for themselves, which IP sends to all the same: more of them, since they may be neighbours
    /// that IP has known for longer than the link.
    pub unproved_at_once: u16,
    /// One more in each such time.
    pub unproved_pace: Duration,
    /// How long after an answer found no room what goes to an address without a path is an answer unless its neighbour has spoken for itself.
    pub scarce: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lookups: 16,
            // 65,515 bytes behind an IPv4 header, 1,000 in each fragment at the MTU of 1,020 bytes, and what else is said.
            packets_per_address: 72,
            packets_when_crowded: 8,
            retry: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) },
            refresh: Duration::from_secs(300),
            forget: Duration::from_secs(60),
            pace: Duration::from_millis(100),
            spread: Duration::from_secs(60),
            answers_at_once: 200,
            answers_pace: Duration::from_millis(5),
            unproved_at_once: 400,
            unproved_pace: Duration::from_millis(2),
            scarce: Duration::from_secs(10),
        }
    }
}
