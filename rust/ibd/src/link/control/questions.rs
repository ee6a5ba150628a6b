//! Questions how a neighbour is reached: what is known answers them, at once or later.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ibtf::{Asker, PathRecord};
use ipoib::link::{Status, Up};
use ipoib::paths::{DropReason, Known};
use ipoib::{Instant, LinkAddr, Mgid, Mtu, Scope};
use kernel::{Errno, KBox, KVec, MayBlock, Vacant};

use super::Control;
use crate::link::neighbour::Neighbour;

/// Questions to one link that may wait at once.
const MOST: usize = 64;

/// One that waits.
pub(in crate::link) struct Question {
    to: LinkAddr,
    record: PathRecord,
    asker: Asker,
}

/// The questions that wait, and how many are being answered.
pub(crate) struct Questions {
    waiting: KVec<KBox<Question>>,
    leaving: usize,
}

/// A question that has its answer: to be told without a lock.
pub(crate) struct Answered {
    question: KBox<Question>,
    result: Result<(), Errno>,
}

impl Questions {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        Self { waiting: KVec::with_capacity_waiting(MOST, may_block), leaving: 0 }
    }

    /// How many askers have not been called.
    pub(crate) fn open(&self) -> usize {
        self.waiting.len() + self.leaving
    }

    /// An asker has been called.
    pub(in crate::link) fn told(&mut self) {
        self.leaving -= 1;
    }
}

impl Answered {
    /// Calls the asker. Without a lock.
    pub(in crate::link) fn tell(self) {
        let Question { record, asker, .. } = self.question.into_inner();
        asker.answer(self.result.err(), &record);
    }
}

impl Control {
    pub(in crate::link) fn tell_path(&mut self, now: Instant, record: &mut PathRecord) -> Result<(), Errno> {
        let (to, fresh) = self.begin(now, record)?;
        *record = fresh;
        let known = self.paths.known(now, &to);
        self.describe(known, record).unwrap_or(Err(Errno::EAGAIN))
    }

    /// Takes a question in, into memory that the caller has, because this is under a lock.
    pub(in crate::link) fn look_up(
        &mut self,
        now: Instant,
        question: &PathRecord,
        asker: Asker,
        room: Vacant<Question>,
    ) -> Result<(), (Errno, Asker)> {
        match self.begin(now, question) {
            Ok((to, record)) => {
                let question = room.fill(Question { to, record, asker });
                let full = self.questions.waiting.push_within_capacity(question);
                full.map_err(|question| (Errno::EBUSY, question.into_inner().asker))
            }
            Err(error) => Err((error, asker)),
        }
    }

    /// Has the address looked up that a question is about, if that makes sense: the address, and the record without an answer.
    fn begin(&mut self, now: Instant, question: &PathRecord) -> Result<(LinkAddr, PathRecord), Errno> {
        let about = About::read(question)?;
        let Status::Up(Up { scope, .. }) = self.link.status() else { return Err(Errno::ENETDOWN) };
        let neighbour = self.address(now, about, scope)?;
        // A neighbour's address, or the asker's: one that leads somewhere.
        let to = neighbour.canonical().ok_or(Errno::EINVAL)?;
        self.paths.ask(now, to);
        let PathRecord { version, link, kind, address, .. } = *question;
        let neighbour = *neighbour.as_bytes();
        Ok((to, PathRecord { version, link, kind, address, neighbour, ..PathRecord::default() }))
    }

    fn address(&self, now: Instant, about: About, scope: Scope) -> Result<LinkAddr, Errno> {
        let group = |mgid| Ok(LinkAddr::multicast(mgid));
        match about {
            About::Port(port) => Ok(port),
            About::Group(mgid) => group(mgid.on_link(scope, self.pkey)),
            About::Ip(IpAddr::V4(ip)) if ip.is_broadcast() => group(Mgid::broadcast(scope, self.pkey)),
            About::Ip(IpAddr::V4(ip)) if ip.is_multicast() => {
                group(Mgid::ipv4(ip.octets(), scope, self.pkey))
            }
            About::Ip(IpAddr::V6(ip)) if ip.is_multicast() => {
                group(Mgid::ipv6(ip.octets(), scope, self.pkey))
            }
            About::Ip(ip) => self.neighbours.get(now, &ip).ok_or(Errno::ENOENT),
        }
    }

    /// Writes what is known into the record; `None` while it is being looked up.
    fn describe(&self, known: Known<Neighbour>, record: &mut PathRecord) -> Option<Result<(), Errno>> {
        let failed = |status, record: &mut PathRecord| {
            record.status = status;
            Some(Err(Errno::ENXIO))
        };
        let (neighbour, age) = match known {
            Known::Ready(neighbour, age) => (neighbour, age),
            Known::Unresolved => return None,
            Known::Failed(DropReason::Unreachable) => return failed(PathRecord::UNREACHABLE, record),
            Known::Failed(_) => return failed(PathRecord::UNANSWERED, record),
            Known::Nothing => return Some(Err(Errno::EAGAIN)),
        };
        let (Status::Up(up), Some(port)) = (self.link.status(), self.link.port()) else {
            return Some(Err(Errno::ENETDOWN));
        };
        let to = neighbour.address();
        let group = ipoib::Gid { prefix: to.dgid.prefix, guid: to.dgid.guid }.is_multicast();
        // What the SA says of the way to a group has no source bits of ours in it.
        let path_bits = if group { 0 } else { u16::from(to.source_path_bits) };
        record.flags =
            if group { PathRecord::GROUP } else { 0 } | if to.send_grh { PathRecord::GRH } else { 0 };
        record.sgid = up.address.gid().to_bytes();
        record.dgid = crate::node::gid(to.dgid).to_bytes();
        record.slid = port.lid.wrapping_add(path_bits);
        record.dlid = to.dlid;
        record.pkey = self.pkey.get();
        record.sl = to.sl;
        record.tclass = to.tclass;
        record.flow = to.flow;
        record.mtu = neighbour.mtu().map_or(0, Mtu::bytes);
        record.hop_limit = to.hop_limit;
        record.rate = u8::try_from(to.rate).unwrap_or(0);
        record.lifetime = neighbour.lifetime().unwrap_or(PathRecord::NO_LIFETIME);
        record.age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        Some(Ok(()))
    }

