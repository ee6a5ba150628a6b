//! Link addresses that speak for themselves: of neighbours that answered when IP asked, or whose frame came with the GID that it claims.
//!
//! Any host can forge a frame in another name, and IP answers it. An adapter writes its own GID into the route header of what it sends to a
//! group: an address with that GID is *vouched*. An answer that IP has asked for counts, too, but less: ARP asks all hosts, so a forger hears
//! the question. An address without an entry here has proved nothing: it may be a neighbour all the same.
//!
//! Bounded, and in parts, so that forgers take no other host's place:
//! - A GID has `MOST_OF_GID` places: a host can make up sixteen million queue pairs under its own one.
//! - Answers have a quarter of the places, until the SA has told a way to their port: a forger can make up any GID, and has no way to it.
//!
//! Where there is no place the address that has proved least goes, and of these the one that spoke longest ago.

use core::net::IpAddr;
use core::ops::DerefMut;
use core::time::Duration;

use crate::addr::{Gid, LinkAddr};
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

/// Places of one GID. A link has one address, and a port has few links of a partition.
const MOST_OF_GID: usize = 8;
/// How long answers to a question count. IP asks again after a second.
const ANSWERS: Duration = Duration::from_secs(10);

/// Room for a link address.
pub type AcquaintanceSlot = Slot<LinkAddr, Proof, PROOFS>;
/// Room for an IP address that IP asks for.
pub type AskedSlot = Slot<IpAddr, (), 1>;

/// All questions, the oldest first.
const OLDEST: usize = 0;
const PROOFS: usize = 4;

/// What an address has proved, the least first. Each is a list of the table, too, the one that spoke longest ago first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// It answered what IP asked.
    Answered,
    /// The same, and the SA has told a way there.
    Reached,
    /// An adapter has written its GID.
    Vouched,
    /// The same, and the SA has told a way there, because something was sent.
    VouchedAndReached,
}

impl Proof {
    const ALL: [Self; PROOFS] = [Self::Answered, Self::Reached, Self::Vouched, Self::VouchedAndReached];
    /// In which order they give way to one that is no mere answer: hosts that are only heard are many.
    const GIVE_WAY: [Self; PROOFS - 1] = [Self::Vouched, Self::Reached, Self::VouchedAndReached];

    const fn reached(self) -> Self {
        match self {
            Self::Answered | Self::Reached => Self::Reached,
            Self::Vouched | Self::VouchedAndReached => Self::VouchedAndReached,
        }
    }

    const fn vouched(self) -> Self {
        match self {
            Self::Answered | Self::Vouched => Self::Vouched,
            Self::Reached | Self::VouchedAndReached => Self::VouchedAndReached,
        }
    }
}

/// What is known; `S` and `A` are memory for link addresses and for IP addresses.
#[derive(Debug)]
pub struct Acquaintances<S, A> {
    known: Table<LinkAddr, Proof, S, PROOFS>,
    /// How many there are of [`Proof::Answered`].
    answered: usize,
    asked: Table<IpAddr, (), A, 1>,
}

impl<S, A> Acquaintances<S, A>
where
    S: DerefMut<Target = [AcquaintanceSlot]>,
    A: DerefMut<Target = [AskedSlot]>,
{
    /// As many addresses as there are places. `seed` keys the hash.
    pub fn new(known: S, asked: A, seed: u64) -> Self {
        Self { known: Table::new(known, seed), answered: 0, asked: Table::new(asked, seed) }
    }

    /// IP asks who has this address.
    pub fn ask(&mut self, now: Instant, ip: IpAddr) {
        let known = self.asked.find(&ip);
        if known.is_none()
            && self.asked.len() == self.asked.capacity()
            && let Some(oldest) = self.asked.front(OLDEST)
        {
            self.asked.remove(oldest);
        }
        if let Some(id) = known.or_else(|| self.asked.insert(ip, ())) {
            self.asked.push_back(OLDEST, id);
            self.asked.set_deadline(id, Some(now + ANSWERS));
        }
    }

    /// A neighbour says that it has this address: in an answer, or in a frame whose route header has its GID (`vouched`). A forger's answer
    /// may be the first, so others count beside it until one is vouched for.
    pub fn hear(&mut self, now: Instant, ip: IpAddr, link: &LinkAddr, vouched: bool) {
        let asked = self.asked.find(&ip);
        let in_time = asked.and_then(|id| self.asked.deadline(id)).is_some_and(|until| now < until);
        if let Some(id) = asked.filter(|_| vouched || !in_time) {
            self.asked.remove(id);
        }
        if !vouched && !in_time {
            return;
        }
        let link = link.without_flags();
        let before = self.known.find(&link).and_then(|id| self.known.get(id).copied());
        let proof = before.unwrap_or(Proof::Answered);
        self.put(link, if vouched { proof.vouched() } else { proof });
    }

    /// The SA has told a way to this address.
    pub fn reach(&mut self, link: &LinkAddr) {
        let link = link.without_flags();
        let before = self.known.find(&link).and_then(|id| self.known.get(id).copied());
        if let Some(proof) = before {
            self.put(link, proof.reached());
        }
    }

    /// Whether it has spoken for itself, as far as is remembered.
    pub fn know(&self, link: &LinkAddr) -> bool {
        self.known.find(&link.without_flags()).is_some()
    }

    /// None has.
    pub fn clear(&mut self) {
        for list in Proof::ALL {
            while let Some(id) = self.known.front(list as usize) {
                self.remove(id);
            }
        }
        while let Some(id) = self.asked.front(OLDEST) {
            self.asked.remove(id);
        }
    }

    /// Puts an address where it belongs, as the latest one.
    fn put(&mut self, link: LinkAddr, proof: Proof) {
        match self.known.find(&link) {
            Some(id) => self.remove(id),
            None => self.make_room_of_gid(link.gid()),
        }
        self.make_room(proof);
        if let Some(id) = self.known.insert(link, proof) {
            self.known.push_back(proof as usize, id);
            self.answered += usize::from(proof == Proof::Answered);
        }
    }

    fn remove(&mut self, id: Id) {
        if let Some((_, proof)) = self.known.remove(id) {
            self.answered -= usize::from(proof == Proof::Answered);
        }
    }

    /// Of those of a GID the one goes that has proved least; of several the one that came first.
    fn make_room_of_gid(&mut self, gid: Gid) {
        let (mut count, mut least) = (0, None);
        // The latest comes first in the chain.
        let mut next = self.known.siblings(&LinkAddr::unicast(crate::addr::Qpn::MULTICAST, gid));
        while let Some(id) = next {
            next = self.known.next_sibling(id);
            let Some(proof) = self.known.get(id).copied() else { continue };
            if self.known.key(id).is_some_and(|link| link.gid() == gid) {
                count += 1;
                if least.is_none_or(|(_, least)| proof <= least) {
                    least = Some((id, proof));
                }
            }
        }
        if let Some((id, _)) = least.filter(|_| count >= MOST_OF_GID) {
            self.remove(id);
        }
    }

    /// Mere answers have a quarter of all places, and all others the rest.
    fn make_room(&mut self, proof: Proof) {
        let of_answers = (self.known.capacity() / 4).max(1);
        let (used, room, give_way) = match proof {
            Proof::Answered => (self.answered, of_answers, &[Proof::Answered][..]),
            _ => (
                self.known.len() - self.answered,
                self.known.capacity().saturating_sub(of_answers),
                &Proof::GIVE_WAY[..],
            ),
        };
        if used >= room
            && let Some(id) = give_way.iter().find_map(|list| self.known.front(*list as usize))
        {
            self.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
