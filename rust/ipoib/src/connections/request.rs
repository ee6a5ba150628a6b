//! What somebody who wants a connection says of himself (a REQ), and whether he is one who may have one: anybody on the subnet can ask.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::{PrivateData, PrivateDataError};
use crate::addr::{Gid, LinkAddr};
use crate::numbers::PKey;

/// Of a REQ, what matters to a link.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// A reliable connection is wanted.
    pub reliable: bool,
    /// P_Key, membership included, as it came.
    pub pkey: u16,
    /// The GID of who asks.
    pub from: Gid,
    /// The GID that is asked.
    pub to: Gid,
    /// The LID that acknowledgements go to.
    pub lid: u16,
    /// The private data.
    pub private: &'a [u8],
}

/// How long an answer of a neighbour may usually take at most, as a code: 8.6 s. A communication manager that has told a neighbour of a connection's end
/// waits for so long, with one of few places for all, and the adapter keeps the queue pair's number for as long again. Usual are 4.3 s,
/// which an opener may round up; with the longest code it would be hours.
const LONGEST_ANSWER: u8 = 21;
/// The longest that it may ever take: 34 s.
const LONGEST_EVER: u8 = 23;
/// Connections that a communication manager closes at once, for all.
const CLOSING_AT_ONCE: u32 = 12;
/// How often a DREQ is sent at most, and once more the answer is waited for.
const DREQS: u32 = 17;

/// How long a neighbour's answers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerTime {
    /// No longer than usual.
    Usual,
    /// Longer, but no longer than the SA's own word makes them: 2 is added to how long a packet lives, there and back and in the adapter.
    Explained,
    /// Longer than that: of such connections there may be few.
    Long,
    /// Nobody waits for them.
    TooLong,
}

impl AnswerTime {
    /// Of a neighbour that says this code, if a packet to it lives so long, as a code.
    pub fn new(code: Option<u8>, lifetime: Option<u8>) -> Self {
        let most = lifetime.map_or(0, |lifetime| lifetime.saturating_add(2));
        match code {
            Some(code) if code > LONGEST_EVER => Self::TooLong,
            Some(code) if code > most.clamp(LONGEST_ANSWER, LONGEST_EVER) => Self::Long,
            Some(code) if code > LONGEST_ANSWER => Self::Explained,
            Some(_) | None => Self::Usual,
        }
    }
}

/// The longest that an answer may take whose time is usual.
pub(super) const USUAL_ANSWER: Duration = Duration::from_nanos(4_096 << LONGEST_ANSWER);
/// The longest that an answer may take whose time is not [usual](AnswerTime::Usual).
pub const LONG_ANSWER: Duration = Duration::from_nanos(4_096 << LONGEST_EVER);

/// How long it may take until so many connections are closed and their queue pairs' numbers come free, if no neighbour answers, and the answers of
/// some may take longer than usual.
pub fn closing_takes(connections: u32, some_long: bool) -> Duration {
    let code = if some_long { LONGEST_EVER } else { LONGEST_ANSWER };
    let answer = Duration::from_nanos(4_096 << code);
    answer.saturating_mul(DREQS.saturating_add(connections.div_ceil(CLOSING_AT_ONCE)))
}

/// LIDs that ports have (InfiniBand Architecture volume 1, 4.1.3).
const LIDS: RangeInclusive<u16> = 1..=0xbfff;

/// Why somebody gets no connection, whatever room there is (REJ 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An unreliable connection is wanted, or something else.
    Transport,
    /// Another partition, or a limited member asks a limited one.
    Partition,
    /// Another GID of the port is asked than the one in the link's address.
    Port,
    /// What came along says nothing that a link says.
    PrivateData(PrivateDataError),
    /// Who asks has no link address, or no LID, that a port can have.
    Sender,
}

