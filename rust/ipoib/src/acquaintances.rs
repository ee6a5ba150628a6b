//! Link addresses that speak for themselves: of neighbours that answered when IP asked, or whose question came with the GID that it claims.
//!
//! Any host can forge a question in another name, and IP answers it. But an adapter writes its own GID into the route header of what it
//! sends to a group, and a host that forges answers does not know what IP asks. What is not known here has proved nothing: it may be a
//! neighbour all the same.
//!
//! Bounded: a new one takes the place of the oldest.

use core::net::IpAddr;
use core::ops::DerefMut;

use crate::addr::LinkAddr;
use crate::table::{Key, Slot, Table};

/// Room for a link address.
pub type AcquaintanceSlot = Slot<LinkAddr, (), 1>;
/// Room for an IP address that IP asks for.
pub type AskedSlot = Slot<IpAddr, (), 1>;

/// All of a table, the oldest first.
const OLDEST: usize = 0;

/// What is known; `S` and `A` are memory for link addresses and for IP addresses.
#[derive(Debug)]
pub struct Acquaintances<S, A> {
    known: Table<LinkAddr, (), S, 1>,
    asked: Table<IpAddr, (), A, 1>,
}

impl<S, A> Acquaintances<S, A>
where
    S: DerefMut<Target = [AcquaintanceSlot]>,
    A: DerefMut<Target = [AskedSlot]>,
{
    /// As many addresses as there are places. `seed` keys the hash.
    pub fn new(known: S, asked: A, seed: u64) -> Self {
        Self { known: Table::new(known, seed), asked: Table::new(asked, seed) }
    }

    /// IP asks who has this address.
    pub fn ask(&mut self, ip: IpAddr) {
        put(&mut self.asked, ip);
    }

    /// A neighbour says that it has this address: in an answer, or in a frame whose route header has its GID (`vouched`).
    pub fn hear(&mut self, ip: IpAddr, link: &LinkAddr, vouched: bool) {
        let asked = self.asked.find(&ip);
        if let Some(id) = asked {
            self.asked.remove(id);
        }
        if vouched || asked.is_some() {
            put(&mut self.known, link.without_flags());
        }
    }

    /// Whether it has spoken for itself, as far as is remembered.
    pub fn know(&self, link: &LinkAddr) -> bool {
        self.known.find(&link.without_flags()).is_some()
    }

    /// None has.
    pub fn clear(&mut self) {
        clear(&mut self.known);
        clear(&mut self.asked);
    }
}

fn put<K: Key, S: DerefMut<Target = [Slot<K, (), 1>]>>(table: &mut Table<K, (), S, 1>, key: K) {
    let known = table.find(&key);
    if known.is_none()
        && table.len() == table.capacity()
        && let Some(oldest) = table.front(OLDEST)
    {
        table.remove(oldest);
    }
    if let Some(id) = known.or_else(|| table.insert(key, ())) {
        table.push_back(OLDEST, id);
    }
}

fn clear<K: Key, S: DerefMut<Target = [Slot<K, (), 1>]>>(table: &mut Table<K, (), S, 1>) {
    while let Some(id) = table.front(OLDEST) {
        table.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Gid, Qpn};
    use core::net::Ipv4Addr;
    use std::vec::Vec;

    fn link(n: u64) -> LinkAddr {
        LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: n })
    }

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n))
    }

    fn new() -> Acquaintances<Vec<AcquaintanceSlot>, Vec<AskedSlot>> {
        let known = (0..3).map(|_| AcquaintanceSlot::default()).collect();
        Acquaintances::new(known, (0..2).map(|_| AskedSlot::default()).collect(), 5)
    }

    #[test]
    fn the_address_that_spoke_longest_ago_is_forgotten_first() {
        let mut known = new();
        for n in [1, 2, 3, 1, 4] {
            known.hear(ip(0), &link(n), true);
        }
        let mut flagged = *link(1).as_bytes();
        flagged[0] = LinkAddr::FLAG_CONNECTED;
        assert!(known.know(&LinkAddr::from_bytes(flagged)) && known.know(&link(3)) && known.know(&link(4)));
        assert!(!known.know(&link(2)));
        known.clear();
        assert!(!known.know(&link(1)));
    }

    #[test]
    fn an_answer_counts_once_and_if_ip_has_asked() {
        let mut known = new();
        known.hear(ip(1), &link(1), false);
        assert!(!known.know(&link(1)), "nothing was asked");
        (1..=3).for_each(|n| known.ask(ip(n)));
        for n in [1, 3, 3] {
            known.hear(ip(n), &link(n.into()), false);
        }
        known.hear(ip(3), &link(9), false);
        assert!(known.know(&link(3)) && !known.know(&link(9)), "the second answer is nobody's");
        assert!(!known.know(&link(1)), "two questions are remembered");
    }
}