    /// The next question that has its answer.
    pub(in crate::link) fn next_answer(&mut self, now: Instant) -> Option<Answered> {
        for at in 0..self.questions.waiting.len() {
            let Some(result) = self.decide(now, at) else { continue };
            let question = self.questions.waiting.swap_remove(at)?;
            self.questions.leaving += 1;
            return Some(Answered { question, result });
        }
        None
    }

    fn decide(&mut self, now: Instant, at: usize) -> Option<Result<(), Errno>> {
        let to = self.questions.waiting.get(at)?.to;
        if !matches!(self.link.status(), Status::Up(_)) {
            return Some(Err(Errno::ENETDOWN));
        }
        let known = match self.paths.known(now, &to) {
            // Given up with everything else that was in doubt.
            Known::Nothing => self.paths.ask(now, to),
            known => known,
        };
        let mut record = self.questions.waiting.get(at)?.record;
        let decided = self.describe(known, &mut record);
        self.questions.waiting.get_mut(at)?.record = record;
        decided
    }
}

/// What a question is about, once it makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Port(LinkAddr),
    Group(Mgid),
    Ip(IpAddr),
}

impl About {
    /// `EINVAL` for another version, kind or flag, for bytes where the address has none, and for an address that no port can have.
    fn read(question: &PathRecord) -> Result<Self, Errno> {
        let PathRecord { version, kind, address, flags, .. } = *question;
        let len = match kind {
            PathRecord::LINK_ADDRESS => LinkAddr::LEN,
            PathRecord::IPV4 => 4,
            PathRecord::IPV6 => 16,
            _ => return Err(Errno::EINVAL),
        };
        let (bytes, rest) = address.split_at(len);
        if version != PathRecord::VERSION || flags != 0 || rest.iter().any(|byte| *byte != 0) {
            return Err(Errno::EINVAL);
        }
        let about = match kind {
            PathRecord::LINK_ADDRESS => Self::link(LinkAddr::from_bytes(address)),
            PathRecord::IPV4 => bytes.first_chunk::<4>().map(|ip| Self::Ip(IpAddr::V4(Ipv4Addr::from(*ip)))),
            _ => bytes.first_chunk::<16>().map(|ip| Self::Ip(IpAddr::V6(Ipv6Addr::from(*ip)))),
        };
        about.filter(|about| !matches!(about, Self::Ip(ip) if ip.is_unspecified())).ok_or(Errno::EINVAL)
    }

    fn link(address: LinkAddr) -> Option<Self> {
        match address.mgid() {
            Some(mgid) => Some(Self::Group(mgid)),
            None => address.canonical().map(Self::Port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: u32, bytes: &[u8]) -> PathRecord {
        let mut address = [0; 20];
        address[..bytes.len()].copy_from_slice(bytes);
        PathRecord { version: PathRecord::VERSION, kind, address, ..PathRecord::default() }
    }

    #[test]
    fn a_question_that_makes_no_sense_is_invalid() {
        let good = question(PathRecord::IPV4, &[10, 0, 0, 1]);
        assert_eq!(About::read(&good), Ok(About::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)))));
        let wrong = [
            PathRecord { version: 0, ..good },
            PathRecord { version: 2, ..good },
            PathRecord { kind: 0, ..good },
            PathRecord { kind: 4, ..good },
            PathRecord { flags: 1, ..good },
            question(PathRecord::IPV4, &[10, 0, 0, 1, 1]),
            question(PathRecord::IPV4, &[]),
            question(PathRecord::IPV6, &[]),
            question(PathRecord::LINK_ADDRESS, &[]),
            // The multicast queue pair with a port's GID, a port's with a group's, and queue pair 1.
            question(
                PathRecord::LINK_ADDRESS,
                &[0, 0xff, 0xff, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            ),
            question(
                PathRecord::LINK_ADDRESS,
                &[0, 0, 0, 0x48, 0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            ),
            question(
                PathRecord::LINK_ADDRESS,
                &[0, 0, 0, 1, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            ),
        ];
        for question in wrong {
            assert_eq!(About::read(&question), Err(Errno::EINVAL), "{question:?}");
        }
    }

    #[test]
    fn the_flag_of_connected_mode_does_not_make_another_neighbour() {
        let plain = [0, 0, 0, 0x48, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        let mut flagged = plain;
        flagged[0] = LinkAddr::FLAG_CONNECTED;
        let read = |bytes| About::read(&question(PathRecord::LINK_ADDRESS, bytes));
        assert_eq!(read(&flagged), read(&plain));
        assert!(read(&plain).is_ok());
    }
}