impl ConnectRequest<'_> {
    /// The neighbour that asks a link of this partition with this GID in its address.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn check(&self, partition: PKey, own: Gid) -> Result<LinkAddr, Wrong> {
        if !self.reliable {
            return Err(Wrong::Transport);
        }
        let meets = |pkey: PKey| {
            pkey.same_partition(partition) && (pkey.is_full_member() || partition.is_full_member())
        };
        if !PKey::new(self.pkey).is_some_and(meets) {
            return Err(Wrong::Partition);
        }
        if self.to != own {
            return Err(Wrong::Port);
        }
        let private = PrivateData::from_bytes(self.private).map_err(Wrong::PrivateData)?;
        let asks = LinkAddr::unicast(private.qpn, self.from);
        if asks.is_port() && LIDS.contains(&self.lid) { Ok(asks) } else { Err(Wrong::Sender) }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerTime, ConnectRequest, Wrong, closing_takes};
    use crate::addr::{Gid, LinkAddr, Qpn};
    use crate::connections::{LONGEST_MESSAGE, PrivateData, PrivateDataError};
    use crate::numbers::PKey;

    const FULL: PKey = PKey::new(0x8001).unwrap();
    const OWN: Gid = Gid { prefix: 0xfe80 << 48, guid: 0xa };
    const PEER: Gid = Gid { prefix: 0xfe80 << 48, guid: 0xb };
    const QPN: Qpn = Qpn::from_low_bits(0x48);
    const HELLO: [u8; 8] = PrivateData { qpn: QPN, longest: LONGEST_MESSAGE }.to_bytes();

    fn asked() -> ConnectRequest<'static> {
        ConnectRequest { reliable: true, pkey: 0x8001, from: PEER, to: OWN, lid: 7, private: &HELLO }
    }

    #[test]
    fn a_neighbour_is_known_by_its_gid_and_the_queue_pair_it_names() {
        assert_eq!(asked().check(FULL, OWN), Ok(LinkAddr::unicast(QPN, PEER)));
        assert_eq!(ConnectRequest { pkey: 1, ..asked() }.check(FULL, OWN), Ok(LinkAddr::unicast(QPN, PEER)));
    }

    #[test]
    fn another_transport_partition_port_or_sender_is_refused() {
        let why = |asked: ConnectRequest<'_>| asked.check(FULL, OWN).unwrap_err();
        assert_eq!(why(ConnectRequest { reliable: false, ..asked() }), Wrong::Transport);
        for pkey in [0, 0x8000, 0x8002, 0xffff] {
            assert_eq!(why(ConnectRequest { pkey, ..asked() }), Wrong::Partition);
        }
        assert_eq!(why(ConnectRequest { to: Gid { prefix: 1, ..OWN }, ..asked() }), Wrong::Port);
        assert_eq!(
            why(ConnectRequest { private: &[0; 92], ..asked() }),
            Wrong::PrivateData(PrivateDataError::QueuePair)
        );
        for from in [Gid { prefix: 0xff12 << 48, guid: 1 }, Gid { prefix: 0xfe80 << 48, guid: 0 }] {
            assert_eq!(why(ConnectRequest { from, ..asked() }), Wrong::Sender);
        }
        for lid in [0, 0xc000, 0xffff] {
            assert_eq!(why(ConnectRequest { lid, ..asked() }), Wrong::Sender);
        }
    }

    #[test]
    fn an_answer_takes_long_by_what_the_sa_says_of_the_way() {
        use AnswerTime::{Explained, Long, TooLong, Usual};
        for (lifetime, up_to_23) in [
            (None, [Usual, Usual, Long, Long]),
            (Some(18), [Usual, Usual, Long, Long]),
            (Some(20), [Usual, Usual, Explained, Long]),
            (Some(21), [Usual, Usual, Explained, Explained]),
            (Some(63), [Usual, Usual, Explained, Explained]),
        ] {
            let times = [20, 21, 22, 23].map(|code| AnswerTime::new(Some(code), lifetime));
            assert_eq!(times, up_to_23, "{lifetime:?}");
            assert_eq!([24, 31].map(|code| AnswerTime::new(Some(code), lifetime)), [TooLong; 2]);
            assert_eq!(AnswerTime::new(None, lifetime), Usual);
        }
    }

    #[test]
    fn closing_takes_as_long_as_the_dreqs_of_one_and_the_turns_of_all() {
        let answer = 8.589_934_592;
        for (connections, long, answers) in [
            (0, false, 17.0),
            (1, false, 18.0),
            (12, false, 18.0),
            (48, false, 21.0),
            (512, false, 60.0),
            (1, true, 72.0),
        ] {
            let takes = closing_takes(connections, long).as_secs_f64();
            assert!((takes - answers * answer).abs() < 1e-6, "{connections}: {takes}");
        }
    }

    #[test]
    fn a_limited_member_asks_no_other_limited_member() {
        let limited = PKey::new(1).unwrap();
        assert_eq!(ConnectRequest { pkey: 1, ..asked() }.check(limited, OWN), Err(Wrong::Partition));
    }
}
